"""A content elsewhere as a binary file that is only read, range by range, and never kept on a disk."""

from __future__ import annotations

import io

from dp_bundle.files.opening import open_store
from dp_bundle.files.places import RemotePath
from dp_bundle.files.windows import RangeReader

_AT_ONCE = 2**23  # bytes of a request, where a file is read from its start to its end


def open_remote(path: RemotePath) -> io.BufferedReader:
    """Open a content elsewhere for reading from its start to its end, in few requests."""
    return io.BufferedReader(RemoteFile(path), _AT_ONCE)


class RemoteFile(RangeReader):
    """A seekable file; every read is one request, so wrap it where reads are small.

    Parameters
    ----------
    path : RemotePath
        Where it is.

    Raises
    ------
    FileNotFoundError
        There is nothing.
    StoreError
        The place cannot be read.
    """

    def __init__(self, path: RemotePath) -> None:
        self._store, self._name = open_store(path.folder), path.name
        super().__init__(self._store.size(path.name))

    def _content(self, position: int, size: int) -> bytes:
        return self._store.read(self._name, position, size)
