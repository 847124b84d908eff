"""The tar and the folder that a bundle may be, of which exactly one form is written and read, and members as files.

Every header of a tar is the one that `write_archive` makes for a member's name and size (`_header` says which bytes).
Padding is zero, and the file ends after the two zero blocks, filled to a record of 10 KiB. The reader checks all of
that byte by byte, so nothing hides between members, and never extracts: members are windows into the open file.

A folder holds the members as files, and nothing else. Every path is taken from the folder as it was opened, and no link
inside it is followed. So a folder that is renamed or replaced while it is read stays the one that was verified. A file
is opened for each read, because a bundle may have more parts than a process may have open files.

What holds a bundle may change after it was verified. So a member is read again whole and compared with its digest. If
it is large or read piece by piece, that is done by blocks, whose digests were taken with it.
"""

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from dp_bundle.base.errors import BundleFormatError, ClosedBundleError
from dp_bundle.base.quoting import quote_name
from dp_bundle.files.new_files import read_at, regular_file
from dp_bundle.files.places import AnyPath, RangeReader, Store

MAX_MEMBER_SIZE = 8 * 2**30 - 1  # what the header's eleven octal digits hold
_READ_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_BLOCK = 512
_RECORD = 20 * _BLOCK
CHUNK = 2**20
MOST_IN_MEMORY = 2**26  # bytes of a member that is read whole
_PIECE = 2**17  # of a member, with a digest of its own
_KEPT = 64  # pieces in memory: a reader reads several columns in parallel
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_LONGEST_NAME = 100
_LEFT_BY = {".ds_store": "macOS", "thumbs.db": "Windows", "desktop.ini": "Windows"}  # in folders that it has shown
_COMPRESSED = {  # first bytes, and what unpacks such a file
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"PK\3\4": ("zip", "unzip"),
}
_SPREADSHEET = re.compile(rb"PK\x03\x04[\x00-\xff]{26}(?:\[Content_Types|_rels/|docProps/|xl/|mimetype)")

ReadAt = Callable[[int, int], bytes]


@dataclass(frozen=True)
class Member:
    """A member's name and size, and where it begins in the file that holds its bytes."""

    name: str
    offset: int
    size: int


def write_archive(file: BinaryIO, members: Iterable[tuple[str, BinaryIO]]) -> None:
    """Write members in order; each source is read from its start to its end.

    Parameters
    ----------
    file : binary file
        The file to write to.
    members : iterable of (name, source)
        Names, and seekable binary files.
    """
    written = 0
    for name, source in members:
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        file.write(_header(name, size))
        copied = 0
        while chunk := source.read(CHUNK):
            file.write(chunk)
            copied += len(chunk)
        if copied != size:
            raise OSError(f"{name} changed its size while it was being archived")
        file.write(bytes(-size % _BLOCK))
        written += _BLOCK + size + -size % _BLOCK
    file.write(bytes(_trailer_size(written)))


def is_member_name(name: str) -> bool:
    """Return True for a name that a member may have: one or two parts, neither of which begins with a dot."""
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def first_member(read: ReadAt, file_size: int, position: int = 0) -> Member:
    """Return the first member of an archive, or that from a position on; nothing behind its header is looked at.

    Parameters
    ----------
    read : callable
        Takes a position in the archive and a number of bytes, and returns them, or fewer at its end.
    file_size : int
        Of the archive.
    position : int
        Where the header is.

    Raises
    ------
    BundleFormatError
        There is no such header, or the file ends before the member does.
    """
    name, size = _parse_header(read(position, _BLOCK))
    member = Member(name, position + _BLOCK, size)
    if member.offset + size + -size % _BLOCK > file_size:
        raise BundleFormatError(f"the bundle ends inside {name}: it is truncated; fetch it again")
    return member


def signed_members(read: ReadAt, file_size: int, signed: Mapping[str, str]) -> list[Member]:
    """Return the members of an archive, which are the signed ones in their order.

    Parameters
    ----------
    read, file_size
        As of `first_member`.
    signed : mapping of str to str
        Names and SHA-256.

    Raises
    ------
    BundleFormatError
        They are others, or the archive is none that `write_archive` made.
    """
    members = scan_archive(read, file_size, len(signed))
    if [member.name for member in members] != list(signed):
        raise BundleFormatError("the bundle has members that were not signed, or lacks some that were: it was altered")
    return members


def scan_archive(read: ReadAt, file_size: int, most: int) -> list[Member]:
    """Read every header and all padding, and return the members in order; their content is not looked at.

    Parameters
    ----------
    read, file_size
        As of `first_member`.
    most : int
        How many members there may be; the scan ends at the first that is too many.

    Raises
    ------
    BundleFormatError
        The file is not an archive that `write_archive` made, byte for byte outside the members' content.
    """
    members: dict[str, Member] = {}
    position = 0
    while read(position, _BLOCK) != bytes(_BLOCK):
        member = first_member(read, file_size, position)
        if len(members) == most or member.name in members:
            raise BundleFormatError(
                f"the bundle has too many members, or {member.name} twice: it was not made by dp-publish"
            )
        position = member.offset + member.size + -member.size % _BLOCK
        if any(read(member.offset + member.size, -member.size % _BLOCK)):
            raise BundleFormatError(f"there are stray bytes behind {member.name}: the bundle was altered")
        members[member.name] = member
    trailer = read(position, 2 * _RECORD)
    if len(trailer) != _trailer_size(position) or any(trailer):
        raise BundleFormatError("the bundle does not end where it should: it is truncated or was appended to")
    return list(members.values())


def _header(name: str, size: int) -> bytes:
    """Return the header of a regular file, mode 0644, owner 0, time 0, in the ustar format (POSIX.1-1988).

    | offset | length | content |
    |---|---|---|
    | 0 | 100 | the name, in ASCII, filled up with zero bytes, as are all fields that follow |
    | 100 | 8 | the mode, `0000644` |
    | 108 | 8 | the owner, `0000000` |
    | 116 | 8 | the group, `0000000` |
    | 124 | 12 | the size in eleven octal digits |
    | 136 | 12 | the time, `00000000000` |
    | 148 | 8 | the sum of all bytes of the header, with spaces in this place, in six octal digits; zero byte, space |
    | 156 | 1 | the type, `0` |
    | 157 | 100 | nothing |
    | 257 | 8 | `ustar`, zero byte, `00` |
    | 265 | 247 | nothing |
    """
    numbers = b"0000644\0" + 2 * b"0000000\0" + b"%011o\0" % size + b"00000000000\0"
    start = name.encode().ljust(_LONGEST_NAME, b"\0") + numbers
    end = (b"0".ljust(101, b"\0") + b"ustar\00000").ljust(_BLOCK - len(start) - 8, b"\0")
    return start + b"%06o\0 " % (sum(start) + 8 * ord(" ") + sum(end)) + end


def _trailer_size(written: int) -> int:
    return 2 * _BLOCK + -(written + 2 * _BLOCK) % _RECORD


def _parse_header(header: bytes) -> tuple[str, int]:
    if _SPREADSHEET.match(header):
        raise BundleFormatError("this is a spreadsheet, and no bundle yet: `dp-publish FILE` makes one of it")
    for start, (form, unpack) in _COMPRESSED.items():
        if header.startswith(start):
            raise BundleFormatError(
                f"this file is compressed ({form}), and a bundle is not: unpack it with `{unpack} FILE`, and give the "
                "result"
            )
    try:
        name = header[:100].rstrip(b"\0").decode("ascii")
        size = int(header[124:135].decode("ascii"), 8)
    except ValueError as error:
        raise BundleFormatError("this is not a bundle, or its headers were damaged: fetch it again") from error
    if (
        not is_member_name(name)
        or len(header) != _BLOCK
        or not 0 <= size <= MAX_MEMBER_SIZE
        or header != _header(name, size)
    ):
        raise BundleFormatError("this is not a bundle made by dp-publish, or its headers were altered: fetch it again")
    return name, size


def end_in_name(path: AnyPath) -> AnyPath:
    """Return a path whose last part is a name: `.` and `..` of a local one are resolved."""
    return path.resolve() if isinstance(path, Path) and path.name in ("", "..") else path


class HeldFile:
    """A tar as it was opened.

    Parameters
    ----------
    file : binary file
        Open and unbuffered; it is closed with this object.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.close = file, file.close

    def size(self, name: str = "") -> int:  # noqa: ARG002
        """Return its number of bytes."""
        return os.fstat(self._file.fileno()).st_size

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes, or fewer at its end."""
        return read_at(self._file.fileno(), start, self.size(name) if length is None else length)


class HeldFolder:
    """A folder as it was opened.

    Parameters
    ----------
    descriptor : int
        The open folder; it is closed with this object.
    """

    def __init__(self, descriptor: int) -> None:
        self._folders = {"": descriptor}

    def size(self, name: str) -> int:
        """Return the number of bytes of a file.

        Raises
        ------
        BundleFormatError
            It is not there, or no regular file.
        """
        with self._opened(name) as descriptor:
            return os.fstat(descriptor).st_size

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes of a file, or fewer at its end.

        Raises
        ------
        BundleFormatError
            It can no longer be read.
        """
        with self._opened(name) as descriptor:
            return read_at(descriptor, start, os.fstat(descriptor).st_size if length is None else length)

    def require_only(self, names: Iterable[str]) -> None:
        """Refuse, by BundleFormatError, a folder that holds something with another name."""
        within: dict[str, set[str]] = {"": set()}
        for name in names:
            folder, _, own = name.rpartition("/")
            within.setdefault(folder, set()).add(own)
        within[""] |= within.keys() - {""}
        for folder, inside in within.items():
            self._require_no_others(folder, inside)

    def close(self) -> None:
        """Close the folder; a second time does nothing."""
        while self._folders:
            os.close(self._folders.popitem()[1])

    def __del__(self) -> None:
        self.close()

    def _require_no_others(self, folder: str, names: Collection[str]) -> None:
        """Refuse a folder with anything that has another name, at the first such thing."""
        with os.scandir(self._folder(folder)) as entries:
            for entry in entries:
                if entry.name not in names:
                    found = quote_name(f"{folder}/{entry.name}" if folder else entry.name)
                    system = _LEFT_BY.get(entry.name.lower())
                    raise BundleFormatError(
                        f"{found} in the folder of the bundle was left there by {system}, and not signed: delete it"
                        if system
                        else f"{found} in the folder of the bundle was not signed: move it away, or unpack the bundle "
                        "again"
                    )

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        """Open a member's file, which must be a regular one."""
        if not is_member_name(name):
            raise BundleFormatError("the bundle has a member whose name no bundle has: it was not made by dp-publish")
        folder, _, own = name.rpartition("/")
        try:
            with regular_file(own, os.O_NOFOLLOW, self._folder(folder)) as descriptor:
                yield descriptor
        except OSError as error:
            raise _unreadable(name, error) from error

    def _folder(self, name: str) -> int:
        """Return the open folder of that name; it is opened once, and the same from then on."""
        if name not in self._folders:
            try:
                self._folders[name] = os.open(name, _READ_FOLDER, dir_fd=self._folders[""])
            except OSError as error:
                raise _unreadable(name, error) from error
        return self._folders[name]


def _unreadable(name: str, error: OSError) -> BundleFormatError:
    if error.errno == errno.ENOENT:
        return BundleFormatError(f"{name} is missing in the folder: give that of a whole bundle, or unpack it again")
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):  # a link, or a file where the folder should be
        return BundleFormatError(f"{name} in the folder of the bundle is a link, or no folder: unpack the bundle again")
    if error.errno == errno.EINVAL:
        return BundleFormatError(f"{name} in the folder of the bundle is no regular file: unpack the bundle again")
    return BundleFormatError(f"{name} in the folder of the bundle cannot be read: {error.strerror}")


Contents = HeldFile | HeldFolder | Store  # what the bytes of one bundle are read from


class Members:
    """The members of one bundle in a tar or a folder; nothing that it says is trusted.

    Digests, signatures and the manifest are checked by its reader, in the same way for both.

    Parameters
    ----------
    place : HeldFile, HeldFolder or Store
        Where they lie.
    tar : str
        The name of the tar there; none of a folder.

    Attributes
    ----------
    copies : collection of str
        The names of members that were read from copies of earlier downloads, and not where the bundle lies.
    """

    copies: Collection[str] = ()

    def __init__(self, place: Contents, tar: str = "") -> None:
        self._place, self.tar = place, tar
        self._is_open = True
        self._size = place.size(tar) if tar else 0

    def first(self, name: str) -> Member:
        """Return the first member of a tar, whatever its name, or that of this name; nothing else is looked at.

        Raises
        ------
        BundleFormatError
            It is not there, no regular file, or larger than a member may be.
        """
        if self.tar:
            return first_member(self._archive, self._size)
        size = self._place.size(name)
        if size > MAX_MEMBER_SIZE:
            raise BundleFormatError(f"{name} is larger than a member of a bundle may be: it was not made by dp-publish")
        return Member(name, 0, size)

    def scan(self, signed: Mapping[str, str], largest: Callable[[], Mapping[str, int]]) -> list[Member]:  # noqa: ARG002
        """Return all members, whose names and signed SHA-256 these are, in this order; there is nothing else.

        `largest` gives the most bytes that each description can have, for whoever has to read it here.

        Raises
        ------
        BundleFormatError
            A member is missing, or no regular file, or there is something else, or the tar is none that
            `write_archive` made.
        """
        if self.tar:
            return signed_members(self._archive, self._size, signed)
        if isinstance(self._place, HeldFolder):
            self._place.require_only(signed)
        return [self.first(name) for name in signed]

    def read(self, member: Member, position: int, size: int) -> bytes:
        """Return `size` bytes of a member, or fewer at its end; several threads may call it at once."""
        self.require_open()
        return self._place.read(self.tar or member.name, member.offset + position, size)

    def require_open(self) -> None:
        """Raise `ClosedBundleError` if it was closed: its number may be another file's by now."""
        if not self._is_open:
            raise ClosedBundleError

    def close(self) -> None:
        """Close the tar or the folder; a second time does nothing."""
        if self._is_open and isinstance(self._place, (HeldFile, HeldFolder)):
            self._place.close()
        self._is_open = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle has of it: nothing to read from, so that a copy is closed."""
        return {"tar": self.tar, "_is_open": False}

    def _archive(self, position: int, size: int) -> bytes:
        """Return bytes of the tar."""
        return self._place.read(self.tar, position, size)


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
        index, start = divmod(position, _PIECE)
        return self._block(index)[start : start + size]


def _read_block(source: Members, member: Member, digests: Digests, index: int) -> bytes:
    block = source.read(member, index * _PIECE, min(_PIECE, member.size - index * _PIECE))
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
        blocks += [hashlib.sha256(view[at : at + _PIECE]).digest() for at in range(0, len(view), _PIECE)]
    return Digests(whole.hexdigest(), tuple(blocks))
