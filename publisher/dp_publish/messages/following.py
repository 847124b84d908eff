"""How a publication gets on: a bar on the terminal, with the time that is left, and a log to be read later."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dp_bundle.errors import DpGraphError
from dp_bundle.quoting import quote_path

_FORMAT, _TIME = "%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%SZ"
_LOGGED = ("dp_publish", "dp_bundle")


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
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    counts = "{task.completed:,.0f} of {task.total:,} rows" if n_rows is not None else "{task.completed:,.0f} rows"
    columns = [TextColumn("pass {task.fields[number]}"), BarColumn(), TextColumn(counts)]
    columns += [TimeRemainingColumn(), TextColumn("left")] if n_rows is not None else [TimeElapsedColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, number, before = bar.add_task("", total=n_rows, number=1), 1, 0

        def show(done: int) -> None:
            nonlocal number, before
            if done < before:
                number += 1
                bar.reset(task, number=number)
            before = done
            bar.update(task, completed=done)

        yield show


@contextlib.contextmanager
def logged_to(path: Path | None) -> Iterator[None]:
    """Append what happens in a block to a file, a line for each step; no line has a value of the table, or of a cell.

    Parameters
    ----------
    path : Path or None
        The file; None for no log.

    Raises
    ------
    DpGraphError
        The file cannot be written.
    """
    if path is None:
        yield
        return
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise DpGraphError(f"the log {quote_path(path)} cannot be written: {error.strerror}") from error
    formatter = logging.Formatter(_FORMAT, _TIME)
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    loggers = [logging.getLogger(name) for name in _LOGGED]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    except BaseException as error:
        loggers[0].info("ended by %s", type(error).__name__)  # its sentence was for the terminal
        raise
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
        handler.close()
