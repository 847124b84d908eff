"""Parquet files here and elsewhere: their schemas, sizes and rows.

Here, a column chunk is read page by page, as row groups may be far larger than a batch. Elsewhere, where each read is a
request, all chunks of a row group are read at once, in a few large ranges.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dp_bundle.base.errors import SchemaError
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import Place
from dp_bundle.files.remote_file import RemoteFile

_PAGE_BUFFER = 2**18


@contextlib.contextmanager
def open_parquet_file(path: Place) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for reading."""
    if isinstance(path, Path):
        with pq.ParquetFile(path, buffer_size=_PAGE_BUFFER, pre_buffer=False) as file:
            yield file
        return
    with RemoteFile(path) as raw, pq.ParquetFile(pa.PythonFile(raw, mode="r"), pre_buffer=True) as file:
        yield file


def read_groups(
    path: Place, names: list[str], rows: int, groups: Sequence[int] | None = None
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a file, or of some row groups of it, in batches of at most `rows` rows.

    Raises
    ------
    SchemaError
        It has fewer row groups by now.
    """
    with open_parquet_file(path) as file:
        wanted = list(range(file.num_row_groups) if groups is None else groups)
        if wanted and max(wanted) >= file.num_row_groups:
            raise table_changed()
        for some in [wanted] if isinstance(path, Path) else [[group] for group in wanted]:  # one in memory at a time
            yield from file.iter_batches(rows, row_groups=some, columns=names, use_threads=False)


def parquet_files(folder: Place) -> Sequence[Place]:
    """Return the Parquet files in a folder, in order of their names."""
    if isinstance(folder, Path):
        return sorted(folder.glob("*.parquet"))
    names = [name for name in open_store(folder.uri).names() if name.endswith(".parquet") and "/" not in name]
    return [folder.joined(name) for name in names]


def is_folder(path: Place) -> bool:
    """Return True for a folder; elsewhere, that is what has no suffix of a table."""
    return path.is_dir() if isinstance(path, Path) else not path.suffix


def table_changed() -> SchemaError:
    """Return the error for a table that has fewer rows than were counted."""
    return SchemaError("the table was changed while it was read: publish a file that nobody writes to")
