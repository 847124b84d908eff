"""The first visible sheet of a spreadsheet as a table, by calamine, which the extra `files` installs.

A sheet has no types but those of cells, so that it is read as the text file would be that it can be saved as: its
columns are `UNKNOWN` until the policy names a kind, and each cell is a word, whatever the others are. Numbers are
written with all their digits, and dates and times like 2026-01-31 12:30:00. Rows without any cell are no rows before
the first one and behind the last; between others they have no value, so that their number does not tell of values.
"""

from __future__ import annotations

import datetime
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa

from dp_bundle.base.errors import SchemaError
from dp_bundle.base.machine import require_memory
from dp_bundle.base.quoting import counted
from dp_publish.data.dialect import Dialect, layout_of
from dp_publish.data.foreign import reader_missing
from dp_publish.data.frames import as_word

SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_ROWS = 2**13  # that are made words of at a time
_PARTS = ("xl/workbook.xml", "xl/_rels/workbook.xml.rels")
_HIDDEN = {"row": "hidden row", "col": "hidden column"}
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
                self.layout = layout_of(path, [_word(cell) for cell in first[1]], dialect)
                rest = rows if self.layout.has_header else chain([first], rows)
                self.words, self._lines = _in_memory(self.layout.names, rest)
                if path.suffix.lower() in (".xlsx", ".xlsm"):
                    self._look_behind(sheet)
        except calamine.PasswordError as error:
            raise SchemaError(f"{path} is locked by a password: save it without one") from error
        except (calamine.CalamineError, ElementTree.ParseError, LookupError, StopIteration) as error:
            raise SchemaError(f"{path} cannot be read as a table: it is damaged, or not what its name says") from error

    def _look_behind(self, sheet: Any) -> None:
        """Say what the sheet hides, and refuse a column of formulas without results, which would be one of gaps."""
        width = range(sheet.start[1], sheet.start[1] + len(self.layout.names))
        hidden, bare = _behind(self._path, sheet.name, {*self._lines}, width)
        shown = " and ".join(counted(number, what) for what, number in hidden.items() if number)
        remark = shown and f"the sheet has {shown}, which are read like all others"
        self.remark = "; ".join(filter(None, [self.remark, remark]))
        for name, column, cells in zip(self.layout.names, width, self.words.columns, strict=True):
            if bare[column] and not any(cells.to_pylist()):
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


def _behind(path: Path, name: str, lines: set[int], width: range) -> tuple[Counter[str], Counter[int]]:
    """Return how many rows and columns of a table its sheet hides, and the formulas without a result in each column."""
    hidden, bare = Counter[str](), Counter[int]()
    with zipfile.ZipFile(path) as packed:
        book, links = (ElementTree.parse(packed.open(part)).getroot() for part in _PARTS)  # noqa: S314
        sheets = {each.get("name"): [*each.attrib.values()] for each in book.findall(".//{*}sheet")}
        target = next(each.get("Target", "") for each in links if each.get("Id") in sheets[name])
        with packed.open(target.lstrip("/") if target.startswith("/") else f"xl/{target}") as file:
            for _, each in ElementTree.iterparse(file):  # noqa: S314
                kind = each.tag.rpartition("}")[2]
                if kind == "c" and each.find("{*}f") is not None and not each.findtext("{*}v"):
                    bare[_column(each.get("r", ""))] += 1
                if kind in _HIDDEN and each.get("hidden") in ("1", "true"):
                    places = range(int(each.get("min", 1)) - 1, int(each.get("max", 0)))
                    hidden[_HIDDEN[kind]] += len({*places} & {*width}) + (int(each.get("r", 0)) in lines)
                if kind in ("row", "col"):
                    each.clear()
    return hidden, bare


def _column(place: str) -> int:
    """Return the number, from 0, of a column in a place like AB12."""
    return reduce(lambda number, letter: 26 * number + ord(letter) - 64, place.rstrip("0123456789"), 0) - 1


def _to_the_last(rows: Iterable[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows from the first to the last that has a cell."""
    last = None
    for number, row in rows:
        if any(cell != "" for cell in row):
            yield from ((between, [""] * len(row)) for between in range((last or number - 1) + 1, number))
            yield number, row
            last = number


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
    """Return a cell as a text file would have it; an error is empty."""
    if isinstance(cell, datetime.timedelta):
        minutes, seconds = divmod(round(cell.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return str(cell) if isinstance(cell, datetime.time) else as_word(cell)
