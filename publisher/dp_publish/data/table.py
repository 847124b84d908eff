"""The raw table: a file of any format that is read, a folder of Parquet files, or a frame in memory, in record batches.

A `Table` knows its columns' declared types without looking at a value, and yields batches of bounded size as often as
asked. Its order of rows is that of the files. CSV has no types: its columns are `UNKNOWN` until the policy names a
kind, because a type guessed from values could differ between neighbouring tables, and would tell them apart. So are
those of a spreadsheet, and a data frame's columns of objects, which are published under a declared kind alone.
"""

from __future__ import annotations

import csv
import os
import re
import stat
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import pyarrow as pa

from dp_bundle.base.errors import DataError, SchemaError
from dp_bundle.files.places import Place, RemotePath, located
from dp_bundle.manifest.sources import Source as ManifestSource
from dp_publish.data.bad_cells import Check
from dp_publish.data.dialect import Dialect, Layout, find_layout, is_text_file
from dp_publish.data.foreign import FOREIGN, Described, ForeignFile
from dp_publish.data.frames import Frame, arrow_table, is_of_pandas
from dp_publish.data.kinds import ColumnType
from dp_publish.data.parquet_files import is_folder, open_parquet, table_changed
from dp_publish.data.row_ranges import ARROW, RowRanges, arrow_ranges, describe_files, memory_ranges, parquet_ranges
from dp_publish.data.spreadsheet import SPREADSHEETS, Sheet
from dp_publish.data.text_file import TextFile
from dp_publish.data.typed import Coding, TypedRanges, schema_errors, typed_batches

if TYPE_CHECKING:
    import pandas as pd  # a publisher who has files needs none of its memory
    from narwhals.typing import IntoFrame

Source: TypeAlias = Union[str, Path, RemotePath, pa.Table, "pd.DataFrame", "IntoFrame"]
_TEXTS = (".txt", ".dat", ".data")
_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # of which a path has one slash left


_OTHER_TYPES = (
    (pa.types.is_string, ColumnType.TEXT),
    (pa.types.is_large_string, ColumnType.TEXT),
    (pa.types.is_string_view, ColumnType.TEXT),
    (pa.types.is_date, ColumnType.DATE),
    (pa.types.is_timestamp, ColumnType.TIME),
    (pa.types.is_time, ColumnType.TIME_OF_DAY),
    (pa.types.is_duration, ColumnType.DURATION),
    (pa.types.is_nested, ColumnType.NESTED),
)


@dataclass(frozen=True)
class Table:
    """A raw table that can be read again and again.

    Attributes
    ----------
    types : dict of str to ColumnType
        The columns in order.
    read : callable
        `read(kinds, rows)` yields record batches of at most `rows` rows with the columns of `kinds` (name to
        "continuous", "integer", "text" or "raw") in their order, as float64, int64, strings or in whatever type they
        have, nulls kept. Of a text file, the last two are the cells as they are written.
    booleans : frozenset of str
        The integer columns whose declared type allows 0 and 1 alone.
    layout : Layout or None
        How a text file is written, as found; None for other tables.
    ranges : callable or None
        Returns the table's `RowRanges`, whose batches are like those of `read`; None for a text file, where only
        reading tells which row is where.
    describe : callable or None
        Returns what tells its files from changed ones, as `describe_files` does; None for a table in memory.
    count : callable or None
        Returns the number of rows where there are no ranges.
    described : dict of str to Described
        What a code book in the file says of its columns.
    remark : str
        What the publisher should know of what was read, or nothing.
    held : int
        The bytes that reading it keeps in memory.
    locate : callable or None
        Returns what cannot be read of raw columns, as `TextFile.locate` does; None for other tables.
    partitions : frozenset of str
        The columns that are the names of folders, and so alike in all rows of a file.
    """

    types: dict[str, ColumnType]
    read: Callable[[dict[str, str], int], Iterator[pa.RecordBatch]]
    booleans: frozenset[str] = frozenset()
    layout: Layout | None = None
    ranges: Callable[[], TypedRanges] | None = None
    describe: Callable[[], list[list[Any]]] | None = None
    locate: Callable[[Mapping[str, str], Mapping[str, Check]], SchemaError | None] | None = None
    partitions: frozenset[str] = frozenset()
    count: Callable[[], int] | None = None
    described: Mapping[str, Described] = field(default_factory=dict)
    remark: str = ""
    held: int = 0

    def count_rows(self) -> int:
        """Return the number of rows.

        Raises
        ------
        SchemaError
            The file cannot be read.
        DataError
            There are no rows.
        """
        n_rows = self.count() if self.count is not None else self.pieces()[1]
        if not n_rows:
            raise DataError("the table has no rows to publish")
        return n_rows

    def pieces(self) -> tuple[int | None, int | None]:
        """Return the rows of the largest piece that has to be decoded as a whole, and of all; None of text."""
        if self.ranges is None:
            return None, None
        raw = self.ranges().raw
        return 0 if raw.decoded else max(raw.sizes, default=0), raw.n_rows

    def unchanged(self) -> Callable[[], None]:
        """Return what raises `SchemaError` if the table's files have changed since this call."""
        if self.describe is None:
            return lambda: None
        before, describe = self.describe(), self.describe

        def require() -> None:
            if describe() != before:
                raise table_changed()

        return require


def coded(table: Table, sources: Sequence[ManifestSource]) -> Table:
    """Return the table with published columns of numbers in place of those that are none.

    Parameters
    ----------
    table : Table
        It has a column for each source.
    sources : sequence of Source
        What becomes of those columns.
    """
    if not sources:
        return table
    by_name = {source.name: source for source in sources}
    coding = Coding(sources, None if table.layout is None else table.layout.missing_values)
    types: dict[str, ColumnType] = {}
    for name, declared in table.types.items():
        source = by_name.get(name)
        number = ColumnType.INTEGER if source is not None and source.is_whole else ColumnType.CONTINUOUS
        types |= {name: declared} if source is None else dict.fromkeys(source.columns, number)

    def read(kinds: dict[str, str], rows: int) -> Iterator[pa.RecordBatch]:
        raw = coding.raw_kinds(kinds)
        try:
            yield from coding.code(table.read(raw, rows), kinds)
        except SchemaError as error:
            raise (table.locate and table.locate(raw, coding.checks())) or error from None

    find_ranges = table.ranges
    ranges = None if find_ranges is None else (lambda: TypedRanges(find_ranges().raw, coding))
    return replace(table, types=types, read=read, booleans=table.booleans - {*by_name}, ranges=ranges)


def open_table(source: Source, dialect: Dialect | None = None) -> Table:
    """Open a table for reading.

    Parameters
    ----------
    source : str, Path, RemotePath, pyarrow.Table or data frame
        A `.parquet`, `.arrow`, `.feather`, `.csv` or `.tsv` file, the last two perhaps packed (`.gz`, `.bz2`), a folder
        of Parquet files, a file of SPSS, Stata, SAS or a spreadsheet (`FOREIGN`, `SPREADSHEETS`), or a table in memory:
        of Arrow, pandas, or what narwhals knows. Parquet and text may also be at a URI.
    dialect : Dialect, optional
        How a text file is written; by default what its first line tells.

    Raises
    ------
    SchemaError
        There is no such file, it is not a table of a known kind, or two columns share a name.
    HeaderError
        The first line of a text file may be a row, and `dialect` does not say.
    """
    if not isinstance(source, str | Path | RemotePath):
        return _open_frame(source)
    path = located(source)
    try:
        if isinstance(path, Path):
            _require_readable(path)
        return replace(_open_path(path, dialect or Dialect()), describe=partial(describe_files, path))
    except (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError, csv.Error) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise SchemaError(f"{path} cannot be read as a table: {first_line}") from error


def _open_frame(source: Any) -> Table:
    """Open a table in memory; of pandas, whose columns may have no type, or as Arrow has it."""
    if is_of_pandas(source):
        _require_distinct([str(name) for name in source.columns])
        frame = Frame(source)
        return _typed_table(frame.schema, lambda: memory_ranges(frame), frame.untyped)
    table = arrow_table(source)
    return _typed_table(table.schema, lambda: memory_ranges(table))


def reads_alone(path: Place) -> bool:
    """Return True for a file whose rows one process has to read: text, a spreadsheet, and of SPSS, Stata or SAS."""
    return is_text_file(path) or path.suffix.lower() in (*FOREIGN, *SPREADSHEETS)


def _require_readable(path: Path) -> None:
    """Refuse what is no file or folder, and what cannot be read twice."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        said = "is an address: download it first, and give the file" if _ADDRESS.match(os.fspath(path)) else None
        said = said or "cannot be read as a table: there is no such file or folder"
        raise SchemaError(f"{path} {said}") from error
    except ValueError as error:  # a name with a zero byte is no name
        raise SchemaError(f"{path} cannot be read as a table: {error}") from error
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"the name {path} is not UTF-8, as Arrow needs it: rename the file or its folder") from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SchemaError(f"{path} is a pipe or a device, and rows are read more than once: write them to a file first")


def _open_path(path: Place, dialect: Dialect) -> Table:
    if is_text_file(path):
        return _open_text(path, dialect)
    suffix = path.suffix.lower()
    if isinstance(path, Path) and not path.is_dir() and suffix in (*FOREIGN, *SPREADSHEETS):
        return _open_foreign(path, dialect) if suffix in FOREIGN else _open_sheet(path, dialect)
    if dialect != Dialect():
        raise SchemaError(f"{path} is not a text file, so [table] in the policy and --header do not apply: remove them")
    if is_folder(path):
        return _open_parquet(path)
    if suffix in (".parquet", ".pq"):
        return _open_parquet(path)
    if isinstance(path, RemotePath):
        raise SchemaError(f"{path} is neither Parquet nor a text table: download it first, and give the file")
    if suffix in ARROW:
        return _open_arrow(path)
    raise SchemaError(_other_format(path, suffix))


def _other_format(path: Path, suffix: str) -> str:
    """Return what is said of a file that is no table to us."""
    if suffix in _TEXTS:
        return (
            f"{path} is not a table that dp-publish reads: if it is a text table, give it a name that ends with .csv, "
            "and set delimiter under [table] in the policy unless it is , ; | or a tab"
        )
    return (
        f"{path} is not a table that dp-publish reads: give .parquet, .arrow, .feather, .csv, .tsv, .csv.gz, .sav, "
        ".dta, .sas7bdat, .xlsx, .ods, or a folder of Parquet"
    )


def _open_parquet(place: Place) -> Table:
    files = open_parquet(place)
    table = _typed_table(files.schema, lambda: parquet_ranges(files))
    return replace(table, partitions=frozenset(files.keys))


def _open_arrow(path: Path) -> Table:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        return _typed_table(reader.schema, lambda: arrow_ranges(path))


def _open_text(path: Place, dialect: Dialect) -> Table:
    layout = find_layout(path, dialect)
    _require_distinct(list(layout.names))
    file = TextFile(path, layout)
    types = dict.fromkeys(layout.names, ColumnType.UNKNOWN)
    return Table(types, file.read, layout=layout, locate=file.locate, count=file.count_rows)


def _open_foreign(path: Path, dialect: Dialect) -> Table:
    if dialect != Dialect(encoding=dialect.encoding):
        raise SchemaError(f"{path} is not a text file: of [table] in the policy and --header, leave encoding alone")
    file = ForeignFile(path, dialect.encoding)
    return replace(_typed_table(file.schema, file.ranges), described=file.described, held=file.held)


def _open_sheet(path: Path, dialect: Dialect) -> Table:
    if dialect != Dialect(header=dialect.header, missing_values=dialect.missing_values):
        raise SchemaError(
            f"{path} is a spreadsheet, whose cells are as they are: of [table] in the policy, header and "
            "missing_values alone apply"
        )
    sheet = Sheet(path, dialect)
    _require_distinct(list(sheet.layout.names))
    types = dict.fromkeys(sheet.layout.names, ColumnType.UNKNOWN)
    found = Table(types, sheet.read, layout=sheet.layout, locate=sheet.locate, count=lambda: sheet.num_rows)
    return replace(found, remark=sheet.remark, held=sheet.held)


def _typed_table(
    schema: pa.Schema, find_ranges: Callable[[], RowRanges], untyped: Collection[str] = frozenset()
) -> Table:
    _require_distinct(schema.names)

    def read(kinds: dict[str, str], rows: int) -> Iterator[pa.RecordBatch]:
        stored = ranges().raw
        yield from typed_batches(stored.read_pieces(range(len(stored.sizes)), list(kinds), rows), kinds)

    def ranges() -> TypedRanges:
        with schema_errors():
            return TypedRanges(find_ranges())

    booleans = frozenset(field.name for field in schema if pa.types.is_boolean(_value_type(field.type)))
    types = {field.name: ColumnType.OBJECT if field.name in untyped else _type_of(field.type) for field in schema}
    return Table(types, read, booleans, ranges=ranges)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _type_of(kind: pa.DataType) -> ColumnType:
    kind = _value_type(kind)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return ColumnType.INTEGER
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ColumnType.CONTINUOUS
    return next((declared for is_of, declared in _OTHER_TYPES if is_of(kind)), ColumnType.OTHER)


def _require_distinct(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise SchemaError(f"the table has two columns named {twice[0]!r}: rename one of them")
