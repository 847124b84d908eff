"""Tables of plain text: as wide as their cells, in any script, and the same on a terminal as in a file."""

import io
from collections.abc import Iterable, Sequence

_UNBOUNDED = 100_000  # characters: lines are never folded or cut


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
