"""What the three commands share: one error translation, one way to answer a person or a machine."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click

from dp_bundle.errors import DpGraphError
from dp_bundle.quoting import escape

__all__ = ["answer", "json_option", "quiet_option", "run", "tell", "version_option"]

F = TypeVar("F", bound=Callable[..., Any])

version_option = click.version_option(package_name="dpgraph", prog_name="dpgraph")


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")(command)


def quiet_option(command: F) -> F:
    """Add `--quiet`."""
    return click.option("--quiet", is_flag=True, help="Print nothing but errors.")(command)


def answer(text: str, document: Any, *, as_json: bool, quiet: bool = False) -> None:
    """Print a result on stdout: the text for a person, or the document for a machine; nothing a terminal obeys."""
    if as_json:
        _print(_printable_json(json.dumps(document, indent=1, ensure_ascii=False)))
    elif not quiet:
        _print(_printable(text))


def _print(text: str) -> None:
    try:
        click.echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DpGraphError(
            f"what the command did is done, but its answer cannot be written to stdout: {error.strerror}"
        ) from error


def tell(message: str, *, quiet: bool = False) -> None:
    """Say something that is not the result, on stderr."""
    if not quiet:
        click.echo(_printable(message), err=True)


def run(command: click.Command, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave with its exit code; an error becomes one sentence on stderr."""
    try:
        code = command.main(arguments, standalone_mode=False)
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except click.Abort as interruption:
        _leave(": ".join(["interrupted", *_notes(interruption.__cause__)]), 1)
    except click.exceptions.NoArgsIsHelpError as asking:
        asking.show()
        sys.exit(2)
    except click.ClickException as error:
        _leave(_describe_misuse(error), 2)
    except DpGraphError as error:
        _leave("\n".join([str(error), *_notes(error)]), error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _leave(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)
    except Exception as error:  # a fault of ours: a sentence for the user, the trace for whoever asks
        if os.environ.get("DPGRAPH_DEBUG"):
            raise
        _leave(
            f"dpgraph has a fault ({type(error).__name__}: {error}): set DPGRAPH_DEBUG=1 for details and report it", 1
        )
    sys.exit(code if isinstance(code, int) else 0)


def _describe_misuse(error: click.ClickException) -> str:
    """Return what is wrong with a command's words, and where it says which there are."""
    said = error.format_message().removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return said if context is None else f"{said}; see {context.command_path} --help"


def _notes(error: BaseException | None) -> list[str]:
    return list(getattr(error, "__notes__", []))


def _leave(message: str, code: int) -> NoReturn:
    click.echo(f"error: {_printable(message)}", err=True)
    sys.exit(code)


def _printable(text: str) -> str:
    """Return lines of text without a character that a terminal would obey."""
    return "\n".join(escape(line) for line in text.split("\n"))


def _printable_json(text: str) -> str:
    """Return the same JSON document with such characters, which only its strings can hold, escaped."""
    return re.sub(r"[^\n -~]", lambda found: _json_escape(found.group()), text)


def _json_escape(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]
