"""A content elsewhere as a binary file that is only read, range by range, and never kept on a disk."""

from __future__ import annotations

import io
import os

from dp_bundle.store.opening import open_store
from dp_bundle.store.places import RemotePath

_AT_ONCE = 2**23  # bytes of a request, where a file is read from its start to its end


def open_remote(path: RemotePath) -> io.BufferedReader:
    """Open a content elsewhere for reading from its start to its end, in few requests."""
    return io.BufferedReader(RemoteFile(path), _AT_ONCE)


class RemoteFile(io.RawIOBase):
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
        self._size = self._store.size(path.name)
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move, perhaps beyond the end."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read as much as there is room for, or fewer bytes at the end."""
        content = self._store.read(self._name, self._position, min(len(buffer), max(0, self._size - self._position)))
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
