"""A bundle unpacked: a folder that holds the members as files, and nothing else.

Every path is taken from the folder as it was opened, and no link inside it is followed, so a folder that is renamed or
replaced while it is read stays the one that was verified. A file is opened for each read, because a bundle may have
more parts than a process may have open files; what was exchanged in between has other digests (`windows`).
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from dp_bundle.base.errors import BundleFormatError, ClosedBundleError
from dp_bundle.base.quoting import quote_name
from dp_bundle.files.tar import MAX_MEMBER_SIZE, is_member_name
from dp_bundle.files.windows import Member, read_at, regular_file

_READ_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY


def end_in_name(path: Path) -> Path:
    """Return a path whose last part is a name: `.` and `..` are resolved."""
    return path.resolve() if path.name in ("", "..") else path


def packed_path(folder: Path) -> Path:
    """Return the path of the tar that a folder packs to, beside it; signatures are beside that."""
    named = end_in_name(folder)
    return named.with_name(f"{named.name}.tar")


class FolderMembers:
    """The members of a bundle in a local folder.

    Parameters
    ----------
    descriptor : int
        The open folder; it is closed with this object.
    """

    copies: Collection[str] = ()

    def __init__(self, descriptor: int) -> None:
        self._folders = {"": descriptor}

    def first(self, name: str) -> Member:
        """Return the member of this name; nothing else in the folder is looked at.

        Raises
        ------
        BundleFormatError
            It is not there, or no regular file.
        """
        with self._opened(name) as descriptor:
            size = os.fstat(descriptor).st_size
        if size > MAX_MEMBER_SIZE:
            raise BundleFormatError(f"{name} is larger than a member of a bundle may be: it was not made by dp-publish")
        return Member(name, 0, size)

    def scan(self, signed: Mapping[str, str], largest: object = None) -> list[Member]:  # noqa: ARG002
        """Return the members with these names, in this order; nothing else may be in the folder.

        Raises
        ------
        BundleFormatError
            A member is missing, or no regular file, or there is something else.
        """
        within: dict[str, set[str]] = {"": set()}
        for name in signed:
            folder, _, own = name.rpartition("/")
            within.setdefault(folder, set()).add(own)
        within[""] |= within.keys() - {""}
        for folder, inside in within.items():
            self._require_no_others(folder, inside)
        return [self.first(name) for name in signed]

    def read(self, member: Member, position: int, size: int) -> bytes:
        """Return `size` bytes of a member, or fewer at the end of its file.

        Raises
        ------
        BundleFormatError
            It can no longer be read.
        """
        self.require_open()
        with self._opened(member.name) as descriptor:
            return read_at(descriptor, position, size)

    def require_open(self) -> None:
        """Raise `ClosedBundleError` if it was closed: its number may be another file's by now."""
        if not self._folders:
            raise ClosedBundleError

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
                    raise BundleFormatError(
                        f"{found} in the folder of the bundle was not signed: move it away, or unpack the bundle again"
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
