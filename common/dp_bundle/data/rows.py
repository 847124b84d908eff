"""The data members: noisy values as Parquet that any tool reads.

Values are written as values: float64 multiples of each column's granularity, or int64. A column whose noise spreads
over few grid steps is dictionary-encoded, which comes close to its entropy. One that spreads over many is split into
byte streams and compressed, which is faster, and smaller than a dictionary of nearly every value. Where there is hardly
any noise, and few values, numbers are stored plainly: a reader refuses more than 64 cells per byte. The number of rows
of a row group does not depend on the source's batches. These follow the layout of the raw file and, in a CSV, even the
lengths of raw values. Nor does that of a part, which follows from the number of columns and its place alone. Writing
needs memory for one row group.

A reader takes the row groups of verified members in order, in any thread, with memory for one batch in each.

Conversions between Arrow and numpy, without copying, and without pandas, which pyarrow's own ones import.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dp_bundle.base.arrays import Integers
from dp_bundle.base.errors import BundleFormatError, DataError
from dp_bundle.base.quoting import quote_name
from dp_bundle.data.parquet import MOST_CELLS_PER_BYTE, CheckedParquet, FileShape, check_written
from dp_bundle.files.new_files import HashedFile
from dp_bundle.manifest.columns import Column

_CELLS_PER_BATCH = 2**20
_LEAST_ROWS, _MOST_ROWS = 2**13, 2**18
_MOST_CELLS, _FEWEST_ROWS = 2**22, 2**9  # of a row group of very many columns
_PART_CELLS, _MOST_PART_CELLS = 2**23, 2**27  # of the first parts, and of any
_PARTS_OF_A_SIZE = 1024  # after which parts are twice as large, so that there are thousands of them at most
_ROWS_PER_ENTRY = 16  # of a dictionary; with fewer, it takes more than it saves
_TAIL_SIGMAS = 6.0
_WEAK, _FEW = 0.5, 16.0  # steps of the grid


def part_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of the data members."""
    types = {"continuous": pa.float64(), "integer": pa.int64()}
    return pa.schema([pa.field(column.name, types[column.kind], nullable=False) for column in columns])


def batch_rows(n_columns: int) -> int:
    """Return the number of rows of a batch: about a million cells, and enough rows to outweigh its overhead."""
    return min(_MOST_ROWS, max(_LEAST_ROWS, _CELLS_PER_BATCH // n_columns))


def group_rows(n_columns: int) -> int:
    """Return the number of rows of a row group: a batch, or fewer where a reader would need too much memory."""
    return min(batch_rows(n_columns), max(_FEWEST_ROWS, _MOST_CELLS // n_columns))


def part_rows(n_columns: int, index: int = 0) -> int:
    """Return the number of rows of a part: whole row groups of about 8 million cells; more, and below a GiB, far on.

    Parameters
    ----------
    n_columns : int
        How many columns.
    index : int
        The place of the part among all.
    """
    cells = min(_MOST_PART_CELLS, _PART_CELLS << min(index // _PARTS_OF_A_SIZE, 8))
    rows = group_rows(n_columns)
    return max(1, cells // (n_columns * rows)) * rows


class PartWriter:
    """Writer of record batches into Parquet parts, each in a file of its own; a context manager.

    Leaving the block finishes the last part; after an error it is abandoned.

    Parameters
    ----------
    columns : sequence of Column
        What is written; decides the schema and each column's encoding.
    new_file : callable
        Returns a new, empty binary file for the next part.
    first_part : int
        The place of the first part among all of the bundle, on which its number of rows depends.

    Attributes
    ----------
    parts : list of binary files
        The files of all parts so far.
    digests : list of str
        The SHA-256 of every finished part, in hexadecimal digits.
    part_sizes : list of int
        The number of rows of every finished part.
    n_rows : int
        The number of rows so far.
    """

    def __init__(self, columns: tuple[Column, ...], new_file: Callable[[], BinaryIO], first_part: int = 0) -> None:
        self.parts: list[BinaryIO] = []
        self.digests: list[str] = []
        self.part_sizes: list[int] = []
        self.n_rows = 0
        self._first_part = first_part
        self._waiting: list[pa.RecordBatch] = []
        self._n_waiting = self._rows_in_part = 0
        self._group_rows = group_rows(len(columns))
        self._schema = part_schema(columns)
        self._new_file = new_file
        self._settings = _parquet_settings(columns)
        self._writer: pq.ParquetWriter | None = None
        self._hashed: HashedFile

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one batch."""
        self._waiting.append(batch)
        self._n_waiting += batch.num_rows
        self.n_rows += batch.num_rows
        while self._n_waiting >= self._group_rows:
            self._write_group(self._group_rows)

    def close(self) -> None:
        """Write what is left and finish the last part."""
        if self._n_waiting:
            self._write_group(self._n_waiting)
        self._close_part()

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            if self._writer is not None:
                self._writer.is_open = False  # or its destructor would close it again, and warn
                self._writer = None

    def _write_group(self, rows: int) -> None:
        waiting = pa.Table.from_batches(self._waiting, self._schema)
        if self._writer is None:
            self.parts.append(self._new_file())
            self._hashed = HashedFile(self.parts[-1])
            self._writer = pq.ParquetWriter(self._hashed, self._schema, **self._settings)
        self._writer.write_table(waiting.slice(0, rows).combine_chunks(), row_group_size=rows)
        self._waiting = waiting.slice(rows).to_batches()
        self._n_waiting -= rows
        self._rows_in_part += rows
        if self._rows_in_part >= part_rows(len(self._schema), self._first_part + len(self.parts) - 1):
            self._close_part()

    def _close_part(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

            # A reader would take a part of nearly equal values with little noise for a decompression bomb.
            size = self.parts[-1].seek(0, os.SEEK_END)
            if self._rows_in_part * len(self._schema) > MOST_CELLS_PER_BYTE * size:
                raise DataError(
                    "the noise is so weak that the published values are nearly all the same, which no reader accepts: "
                    "choose a smaller mu, or drop columns that are nearly constant"
                )
            check_written(self.parts[-1], FileShape(self._rows_in_part, self._group_rows, self._schema))
            self.digests.append(self._hashed.sha256())
            self.part_sizes.append(self._rows_in_part)
            self._rows_in_part = 0


def _parquet_settings(columns: tuple[Column, ...]) -> dict[str, object]:
    most = group_rows(len(columns)) / _ROWS_PER_ENTRY
    plain = {column.name for column in columns if _is_nearly_exact(column)}
    spread = {column.name: _spread_in_steps(column) for column in columns if column.name not in plain}
    dictionary = [name for name, steps in spread.items() if steps <= most]
    others = [name for name, steps in spread.items() if steps > most]
    codecs = dict.fromkeys(dictionary, "SNAPPY") | dict.fromkeys(others, "ZSTD") | dict.fromkeys(plain, "NONE")
    encodings = dict.fromkeys(others, "BYTE_STREAM_SPLIT") | dict.fromkeys(plain, "PLAIN")
    return {
        "use_dictionary": dictionary or False,
        "column_encoding": encodings or None,
        "compression": codecs,
        "dictionary_pagesize_limit": 2**20,
        "write_statistics": False,
        "store_schema": False,
        "version": "2.6",
    }


def _is_nearly_exact(column: Column) -> bool:
    """Return True if noise is so weak, and bounds so narrow, that only plain numbers take enough bits."""
    if column.response is not None:
        return False
    return column.cell_noise.sigma < _WEAK * column.cell_noise.granularity and _spread_in_steps(column) < _FEW


def _spread_in_steps(column: Column) -> float:
    if column.response is not None:
        return 1.0
    if column.bounds is None:
        return math.inf
    spread = column.bounds[1] - column.bounds[0] + 2 * _TAIL_SIGMAS * column.cell_noise.sigma
    return spread / column.cell_noise.granularity


_TYPES = {pa.float64(): np.float64, pa.int64(): np.int64}


def to_numpy(values: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a float64 or int64 array as a read-only view; nulls are whatever lies under them."""
    data = values.buffers()[1]
    return np.frombuffer(data, _TYPES[values.type], len(values), 8 * values.offset) if len(values) else np.empty(0)


def to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Return a contiguous numpy array as an Arrow array without nulls that shares its memory."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def text_to_arrow(texts: Sequence[str]) -> pa.StringArray:
    """Return texts as an Arrow array without nulls."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *(len(each) for each in encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def label_places(found: pa.DictionaryArray, known: pa.StringArray) -> Integers | None:
    """Return the place of each text among the known ones, or None if it has none there or an index leads nowhere.

    Each text is compared once, however often it occurs.
    """
    if found.null_count or found.indices.null_count or len(found.dictionary) > len(known):
        return None
    places = pc.index_in(found.dictionary, value_set=known)
    if places.null_count:
        return None
    indices = to_numpy(found.indices.cast(pa.int64()))
    if len(indices) and (indices.min() < 0 or indices.max() >= len(places)):  # pyarrow does not check
        return None
    return to_numpy(places.cast(pa.int64()))[indices] if len(indices) else np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class RowGroup:
    """A row group of a part, of which footer and page headers were checked; what a reader takes at a time.

    Attributes
    ----------
    part : str
        The member.
    start : int
        The number of its first row among all of the bundle.
    n_rows : int
        How many rows it has.
    read : callable
        Returns the rows; several threads may read several groups at once.
    """

    part: str
    start: int
    n_rows: int
    read: Callable[[], pa.RecordBatch]


def find_groups(
    parts: Iterable[tuple[str, Callable[[], BinaryIO]]],
    columns: tuple[Column, ...],
    n_rows: int,
) -> Iterator[RowGroup]:
    """Yield the row groups of all parts in order, each to be read by any thread.

    Parameters
    ----------
    parts : iterable of (name, callable)
        Verified data members, and what opens a new view of each.
    columns : tuple of Column
        What the manifest says of them.
    n_rows : int
        How many rows it promises in all.

    Raises
    ------
    BundleFormatError
        Here, or when a group is read: a part is not Parquet as our writer writes it. Or its schema or row count is not
        the promised one, or a value is no number.
    """
    seen = 0
    for name, new_view in parts:
        for group in part_groups(name, new_view, columns, n_rows, seen):
            yield group
            seen += group.n_rows
    require_all_rows(seen, n_rows)


def part_groups(
    name: str,
    new_view: Callable[[], BinaryIO],
    columns: tuple[Column, ...],
    n_rows: int,
    start: int,
) -> Iterator[RowGroup]:
    """Yield the row groups of one part, like `find_groups`, for a caller who counts the rows of all parts.

    Parameters
    ----------
    name, new_view
        The part, and what opens a new view of it.
    columns, n_rows
        As of `find_groups`.
    start : int
        The number of its first row.

    Raises
    ------
    BundleFormatError
        As `find_groups` does.
    """
    shape = FileShape(n_rows - start, group_rows(len(columns)), part_schema(columns))
    with contextlib.closing(new_view()) as file:
        parquet = CheckedParquet(name, file, shape)
    for index, size in enumerate(parquet.group_rows):
        yield RowGroup(name, start, size, partial(_read_group, name, new_view, parquet, index, columns))
        start += size


def require_all_rows(seen: int, n_rows: int) -> None:
    """Check that all parts together have the rows that the manifest promises.

    Raises
    ------
    BundleFormatError
        They have more or fewer.
    """
    if seen != n_rows:
        raise BundleFormatError(f"the bundle holds {seen} rows where its manifest promises {n_rows}")


def _read_group(
    name: str, new_view: Callable[[], BinaryIO], parquet: CheckedParquet, index: int, columns: tuple[Column, ...]
) -> pa.RecordBatch:
    with contextlib.closing(new_view()) as file:
        (batch,) = parquet.read(file, index, parquet.group_rows[index])
    _check_cells(name, batch, columns)
    return batch


def _check_cells(name: str, batch: pa.RecordBatch, columns: tuple[Column, ...]) -> None:
    """Check that no cell is empty, every value finite, and every drawn level one; readers compare with the grid."""
    if any(column.null_count for column in batch.columns):
        raise BundleFormatError(f"{name} has empty cells, which no release has")
    for column, found in zip(columns, batch.columns, strict=True):
        if column.kind == "continuous" and not np.isfinite(to_numpy(found)).all():
            raise BundleFormatError(f"{name} has a value in {quote_name(column.name)} that is not a number")
    levels: dict[str, list[Integers]] = {}
    for column, found in zip(columns, batch.columns, strict=True):
        if column.response is not None:
            levels.setdefault(column.block or column.name, []).append(to_numpy(found))
    for cell, drawn in levels.items():
        if not _are_levels(drawn):
            raise BundleFormatError(
                f"{name} has a row in {quote_name(cell)} that is of no level, or of several, which randomised response "
                "never gives"
            )


def _are_levels(drawn: list[Integers]) -> bool:
    """Return True if indicators are 0 or 1, and in every row one of several is 1."""
    if not all(int(each.min()) >= 0 and int(each.max()) <= 1 for each in drawn if len(each)):
        return False
    return len(drawn) == 1 or bool((np.sum(drawn, axis=0) == 1).all())
