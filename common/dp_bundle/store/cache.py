"""Downloaded contents, kept in a folder under their SHA-256, so that each is fetched once.

A content has its final name only when its digest is right, and whoever finds it there checks that again. An interrupted
download goes on where it stopped. The folder is bounded: what was used longest ago makes room.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
from collections.abc import Callable
from pathlib import Path

from dp_bundle.errors import DigestMismatchError, ParameterError, StoreError
from dp_bundle.files import locked, make_private_folder

RANGE = 2**25  # bytes of one request
_CHUNK = 2**20
_DEFAULT_GB = 16.0
_FREE_SHARE = 0.9  # of a disk's free room may be taken
_CONTENT = re.compile(r"[0-9a-f]{64}(\.partial)?")


def cache_folder() -> Path:
    """Return the folder of downloads: `dpgraph` in `$XDG_CACHE_HOME`, or where this system keeps what can be lost."""
    from platformdirs import user_cache_path

    chosen = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen, "dpgraph") if chosen else user_cache_path("dpgraph", appauthor=False)


class Cache:
    """A folder of downloaded contents; several processes and threads may share it.

    Parameters
    ----------
    folder : Path, optional
        `cache_folder()` by default; it is made if missing.
    limit : int, optional
        How many bytes it may hold, but for the content that was fetched last; those of `$DPGRAPH_CACHE_GB`, or 16 GB,
        by default, and never more than the disk has room for.
    """

    def __init__(self, folder: Path | None = None, limit: int | None = None) -> None:
        self.folder = folder if folder is not None else cache_folder()
        self.limit = limit if limit is not None else _limit()
        try:
            make_private_folder(self.folder)
        except OSError as error:
            raise self._error(error) from error

    def fetch(self, name: str, sha256: str, size: int, read: Callable[[int, int], bytes]) -> Path:
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

        Raises
        ------
        DigestMismatchError
            What is downloaded is another content.
        StoreError
            It cannot be downloaded, or the folder cannot be written.
        """
        path = self.folder / sha256
        try:
            with locked(self.folder / f"{sha256[:2]}.lock"):  # whoever else wants it waits, and finds it
                if _digest(path) == sha256:
                    os.utime(path)
                    return path
                self._make_room(size, path)
                self._download(name, path, size, read)
        except OSError as error:
            raise self._error(error) from error
        return path

    def _download(self, name: str, path: Path, size: int, read: Callable[[int, int], bytes]) -> None:
        """Download to a file of another name, going on where an earlier attempt stopped, and rename it."""
        partial = path.with_name(f"{path.name}.partial")
        for begun in (partial.exists(), False):
            with partial.open("ab+" if begun else "wb+") as file:
                digest = hashlib.sha256()
                file.seek(0)
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                have = file.tell()
                while have < size and (content := read(have, min(RANGE, size - have))):
                    file.write(content)
                    digest.update(content)
                    have += len(content)
            if digest.hexdigest() == path.name:
                partial.replace(path)
                return
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

    def _error(self, error: OSError) -> StoreError:
        said = f"downloads cannot be kept there ({error.strerror or error}): set XDG_CACHE_HOME to another folder"
        return StoreError(str(self.folder), said)


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if there is none."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except FileNotFoundError:
        return None
    return digest.hexdigest()


def _limit() -> int:
    given = os.environ.get("DPGRAPH_CACHE_GB", str(_DEFAULT_GB))
    try:
        limit = float(given)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise ParameterError("DPGRAPH_CACHE_GB", "a number of gigabytes", given)
    return int(limit * 10**9)
