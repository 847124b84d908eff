"""Tables of a page: plain HTML that a reader can sort and filter, and that reads as well without a script."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_MATHEMATICS = ("$$", "\\[", "\\(")  # what Bokeh would take for TeX, and load a library for
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class TableColumn:
    """One column of a table.

    Attributes
    ----------
    label : str
        Its heading.
    values : sequence of str or of float
        Names, or numbers; NaN and None are shown as nothing.
    form : str or callable or None
        The format of numbers, such as ".3f", or what spells one; None for names and other words.
    about : str
        One sentence on what it says, for the paragraph below the table.
    least : float
        Numbers below it are shown as such, "< 0.0001" say.
    """

    label: str
    values: Sequence[Any]
    form: str | Callable[[float], str] | None = None
    about: str = ""
    least: float = -math.inf


@dataclass(frozen=True)
class TableCell:
    """The text of a cell, and the number to sort it by."""

    text: str
    order: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table with a caption.

    Attributes
    ----------
    name : str
        A short word, unique in the page, for links.
    caption : str
        What it holds, in one sentence.
    columns : sequence of Column
        All of the same length; the first is the heading of each row.
    more : str
        A sentence on rows that are left out, and where to find them.
    headings : int
        So many columns at the left name their row.
    """

    name: str
    caption: str
    columns: Sequence[TableColumn]
    more: str = ""
    headings: int = 1

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0].values)

    def rows(self) -> Iterator[list[TableCell]]:
        """Yield the cells of every row."""
        return map(list, zip(*([_cell(value, column) for value in column.values] for column in self.columns)))  # noqa: B905


def _cell(value: Any, column: TableColumn) -> TableCell:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return TableCell("")
    if column.form is None:
        return TableCell(str(value))
    if callable(column.form):
        return TableCell(column.form(value), f"{value:.9g}")
    text = f"< {column.least:g}" if value < column.least else number(value, column.form)
    return TableCell(text, f"{value:.9g}")


def number(value: float, form: str) -> str:
    """Return a number as it is printed: with a true minus sign, and small ones with one digit rather than as zero."""
    text = format(value, form)
    if value and not any(digit in text for digit in "123456789"):
        text = format(value, ("+" if form.startswith("+") else "") + ".1g")
    return text.replace("-", MINUS) if "e" not in text else text


def figure_text(name: str, longest: int = 40) -> str:
    """Return a name for an axis, a label or a hover: cut, and with nothing in it that Bokeh would read as TeX."""
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    for mark in _MATHEMATICS:
        shown = shown.replace(mark, "\u200b".join(mark))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
