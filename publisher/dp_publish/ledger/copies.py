"""The copies of a ledger's log, which show a ledger that was rolled back.

A copy lies beside the signing key. It is plain text, one line for each event, and named after the place of its ledger;
but a ledger is known by its first line, too, which no later event changes and which bears a random mark. So every copy
in the folder that begins with that line is a copy of the same ledger, wherever the ledger was when the copy was written
and however its place was spelled, and the ledger must have all lines of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from dp_bundle.files.new_files import write_whole
from dp_bundle.files.ownership import require_own

_COPIES = "ledger*.log"
_BESIDE = ("", "-journal", "-wal")  # what SQLite keeps beside the file, by the end of the name


def read_copy(copy: Path | None) -> list[str]:
    """Return the lines of the copy; the last one is left out if a crash cut it short."""
    if copy is None or not copy.exists():
        return []
    return copy.read_bytes().decode("utf-8", errors="replace").split("\n")[:-1]


def read_copies(copy: Path) -> dict[Path, list[str]]:
    """Return the lines of a copy, and of all others in its folder."""
    beside = (path for path in sorted(copy.parent.glob(_COPIES)) if path.is_file())
    return {path: read_copy(path) for path in (copy, *beside)}


def copies_of(copy: Path | None, first: str | None) -> dict[Path, list[str]]:
    """Return the lines of all copies of a ledger: its own, and those beside it that begin with its first line.

    Parameters
    ----------
    copy : Path or None
        That of its place, if any is kept.
    first : str or None
        The ledger's first line, if it has one.
    """
    if copy is None:
        return {}
    return {path: lines for path, lines in read_copies(copy).items() if path == copy or lines[:1] == [first]}


def has_all(lines: list[str], copies: Iterable[list[str]]) -> bool:
    """Return True if a ledger's lines begin with those of every copy."""
    return all(lines[: len(kept)] == kept for kept in copies)


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


def extend_copy(copy: Path | None, lines: list[str]) -> None:
    """Append to the copy what it lacks."""
    kept = read_copy(copy)
    if copy is None or len(kept) == len(lines):
        return
    with os.fdopen(os.open(copy, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), "r+b") as file:
        file.seek(sum(len(line.encode()) + 1 for line in kept))
        file.truncate()
        file.write("".join(f"{line}\n" for line in lines[len(kept) :]).encode())
        file.flush()
        os.fsync(file.fileno())


def rewrite_copy(copy: Path, lines: list[str]) -> None:
    """Replace a copy by these lines."""
    write_whole(copy, "".join(f"{line}\n" for line in lines).encode(), mode=0o600, replace=True)
