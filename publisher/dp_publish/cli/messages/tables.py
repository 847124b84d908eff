"""Templates of what the commands say, filled in, and tables of plain text, as wide as their cells in any script."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dp_bundle.base.document import fill_template
from dp_bundle.base.quoting import counted, listed, quote_name, quote_path, round_up

_TEMPLATES = Path(__file__).with_name("templates")
_WORDS = {each.__name__: each for each in (counted, listed, quote_name, quote_path, round_up)}

_UNBOUNDED = 100_000  # characters: lines are never folded or cut


def say(template: str, **values: Any) -> str:
    """Return a template of ours, filled in; `say_lines` has its lines that are not empty."""
    return fill_template(_TEMPLATES, template, _WORDS | values).strip("\n")


def say_lines(template: str, **values: Any) -> list[str]:
    """Return the lines of a template of ours, filled in."""
    return lines_of(say(template, **values))


def lines_of(text: str) -> list[str]:
    """Return the lines of a text that are not empty."""
    return [*filter(None, text.split("\n"))]


def table_lines(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[int], gap: int = 3) -> list[str]:
    """Return a table's lines; columns are `gap` spaces apart, and flush right unless their indices are in `left`."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="none")
    for index, title in enumerate(head):
        table.add_column(title, justify="left" if index in left else "right", no_wrap=True, vertical="bottom")
    for row in rows:
        table.add_row(*row)

    text = io.StringIO()
    Console(file=text, width=_UNBOUNDED, color_system=None, markup=False, emoji=False, highlight=False).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]
