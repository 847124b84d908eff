"""The raw table: Parquet, Arrow, Feather, CSV, a folder of Parquet files, or a table in memory, in record batches.

A `Table` knows its columns' declared types without looking at a value, and yields batches of bounded size as often as
asked. Its order of rows is that of the files. CSV has no types: its columns are `UNKNOWN` until the policy names a
kind, because guessing a type means reading values.
"""

from __future__ import annotations

import contextlib
import csv
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from dp_bundle.errors import SchemaError

__all__ = ["ColumnType", "Source", "Table", "open_table"]

if TYPE_CHECKING:
    import pandas as pd  # a publisher who has files needs none of its memory

Source: TypeAlias = Union[str, Path, pa.Table, "pd.DataFrame"]
_CSV_BLOCK = 2**24
_PAGE_BUFFER = 2**18  # read a column chunk page by page: row groups may be far larger than a batch


class ColumnType(enum.Enum):
    """What a column's declared type allows."""

    CONTINUOUS = "continuous"
    INTEGER = "integer"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Table:
    """A raw table that can be read again and again.

    Attributes
    ----------
    types : dict of str to ColumnType
        The columns in order.
    read : callable
        `read(kinds, rows)` yields record batches of at most `rows` rows with the columns of `kinds` (name to
        "continuous", "integer" or "text") in their order, as float64, int64 or strings, nulls kept.
    """

    types: dict[str, ColumnType]
    read: Callable[[dict[str, str], int], Iterator[pa.RecordBatch]]


def open_table(source: Source) -> Table:
    """Open a table for reading.

    Parameters
    ----------
    source : str, Path, pyarrow.Table or pandas.DataFrame
        A `.parquet`, `.arrow`, `.feather` or `.csv` file, a folder of Parquet files, or a table in memory.

    Raises
    ------
    SchemaError
        There is no such file, it is not a table of a known kind, or two columns share a name.
    """
    if not isinstance(source, str | Path | pa.Table):
        source = _from_pandas(source)
    if isinstance(source, pa.Table):
        return _typed_table(source.schema, _batches_of_table(source))
    path = Path(source)
    if not path.exists():
        raise SchemaError(f"{path} cannot be read as a table: there is no such file or folder")
    try:
        return _open_path(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise SchemaError(f"{path} cannot be read as a table: {_first_line(error)}") from error


def _open_path(path: Path) -> Table:
    if path.is_dir():
        files = sorted(path.glob("*.parquet"))
        if not files:
            raise SchemaError(f"{path} holds no .parquet files: name a file, or a folder of Parquet files")
        return _open_parquet(files)
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return _open_parquet([path])
    if suffix in (".arrow", ".feather", ".ipc"):
        return _open_arrow(path)
    if suffix in (".csv", ".tsv"):
        return _open_csv(path, "\t" if suffix == ".tsv" else ",")
    raise SchemaError(
        f"{path} is not a table dp-publish reads: give .parquet, .arrow, .feather, .csv, or a folder of Parquet"
    )


def _open_parquet(files: list[Path]) -> Table:
    schema = pq.read_schema(files[0])
    for path in files[1:]:
        if not pq.read_schema(path).equals(schema):
            raise SchemaError(f"{path} and {files[0]} have different columns: a folder must hold one table")

    def batches(names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        for path in files:
            with pq.ParquetFile(path, buffer_size=_PAGE_BUFFER, pre_buffer=False) as file:
                yield from file.iter_batches(rows, columns=names, use_threads=False)

    return _typed_table(schema, batches)


def _open_arrow(path: Path) -> Table:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        schema = reader.schema

    def batches(names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            for index in range(reader.num_record_batches):
                yield from _split(reader.get_batch(index).select(names), rows)

    return _typed_table(schema, batches)


def _open_csv(path: Path, delimiter: str) -> Table:
    parse = pacsv.ParseOptions(delimiter=delimiter)
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file, delimiter=delimiter), [])
    if not header:
        raise SchemaError(f"{path} is empty: a CSV file needs a first line with the columns' names")
    _require_distinct(header)

    def read(kinds: dict[str, str], rows: int) -> Iterator[pa.RecordBatch]:
        schema = _target_schema(kinds)
        convert = pacsv.ConvertOptions(
            column_types={field.name: field.type for field in schema},
            include_columns=list(kinds),
            strings_can_be_null=True,
        )
        options = pacsv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False)
        with _schema_errors(header), pacsv.open_csv(path, options, parse, convert) as reader:
            for batch in reader:
                yield from _split(batch, rows)

    return Table(dict.fromkeys(header, ColumnType.UNKNOWN), read)


def _batches_of_table(table: pa.Table) -> Callable[[list[str], int], Iterator[pa.RecordBatch]]:
    return lambda names, rows: iter(table.select(names).to_batches(max_chunksize=rows))


def _typed_table(schema: pa.Schema, batches: Callable[[list[str], int], Iterable[pa.RecordBatch]]) -> Table:
    _require_distinct(schema.names)

    def read(kinds: dict[str, str], rows: int) -> Iterator[pa.RecordBatch]:
        target = _target_schema(kinds)
        with _schema_errors():
            for batch in batches(list(kinds), rows):
                yield pa.RecordBatch.from_arrays(
                    [_convert(batch.column(field.name), field) for field in target], schema=target
                )

    return Table({field.name: _type_of(field.type) for field in schema}, read)


def _convert(values: pa.Array, field: pa.Field) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_float16(values.type):
        values = pc.cast(values, pa.float32())  # Arrow computes little with half floats
    if field.type != pa.float64() and pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        if field.type == pa.int64():
            _require_whole(values, field.name)
    if pa.types.is_uint64(values.type) and field.type == pa.int64():
        values = pc.min_element_wise(values, pa.scalar(2**63 - 1, pa.uint64()), skip_nulls=False)
    try:
        return pc.cast(values, field.type, safe=field.type == pa.int64())
    except pa.ArrowException as error:
        raise _not_of_its_kind(field.name) from error


def _require_whole(values: pa.Array, name: str) -> None:
    whole = pc.all(pc.equal(values, pc.floor(values)), skip_nulls=True, min_count=0)
    if not whole.as_py():
        raise SchemaError(f'column {name!r} holds fractions: publish it with kind = "continuous", or round it first')


def _target_schema(kinds: dict[str, str]) -> pa.Schema:
    types = {"continuous": pa.float64(), "integer": pa.int64(), "text": pa.string()}
    return pa.schema([pa.field(name, types[kind]) for name, kind in kinds.items()])


def _type_of(kind: pa.DataType) -> ColumnType:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return ColumnType.INTEGER
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ColumnType.CONTINUOUS
    return ColumnType.OTHER


def _split(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _from_pandas(frame: pd.DataFrame) -> pa.Table:
    names = [str(name) for name in frame.columns]
    _require_distinct(names)
    columns = {}
    for index, name in enumerate(names):
        try:
            columns[name] = pa.array(frame.iloc[:, index], from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SchemaError(f"column {name!r} of the data frame has no single type: convert it or drop it") from error
    return pa.table(columns)


def _require_distinct(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise SchemaError(f"the table has two columns named {twice[0]!r}: rename one of them")


@contextlib.contextmanager
def _schema_errors(header: Sequence[str] = ()) -> Iterator[None]:
    """Turn Arrow's conversion errors into ours, which never quote a value of the private table."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        found = re.match(r"In CSV column #(\d+):", str(error))
        if found and int(found[1]) < len(header):
            raise _not_of_its_kind(header[int(found[1])]) from error
        raise SchemaError(
            "the table cannot be read to its end: it is damaged, or has lines with more or fewer cells than columns"
        ) from error


def _not_of_its_kind(name: str) -> SchemaError:
    return SchemaError(
        f"column {name!r} has a value that is not of its kind: correct the data, change kind in the policy, or set "
        "drop = true for it"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
