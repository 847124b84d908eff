"""A table's number of rows, without a look at its values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from dp_bundle.base.errors import DataError, SchemaError
from dp_bundle.files.places import Place
from dp_publish.data.dialect import Dialect
from dp_publish.data.parquet_files import is_folder, open_parquet_file, parquet_files
from dp_publish.data.text_file import TextFile, is_text_file


def count_rows(path: Place, dialect: Dialect | None = None) -> int:
    """Return a table's number of rows: from a Parquet or Arrow file's metadata, or by counting those of a text file.

    Raises
    ------
    SchemaError
        The file cannot be read.
    DataError
        There are no rows.
    """
    suffix = path.suffix.lower()
    try:
        if is_text_file(path):
            n_rows = TextFile.find(path, dialect or Dialect()).count_rows()
        elif isinstance(path, Path) and suffix in (".arrow", ".feather", ".ipc"):
            n_rows = _count_arrow(path)
        else:
            n_rows = sum(map(_count_parquet, parquet_files(path) if is_folder(path) else [path]))
    except (pa.ArrowException, OSError) as error:
        raise SchemaError(f"{path} cannot be read as a table: {error}") from error
    if n_rows < 1:
        raise DataError("the table has no rows to publish")
    return n_rows


def rows_known(path: Place) -> int | None:
    """Return a table's number of rows where it is known without reading the table, else None."""
    return None if is_text_file(path) else count_rows(path)


def _count_parquet(path: Place) -> int:
    with open_parquet_file(path) as file:
        return int(file.metadata.num_rows)


def _count_arrow(path: Path) -> int:
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        return sum(reader.get_batch(index).num_rows for index in range(reader.num_record_batches))
