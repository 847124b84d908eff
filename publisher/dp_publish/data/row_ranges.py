"""Rows of a table by their numbers, so that several readers share one table and decode hardly anything twice.

A Parquet file can be read from the beginning of any of its row groups, an Arrow file from that of any record batch.
Their sizes, which files state, tell where a row is without reading others. Only those before it in its own row group
are decoded in vain.

What tells a table from a changed one, without reading all of it: the sizes, times of change, and both ends of its
files.

Parquet files here and elsewhere, one or a folder of them, as one table: its schema, sizes and rows.

Columns are told by their names. Where files store one in different types, it has a type that holds the values of both.
In folders as Hive names them, `year=2026/month=01/part-0.parquet`, the names give further columns of text. A type that
followed from the values would tell that one of them is no number.

Here, a column chunk is read page by page, as row groups may be far larger than a batch. Elsewhere, where each read is a
request, all chunks of a row group are read at once, in a few large ranges.
"""

import contextlib
import hashlib
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dp_bundle.base.errors import SchemaError
from dp_bundle.base.quoting import listed
from dp_bundle.base.wording import IN_POLICY, LEAVE_OUT
from dp_bundle.files.opening import RemoteFile, open_store
from dp_bundle.files.places import Place

_END = 2**16  # bytes of a file that its fingerprint takes at each end


_ARROW_FILE = b"ARROW1"  # how one begins that is no stream
ARROW = (".arrow", ".feather", ".ipc")
BLOCK, MOST_LOOKED = 1024, 2**18  # rows, of which blocks that are evenly spread are looked at in a large table
_MEMORY_ROWS = 2**13  # of what is called a piece of a table in memory

RawBatches: TypeAlias = Iterator[pa.RecordBatch]
ReadBatches: TypeAlias = Generator[pa.RecordBatch, None, None]  # which are closed at their end
ReadPieces: TypeAlias = Callable[[range, list[str], int], ReadBatches]


@dataclass(frozen=True)
class RowRanges:
    """Any range of a table's rows.

    Attributes
    ----------
    sizes : sequence of int
        The numbers of rows of the table's pieces: row groups, or record batches.
    read_pieces : callable
        `read_pieces(pieces, names, rows)` yields consecutive pieces, given by their numbers, as batches of at most
        `rows` rows with the columns `names`.
    decoded : bool
        Whether nothing has to be decoded, so that reading may begin anywhere.
    """

    sizes: Sequence[int] = field(repr=False)
    read_pieces: ReadPieces
    decoded: bool = False

    @property
    def n_rows(self) -> int:
        """The number of rows of the table."""
        return sum(self.sizes)

    def n_skipped(self, row: int) -> int:
        """Return the number of rows that are decoded in vain to read from this one on."""
        starts = self._starts
        return 0 if self.decoded else row - starts[bisect_right(starts, row) - 1]

    @property
    def _starts(self) -> list[int]:
        return [*accumulate(self.sizes, initial=0)]

    def read(self, names: list[str], rows: int, start: int, stop: int) -> ReadBatches:
        """Yield the rows from `start` to before `stop` in batches of at most `rows` rows; no piece is read twice."""
        starts = self._starts
        first, last = bisect_right(starts, start) - 1, bisect_left(starts, stop)
        position = starts[first]
        with contextlib.closing(self.read_pieces(range(first, last), names, rows)) as batches:
            for batch in batches:
                skipped = max(0, start - position)
                wanted = batch.slice(skipped, max(0, min(batch.num_rows, stop - position) - skipped))
                position += batch.num_rows
                if wanted.num_rows:
                    yield wanted
                if position >= stop:
                    return


def open_arrow(path: Path) -> tuple[pa.Schema, RowRanges]:
    """Return the columns of an Arrow file, and its rows by its record batches; a stream is read as a whole."""
    with pa.memory_map(str(path)) as file:
        if file.read(len(_ARROW_FILE)) != _ARROW_FILE:
            file.seek(0)
            table = pa.ipc.open_stream(file).read_all()
            return table.schema, memory_ranges(table)
        with pa.ipc.open_file(file) as reader:
            schema = reader.schema
            sizes = [reader.get_batch(index).num_rows for index in range(reader.num_record_batches)]

    def read(wanted: range, names: list[str], rows: int) -> ReadBatches:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            for index in wanted:
                batch = reader.get_batch(index).select(names)
                yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))

    return schema, RowRanges(sizes, read)


def memory_ranges(table: pa.Table) -> RowRanges:
    """Return the rows of a table in memory."""

    def read(wanted: range, names: list[str], rows: int) -> ReadBatches:
        chosen = table.select(names).slice(wanted.start * _MEMORY_ROWS, len(wanted) * _MEMORY_ROWS)
        yield from chosen.to_batches(max_chunksize=rows)

    return RowRanges(sizes_of_pieces(table.num_rows, _MEMORY_ROWS), read, decoded=True)


def sizes_of_pieces(n_rows: int, most: int) -> list[int]:
    """Return the numbers of rows of pieces with so many at most."""
    return [min(most, n_rows - start) for start in range(0, n_rows, most)]


def spread(n_rows: int) -> int:
    """Return of how many blocks of a table one is looked at, so that these are not too many rows: a power of two."""
    return int(1 << ((max(n_rows, 1) - 1) // MOST_LOOKED).bit_length())


def describe_files(data: Place) -> list[list[Any]]:
    """Return, for each file of a table, its place, size in bytes, time of change in ns, and digest of both ends.

    Elsewhere, files have no time of change that can be relied on, and 0 stands for it.

    Raises
    ------
    SchemaError
        A file cannot be read.
    StoreError
        Nor can the place that it is at.
    """
    try:
        return [_describe(path) for path in parquet_files(data)]
    except OSError as error:
        raise SchemaError(f"{data} cannot be read as a table: {error.strerror}") from error


def _describe(path: Place) -> list[Any]:
    with path.open("rb") if isinstance(path, Path) else RemoteFile(path) as file:
        size = file.seek(0, os.SEEK_END)
        changed = path.stat().st_mtime_ns if isinstance(path, Path) else 0
        digest = hashlib.sha256()
        for start in (0, max(0, size - _END)):
            file.seek(start)
            digest.update(file.read(_END) or b"")
    return [str(path), size, changed, digest.hexdigest()]


_PAGE_BUFFER = 2**18
_CODED = 2**16  # rows of a row group, on average, from which on words are read by their places in its dictionary
_MOST_OPEN = 8  # files that stay so
_KEY = re.compile(r"([^=./][^=/]*)=(.*)", re.DOTALL)
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


Opened: TypeAlias = Callable[[Path], tuple[pq.ParquetFile, int]]  # the first few are kept


def _open(path: Path) -> tuple[pq.ParquetFile, int]:
    """Open a file here, and return when it was changed; of words in large row groups, each is decoded once.

    A batch ends with its row group then, so that small ones are read as they are.
    """
    file = pq.ParquetFile(path)
    about = file.metadata
    coded = [each.path for each in file.schema if about.num_rows >= _CODED * about.num_row_groups]
    return (
        pq.ParquetFile(path, metadata=about, read_dictionary=coded, buffer_size=_PAGE_BUFFER, pre_buffer=False),
        path.stat().st_mtime_ns,
    )


@contextlib.contextmanager
def _reading(path: Place, opened: Opened) -> Iterator[pq.ParquetFile]:
    """Give a file for reading, which threads may share.

    Raises
    ------
    SchemaError
        It is another one than was opened.
    """
    if isinstance(path, Path):
        file, changed = opened(path)
        if changed != path.stat().st_mtime_ns:
            raise table_changed()
        yield file
    else:
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
    sizes : sequence of sequence of int
        The numbers of rows of every file's row groups.
    opened : callable
        Opens those that are here.
    """

    paths: Sequence[Place]
    schema: pa.Schema
    keys: dict[str, tuple[str | None, ...]]
    sizes: Sequence[Sequence[int]]
    opened: Opened

    @property
    def ranges(self) -> RowRanges:
        """The rows of the files, one after the other, by their row groups."""
        pieces = [(place, group) for place, groups in enumerate(self.sizes) for group in range(len(groups))]

        def read(wanted: range, names: list[str], rows: int) -> ReadBatches:
            for place, groups in groupby(pieces[wanted.start : wanted.stop], key=lambda piece: piece[0]):
                yield from self._read(place, [group for _, group in groups], names, rows)

        return RowRanges([size for groups in self.sizes for size in groups], read)

    def _read(self, place: int, groups: Sequence[int], names: Sequence[str], rows: int) -> RawBatches:
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
        path, own = self.paths[place], [name for name in names if name not in self.keys]
        with _reading(path, self.opened) as file:
            if max(groups) >= file.num_row_groups:
                raise table_changed()
            reads = [groups] if isinstance(path, Path) else [[group] for group in groups]  # one in memory at a time
            try:
                for some in reads:
                    for batch in file.iter_batches(rows, row_groups=some, columns=own, use_threads=False):
                        yield self._conform(batch, names, place)
            except OSError as error:
                if "crypt" not in str(error):
                    raise
                raise _encrypted(file, own, path) from None

    def _conform(self, batch: pa.RecordBatch, names: Sequence[str], place: int) -> pa.RecordBatch:
        """Return a file's rows with some columns of the schema, in their types."""
        columns = {}
        for name in names:
            wanted, keys = self.schema.field(name).type, self.keys.get(name)
            cells = batch.column(name) if keys is None else pa.repeat(keys[place], batch.num_rows)
            try:
                columns[name] = pc.cast(cells, wanted)
            except pa.ArrowException:  # which quotes the value
                raise SchemaError(
                    f"column {name!r} is {cells.type} in {self.paths[place]}, and has a value there that {wanted}, "
                    "which other files need, does not hold: write the column with one type in all files"
                ) from None
        return pa.record_batch(columns)


def _encrypted(file: pq.ParquetFile, names: Sequence[str], path: Place) -> SchemaError:
    """Return what is said of columns that cannot be read without a key."""
    locked = []
    for name in names:
        try:
            next(file.iter_batches(1, columns=[name]), None)
        except OSError:
            locked.append(name)
    said = "is encrypted" if len(locked) == 1 else "are encrypted"
    return SchemaError(
        f"of {path}, {listed(locked)} {said}: {LEAVE_OUT}{IN_POLICY}, or write the table without encryption"
    )


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
    opened, sizes, whole = lru_cache(_MOST_OPEN)(_open), list[list[int]](), pa.schema([])
    for path in paths:
        with _reading(path, opened) as file:
            schema, groups = file.schema_arrow, file.metadata
        sizes.append([groups.row_group(place).num_rows for place in range(groups.num_row_groups)])
        require_distinct(schema.names)
        whole = schema if path == paths[0] or schema.equals(whole) else _of_both(whole, schema, paths[0], path)

    keys = {name: values for name, values in _keys(paths, place).items() if name not in whole.names}
    of_folders = [pa.field(name, pa.string()) for name in keys]
    return ParquetFiles(paths, pa.schema([*whole, *of_folders]), keys, sizes, opened)


def _of_both(whole: pa.Schema, schema: pa.Schema, first: Place, path: Place) -> pa.Schema:
    """Return a schema of types that hold the values of all files before one, and of that one."""
    if lacking := {*whole.names} ^ {*schema.names}:
        name = min(lacking)
        raise SchemaError(
            f"{path} and {first} have different columns: a folder must hold one table, and {name!r} is in "
            f"{first if name in whole.names else path} alone; write it, with gaps, or put that file elsewhere"
        )
    plain = [pa.schema([(each.name, value_type(each.type)) for each in some]) for some in (whole, schema)]
    try:
        return pa.unify_schemas(plain, promote_options="permissive")
    except pa.ArrowException as error:  # which names the column and its types
        raise SchemaError(
            f"{path} and files before it have a column of different types ({error}): a folder must hold one table, so "
            "write the column with one type in all files"
        ) from None


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary, or of runs; any other as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind) else kind


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


def require_distinct(names: list[str]) -> None:
    """Refuse a table that has two columns of one name."""
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise SchemaError(f"the table has two columns named {twice[0]!r}: rename one of them")


def table_changed() -> SchemaError:
    """Return the error for a table that has fewer rows than were counted."""
    return SchemaError("the table was changed while it was read: publish a file that nobody writes to")
