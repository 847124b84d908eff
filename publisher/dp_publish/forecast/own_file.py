"""Files that a plan writes: whole or not at all, and never over anything that no plan wrote."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.new_files import write_whole

_START = 4096  # bytes, in which a file says what it is


def require_own_file(path: Path, is_ours: Callable[[bytes], bool], option: str) -> None:
    """Refuse a path at which there is anything but a file that an earlier plan wrote.

    Parameters
    ----------
    path : Path
        Where a file is to be.
    is_ours : callable
        Tells by the beginning of a file.
    option : str
        What gave the path.

    Raises
    ------
    DpGraphError
        There is something else.
    """
    if not os.path.lexists(path):
        return
    try:
        ours = stat.S_ISREG(path.lstat().st_mode) and is_ours(_beginning(path))
    except OSError:
        ours = False
    if not ours:
        raise DpGraphError(
            f"there is something at {quote_path(path)} that dp-publish plan did not write: give another {option}"
        )


def write_own(path: Path, content: bytes, is_ours: Callable[[bytes], bool], option: str) -> None:
    """Write a file, or replace an earlier one of ours.

    Raises
    ------
    DpGraphError
        There is something else at the path by now, or it cannot be written.
    """
    try:
        require_own_file(path, is_ours, option)
        write_whole(path, content, replace=os.path.lexists(path))
    except OSError as error:
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror}") from error


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_START)
