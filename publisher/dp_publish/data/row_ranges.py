"""Rows of a table by their numbers, so that several readers share one table and decode hardly anything twice.

A Parquet file can be read from the beginning of any of its row groups, an Arrow file from that of any record batch.
Their sizes, which files state, tell where a row is without reading others; only those before it in its own row group
are decoded in vain.

What tells a table from a changed one, without reading all of it: the sizes, times of change, and both ends of its
files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from dp_bundle.base.errors import SchemaError
from dp_bundle.files.opening import RemoteFile
from dp_bundle.files.places import Place
from dp_publish.data.parquet_files import ParquetFiles, open_parquet_file, parquet_files

_END = 2**16  # bytes of a file that its fingerprint takes at each end


ARROW = (".arrow", ".feather", ".ipc")
_MEMORY_ROWS = 2**13  # of what is called a piece of a table in memory

ReadPieces: TypeAlias = Callable[[range, list[str], int], Generator[pa.RecordBatch, None, None]]


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
        if self.decoded:
            return 0
        starts = list(accumulate(self.sizes, initial=0))
        return row - starts[bisect_right(starts, row) - 1]

    def read(self, names: list[str], rows: int, start: int, stop: int) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows from `start` to before `stop` in batches of at most `rows` rows; no piece is read twice."""
        starts = list(accumulate(self.sizes, initial=0))
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


def parquet_ranges(files: ParquetFiles) -> RowRanges:
    """Return the rows of Parquet files, one after the other, by their row groups."""
    pieces: list[tuple[int, int]] = []
    sizes: list[int] = []
    for place, path in enumerate(files.paths):
        with open_parquet_file(path) as file:
            metadata = file.metadata
        for group in range(metadata.num_row_groups):
            pieces.append((place, group))
            sizes.append(metadata.row_group(group).num_rows)

    def read(wanted: range, names: list[str], rows: int) -> Generator[pa.RecordBatch, None, None]:
        for place, groups in groupby((pieces[index] for index in wanted), key=lambda piece: piece[0]):
            yield from files.read(place, [group for _, group in groups], names, rows)

    return RowRanges(sizes, read)


def arrow_ranges(path: Path) -> RowRanges:
    """Return the rows of an Arrow file by its record batches."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        sizes = [reader.get_batch(index).num_rows for index in range(reader.num_record_batches)]

    def read(wanted: range, names: list[str], rows: int) -> Generator[pa.RecordBatch, None, None]:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            for index in wanted:
                batch = reader.get_batch(index).select(names)
                yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))

    return RowRanges(sizes, read)


def memory_ranges(table: pa.Table) -> RowRanges:
    """Return the rows of a table in memory."""
    whole, rest = divmod(table.num_rows, _MEMORY_ROWS)
    sizes = [*[_MEMORY_ROWS] * whole, *([rest] if rest else [])]

    def read(wanted: range, names: list[str], rows: int) -> Generator[pa.RecordBatch, None, None]:
        chosen = table.select(names).slice(wanted.start * _MEMORY_ROWS, len(wanted) * _MEMORY_ROWS)
        yield from chosen.to_batches(max_chunksize=rows)

    return RowRanges(sizes, read, decoded=True)


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
