"""The fingerprint of a table, without reading all of it: sizes, times of change, and both ends of files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import SchemaError
from dp_bundle.files.opening import RemoteFile
from dp_bundle.files.places import Place
from dp_publish.data.row_ranges import is_folder, parquet_files

_PIECE = 2**16  # bytes at each end


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
        return [_describe(path) for path in (parquet_files(data) if is_folder(data) else [data])]
    except OSError as error:
        raise SchemaError(f"{data} cannot be read as a table: {error.strerror}") from error


def _describe(path: Place) -> list[Any]:
    with path.open("rb") if isinstance(path, Path) else RemoteFile(path) as file:
        size = file.seek(0, os.SEEK_END)
        changed = path.stat().st_mtime_ns if isinstance(path, Path) else 0
        digest = hashlib.sha256()
        for start in (0, max(0, size - _PIECE)):
            file.seek(start)
            digest.update(file.read(_PIECE) or b"")
    return [str(path), size, changed, digest.hexdigest()]
