"""The table as the desk has it open: read once when the desk is opened, and what its first rows seem to hold.

What is told of values here is for the publisher's own eyes: nothing of it enters a policy or a release by itself.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import DataError, DpGraphError
from dp_publish.data.dialect import Dialect
from dp_publish.data.kinds import AS_IT_IS, ColumnType
from dp_publish.data.table import Source, Table, open_table
from dp_publish.data.typed import decoded, is_text
from dp_publish.discovery.looks import NUMBERS, Look
from dp_publish.forecast.first_rows import as_they_look
from dp_publish.forecast.whose_rows import find_repeated

_CELLS = 2**19  # that are looked at
_MOST_ROWS = 5_000
_NEVER = {  # what is said of columns that are not read
    ColumnType.NESTED: "lists or structures, which are never published as they are",
    ColumnType.OTHER: "of a type that is never published as it is",
    ColumnType.OBJECT: "",
}
_FEW = 8  # words that are named
_LONGEST = 30  # letters of one
_PLURAL = {Look.TRUTH: "truth values", Look.WORD: "words"}


@dataclass(frozen=True)
class Opened:
    """A table that is open, or why it cannot be read.

    Attributes
    ----------
    table : Table
        Whose number of rows is known; without columns if it cannot be read.
    n_rows : int
        That number.
    seems : dict of str to str
        What each column's first rows seem to hold, in words.
    repeated : dict of str to int
        Columns that may say whose a row is, and how many different ones the first rows have.
    n_seen : int
        How many rows that is from.
    problem : DpGraphError or None
        Why it cannot be read, if it cannot.
    unread : DataError or None
        What cannot be read of its first rows, whatever they are taken for.
    fingerprint : str
        Of the table's files when they were opened.
    """

    table: Table
    n_rows: int = field(default=0, repr=False)
    seems: dict[str, str] = field(default_factory=dict, repr=False)
    repeated: dict[str, int] = field(default_factory=dict, repr=False)
    n_seen: int = field(default=0, repr=False)
    problem: DpGraphError | None = None
    unread: DataError | None = field(default=None, repr=False)
    fingerprint: str = ""


def open_for_desk(data: Source, dialect: Dialect) -> Opened:
    """Open a table, count its rows, and look at the first of them; or find out why it cannot be read."""
    try:
        table = open_table(data, dialect)
        fingerprint, n_rows = table.fingerprint(), table.count_rows()
    except DpGraphError as error:
        return Opened(Table({}, lambda _kinds, _rows: iter(())), problem=error)

    seems = {name: _NEVER.get(kind, "") for name, kind in table.types.items()}
    types = {name: kind for name, kind in table.types.items() if kind not in _NEVER}
    readable = {name: "text" if kind is ColumnType.UNKNOWN else AS_IT_IS for name, kind in types.items()}
    opened = Opened(table, n_rows, seems, fingerprint=fingerprint)

    rows = max(100, min(_MOST_ROWS, _CELLS // max(len(table.types), 1)))
    try:
        batch = table.head(readable, rows) if readable else None
    except DataError as error:
        return replace(opened, unread=error)
    if batch is None:
        return opened
    for name in readable:
        what, values = _values_of(table, name, batch.column(name))
        kept = pc.drop_null(values)
        seems[name] = _describe(what, kept, batch.num_rows)
    return replace(opened, repeated=find_repeated(table, readable), n_seen=batch.num_rows)


def _describe(what: str, kept: pa.Array, n_rows: int) -> str:
    """Return what the first cells of a column seem to hold, by those that have a value."""
    values = "" if what == _PLURAL[Look.TRUTH] else _describe_values(kept)
    empty = 100 * (n_rows - len(kept)) / n_rows
    return f"{what}{values}" + (f"; {empty:.2g} % without a value" if empty else "")


def _are_whole(values: pa.Array) -> bool:
    """Return whether numbers are whole, as numbers of rows are."""
    if pa.types.is_floating(values.type):
        return pc.all(pc.equal(values, pc.floor(values))).as_py() is True
    return bool(pa.types.is_integer(values.type))


def _values_of(table: Table, name: str, cells: pa.Array) -> tuple[str, pa.Array]:
    """Return what the cells are, and the cells as values."""
    if table.types[name] is not ColumnType.UNKNOWN:
        values = decoded(cells)
        computable = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
        return "words" if is_text(values.type) else str(values.type), computable
    look, found = as_they_look(cells, table.cells.written)
    if look in NUMBERS:
        return "whole numbers" if _are_whole(found) else "numbers", found
    return _PLURAL.get(look, "dates or times"), found


def _describe_values(kept: pa.Array) -> str:
    """Return how many different words there are, or from where to where numbers and dates go."""
    if not len(kept):
        return ", of which none is readable"
    if is_text(kept.type):
        words = sorted(pc.unique(kept).to_pylist())
        named = f": {', '.join(word[:_LONGEST] for word in words)}" if len(words) <= _FEW else ""
        return f", {len(words)} different{named}"
    if pa.types.is_boolean(kept.type):
        return ""
    try:
        ends: Any = pc.min_max(kept)
    except pa.ArrowNotImplementedError:
        return ""
    return f", from {_spell(ends['min'])} to {_spell(ends['max'])}"


def _spell(value: pa.Scalar) -> str:
    number = value.as_py()
    return f"{number:.6g}" if isinstance(number, float) else str(number)
