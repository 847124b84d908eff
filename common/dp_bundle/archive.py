"""The tar around a bundle: one way to write it, and no other that is read.

Every header is the one that `write_archive` makes for a member's name and size (regular file, mode 0644, owner 0, time
0, no extended header), padding is zero, and the file ends after the two zero blocks, filled to a record of 10 KiB. The
reader checks all of that byte by byte, so nothing hides between members, and never extracts: members are windows into
the open file.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from dp_bundle.errors import BundleFormatError

__all__ = ["MAX_MEMBERS", "MAX_MEMBER_SIZE", "Member", "MemberReader", "scan_archive", "write_archive"]

MAX_MEMBERS = 65_536
MAX_MEMBER_SIZE = 8 * 2**30 - 1  # what the header's eleven octal digits hold
_BLOCK = tarfile.BLOCKSIZE
_RECORD = tarfile.RECORDSIZE
_CHUNK = 2**20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")


@dataclass(frozen=True)
class Member:
    """A member's name and the window of the file that holds its bytes."""

    name: str
    offset: int
    size: int


class MemberReader(io.RawIOBase):
    """A seekable, read-only window on an open file; several may read one file at once.

    Parameters
    ----------
    descriptor : int
        An open file descriptor, which stays the caller's to close.
    member : Member
        The window.
    """

    def __init__(self, descriptor: int, member: Member) -> None:
        self._descriptor = descriptor
        self._member = member
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position within the member."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move within the member."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._member.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read into a buffer, never past the member's end."""
        wanted = min(len(buffer), max(0, self._member.size - self._position))
        content = os.pread(self._descriptor, wanted, self._member.offset + self._position)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

    def chunks(self) -> Iterator[bytes]:
        """Yield the member's bytes from the current position, a mebibyte at a time.

        Raises
        ------
        BundleFormatError
            The file ends before the member does.
        """
        while self._position < self._member.size:
            chunk = self.read(_CHUNK)
            if not chunk:
                raise BundleFormatError(f"the bundle ends inside {self._member.name}: it is truncated, fetch it again")
            yield chunk


def write_archive(file: BinaryIO, members: Iterable[tuple[str, BinaryIO]]) -> None:
    """Write members in order; each source is read from its start to its end.

    Parameters
    ----------
    file : binary file
        Where the archive goes.
    members : iterable of (name, source)
        Names, and seekable binary files.
    """
    written = 0
    for name, source in members:
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        file.write(_header(name, size))
        copied = 0
        while chunk := source.read(_CHUNK):
            file.write(chunk)
            copied += len(chunk)
        if copied != size:
            raise OSError(f"{name} changed its size while it was being archived")
        file.write(bytes(-size % _BLOCK))
        written += _BLOCK + size + -size % _BLOCK
    file.write(bytes(_trailer_size(written)))


def scan_archive(descriptor: int) -> list[Member]:
    """Read every header and all padding, and return the members in order; their content is not looked at.

    Raises
    ------
    BundleFormatError
        The file is not an archive that `write_archive` made, byte for byte outside the members' content.
    """
    file_size = os.fstat(descriptor).st_size
    members: dict[str, Member] = {}
    position = 0
    while (header := os.pread(descriptor, _BLOCK, position)) != bytes(_BLOCK):
        name, size = _parse_header(header)
        if len(members) == MAX_MEMBERS or name in members:
            raise BundleFormatError(f"the bundle has too many members, or {name} twice: it was not made by dp-publish")
        member = Member(name, position + _BLOCK, size)
        position = member.offset + size + -size % _BLOCK
        if position > file_size:
            raise BundleFormatError(f"the bundle ends inside {name}: it is truncated, fetch it again")
        if any(os.pread(descriptor, -size % _BLOCK, member.offset + size)):
            raise BundleFormatError(f"there are stray bytes behind {name}: the bundle was altered")
        members[name] = member
    trailer = os.pread(descriptor, 2 * _RECORD, position)
    if len(trailer) != _trailer_size(position) or any(trailer):
        raise BundleFormatError("the bundle does not end where it should: it is truncated or was appended to")
    return list(members.values())


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf(tarfile.PAX_FORMAT)


def _trailer_size(written: int) -> int:
    return 2 * _BLOCK + -(written + 2 * _BLOCK) % _RECORD


def _parse_header(header: bytes) -> tuple[str, int]:
    try:
        name = header[:100].rstrip(b"\0").decode("ascii")
        size = int(header[124:135].decode("ascii"), 8)
    except ValueError as error:
        raise BundleFormatError("this is not a bundle, or its headers were damaged: fetch it again") from error
    if (
        not _NAME.fullmatch(name)
        or len(header) != _BLOCK
        or not 0 <= size <= MAX_MEMBER_SIZE
        or header != _header(name, size)
    ):
        raise BundleFormatError("this is not a bundle made by dp-publish, or its headers were altered: fetch it again")
    return name, size
