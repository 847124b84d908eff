"""Parquet files here and elsewhere, one or a folder of them, as one table: its schema, sizes and rows.

Columns are told by their names. Where files store one in different types, it has a type that holds the values of both.
In folders as Hive names them, `year=2026/month=01/part-0.parquet`, the names give further columns of text: a type that
followed from the values would tell that one of them is no number.

Here, a column chunk is read page by page, as row groups may be far larger than a batch. Elsewhere, where each read is a
request, all chunks of a row group are read at once, in a few large ranges.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dp_bundle.base.errors import SchemaError
from dp_bundle.files.opening import RemoteFile, open_store
from dp_bundle.files.places import Place

_PAGE_BUFFER = 2**18
_KEY = re.compile(r"([^=./][^=/]*)=(.*)")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@contextlib.contextmanager
def open_parquet_file(path: Place) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for reading."""
    if isinstance(path, Path):
        with pq.ParquetFile(path, buffer_size=_PAGE_BUFFER, pre_buffer=False) as file:
            yield file
        return
    with RemoteFile(path) as raw, pq.ParquetFile(pa.PythonFile(raw, mode="r"), pre_buffer=True) as file:
        yield file


def is_folder(path: Place) -> bool:
    """Return True for a folder; elsewhere, that is what has no suffix of a table."""
    return path.is_dir() if isinstance(path, Path) else not path.suffix


def parquet_files(place: Place) -> list[Place]:
    """Return a Parquet file, or those of a folder and of folders in it that are named KEY=VALUE, in order of names."""
    if not is_folder(place):
        return [place]
    if isinstance(place, Path):
        inside = [each for each in sorted(place.iterdir()) if _KEY.fullmatch(each.name) and each.is_dir()]
        return [*sorted(place.glob("*.parquet")), *(path for each in inside for path in parquet_files(each))]
    names = [name for name in open_store(place.uri).names() if name.endswith(".parquet")]
    return [place.joined(name) for name in names if all(map(_KEY.fullmatch, name.split("/")[:-1]))]


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files that are one table.

    Attributes
    ----------
    paths : sequence of Path or RemotePath
        The files.
    schema : pyarrow.Schema
        Of all of them.
    keys : dict of str to tuple
        The columns that are no file's, but names of folders give, each with its value in every file; None where there
        is none.
    """

    paths: Sequence[Place]
    schema: pa.Schema
    keys: dict[str, tuple[str | None, ...]]

    def read(self, place: int, groups: Sequence[int], names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some row groups of a file, in batches of at most `rows` rows.

        Parameters
        ----------
        place : int
            The file's, among all.
        groups : sequence of int
            At least one.
        names : sequence of str
            The columns.
        rows : int

        Raises
        ------
        SchemaError
            It has fewer row groups by now, or a value that the column's type does not hold.
        """
        path, schema = self.paths[place], pa.schema([self.schema.field(name) for name in names])
        own = [name for name in names if name not in self.keys]
        with open_parquet_file(path) as file:
            if max(groups) >= file.num_row_groups:
                raise table_changed()
            reads = [groups] if isinstance(path, Path) else [[group] for group in groups]  # one in memory at a time
            for some in reads:
                for batch in file.iter_batches(rows, row_groups=some, columns=own, use_threads=False):
                    yield self._conform(batch, schema, place)

    def _conform(self, batch: pa.RecordBatch, schema: pa.Schema, place: int) -> pa.RecordBatch:
        """Return a file's rows with the columns of a schema, in their types."""
        columns = []
        for field in schema:
            if field.name in self.keys:
                columns.append(pa.repeat(pa.scalar(self.keys[field.name][place], pa.string()), batch.num_rows))
                continue
            column = batch.column(field.name)
            try:
                columns.append(column if column.type == field.type else _widened(column, field.type))
            except pa.ArrowException:  # which quotes the value
                raise SchemaError(
                    f"column {field.name!r} is {column.type} in {self.paths[place]}, and has a value there that "
                    f"{field.type}, which other files need, does not hold: write the column with one type in all files"
                ) from None
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def open_parquet(place: Place) -> ParquetFiles:
    """Return a Parquet file, or those of a folder, as one table; their schemas are looked at, and no value.

    Raises
    ------
    SchemaError
        There is no file, or they have different columns, types that nothing holds both of, or different keys.
    """
    paths = parquet_files(place)
    if not paths:
        raise SchemaError(
            f"{place} holds no .parquet files, nor folders named KEY=VALUE that do: name a file, or a folder of Parquet"
        )
    fields: dict[str, pa.Field] = {}
    origins: dict[str, Place] = {}  # the file that a column's type is from
    seen: list[pa.Schema] = []
    for path in paths:
        with open_parquet_file(path) as file:
            schema = file.schema_arrow
        if any(schema.equals(each) for each in seen):
            continue
        if len(set(schema.names)) < len(schema.names):  # which is refused as of any table
            return ParquetFiles(paths, schema, {})
        if seen and (lacking := {*fields} ^ {*schema.names}):
            name = min(lacking)
            raise SchemaError(
                f"{path} and {paths[0]} have different columns: a folder must hold one table, and {name!r} is in "
                f"{paths[0] if name in fields else path} alone; write it, with gaps, or put that file elsewhere"
            )
        for field in schema:
            held = _wider(fields.get(field.name, field), field)
            if held is None:
                raise SchemaError(
                    f"column {field.name!r} is {fields[field.name].type} in {origins[field.name]} and {field.type} in "
                    f"{path}: a folder must hold one table, so write the column with one type in all files"
                )
            if held is not fields.get(field.name):
                fields[field.name], origins[field.name] = held, path
        seen.append(schema)

    keys = _keys(paths, place)
    keys = {name: values for name, values in keys.items() if name not in fields}
    of_folders = [pa.field(name, pa.string()) for name in keys]
    return ParquetFiles(paths, pa.schema([*fields.values(), *of_folders]), keys)


def _wider(one: pa.Field, other: pa.Field) -> pa.Field | None:
    """Return a column's field of a type that holds the values of two; None if there is none."""
    if one.type == other.type:
        return one
    fields = [pa.schema([pa.field(one.name, _plain(each.type))]) for each in (one, other)]
    try:
        return pa.unify_schemas(fields, promote_options="permissive").field(0)
    except pa.ArrowException:
        return None


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of a dictionary's values, and one type for all texts."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def _widened(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in a type that holds them; Arrow refuses to round."""
    return pc.cast(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column, kind)


def _keys(paths: Sequence[Place], place: Place) -> dict[str, tuple[str | None, ...]]:
    """Return the keys that the names of folders give, each with its values, one for every file."""
    found = []
    for path in paths:
        inside = map(unquote, str(path).removeprefix(str(place)).replace("\\", "/").split("/")[:-1])
        found.append({key[1]: None if key[2] == _NO_VALUE else key[2] for key in map(_KEY.fullmatch, inside) if key})
        if [*found[-1]] != [*found[0]]:
            raise SchemaError(
                f"{path} and {paths[0]} are in folders of different keys: a folder must hold one table, whose files "
                "are all in folders named KEY=VALUE with the same keys, in the same order"
            )
    return {name: tuple(each[name] for each in found) for name in found[0]}


def table_changed() -> SchemaError:
    """Return the error for a table that has fewer rows than were counted."""
    return SchemaError("the table was changed while it was read: publish a file that nobody writes to")
