"""Copies of a ledger's lines beside the signing key, by which a ledger that was rolled back is known.

A copy is plain text, one line for each event. It is named after the place of its ledger; but a ledger is known by its
first line, too, which no later event changes and which bears a random mark. So every copy in the folder that begins
with that line is a copy of the same ledger, wherever the ledger was when the copy was written and however its place was
spelled, and the ledger must have all lines of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from dp_bundle.files.ownership import require_own
from dp_publish.ledger.checkpoint import file_state

_COPIES = "ledger*.log"
_BESIDE = ("", "-journal", "-wal", ".stamp")  # what SQLite and we keep beside the file, by the end of the name


def read_copy(copy: Path | None) -> list[str]:
    """Return the lines of the copy; the last one is left out if a crash cut it short."""
    if copy is None or not copy.exists():
        return []
    return copy.read_bytes().decode("utf-8", errors="replace").split("\n")[:-1]


def copies_of(copy: Path | None, first: str | None) -> list[Path]:
    """Return all copies of a ledger: that of its place, and those beside it that begin with its first line.

    Parameters
    ----------
    copy : Path or None
        That of its place, if any is kept.
    first : str or None
        The ledger's first line, if it has one.
    """
    if copy is None:
        return []
    beside = sorted(copy.parent.glob(_COPIES)) if first is not None else []
    return [copy, *(path for path in beside if path != copy and _first_line(path) == first)]


def require_own_ledger(copy: Path | None, path: Path | None = None) -> None:
    """Refuse a ledger's file, or a copy of it, that others may read, write or replace.

    Raises
    ------
    KeyStoreError
        They may; the message has the command that takes the permission from them.
    """
    beside = [path.with_name(f"{path.name}{end}") for end in _BESIDE] if path is not None else []
    for each in [copy, *beside] if copy is not None else []:
        require_own(each, private=True, holds="what the ledger has as spent")


def lock_of(copy: Path) -> Path:
    """Return the lock of all copies in a folder, as several may be of one ledger."""
    return copy.with_name("ledger.lock")


def has_all(lines: list[str], copies: Iterable[Path], sizes: Mapping[Path, int] | None = None) -> bool:
    """Return True if a ledger's lines begin with those of every copy, as it was when it had a size."""
    for copy in copies:
        kept = read_copy(copy)
        if sizes is not None:
            kept = kept[: _lines_within(kept, sizes.get(copy, 0))]
        if lines[: len(kept)] != kept:
            return False
    return True


def sizes_of(copy: Path) -> dict[Path, int]:
    """Return the sizes of all copies in the folder of one."""
    return {path: path.stat().st_size for path in copy.parent.glob(_COPIES)}


def state_of_copies(copy: Path | None) -> list[Any] | None:
    """Return what tells one state of a ledger's copies from another without reading them; None if none is kept."""
    first = _first_line(copy) if copy is not None else None
    return [[path.name, file_state(path)] for path in copies_of(copy, first)] or None


def extend_copy(copy: Path | None, lines: list[str]) -> None:
    """Append to the copy what it lacks."""
    kept = read_copy(copy)
    if copy is None or len(kept) == len(lines):
        return
    with os.fdopen(os.open(copy, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), "r+b") as file:
        file.seek(sum(len(line.encode()) + 1 for line in kept))
        file.truncate()
        _write_lines(file, lines[len(kept) :])


def append_to_copy(copy: Path | None, lines: list[str]) -> None:
    """Append to a copy that is known to hold all lines before."""
    if copy is not None:
        with os.fdopen(os.open(copy, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC), "ab") as file:
            _write_lines(file, lines)


def _first_line(copy: Path) -> str | None:
    """Return the first line of a copy, if it has a whole one."""
    if not copy.is_file():
        return None
    with copy.open("rb") as file:
        line = file.readline()
    return line[:-1].decode("utf-8", errors="replace") if line.endswith(b"\n") else None


def _lines_within(lines: list[str], size: int) -> int:
    """Return how many of the lines were in a file of that size."""
    for number, line in enumerate(lines):
        size -= len(line.encode()) + 1
        if size < 0:
            return number
    return len(lines)


def _write_lines(file: BinaryIO, lines: list[str]) -> None:
    file.write("".join(f"{line}\n" for line in lines).encode())
    file.flush()
    os.fsync(file.fileno())
