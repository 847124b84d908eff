"""Files that appear whole or not at all, and never replace one another by accident."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

__all__ = ["locked", "make_private_folder", "settle", "whole_file", "write_whole"]


def make_private_folder(folder: Path) -> None:
    """Make a folder and whatever it lacks above it, all for the user alone; what exists stays as it is."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)


def write_whole(path: Path, content: bytes, *, mode: int = 0o644, replace: bool = True) -> None:
    """Write a small file so that a reader sees all of it or none; its folder is made, for the user alone, if missing.

    Raises
    ------
    FileExistsError
        There is a file at `path` and `replace` is false.
    """
    make_private_folder(path.parent)
    if not replace:
        with whole_file(path, mode=mode) as file:
            file.write(content)
        return
    partial = _partial(path)
    with whole_file(partial, mode=mode) as file:
        file.write(content)
    try:
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path, patience: float = math.inf) -> Iterator[None]:
    """Hold a lock file, which is made if missing, so that no other process holds it at the same time.

    Raises
    ------
    OSError
        It cannot be made, or others held it for longer than so many seconds (TimeoutError).
    """
    make_private_folder(path.parent)
    deadline = time.monotonic() + patience
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(errno.ETIMEDOUT, "another process holds it", str(path)) from error
                time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def whole_file(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Open a new file for writing and reading that gets its name only when the block ends without an error.

    Until then it has no name at all where the system can do that (Linux), so that it vanishes with the process however
    that ends; elsewhere it has a hidden one beside `path`, which nobody else may read, and which is removed on every
    error but a killed process. That the folder can give a file a second name is found out before the block begins.

    Raises
    ------
    FileExistsError
        There is another file at `path` when the block ends; it is left as it is.
    """
    with contextlib.ExitStack() as cleanup:
        descriptor, name, folder = _open_unnamed(path, mode, cleanup) or _open_hidden(path, mode, cleanup)
        asked = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if folder is None:
            os.fchmod(descriptor, 0o600)
        with cast(BinaryIO, os.fdopen(descriptor, "w+b")) as file:
            yield file
            settle(file)
            if folder is None:
                os.fchmod(descriptor, asked)
            try:
                os.link(name, path, src_dir_fd=folder)
            except OSError:
                if not _is_named(descriptor, path):  # on a network, a link may be made and the answer lost
                    raise


def settle(file: BinaryIO) -> None:
    """Bring all that was written to a file to the disk, and learn now whether there is room for it."""
    file.flush()
    os.fsync(file.fileno())


def _open_unnamed(path: Path, mode: int, cleanup: contextlib.ExitStack) -> tuple[int, str, int | None] | None:
    """Open a file without a name; return it with its name among this process's open files (open(2), O_TMPFILE)."""
    try:
        folder = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        cleanup.callback(os.close, folder)
        descriptor = os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode)
    except (AttributeError, OSError):
        return None
    return descriptor, str(descriptor), folder


def _open_hidden(path: Path, mode: int, cleanup: contextlib.ExitStack) -> tuple[int, str, int | None]:
    """Open a file under a hidden name beside `path`, and make sure that it can be given another one."""
    partial, trial = _partial(path), _partial(path)
    for name in (partial, trial):
        cleanup.callback(name.unlink, missing_ok=True)
    descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)
    try:
        os.link(partial, trial)
        trial.unlink()
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, str(partial), None


def _is_named(descriptor: int, path: Path) -> bool:
    """Tell whether an open file has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
