"""Atomic renaming: to a new name that replaces nothing, and the exchange of two names.

Linux does both by renameat2(2), on most file systems. Elsewhere `rename_new` raises an OSError and `exchange` returns
False, with nothing changed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

UNSUPPORTED = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK)
_HERE = -100  # AT_FDCWD
_NO_REPLACE, _EXCHANGE = 1, 2


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or folder without replacing another.

    Raises
    ------
    FileExistsError
        There is something at the target.
    OSError
        The system cannot do this (its number is in UNSUPPORTED), or failed to.
    """
    _rename(source, target, _NO_REPLACE)


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two files or folders in one step; return False where the system cannot."""
    try:
        _rename(one, other, _EXCHANGE)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return False
        raise
    return True


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where its file system can do that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _suppressed(errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename(source: Path, target: Path, flags: int) -> None:
    call = _system_call()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(target))
    if call(_HERE, os.fsencode(source), _HERE, os.fsencode(target), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def _system_call() -> Callable[..., Any] | None:
    """Return the C library's renameat2, if it has one."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return call


@contextlib.contextmanager
def _suppressed(*numbers: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise
