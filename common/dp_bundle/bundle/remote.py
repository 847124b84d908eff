"""The members of a bundle that lies elsewhere, in a folder or a tar.

Its manifest and descriptions are read at once, as they are small, and kept in memory. Every data member is fetched when
it is first needed, in large ranges, into the cache of downloads, which compares it with its signed digest before it is
read; from there it is read as from a folder. No more of anything is asked for than it can have: a description as many
bytes as follow from the manifest, and a data member those that a signed description gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from dp_bundle.base.errors import BundleFormatError, ClosedBundleError, DigestMismatchError, DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.writing import MAX_MANIFEST
from dp_bundle.describe.descriptors import DESCRIPTORS, file_sizes
from dp_bundle.files.cache import Cache
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import RemotePath
from dp_bundle.files.tar import first_member, signed_members
from dp_bundle.files.windows import Member, read_at

_MAGIC, _MAGIC_AT = b"ustar", 257  # of a header in a tar
_HEAD, _HEADER = 2**16, 2**11  # bytes that are read of a tar at once: where it begins, and further on


def open_members(path: RemotePath, signed: Mapping[str, str] | None, *, anew: bool) -> RemoteFolder:
    """Open a tar, if the name ends so or the first bytes are those of one, or else a folder, at a URI.

    Parameters
    ----------
    path : RemotePath
        The URI.
    signed : mapping of str to str or None
        Names and signed SHA-256 of what will be read, if they are known; else `scan` is told them.
    anew : bool
        Whether data are fetched even if there are copies of earlier downloads.

    Raises
    ------
    FileNotFoundError
        There is no such tar.
    DpGraphError
        There is no such kind of place, or it cannot be read.
    """
    return (RemoteTar if path.name.endswith(".tar") or _holds_tar(path) else RemoteFolder)(path, signed, anew=anew)


def _holds_tar(path: RemotePath) -> bool:
    """Return whether a file lies at a URI that begins as a tar does, whatever it is called."""
    with contextlib.suppress(OSError, DpGraphError):
        return open_store(path.folder).read(path.name, _MAGIC_AT, len(_MAGIC)) == _MAGIC
    return False


class RemoteFolder:
    """The members of a bundle as objects or files below one address: small ones in memory, others in the cache.

    What else lies there is neither looked for nor read.


    Parameters
    ----------
    path : RemotePath
        The address.
    signed, anew
        As of `open_members`.
    """

    is_tar: ClassVar = False

    def __init__(self, path: RemotePath, signed: Mapping[str, str] | None = None, *, anew: bool = False) -> None:
        self._path, self._store, self._anew = path, open_store(path.folder if self.is_tar else path.uri), anew
        self._cache = Cache()
        self._small: dict[str, bytes] = {}
        self._signed = signed or {}
        self._fetched: dict[str, Path] = {}
        self._is_open = True

    def first(self, name: str) -> Member:
        """Return the member of this name.

        Raises
        ------
        BundleFormatError
            It is not there.
        """
        self._small[name] = self._at(name, 0, MAX_MANIFEST + 1)
        return Member(name, 0, len(self._small[name]))

    def scan(self, signed: Mapping[str, str], largest: Callable[[], Mapping[str, int]]) -> list[Member]:
        """Return the members with these names; sizes are those that the signed descriptions give.

        Raises
        ------
        BundleFormatError
            A description is missing, or does not give them.
        DigestMismatchError
            It is not the one that was signed.
        """
        self._signed = signed
        for name, most in largest().items():
            self._small[name] = self._at(name, 0, most)
        sizes = {name: len(content) for name, content in self._small.items()} | self._described_sizes()
        return [Member(name, 0, sizes[name]) for name in signed]

    @property
    def copies(self) -> Collection[str]:
        """The data members that were found in the cache, whole or begun."""
        return self._cache.copies

    def read(self, member: Member, position: int, size: int) -> bytes:
        """Return `size` bytes of a member, or fewer at its end; those of data have their signed digest."""
        self.require_open()
        if not member.name.startswith("data/"):
            return self._small_content(member)[position : position + size]
        while True:
            try:
                descriptor = os.open(self._fetch(member), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:  # others needed the room
                self._fetched.pop(member.name, None)
                continue
            try:
                return read_at(descriptor, position, size)
            finally:
                os.close(descriptor)

    def require_open(self) -> None:
        """Raise `ClosedBundleError` if it was closed."""
        if not self._is_open:
            raise ClosedBundleError

    def close(self) -> None:
        """Read no more; what was fetched stays in the cache."""
        self._is_open = False

    def _fetch(self, member: Member) -> Path:
        """Return the path of a data member in the cache."""
        if member.name not in self._fetched:
            read = partial(self._range, member)
            sha256 = self._signed[member.name]
            self._fetched[member.name] = self._cache.fetch(member.name, sha256, member.size, read, anew=self._anew)
        return self._fetched[member.name]

    def _described_sizes(self) -> dict[str, int]:
        """Return the sizes of all data members as the signed description gives them.

        Raises
        ------
        DigestMismatchError
            It is not the one that was signed.
        BundleFormatError
            It does not name all.
        """
        for name in DESCRIPTORS:
            if hashlib.sha256(self._small[name]).hexdigest() != self._signed[name]:
                raise DigestMismatchError(name)
        sizes = file_sizes(self._small["croissant.json"])
        if not {name for name in self._signed if name.startswith("data/")} <= sizes.keys():
            raise BundleFormatError("croissant.json does not name all files: do not use this bundle")
        return sizes

    def _small_content(self, member: Member) -> bytes:
        """Return a member that is kept in memory."""
        if member.name not in self._small:
            self._small[member.name] = self._range(member, 0, member.size)
        return self._small[member.name]

    def _range(self, member: Member, position: int, size: int) -> bytes:
        """Return so many bytes of a member from where it lies."""
        return self._at(member.name, position, size)

    def _at(self, name: str, position: int, size: int) -> bytes:
        """Return so many bytes of a file."""
        try:
            return self._store.read(name, position, size)
        except FileNotFoundError as error:
            raise BundleFormatError(
                f"{name} is missing at {quote_path(self._store.uri)}: give the address of a whole bundle"
            ) from error


class RemoteTar(RemoteFolder):
    """The members of a tar that lies elsewhere.

    Parameters
    ----------
    path : RemotePath
        Its address.
    signed, anew
        As of `open_members`.
    """

    is_tar: ClassVar = True

    def __init__(self, path: RemotePath, signed: Mapping[str, str] | None = None, *, anew: bool = False) -> None:
        super().__init__(path, signed, anew=anew)
        self._size = self._store.size(path.name)
        self._head = self._at(path.name, 0, _HEAD)
        self._window = (0, b"")

    def first(self, name: str) -> Member:  # noqa: ARG002  the caller compares it
        """Return the first member, whatever its name."""
        return first_member(self._peek, self._size)

    def scan(self, signed: Mapping[str, str], largest: Callable[[], Mapping[str, int]]) -> list[Member]:
        """Return all members, whose names are these, in this order.

        Raises
        ------
        BundleFormatError
            They are others, or the file is not an archive that `write_archive` made.
        """
        self._signed = signed
        most = largest()
        members = signed_members(self._peek, self._size, signed)
        for member in members:
            if member.name in most:
                if member.size > most[member.name]:
                    raise BundleFormatError(f"{member.name} is longer than the manifest makes it: it was altered")
                self._small_content(member)
        sizes = self._described_sizes()
        if any(member.size != sizes.get(member.name, member.size) for member in members):
            raise BundleFormatError("the files have other sizes than croissant.json says: the bundle was altered")
        return members

    def _peek(self, position: int, size: int) -> bytes:
        """Return bytes of the tar, with a header's worth of those behind them in one request."""
        if position + size <= len(self._head):
            return self._head[position : position + size]
        start, content = self._window
        if not start <= position <= position + size <= start + len(content):
            start, content = self._window = position, self._at(self._path.name, position, max(size, _HEADER))
        return content[position - start :][:size]

    def _range(self, member: Member, position: int, size: int) -> bytes:
        start = member.offset + position
        if start + size <= len(self._head):
            return self._head[start : start + size]
        return self._at(self._path.name, start, size)
