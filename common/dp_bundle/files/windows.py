"""Members of a bundle as files, wherever their bytes lie: nothing is extracted, and only verified bytes are read.

What holds a bundle may change after it was verified. So a member is read again whole and compared with its digest, or,
if it is large or read piece by piece, by blocks whose digests were taken with it.

A content that is read in ranges, as a seekable binary file.
"""

import contextlib
import errno
import hashlib
import io
import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

from dp_bundle.base.errors import BundleFormatError


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


CHUNK = 2**20
MOST_IN_MEMORY = 2**26  # bytes of a member that is read whole
_BLOCK = 2**17
_KEPT = 64  # blocks in memory: a reader reads several columns in parallel


@dataclass(frozen=True)
class Member:
    """A member's name and size, and where it begins in the file that holds its bytes."""

    name: str
    offset: int
    size: int


class Members(Protocol):
    """The place where the members of one bundle lie, open for reading; nothing that it says is trusted.

    What is told apart from one kind of place to the next is only this. Digests, signatures and the manifest are checked
    by its reader, in the same way for all.
    """

    @property
    def copies(self) -> Collection[str]:
        """The names of members that were read from copies of earlier downloads, and not where the bundle lies."""

    def first(self, name: str) -> Member:
        """Return the member that comes first, which has this name in a bundle, before anything else is looked at."""

    def scan(self, signed: Mapping[str, str], largest: Callable[[], Mapping[str, int]]) -> list[Member]:
        """Return all members, whose names and signed SHA-256 these are, in this order; there is nothing else.

        `largest` gives the most bytes that each description can have, for whoever has to read it here.
        """

    def read(self, member: Member, position: int, size: int) -> bytes:
        """Return `size` bytes of a member, or fewer at its end; several threads may call it at once."""

    def require_open(self) -> None:
        """Raise `ClosedBundleError` if it was closed."""

    def close(self) -> None:
        """Close it; a second time does nothing."""


@dataclass(frozen=True)
class Digests:
    """The SHA-256 of a member, in hexadecimal, and those of its blocks, if they were taken."""

    whole: str
    blocks: tuple[bytes, ...]


class MemberReader(RangeReader):
    """A view of a member; several may read one bundle at once.

    Parameters
    ----------
    source : Members
        The bundle's members, which the caller closes.
    member : Member
        One of them.
    """

    def __init__(self, source: Members, member: Member) -> None:
        super().__init__(member.size)
        self._source = source
        self._member = member

    def chunks(self, size: int = CHUNK) -> Iterator[bytes]:
        """Yield the member's bytes from the current position, `size` at a time.

        Raises
        ------
        BundleFormatError
            The file ends before the member does.
        """
        while self._position < self._member.size:
            chunk = self.read(size)
            if not chunk:
                raise BundleFormatError(f"the bundle ends inside {self._member.name}: it is truncated; fetch it again")
            yield chunk

    def _content(self, position: int, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end of the file."""
        return self._source.read(self._member, position, size)


class CheckedReader(MemberReader):
    """A view of a member that was verified; reading bytes that have changed since fails.

    Parameters
    ----------
    source : Members
        As of a `MemberReader`.
    member : Member
        One of them.
    digests : Digests
        What `digest_member` found, with those of blocks.
    """

    def __init__(self, source: Members, member: Member, digests: Digests) -> None:
        super().__init__(source, member)
        self._block = lru_cache(_KEPT)(partial(_read_block, source, member, digests))

    def _content(self, position: int, size: int) -> bytes:
        """Return at most `size` bytes of one block.

        Raises
        ------
        BundleFormatError
            The block is no longer the one that was verified.
        """
        if not size:
            return b""
        index, start = divmod(position, _BLOCK)
        return self._block(index)[start : start + size]


def _read_block(source: Members, member: Member, digests: Digests, index: int) -> bytes:
    block = source.read(member, index * _BLOCK, min(_BLOCK, member.size - index * _BLOCK))
    if hashlib.sha256(block).digest() != digests.blocks[index]:
        raise changed(member.name)
    return block


def changed(name: str) -> BundleFormatError:
    """Return the error for a member that was changed after it was verified."""
    return BundleFormatError(f"{name} was changed after it was verified: the numbers read from it are not to be used")


def read_unchanged(source: Members, member: Member, sha256: str) -> bytes:
    """Return the whole of a member that was verified, at once.

    Raises
    ------
    BundleFormatError
        It no longer has this digest, in hexadecimal digits.
    """
    content = source.read(member, 0, member.size)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise changed(member.name)
    return content


@contextlib.contextmanager
def regular_file(path: str | os.PathLike[str], flags: int = 0, folder: int | None = None) -> Iterator[int]:
    """Open a file for reading, as a number; a pipe with nobody behind it is no reason to wait.

    Parameters
    ----------
    path : str or Path
        The file.
    flags : int
        Further flags of open(2).
    folder : int, optional
        The open folder that a relative path starts from.

    Raises
    ------
    OSError
        It cannot be opened, or is no regular file (EINVAL).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
        yield descriptor
    finally:
        os.close(descriptor)


def read_at(descriptor: int, position: int, size: int) -> bytes:
    """Return `size` bytes of an open file, or fewer at its end."""
    content = os.pread(descriptor, size, position)
    while len(content) < size and (more := os.pread(descriptor, size - len(content), position + len(content))):
        content += more
    return content


def digest_member(source: Members, member: Member, *, by_blocks: bool | None = None) -> Digests:
    """Read a member from start to end, and return its digest and perhaps those of its blocks.

    Parameters
    ----------
    source : Members
        The bundle's members.
    member : Member
        One of them.
    by_blocks : bool, optional
        Whether the digests of blocks are taken; by default, of a member that is not to be read whole.

    Raises
    ------
    BundleFormatError
        The file ends before the member does.
    """
    whole, blocks = hashlib.sha256(), []
    by_blocks = member.size > MOST_IN_MEMORY if by_blocks is None else by_blocks
    for chunk in MemberReader(source, member).chunks(CHUNK):
        whole.update(chunk)
        view = memoryview(chunk if by_blocks else b"")
        blocks += [hashlib.sha256(view[at : at + _BLOCK]).digest() for at in range(0, len(view), _BLOCK)]
    return Digests(whole.hexdigest(), tuple(blocks))
