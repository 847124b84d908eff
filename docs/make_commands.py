"""Write docs/commands.md and the manual pages from the commands' own help; `make docs` runs it, and a test compares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from dp_bundle.cli.main import cli as dp_bundle
from dp_learn.cli.main import cli as dp_learn
from dp_learn.cli.main import compare, describe, joint
from dp_publish.cli.main import cli as dp_publish

PAGE, MANUAL = Path(__file__).with_name("commands.md"), Path(__file__).with_name("man")
COMMANDS = {
    "dp-publish": dp_publish,
    "dp-learn": dp_learn,
    "dp-learn compare": compare,
    "dp-learn describe": describe,
    "dp-learn joint": joint,
    "dp-bundle": dp_bundle,
}
HEAD = """# Commands

The help text of each command (`make docs` writes this page).

All commands share these exit codes. An error is one sentence on stderr.

| code | meaning |
|---|---|
| 0 | success |
| 1 | any other error |
| 2 | a wrong option, argument or policy, or a release that was refused as useless or as a likely mistake |
| 3 | the bundle or its signer cannot be trusted |
| 4 | the estimation did not converge, or has no solution |
| 5 | the privacy budget does not allow the release |

Ctrl-C ends a command with exit code 1 and a sentence that says what is certain, for example that nothing was published
and nothing is booked, or that the release was already published. A request to end (SIGTERM) and a terminal that is
closed (SIGHUP) do the same. A second one ends the command at once; the next release, or `dp-publish ledger`, takes back
what it had reserved, where nothing was told. While Python itself is starting, in the first hundredths of a second,
Ctrl-C shows a Python traceback.

If standard output is closed, a command does nothing and exits with 1, unless `--quiet` is given. If standard output
cannot take the answer (the disk is full, say), the command still does its work, and exits with 1. If the reader of a
pipe closes it, the command exits with 1 and prints nothing.
"""


def help_texts(
    command: click.Command, name: str, parent: click.Context | None = None, width: int = 100
) -> Iterator[tuple[str, str]]:
    """Yield the name and the help text of a command and of every command below it."""
    settings = {**command.context_settings, "terminal_width": width, "max_content_width": width}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from help_texts(command.commands[child], child, context, width)


def page() -> str:
    """Return the whole page."""
    texts = [text for name, command in COMMANDS.items() for text in help_texts(command, name)]
    return HEAD + "".join(f"\n## `{name}`\n\n```text\n{text}\n```\n" for name, text in texts)


def manual() -> dict[str, str]:
    """Return the manual page of each program, by its file's name: a section of its help for every command of it."""
    pages: dict[str, str] = {}
    for full_name, command in COMMANDS.items():
        program = full_name.partition(" ")[0]
        what = _in_roff(command.get_short_help_str(limit=1000).rstrip("."))
        head = f'.TH {program.upper()} 1 "" dpgraph\n.SH NAME\n{program} \\- {what}\n'
        pages.setdefault(f"{program}.1", head)
        for name, text in help_texts(command, full_name, width=78):
            pages[f"{program}.1"] += f'.SH "{name.upper()}"\n.nf\n{_in_roff(text)}\n.fi\n'
    return pages


def _in_roff(text: str) -> str:
    """Return a text in which nothing is an instruction of roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\n".join(f"\\&{line}" if line.startswith((".", "\\(aq")) else line for line in escaped.splitlines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    MANUAL.mkdir(exist_ok=True)
    for file, content in manual().items():
        (MANUAL / file).write_text(content, encoding="utf-8")
