"""Progress of a publication: a bar on the terminal, with the time that is left, and a log to be read later."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.cli.console import heard_by

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

_FORMAT, _TIME = "%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%SZ"
_BETWEEN = 0.2  # seconds between two lines for a program
_STAMP, _STAMP_LENGTH = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "), 21  # bytes


@contextlib.contextmanager
def shown_on_terminal(n_rows: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr for the length of a block.

    Parameters
    ----------
    n_rows : int or None
        The number of rows of the table, if it is known; then the bar says how long this pass over them will take.

    Yields
    ------
    callable
        Takes the number of rows done in this pass, by any thread; a smaller one than before begins the next pass.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    counts = "{task.completed:,.0f} of {task.total:,} rows" if n_rows is not None else "{task.completed:,.0f} rows"
    columns: list[ProgressColumn] = [TextColumn("pass {task.fields[number]}"), BarColumn(), TextColumn(counts)]
    columns += [TimeRemainingColumn(), TextColumn("left")] if n_rows is not None else []
    columns.append(_since(time.monotonic()))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, passes = bar.add_task("", total=n_rows, number=1), _Passes()

        def show(done: int) -> None:
            if passes.begins(done):
                bar.reset(task, number=passes.number)
            bar.update(task, completed=done)

        yield show


@contextlib.contextmanager
def shown_as_lines(n_rows: int | None) -> Iterator[Callable[[int], None]]:
    """Print how far it is on stderr as lines of JSON, for a program that shows it, for the length of a block.

    A program that is gone ends the work: what cannot be printed is an error.

    Yields
    ------
    callable
        As of `shown_on_terminal`.
    """
    passes, printed = _Passes(), -math.inf

    def show(done: int) -> None:
        nonlocal printed
        passes.begins(done)
        now = time.monotonic()
        if now - printed >= _BETWEEN:
            printed = now
            sys.stderr.write(json.dumps({"pass": passes.number, "rows": done, "of": n_rows}) + "\n")
            sys.stderr.flush()

    yield show


class _Passes:
    """The passes over the rows: each begins with fewer rows than the one before had in the end."""

    number, done = 1, 0

    def begins(self, done: int) -> bool:
        """Count a pass that begins with so many rows, if one does."""
        is_next = done < self.done
        self.number, self.done = self.number + is_next, done
        return is_next


def _since(began: float) -> ProgressColumn:
    """Return a column with the time since then, over all passes: it shows that what no row counts goes on as well."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Since(ProgressColumn):
        def render(self, _: object) -> Text:
            return Text(f"{time.monotonic() - began:.0f} s so far")

    return Since()


@contextlib.contextmanager
def logged_to(path: Path, *taken: object) -> Iterator[None]:
    """Append what happens in a block to a file, a line for each step. No line has a value of the table, or of a cell.

    Parameters
    ----------
    path : Path
        The file.
    *taken : path or None
        Names that other files will have.

    Raises
    ------
    DpGraphError
        The file cannot be written.
    """
    if path.absolute() in (Path(str(each)).absolute() for each in taken if each is not None):
        raise DpGraphError(f"--log {quote_path(path)} is the name of something else: give it one of its own")
    handler = _open_log(path)
    formatter = logging.Formatter(_FORMAT, _TIME)
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    try:
        with heard_by(handler, logging.INFO):
            try:
                yield
            except BaseException as error:  # whose sentence is for the terminal
                logging.getLogger(__name__).info("ended by %s", type(error).__name__)
                raise
    finally:
        with contextlib.suppress(OSError):  # of a full disk, which is told already
            handler.close()


class _LogHandler(logging.FileHandler):
    """A file that may become full: that is told once, and is no reason to end a publication."""

    is_full = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002  as the library calls it
        """Say so on stderr, the first time."""
        if self.is_full:
            return
        self.is_full = True
        sys.stderr.write(f"warning: the log {quote_path(self.baseFilename)} cannot be written any further\n")


def _open_log(path: Path) -> logging.Handler:
    """Open a new log, for its owner alone, or one that was begun; nothing else is written to."""
    try:
        if not path.exists():
            path.touch(0o600)
        elif not _is_log(path):
            raise DpGraphError(f"{quote_path(path)} is no log, and is left as it is: give --log a new name")
        return _LogHandler(path, encoding="utf-8")
    except OSError as error:
        raise DpGraphError(f"the log {quote_path(path)} cannot be written: {error.strerror}") from error


def _is_log(path: Path) -> bool:
    """Return True for a file that begins with a line of a log, or has none yet."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(_STAMP_LENGTH)
    return not start or _STAMP.fullmatch(start) is not None
