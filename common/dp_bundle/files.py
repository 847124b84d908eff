"""Files that appear whole or not at all, and never replace one another by accident."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

__all__ = ["make_private_folder", "whole_file", "write_whole"]


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
def whole_file(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Open a new file for writing and reading that gets its name only when the block ends without an error.

    Until then it has no name at all where the system can do that (Linux), so that it vanishes with the process however
    that ends; elsewhere it has a hidden one beside `path`, which is removed on every error but a killed process.

    Raises
    ------
    FileExistsError
        There is a file at `path` when the block ends; it is left as it is.
    """
    partial: Path | None = None
    try:
        descriptor = os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode)
    except (AttributeError, OSError):
        partial = _partial(path)
        descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)
    try:
        with cast(BinaryIO, os.fdopen(descriptor, "w+b")) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if partial is not None:
                os.link(partial, path)
            else:
                _name_unnamed(file.fileno(), path)
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _name_unnamed(descriptor: int, path: Path) -> None:
    """Link an unnamed file (open(2), O_TMPFILE): its entry in /proc is a link that must be followed."""
    folder = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(str(descriptor), path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
