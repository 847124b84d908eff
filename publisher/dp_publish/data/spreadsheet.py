"""The first visible sheet of a spreadsheet as a table, by calamine, which the extra `files` installs.

A sheet has no types but those of cells. So it is read as the text file would be that it can be saved as. Its columns
are `UNKNOWN` until the policy names a kind, and each cell is a word, whatever the others are. Numbers are written with
all their digits, and dates and times like 2026-01-31 12:30:00. Rows without any cell are no rows before the first one
and behind the last. Between others they have no value, so that their number does not tell of values.

calamine makes a grid of all that is between a sheet's cells, so that one stray cell may take all memory. How far cells
go is read from the file before.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, dropwhile, islice
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import pyarrow as pa

from dp_bundle.base.errors import SchemaError
from dp_bundle.base.machine import require_memory
from dp_bundle.base.quoting import counted
from dp_publish.data.dialect import Dialect, layout_of
from dp_publish.data.foreign import load_reader
from dp_publish.data.frames import as_word

SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
_ROWS = 2**13  # that are made words of at a time
_PARTS = ("xl/workbook.xml", "xl/_rels/workbook.xml.rels")
_PER_BYTE = 4  # of memory while a sheet is read, for one byte of the file, unpacked
_PER_CELL = 32  # bytes of the grid
_LARGE = 2**24  # cells of a grid that has to be filled
_PLACE = re.compile("([A-Za-z]+)([0-9]+)")  # of a cell


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
    words : Table
        The cells.
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
        calamine, self._path = load_reader(path, "python_calamine", "python-calamine>=0.4"), path
        needed, suffix = _PER_BYTE * _unpacked_size(path), path.suffix.lower()
        require_memory(needed, None, f"reading {path}")
        try:
            if suffix == ".ods":
                _require_grid(path, needed, _grid_of_ods(path))
            with calamine.CalamineWorkbook.from_path(str(path)) as book:
                self.remark, name = _first_sheet(path, book, calamine)
                behind = _Behind(path, name) if suffix in (".xlsx", ".xlsm") else None
                if behind is not None:
                    _require_grid(path, needed, behind.n_cells)
                sheet = book.get_sheet_by_name(name)
                rows = _to_the_last(enumerate(sheet.iter_rows(), start=1))
                first: tuple[int, list[Any]] = next(rows, (0, []))
                self.layout = layout_of(path, [_word(cell) for cell in first[1]], dialect)
                rest = rows if self.layout.has_header else chain([first], rows)
                self.words, self._lines = _in_memory(self.layout.names, rest)
                if behind is not None:
                    self._look_behind(behind, range(sheet.start[1], sheet.start[1] + len(self.layout.names)))
        except calamine.PasswordError as error:
            raise SchemaError(f"{path} is locked by a password: save it without one") from error
        except (calamine.CalamineError, ElementTree.ParseError, LookupError, StopIteration, ValueError) as error:
            raise SchemaError(f"{path} cannot be read as a table: it is damaged, or not what its name says") from error

    def _look_behind(self, behind: _Behind, width: range) -> None:
        """Say what the sheet hides, and refuse a column of formulas without results, which would be one of gaps."""
        rows = len(behind.hidden_rows & {*self._lines})
        columns = sum(any(place in each for each in behind.hidden_columns) for place in width)
        hidden = [counted(number, f"hidden {what}") for what, number in (("row", rows), ("column", columns)) if number]
        remark = [f"the sheet has {' and '.join(hidden)}, which are read like all others"] if hidden else []
        self.remark = "; ".join(filter(None, [self.remark, *remark]))
        for name, column, cells in zip(self.layout.names, width, self.words.columns, strict=True):
            if column in behind.bare and not any(cells.to_pylist()):
                raise SchemaError(
                    f"no cell of column {name!r} of {self._path} has a stored value, as its formulas were never "
                    "computed: open the file in a spreadsheet program, and save it"
                )

    def lines(self, rows: Collection[int]) -> dict[int, int]:
        """Return the numbers that rows have in the sheet."""
        return {row: self._lines[row] for row in rows}


def _unpacked_size(path: Path) -> int:
    try:
        with zipfile.ZipFile(path) as packed:
            return sum(member.file_size for member in packed.infolist())
    except zipfile.BadZipFile:  # as .xls is none
        return path.stat().st_size


def _require_grid(path: Path, needed: int, n_cells: int) -> None:
    """Refuse a sheet whose grid is nearly empty, or takes more memory than there is, beside what its cells take."""
    remedy = "clear the cells that are far from the others, or save the table alone as .csv"
    work = f"reading {path}, in which {n_cells:,} cells are between the first and the last,"
    if n_cells > max(_LARGE, needed):
        raise SchemaError(f"{work} would take memory for nothing: {remedy}")
    require_memory(needed + _PER_CELL * n_cells, None, work, remedy)


def _first_sheet(path: Path, book: Any, calamine: Any) -> tuple[str, str]:
    """Return a remark, if there are several sheets, and the name of the first that is shown."""
    shown = [
        sheet.name
        for sheet in book.sheets_metadata
        if sheet.typ == calamine.SheetTypeEnum.WorkSheet and sheet.visible == calamine.SheetVisibleEnum.Visible
    ]
    if not shown:
        raise SchemaError(f"{path} has no sheet with cells that is shown")
    remark = f"of {len(shown)} sheets, the first is read: {shown[0]!r}" if len(shown) > 1 else ""
    return remark, shown[0]


class _Behind:
    """What the cells of a sheet in .xlsx do not tell, from one pass over its part of the file.

    Attributes
    ----------
    n_cells : int
        How many are between the first and the last that hold something; those without a place follow.
    hidden_rows : set of int
        Their numbers.
    hidden_columns : list of range
        Their places, from 0.
    bare : set of int
        The columns with formulas without a result.
    """

    def __init__(self, path: Path, name: str) -> None:
        rows, columns = set[int](), set[int]()
        self.hidden_rows, self.hidden_columns, self.bare = set[int](), list[range](), set[int]()
        with _opened(path, name) as file:
            for _, each in ElementTree.iterparse(file):  # noqa: S314
                kind, is_hidden = each.tag.rpartition("}")[2], each.get("hidden") in ("1", "true")
                place = _PLACE.fullmatch(each.get("r", ""))
                if kind == "c" and place is not None and len(each):
                    rows.add(int(place[2]))
                    columns.add(column := _column(place[1]))
                    if each.find("{*}f") is not None and not each.findtext("{*}v"):
                        self.bare.add(column)
                elif kind == "col" and is_hidden:
                    self.hidden_columns.append(range(int(each.get("min", 1)) - 1, int(each.get("max", 0))))
                elif kind == "row":
                    self.hidden_rows.update([int(each.get("r", 0))] if is_hidden else [])
                    each.clear()
        self.n_cells = (max(rows) - min(rows) + 1) * (max(columns) - min(columns) + 1) if rows else 0


@contextlib.contextmanager
def _opened(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open the part of a file that has a sheet."""
    with zipfile.ZipFile(path) as packed:
        book, links = (ElementTree.parse(packed.open(part)).getroot() for part in _PARTS)  # noqa: S314
        sheets = {each.get("name"): [*each.attrib.values()] for each in book.findall(".//{*}sheet")}
        target = next(each.get("Target", "") for each in links if each.get("Id") in sheets[name])
        with packed.open(target.lstrip("/") if target.startswith("/") else f"xl/{target}") as file:
            yield file


def _grid_of_ods(path: Path) -> int:
    """Return the number of cells in the grid of the largest sheet, all of which are read when a book is opened."""
    most = width = right = rows = bottom = last = 0
    with zipfile.ZipFile(path) as packed, packed.open("content.xml") as file:
        for _, each in ElementTree.iterparse(file):  # noqa: S314
            kind, said = each.tag.rpartition("}")[2], {name.rpartition("}")[2]: text for name, text in each.items()}
            if kind in ("table-cell", "covered-table-cell"):
                width += int(said.get("number-columns-repeated", 1))
                last = width if len(each) or "value-type" in said else last
            elif kind == "table-row":
                rows += int(said.get("number-rows-repeated", 1))
                right, bottom = max(right, last), rows if last else bottom
                width = last = 0
                each.clear()
            elif kind == "table":
                most, right, rows, bottom = max(most, right * bottom), 0, 0, 0
    return most


def _column(letters: str) -> int:
    """Return the number, from 0, of a column like AB."""
    return reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters.upper(), 0) - 1


def _to_the_last(rows: Iterable[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows from the first to the last that has a cell."""
    held: list[tuple[int, list[Any]]] = []
    for each in dropwhile(lambda each: _is_blank(each[1]), rows):
        held.append(each)
        if not _is_blank(each[1]):
            yield from held
            held = []


def _is_blank(row: Iterable[Any]) -> bool:
    return all(cell == "" for cell in row)


def _in_memory(names: Sequence[str], rows: Iterator[tuple[int, list[Any]]]) -> tuple[pa.Table, list[int]]:
    """Return the cells as words, and the number of each row in the sheet."""
    schema = pa.schema([(name, pa.string()) for name in names])
    lines, batches = list[int](), list[pa.RecordBatch]()
    while some := [*islice(rows, _ROWS)]:
        lines += [number for number, _ in some]
        columns = zip(*(map(_word, row) for _, row in some), strict=True)
        batches.append(pa.RecordBatch.from_arrays([pa.array(each, pa.string()) for each in columns], schema=schema))
    return pa.Table.from_batches(batches, schema), lines


def _word(cell: Any) -> str:
    """Return a cell as a text file would have it; an error is empty."""
    if isinstance(cell, datetime.timedelta):
        minutes, seconds = divmod(round(cell.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return str(cell) if isinstance(cell, datetime.time) else as_word(cell)
