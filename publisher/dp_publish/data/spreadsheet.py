"""The first visible sheet of a spreadsheet as a table, by calamine, which the extra `files` installs.

A sheet has no types but those of cells, so that it is read as the text file would be that it can be saved as: its
columns are `UNKNOWN` until the policy names a kind, and each cell is a word, whatever the others are. Numbers are
written with all their digits, and dates and times like 2026-01-31 12:30:00. Rows without any cell are no rows before
the first one and behind the last; between others they have no value, so that their number does not tell of values.
"""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import CellError, SchemaError
from dp_bundle.base.machine import require_memory
from dp_publish.data.bad_cells import Check, locate_fault
from dp_publish.data.cells import Fault, read_cell
from dp_publish.data.dialect import Dialect, Layout, require_names
from dp_publish.data.foreign import reader_missing
from dp_publish.data.kinds import AS_IT_IS, TYPES

SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_ROWS = 2**13  # that are made words of at a time
_PER_BYTE = 4  # of memory while a sheet is read, for one byte of the file, unpacked


class Sheet:
    """A sheet, which is in memory as words.

    Parameters
    ----------
    path : Path
    dialect : Dialect
        What the policy says of its first row, and of words for gaps.

    Attributes
    ----------
    layout : Layout
        The columns' names; no separator, as there is none.
    remark : str
        Which sheet it is, if there are several.

    Raises
    ------
    SchemaError
        The file cannot be read, or calamine is not installed.
    HeaderError
        The first row may hold no names, and the policy does not say.
    MemoryLimitError
        This machine has not enough memory for it.
    """

    def __init__(self, path: Path, dialect: Dialect) -> None:
        try:
            calamine = import_module("python_calamine")
        except ImportError as error:
            raise reader_missing(path, "python-calamine>=0.4") from error
        self._path = path
        require_memory(_PER_BYTE * _unpacked_size(path), None, f"reading {path}")
        try:
            with calamine.CalamineWorkbook.from_path(str(path)) as book:
                self.remark, sheet = _first_sheet(path, book, calamine)
                rows = _to_the_last(enumerate(sheet.iter_rows(), start=1))
                first: tuple[int, list[Any]] = next(rows, (0, []))
                self.layout = _layout_of(path, [_word(cell) for cell in first[1]], dialect)
                rest = rows if self.layout.has_header else chain([first], rows)
                self._table, self._lines = _in_memory(self.layout.names, rest)
        except calamine.PasswordError as error:
            raise SchemaError(f"{path} is locked by a password: save it without one") from error
        except calamine.CalamineError as error:
            raise SchemaError(f"{path} cannot be read as a table: it is damaged, or not what its name says") from error

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self._table.num_rows)

    @property
    def held(self) -> int:
        """The bytes that it has in memory."""
        return int(self._table.nbytes)

    def read(self, kinds: dict[str, str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield record batches as a `Table` does.

        Raises
        ------
        CellError
            The row and the column of what cannot be read.
        """
        kinds = {name: "text" if kind == AS_IT_IS else kind for name, kind in kinds.items()}
        schema = pa.schema([(name, TYPES[kind]) for name, kind in kinds.items()])
        n_done = 0
        for batch in self._table.select(list(kinds)).to_batches(max_chunksize=rows):
            try:
                columns = [self._column(batch.column(name), name, kind, n_done) for name, kind in kinds.items()]
            except CellError as error:
                raise self.locate(kinds, {}) or error from None
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            n_done += batch.num_rows

    def locate(self, kinds: Mapping[str, str], checks: Mapping[str, Check]) -> SchemaError | None:
        """Return what cannot be read, as `locate_fault` does."""
        kinds = {name: "text" if kind == AS_IT_IS else kind for name, kind in kinds.items()}
        columns = ((word.as_py() for word in column) for column in self._table.itercolumns())
        rows = ((line, list(row)) for line, *row in zip(self._lines, *columns, strict=True))
        return locate_fault(self._path, self.layout, rows, kinds, ".", checks)

    def _column(self, words: pa.Array, name: str, kind: str, n_before: int) -> pa.Array:
        if kind == "text":
            return words
        plain = pc.match_substring_regex(words, r"^-?\d{1,15}$" if kind == "integer" else r"^-?\d+(\.\d+)?$")
        plain = pc.and_(plain, not self.layout.missing_values)  # which may be numbers, too
        nothing = pa.scalar(None, pa.string())
        others = pc.if_else(plain, nothing, words).dictionary_encode()
        cells = [read_cell(word, kind, ".", self.layout.missing_values) for word in others.dictionary.to_pylist()]
        for place, cell in enumerate(cells):
            if isinstance(cell, Fault):
                row = pc.index(others.indices, pa.scalar(place, others.indices.type)).as_py()
                raise CellError([(self._lines[n_before + row], name, cell.value)])
        numbers = pc.cast(pc.if_else(plain, words, nothing), TYPES[kind])
        return pc.coalesce(numbers, pa.array(cells, TYPES[kind]).take(others.indices))


def _unpacked_size(path: Path) -> int:
    try:
        with zipfile.ZipFile(path) as packed:
            return sum(member.file_size for member in packed.infolist())
    except zipfile.BadZipFile:  # as .xls is none
        return path.stat().st_size


def _first_sheet(path: Path, book: Any, calamine: Any) -> tuple[str, Any]:
    """Return a remark, if there are several sheets, and the first that is shown."""
    shown = [
        sheet.name
        for sheet in book.sheets_metadata
        if sheet.typ == calamine.SheetTypeEnum.WorkSheet and sheet.visible == calamine.SheetVisibleEnum.Visible
    ]
    if not shown:
        raise SchemaError(f"{path} has no sheet with cells that is shown")
    remark = f"of {len(shown)} sheets, the first is read: {shown[0]!r}" if len(shown) > 1 else ""
    return remark, book.get_sheet_by_name(shown[0])


def _to_the_last(rows: Iterable[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows from the first to the last that has a cell."""
    last = None
    for number, row in rows:
        if any(cell != "" for cell in row):
            yield from ((between, [""] * len(row)) for between in range((last or number - 1) + 1, number))
            yield number, row
            last = number


def _layout_of(path: Path, first: Sequence[str], dialect: Dialect) -> Layout:
    """Return the names in the first row, which a text file could have, too."""
    if not first:
        raise SchemaError(f"{path} is empty: its first sheet needs a first row with the columns' names")
    has_header = dialect.header != "none"
    names = [name.strip() for name in first]
    if dialect.header is None:
        require_names(path, names, dialect.missing_values)
    written = tuple(names if has_header else (f"column_{number}" for number in range(1, len(names) + 1)))
    return Layout(written, written, "", "", has_header, None, dialect.missing_values)


def _in_memory(names: Sequence[str], rows: Iterator[tuple[int, list[Any]]]) -> tuple[pa.Table, list[int]]:
    """Return the cells as words, and the number of each row in the sheet."""
    schema = pa.schema([(f"{place}", pa.string()) for place in range(len(names))])
    lines: list[int] = []
    batches = []
    while some := [*islice(rows, _ROWS)]:
        lines += [number for number, _ in some]
        columns = zip(*(row for _, row in some), strict=True)
        arrays = [pa.array([_word(cell) for cell in column], pa.string()) for column in columns]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema).rename_columns([*names]), lines


def _word(cell: Any) -> str:
    """Return a cell as a text file would have it; a whole number has no point, and an error is empty."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell)
    if isinstance(cell, datetime.timedelta):
        minutes, seconds = divmod(round(cell.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return cell.isoformat(" ") if isinstance(cell, datetime.datetime) else str(cell)
