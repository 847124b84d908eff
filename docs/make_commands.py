"""Write docs/commands.md from the commands' own help; `make docs` runs it, and a test compares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from dp_bundle.cli import cli as dp_bundle
from dp_learn.cli import cli as dp_learn
from dp_publish.cli import cli as dp_publish

PAGE = Path(__file__).with_name("commands.md")
HEAD = """# Commands

What each command says of itself (`make docs` writes this page).

Exit codes of all: 0 done; 1 another error; 2 usage; 3 the bundle or its signer cannot be trusted; 4 not converged, or
no solution; 5 the privacy budget forbids it. An error is one sentence on stderr.

An interrupt (Ctrl-C) ends a command with 1 and says what is known: that nothing was published and nothing is booked,
say, or that it came too late and the release is published. A second one ends it at once, and may leave a reservation
on the books. While Python itself starts, in the first hundredths of a second, an interrupt is Python's to answer,
with a trace. A command whose standard output is closed does nothing and ends with 1, unless `--quiet` is given; where
it is full, what the command does is done, and the code is 1. A pipe that its reader closes ends the command with 1,
without a word.
"""


def help_texts(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Yield the name and the help text of a command and of every command below it."""
    settings = {**command.context_settings, "terminal_width": 100, "max_content_width": 100}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from help_texts(command.commands[child], child, context)


def page() -> str:
    """Return the whole page."""
    commands = {"dp-publish": dp_publish, "dp-learn": dp_learn, "dp-bundle": dp_bundle}
    texts = [text for name, command in commands.items() for text in help_texts(command, name)]
    return HEAD + "".join(f"\n## `{name}`\n\n```text\n{text}\n```\n" for name, text in texts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
