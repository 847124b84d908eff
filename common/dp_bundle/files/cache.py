"""Downloaded contents, kept in a folder under their SHA-256, so that each is fetched once.

A content has its final name only when its digest is right, and whoever finds it there checks that again. An interrupted
download goes on where it stopped. The folder is bounded: what was used longest ago makes room. What was found there and
not fetched is told of, as it says nothing of what lies at its address now.
"""

import contextlib
import errno
import hashlib
import math
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import DigestMismatchError, StoreError
from dp_bundle.base.machine import cache_folder
from dp_bundle.files.new_files import locked, make_private_folder
from dp_bundle.files.places import number_chosen

RANGE = 2**22  # bytes of one request, each of which has its own limit of time
_DEFAULT_GB = 16.0
_FREE_SHARE = 0.9  # of a disk's free room may be taken
_CONTENT = re.compile(r"[0-9a-f]{64}(\.partial)?")
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # links and pipes are no contents
_APPEND = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Cache:
    """A folder of downloaded contents; several processes and threads may share it.

    Parameters
    ----------
    folder : Path, optional
        `cache_folder()` by default; it is made if missing.
    limit : int, optional
        How many bytes it may hold, but for the content that was fetched last. By default those of `$DPGRAPH_CACHE_GB`,
        or 16 GB; never more than the disk has room for.

    Attributes
    ----------
    copies : set of str
        The names of contents that were there, whole or in part, before this object fetched them.

    Raises
    ------
    StoreError
        The folder cannot be made, or others may write to it.
    """

    def __init__(self, folder: Path | None = None, limit: int | None = None) -> None:
        self.folder = folder if folder is not None else cache_folder()
        if limit is None:
            allowed = "a number of gigabytes"
            chosen = number_chosen("DPGRAPH_CACHE_GB", _DEFAULT_GB, allowed, lambda given: 0 <= given < math.inf)
            limit = int(chosen * 10**9)
        self.limit = limit
        self.copies: set[str] = set()
        self._fetched: set[str] = set()
        try:
            make_private_folder(self.folder)
            self._require_own()
        except OSError as error:
            raise self._error(error) from error

    def fetch(
        self, name: str, sha256: str, size: int, read: Callable[[int, int], bytes], *, anew: bool = False
    ) -> Path:
        """Return the path of a content, after downloading it if it is not there; its digest is right.

        Parameters
        ----------
        name : str
            What it is, for messages.
        sha256 : str
            Its digest, in hexadecimal digits.
        size : int
            In bytes; no more are asked for.
        read : callable
            Takes a position and a number of bytes, and returns those, or fewer at the end.
        anew : bool
            Whether to download it even if it is there; what this object has downloaded itself is not downloaded again.

        Raises
        ------
        DigestMismatchError
            What is downloaded is another content.
        StoreError
            It cannot be downloaded, or the folder cannot be written.
        """
        path = self.folder / sha256
        is_ours = sha256 in self._fetched
        try:
            with locked(self.folder / f"{sha256[:2]}.lock"):  # whoever else wants it waits, and finds it
                if (is_ours or not anew) and _digest(path) == sha256:
                    os.utime(path)
                    if not is_ours:
                        self.copies.add(name)
                    return path
                self._make_room(size, path)
                if self._download(name, path, size, read, anew=anew):
                    self.copies.add(name)
                else:
                    self._fetched.add(sha256)
        except OSError as error:
            raise self._error(error) from error
        return path

    def _download(self, name: str, path: Path, size: int, read: Callable[[int, int], bytes], *, anew: bool) -> bool:
        """Download to a file of another name, and rename it; return True if an earlier download had begun it."""
        partial = path.with_name(f"{path.name}.partial")
        if anew:
            partial.unlink(missing_ok=True)
        for _ in range(2):
            with _opened(partial, _APPEND) as file:
                digest = hashlib.file_digest(file, "sha256")
                begun = have = file.tell()
                while have < size and (content := read(have, min(RANGE, size - have))):
                    file.write(content)
                    digest.update(content)
                    have += len(content)
            if digest.hexdigest() == path.name:
                partial.replace(path)
                return bool(begun)
            partial.unlink()
            if not begun:
                break
        raise DigestMismatchError(name)

    def _make_room(self, size: int, path: Path) -> None:
        """Remove what was used longest ago until there is room for so many bytes more."""
        found = []
        for each in self.folder.iterdir():
            if _CONTENT.fullmatch(each.name) and each.name.partition(".")[0] != path.name:
                with contextlib.suppress(FileNotFoundError):  # others make room, too
                    status = each.stat()
                    found.append((status.st_mtime_ns, status.st_size, each))
        disk = os.statvfs(self.folder)
        held = sum(each[1] for each in found)
        limit = min(self.limit, held + int(_FREE_SHARE * disk.f_bavail * disk.f_frsize))
        for _, freed, each in sorted(found):
            if held + size <= limit:
                break
            each.unlink(missing_ok=True)
            held -= freed

    def _require_own(self) -> None:
        """Refuse a folder in which others could put links to the reader's files, or exchange contents."""
        for folder in (self.folder.parent, self.folder):
            status = folder.stat()
            is_shared = folder != self.folder and status.st_mode & stat.S_ISVTX  # where nobody renames others' files
            if status.st_mode & _OTHERS and not is_shared:
                command = f"chmod go-w {shlex.quote(str(folder))}"
                raise StoreError(
                    str(folder), f"others may write there: see that its content is yours, then run: {command}"
                )
            if status.st_uid not in (0, os.geteuid()):
                raise StoreError(str(folder), "it belongs to another user: set XDG_CACHE_HOME to a folder of yours")

    def _error(self, error: OSError) -> StoreError:
        if error.errno == errno.ELOOP:
            said = f"symbolic links in it are not followed: remove {shlex.quote(str(error.filename or self.folder))}"
        else:
            reason = error.strerror or error
            said = f"downloads cannot be kept there ({reason}): set XDG_CACHE_HOME to another folder"
        return StoreError(str(self.folder), said)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[Any]:
    """Open a regular file in the folder."""
    with os.fdopen(os.open(path, flags, 0o600), "ab+" if flags & os.O_CREAT else "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        file.seek(0)
        yield file


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if there is none."""
    try:
        with _opened(path, _READ) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
