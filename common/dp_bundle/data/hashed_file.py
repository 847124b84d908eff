"""A file whose digest is taken as it is written, so that nothing has to be read again for it."""

from __future__ import annotations

import hashlib
from typing import BinaryIO


class HashedFile:
    """A binary file that is written from start to end, and its SHA-256.

    Parameters
    ----------
    file : binary file
        New and empty; it gets what is written.
    """

    closed = False  # pyarrow asks; whoever opened the file closes it

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def write(self, content: bytes) -> int:
        """Write bytes, and return their number."""
        self._digest.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        """Hand everything written to the system."""
        self._file.flush()

    def sha256(self) -> str:
        """Return the digest of all bytes so far, in hexadecimal digits."""
        return self._digest.hexdigest()
