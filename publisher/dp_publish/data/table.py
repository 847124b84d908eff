"""The raw table: a file of any format that is read, a folder of Parquet files, or a frame in memory, in record batches.

A `Table` knows its columns' declared types without looking at a value, and yields batches of bounded size as often as
asked. Its order of rows is that of the files. CSV has no types: its columns are `UNKNOWN` until the policy names a
kind. A type guessed from values could differ between neighbouring tables, and would tell them apart. So are those of a
spreadsheet, and a data frame's columns of objects, which are published under a declared kind alone.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import pyarrow as pa

from dp_bundle.base.errors import CellError, DataError, SchemaError
from dp_bundle.base.machine import forbid_cores
from dp_bundle.base.wording import DELIMITER
from dp_bundle.files.places import Place, RemotePath, located
from dp_bundle.manifest.columns import Source as ManifestSource
from dp_publish.data.cells import Written
from dp_publish.data.dialect import Dialect, Layout, find_layout, is_text_file
from dp_publish.data.faults import UnfitError, fault_of_encoding
from dp_publish.data.foreign import FOREIGN, Described, ForeignFile
from dp_publish.data.frames import JSON, Frame, arrow_table, is_of_pandas, read_json
from dp_publish.data.kinds import OF_TEXT, ColumnType, Kinds
from dp_publish.data.row_ranges import (
    ARROW,
    RawBatches,
    RowRanges,
    describe_files,
    is_folder,
    memory_ranges,
    open_arrow,
    open_parquet,
    require_distinct,
    table_changed,
    value_type,
)
from dp_publish.data.spreadsheet import SPREADSHEETS, Sheet
from dp_publish.data.text_file import Survey, TextFile
from dp_publish.data.typed import Cells, Keep, is_text, kept_rows, schema_errors

if TYPE_CHECKING:
    import pandas as pd  # a publisher who has files needs none of its memory
    from narwhals.typing import IntoFrame

Source: TypeAlias = Union[str, Path, RemotePath, pa.Table, "pd.DataFrame", "IntoFrame"]
Lines: TypeAlias = Callable[[Collection[int]], dict[int, int]]
_TEXTS = (".txt", ".dat", ".data")
_NO_ENTRY = ", so [table] in the policy and --header do not apply: remove them"
_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # of which a path has one slash left


_TYPES = (
    (pa.types.is_integer, ColumnType.INTEGER),
    (pa.types.is_boolean, ColumnType.INTEGER),
    (pa.types.is_floating, ColumnType.CONTINUOUS),
    (pa.types.is_decimal, ColumnType.CONTINUOUS),
    (is_text, ColumnType.TEXT),
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
    batches : callable
        `batches(names, rows)` yields record batches of at most `rows` rows of columns as they are stored. Those of a
        text file or a spreadsheet are words.
    cells : Cells
        What becomes of them.
    booleans : frozenset of str
        The integer columns whose declared type allows 0 and 1 alone.
    layout : Layout or None
        How a text file is written, as found; None for other tables.
    stored : RowRanges or None
        The rows by their numbers; None for a text file, where only reading tells which row is where.
    describe : callable or None
        Returns what tells its files from changed ones, as `describe_files` does; None for a table in memory.
    described : dict of str to Described
        What a code book in the file says of its columns.
    remark : str
        What the publisher should know of what was read, or nothing.
    held : int
        The bytes that reading it keeps in memory.
    survey : callable or None
        Returns what one pass over a text file tells; None for other tables.
    lines : callable or None
        Returns on which lines of a file rows are, by their numbers; None where there are none.
    partitions : frozenset of str
        The columns that are the names of folders, and so alike in all rows of a file.
    keep : callable or None
        Returns which rows of a range are kept, where some are left out.
    """

    types: dict[str, ColumnType]
    batches: Callable[[list[str], int], RawBatches]
    cells: Cells = field(default_factory=Cells)
    booleans: frozenset[str] = frozenset()
    layout: Layout | None = None
    stored: RowRanges | None = None
    describe: Callable[[], list[list[Any]]] | None = None
    lines: Lines | None = None
    partitions: frozenset[str] = frozenset()
    described: Mapping[str, Described] = field(default_factory=dict)
    remark: str = ""
    held: int = 0
    survey: Callable[[], Survey] | None = None
    keep: Keep | None = None

    def head(self, kinds: Kinds, rows: int) -> pa.RecordBatch | None:
        """Return the first rows, as `read` would; of a text file those that were kept, which are some thousands."""
        table = self
        if self.survey is not None:
            head = self.survey().head
            table = replace(self, batches=lambda names, rows: iter([head.select(names).slice(0, rows)]))
        return next(table.read(kinds, rows), None)

    def read(self, kinds: Kinds, rows: int, start: int = 0, stop: int | None = None) -> RawBatches:
        """Yield record batches of at most `rows` rows: of all, or of those from `start` to before `stop`.

        Parameters
        ----------
        kinds : dict of str to str
            The columns in their order, each "continuous", "integer", "text" or "raw": float64, int64, strings, or in
            whatever type it has; nulls are kept.
        rows : int
        start, stop : int, optional
            Of a table that is `stored`.

        Raises
        ------
        CellError
            The lines and the columns of cells that are not what their kinds say.
        SchemaError
            The table cannot be read to its end, has fewer rows by now, or has such cells, and no lines.
        """
        names = self.cells.stored(kinds)
        if stop is None or self.stored is None:
            batches = self.batches(names, rows)
        else:
            batches = self.stored.read(names, rows, start, stop)
        with schema_errors():
            for batch in batches:
                try:
                    typed = self.cells.read(batch, kinds)
                except UnfitError as error:
                    raise self._placed([(start + place, name, said) for place, name, said in error.faults]) from None
                yield kept_rows(typed, self.keep, start)
                start += batch.num_rows
        if stop not in (None, start):
            raise table_changed()

    def lost(self, names: Collection[str]) -> list[SchemaError]:
        """Return what is wrong with columns of a text file that have cells in another encoding than it."""
        lost = {} if self.survey is None else self.survey().lost
        faults = [(row, name, fault_of_encoding()) for name, row in lost.items() if name in names]
        return [self._placed(faults)] if faults else []

    def _placed(self, faults: list[tuple[int, str, str]]) -> SchemaError:
        """Return the error for cells that do not fit, by their rows: with their lines, where there are any."""
        lines = {} if self.lines is None else self.lines({row for row, *_ in faults})
        if not all(row in lines for row, *_ in faults):
            return UnfitError(faults)
        error = CellError([(lines[row], name, said) for row, name, said in faults])
        if {said for *_, said in faults} == {fault_of_encoding()}:
            error.entry = "table.encoding"
        return error

    def count_rows(self) -> int:
        """Return the number of rows.

        Raises
        ------
        SchemaError
            The file cannot be read.
        DataError
            There are no rows.
        """
        n_rows = self.pieces()[1] if self.survey is None else self.survey().n_rows
        if not n_rows:
            raise DataError("the table has no rows to publish")
        return n_rows

    def pieces(self) -> tuple[int | None, int | None]:
        """Return the rows of the largest piece that has to be decoded as a whole, and of all; None of text."""
        raw = self.stored
        return (None, None) if raw is None else (0 if raw.decoded else max(raw.sizes, default=0), raw.n_rows)

    def fingerprint(self) -> str:
        """Return a mark of the table's files as they are now; it tells nothing of a table in memory."""
        return hashlib.sha256(repr(self.describe and self.describe()).encode()).hexdigest()

    def unchanged(self, since: str | None = None) -> Callable[[], None]:
        """Return what raises `SchemaError` if the table's files have changed since this call, or a fingerprint."""
        before = since or self.fingerprint()

        def require() -> None:
            if self.fingerprint() != before:
                raise table_changed()

        return require

    def confirmed(self, fingerprint: str) -> Table:
        """Return the table, which can be read only while its files are those of a fingerprint."""
        require = self.unchanged(fingerprint)
        require()

        def read(names: list[str], rows: int) -> RawBatches:
            yield from self.batches(names, rows)
            require()

        return replace(self, batches=read)


def coded(table: Table, sources: Sequence[ManifestSource], signs: Mapping[str, tuple[str, ...]] | None = None) -> Table:
    """Return the table with published columns of numbers in place of those that are none.

    Parameters
    ----------
    table : Table
        It has a column for each source.
    sources : sequence of Source
        What becomes of those columns.
    signs : dict of str to tuple of str, optional
        The signs that numbers of columns may have, such as their units.
    """
    by_name = {source.name: source for source in sources}
    types: dict[str, ColumnType] = {}
    for name, declared in table.types.items():
        source = by_name.get(name)
        number = ColumnType.INTEGER if source is not None and source.is_whole else ColumnType.CONTINUOUS
        types |= {name: declared} if source is None else dict.fromkeys(source.columns, number)

    written = {name: replace(table.cells.written, signs=each) for name, each in (signs or {}).items()}
    cells = replace(table.cells, sources=(*table.cells.sources, *sources), own=written | {**table.cells.own})
    return replace(table, types=types, cells=cells, booleans=table.booleans - {*by_name})


def open_table(source: Source, dialect: Dialect | None = None) -> Table:
    """Open a table for reading; from here on, no core of this process is dumped, which would hold raw rows.

    Parameters
    ----------
    source : str, Path, RemotePath, pyarrow.Table or data frame
        A `.parquet`, `.arrow`, `.feather`, `.csv`, `.tsv` or `.tab` file, text perhaps packed (`.gz`, `.bz2`), or a
        folder of Parquet files. Records in JSON (`JSON`), a file of SPSS, Stata, SAS or a spreadsheet (`FOREIGN`,
        `SPREADSHEETS`). Or a table in memory: of Arrow, pandas, or what narwhals knows. Parquet and text may also be at
        a URI.
    dialect : Dialect, optional
        How a text file is written; by default what its first line tells.

    Raises
    ------
    SchemaError
        There is no such file, it is not a table of a known kind, or two columns share a name.
    HeaderError
        The first line of a text file may be a row, and `dialect` does not say.
    """
    forbid_cores()
    dialect = dialect or Dialect()
    if not isinstance(source, str | Path | RemotePath):
        return _with(_open_frame(source), dialect)
    path = located(source)
    try:
        if isinstance(path, Path):
            _require_readable(path)
        return replace(_with(_open_path(path, dialect), dialect), describe=partial(describe_files, path))
    except (pa.ArrowException, OSError, UnicodeError, csv.Error) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise SchemaError(f"{path} cannot be read as a table: {first_line}") from error


def _open_frame(source: Any) -> Table:
    """Open a table in memory; of pandas, whose columns may have no type, or as Arrow has it."""
    if is_of_pandas(source):
        require_distinct([str(name) for name in source.columns])
        frame = Frame(source)
        return _typed_table(frame.schema, memory_ranges(frame), frame.untyped)
    return _in_memory(arrow_table(source))


def reads_alone(path: Place) -> bool:
    """Return True for a file whose rows one process has to read: text, JSON, a spreadsheet, SPSS, Stata and SAS."""
    return is_text_file(path) or path.suffix.lower() in (*FOREIGN, *SPREADSHEETS, *JSON)


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
    """Open a file or a folder, to which those entries of a dialect apply that are not found in it."""
    suffix = path.suffix.lower()
    if is_text_file(path):
        return _open_text(path, dialect)
    apply: tuple[str, ...] = ()
    if is_folder(path) or suffix in (".parquet", ".pq"):
        files = open_parquet(path)
        table = replace(_typed_table(files.schema, files.ranges), partitions=frozenset(files.keys))
    elif isinstance(path, RemotePath):
        raise SchemaError(f"{path} is neither Parquet nor a text table: download it first, and give the file")
    elif suffix in FOREIGN:
        file, apply = ForeignFile(path, dialect.encoding), ("encoding",)
        table = replace(_typed_table(file.schema, file.ranges()), described=file.described, held=file.held)
    elif suffix in SPREADSHEETS:
        sheet, apply = Sheet(path, dialect), ("header", "decimal", "missing_values")
        table = replace(_of_words(sheet.words), layout=sheet.layout, lines=sheet.lines, remark=sheet.remark)
    elif suffix in (*ARROW, *JSON):
        table = _typed_table(*open_arrow(path)) if suffix in ARROW else _of_words(read_json(path))
    else:
        raise SchemaError(_other_format(path, suffix))

    apply = apply or ("decimal",) * any(declared in OF_TEXT for declared in table.types.values())
    if dialect.model_dump(exclude_defaults=True).keys() - {*apply}:
        only = f": of [table] in the policy and --header, give {', '.join(apply)} alone" if apply else _NO_ENTRY
        raise SchemaError(f"{path} is not a text file{only}")
    return table


def _other_format(path: Path, suffix: str) -> str:
    """Return what is said of a file that is no table to us."""
    if suffix in _TEXTS:
        return (
            f"{path} is not a table that dp-publish reads: if it is a text table, give it a name that ends with .csv, "
            f"and set {DELIMITER} unless it is , ; | or a tab"
        )
    return (
        f"{path} is not a table that dp-publish reads: give .parquet, .arrow, .feather, .csv, .tsv, .csv.gz, .json, "
        ".sav, .dta, .sas7bdat, .xlsx, .ods, or a folder of Parquet"
    )


def _with(table: Table, dialect: Dialect) -> Table:
    """Return a table whose words are written as a policy says."""
    has_points = table.layout is None or table.layout.delimiter in ("", ",")
    written = Written(dialect.decimal or "", has_points, dialect.missing_values)
    return replace(table, cells=replace(table.cells, written=written))


def _open_text(path: Place, dialect: Dialect) -> Table:
    layout = find_layout(path, dialect)
    require_distinct(list(layout.names))
    file = TextFile(path, layout)
    types = dict.fromkeys(layout.names, ColumnType.UNKNOWN)
    return Table(types, file.read, layout=layout, lines=file.lines, survey=lambda: file.survey)


def _of_words(words: pa.Table) -> Table:
    """Return words in memory as a table whose columns are of no type until the policy names a kind."""
    opened = _in_memory(words)
    return replace(opened, types=dict.fromkeys(opened.types, ColumnType.UNKNOWN), held=words.nbytes)


def _in_memory(table: pa.Table) -> Table:
    return _typed_table(table.schema, memory_ranges(table))


def _typed_table(schema: pa.Schema, stored: RowRanges, untyped: Collection[str] = frozenset()) -> Table:
    require_distinct(schema.names)

    booleans = frozenset(field.name for field in schema if pa.types.is_boolean(value_type(field.type)))
    types = {field.name: ColumnType.OBJECT if field.name in untyped else _type_of(field.type) for field in schema}
    return Table(types, partial(stored.read_pieces, range(len(stored.sizes))), booleans=booleans, stored=stored)


def _type_of(kind: pa.DataType) -> ColumnType:
    kind = value_type(kind)
    return next((declared for is_of, declared in _TYPES if is_of(kind)), ColumnType.OTHER)
