"""Locks that keep processes from doing the same thing at once; they end with the process, however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

from dp_bundle.files.new_files import make_private_folder


@contextlib.contextmanager
def locked(path: Path, patience: float = math.inf) -> Iterator[None]:
    """Hold a lock file, which is made if missing, so that no other process holds it at the same time.

    Raises
    ------
    OSError
        It cannot be made, or others held it for longer than so many seconds (TimeoutError).
    """
    make_private_folder(path.parent)
    with _held(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), path, patience):
        yield


@contextlib.contextmanager
def locked_folder(folder: Path, patience: float = math.inf) -> Iterator[None]:
    """Hold a folder itself, which leaves no file in it, so that no other process holds it at the same time.

    Raises
    ------
    OSError
        It is not there, or others held it for longer than so many seconds (TimeoutError).
    """
    with _held(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), folder, patience):
        yield


@contextlib.contextmanager
def _held(descriptor: int, path: Path, patience: float) -> Iterator[None]:
    """Lock an open file, and close it in the end, which gives the lock back."""
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise TimeoutError(errno.ETIMEDOUT, "another process holds it", str(path)) from error
                time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)
