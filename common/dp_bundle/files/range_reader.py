"""A content that is read in ranges, as a seekable binary file."""

from __future__ import annotations

import io
import os
from abc import abstractmethod


class RangeReader(io.RawIOBase):
    """A seekable, read-only file over whatever gives ranges of a content.

    Parameters
    ----------
    size : int
        Bytes of the content, beyond which nothing is asked for.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    @abstractmethod
    def _content(self, position: int, size: int) -> bytes:
        """Return `size` bytes from a position on, or fewer where the content ends early."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position within the content."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move within the content, or beyond its end."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read into a buffer, never past the end."""
        content = self._content(self._position, min(len(buffer), max(0, self._size - self._position)))
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
