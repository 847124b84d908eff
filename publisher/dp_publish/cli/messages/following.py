"""Progress of a publication: a bar on the terminal, with the time that is left, or lines for a program."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

_BETWEEN = 0.2  # seconds between two lines for a program


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
def shown_as_lines(n_rows: int | None) -> Iterator[Callable[[int], None]]:
    """Print how far it is on stderr as lines of JSON, for a program that shows it, for the length of a block.

    A program that is gone ends the work: what cannot be printed is an error.

    Yields
    ------
    callable
        As of `shown_on_terminal`.
    """
    number, before, printed = 1, 0, -math.inf

    def show(done: int) -> None:
        nonlocal number, before, printed
        number, before = number + (done < before), done
        now = time.monotonic()
        if now - printed >= _BETWEEN:
            printed = now
            sys.stderr.write(json.dumps({"pass": number, "rows": done, "of": n_rows}) + "\n")
            sys.stderr.flush()

    yield show


def _since(began: float) -> ProgressColumn:
    """Return a column with the time since then, over all passes: it shows that what no row counts goes on as well."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Since(ProgressColumn):
        def render(self, _: object) -> Text:
            return Text(f"{time.monotonic() - began:.0f} s so far")

    return Since()
