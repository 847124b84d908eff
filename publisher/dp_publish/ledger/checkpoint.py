"""What is kept beside a ledger's log: copies of its lines, and the checkpoint.

A copy lies beside the signing key, and shows a ledger that was rolled back. It is plain text, one line for each event,
and named after the place of its ledger; but a ledger is known by its first line, too, which no later event changes and
which bears a random mark. So every copy in the folder that begins with that line is a copy of the same ledger, wherever
the ledger was when the copy was written and however its place was spelled, and the ledger must have all lines of it.

The checkpoint is what the log adds up to, so that a reservation does not have to read all of it.
It is a table in the log's own file, written in the transaction of the line that it is about: for every
dataset its account, the account of each of its partitions, and the state of each release that is under way. Every row
carries the number and, in its hash, the hash of the last line that it counts. It is a copy of what the log says, and
never the truth: it is made anew from the log wherever there is a doubt.

That the lines before it are still what they were cannot be seen without reading them. So a small file beside the log,
the stamp, says in which state the log's file and its copies were left: their sizes, times, places on the disk, SQLite's
count of changes, the number of lines, and the hash of the last one. If any of that differs, or the stamp's own hash is
wrong, the log is read and checked whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from dp_bundle.files.new_files import write_whole
from dp_bundle.files.ownership import require_own
from dp_publish.ledger.books import Books, chain, encode_line, entry_of
from dp_publish.ledger.budget import Account

_SCHEMA = """
CREATE TABLE IF NOT EXISTS checkpoint (
    dataset TEXT NOT NULL, part TEXT NOT NULL, line INTEGER NOT NULL, content TEXT NOT NULL, sha256 TEXT NOT NULL,
    PRIMARY KEY (dataset, part)
) WITHOUT ROWID
"""
_COPIES = "ledger*.log"
_BESIDE = ("", "-journal", "-wal", ".stamp")  # what SQLite and we keep beside the file, by the end of the name
_WHOLE = ""  # the part of a row about a whole dataset
_PARTITION, _RELEASE = "partition ", "release "  # and the beginnings of others
_SUMS = ("sums", "largest")
_UNFINISHED = ("reserved", "sealed")
_VERSION = 3  # 1 had no sums for changes of cells where a release was for cells or rows; 2 knew no rho, and one copy
_CHANGES = slice(24, 28)  # of SQLite's header: how often the file was changed


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


def rewrite_copy(copy: Path, lines: list[str]) -> None:
    """Replace a copy by these lines."""
    write_whole(copy, "".join(f"{line}\n" for line in lines).encode(), mode=0o600, replace=True)


def append_to_copy(copy: Path | None, lines: list[str]) -> None:
    """Append to a copy that is known to hold all lines before."""
    if copy is not None:
        with os.fdopen(os.open(copy, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC), "ab") as file:
            _write_lines(file, lines)


def file_state(path: Path | None) -> list[int] | None:
    """Return what tells one state of a file from another without reading it; None if it is not there.

    Call it while no connection is open: to close a file gives up the locks that this process has on it.
    """
    try:
        with (path or Path()).open("rb") as file:
            status, changes = os.fstat(file.fileno()), int.from_bytes(file.read(28)[_CHANGES], "big")
    except OSError:
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, changes]


def write_stamp(path: Path, copies: list[Any] | None, line: int, head: str) -> None:
    """Record the state of the log's file and its copies; without that record, the whole log is read."""
    stamp = {"version": _VERSION, "line": line, "head": head, "log": file_state(path), "copies": copies}
    content = encode_line({**stamp, "sha256": _digest(stamp)})
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError), os.fdopen(os.open(_stamp_path(path), flags, 0o600), "wb") as file:
        file.write(content.encode())  # in place: a stamp that was cut short is none


def is_current(
    connection: sqlite3.Connection, path: Path, log: list[int] | None, copies: list[Any] | None
) -> tuple[int, str] | None:
    """Return the number and the hash of the log's last line if the checkpoint is up to date, otherwise None.

    Parameters
    ----------
    connection : sqlite3.Connection
        The log's file, which nobody else can change now.
    path : Path
        Where it is.
    log, copies : list or None
        The states of the file and of its copies, from just before.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        stamp = json.loads(_stamp_path(path).read_bytes())
        digest, line, head = stamp.pop("sha256"), stamp["line"], stamp["head"]
        now = path.stat()
        same = [now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns] == (log or [])[:4]
        known = stamp["version"] == _VERSION and digest == _digest(stamp)
        if same and known and (stamp["log"], stamp["copies"]) == (log, copies) and _ends(connection, line, head):
            return line, head
    return None


def read_account(connection: sqlite3.Connection, dataset: str, partition: str | None) -> Account | None:
    """Return a dataset's account, with that of one partition; None if the checkpoint does not hold together."""
    whole = _read(connection, dataset, _WHOLE)
    part = _read(connection, dataset, f"{_PARTITION}{partition}") if partition is not None else {}
    if whole is None or part is None:
        return None
    account = Account(parts={partition: _numbers(part)} if partition is not None else {})
    for name, value in whole.items():
        setattr(account, name, _numbers(value) if name in _SUMS else value)
    if whole:
        account.excepted = _number(whole["excepted"])
        account.previous = tuple(whole["previous"]) if whole["previous"] else None
    return account


def read_state(connection: sqlite3.Connection, dataset: str, number: int) -> str | None:
    """Return the state of a release that is under way; None if it is not, or the checkpoint does not hold together."""
    return (_read(connection, dataset, f"{_RELEASE}{number}") or {}).get("state")


def advance(connection: sqlite3.Connection, line: int, head: str, content: dict[str, Any]) -> bool:
    """Count one more line; return whether that could be done, as it can for all that a release usually does."""
    dataset, number, event = content["dataset"], content["number"], content["event"]
    partition = content["partition"] if event == "reserved" else None
    account = read_account(connection, dataset, partition)
    if account is None or event not in ("reserved", "sealed", "published"):
        return False
    if event == "reserved":
        account.add(entry_of(content))
        account.budgets.update(content.get("budgets", {}))
    if event == "published":
        account.publish(number, content["manifest_sha256"])
    _write_account(connection, line, head, dataset, account)
    _write_state(connection, line, head, dataset, number, event)
    return True


def checkpoint_all(connection: sqlite3.Connection, books: Books) -> bool:
    """Make the checkpoint anew from the whole log; return whether that could be done, as all costs are finite."""
    line, head = len(books.lines), books.head
    connection.execute(_SCHEMA)
    connection.execute("DELETE FROM checkpoint")
    by_dataset: dict[str, list[Any]] = {}
    for (dataset, number, mark), entry in books.entries.items():
        by_dataset.setdefault(dataset, []).append(entry)
        if not mark and entry.state in _UNFINISHED:
            _write_state(connection, line, head, dataset, number, entry.state)
    for dataset, entries in by_dataset.items():
        try:
            account = Account.of(sorted(entries, key=lambda entry: entry.number), books.budgets.get(dataset))
        except (OverflowError, ValueError):
            return False
        _write_account(connection, line, head, dataset, account)
    return True


def _ends(connection: sqlite3.Connection, line: int, head: str) -> bool:
    """Return True if the log ends with this line, which follows from its content and the hash of the one before."""
    rows = connection.execute("SELECT line, content, sha256 FROM log ORDER BY line DESC LIMIT 2").fetchall()
    if not rows or (rows[0][0], rows[0][2]) != (line, head):
        return False
    before = rows[1][2] if len(rows) > 1 else ""
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").fetchone()
    return last == (line,) and chain(before, rows[0][1]) == head


def _read(connection: sqlite3.Connection, dataset: str, part: str) -> dict[str, Any] | None:
    """Return the content of a row, empty if there is none; None if it is not what it was."""
    found = connection.execute(
        "SELECT checkpoint.line, checkpoint.content, checkpoint.sha256, log.sha256 FROM checkpoint "
        "LEFT JOIN log ON log.line = checkpoint.line WHERE dataset = ? AND part = ?",
        (dataset, part),
    ).fetchone()
    if found is None:
        return {}
    line, content, digest, head = found
    return json.loads(content) if digest == _row_digest(dataset, part, line, head, content) else None


def _write(
    connection: sqlite3.Connection, line: int, head: str, dataset: str, part: str, content: dict[str, Any]
) -> None:
    text = encode_line(content)
    row = (dataset, part, line, text, _row_digest(dataset, part, line, head, text))
    connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?, ?, ?)", row)


def _write_account(connection: sqlite3.Connection, line: int, head: str, dataset: str, account: Account) -> None:
    whole = {name: value for name, value in asdict(account).items() if name != "parts"}
    whole |= {name: _texts(whole[name]) for name in _SUMS} | {"excepted": _text(account.excepted)}
    _write(connection, line, head, dataset, _WHOLE, whole)
    for partition, sums in account.parts.items():
        _write(connection, line, head, dataset, f"{_PARTITION}{partition}", _texts(sums))


def _write_state(connection: sqlite3.Connection, line: int, head: str, dataset: str, number: int, state: str) -> None:
    part = f"{_RELEASE}{number}"
    if state in _UNFINISHED:
        _write(connection, line, head, dataset, part, {"state": state})
    else:
        connection.execute("DELETE FROM checkpoint WHERE dataset = ? AND part = ?", (dataset, part))


def _stamp_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.stamp")


def _digest(stamp: dict[str, Any]) -> str:
    return hashlib.sha256(encode_line(stamp).encode()).hexdigest()


def _row_digest(dataset: str, part: str, line: int, head: str, content: str) -> str:
    return hashlib.sha256(json.dumps([dataset, part, line, head, content]).encode()).hexdigest()


def _text(amount: int) -> str:
    """Return a whole number that ends in many zero bits, briefly."""
    zeros = (amount & -amount).bit_length() - 1 if amount else 0
    return f"{amount >> zeros:x}p{zeros}"


def _number(text: str) -> int:
    digits, zeros = text.split("p")
    return int(digits, 16) << int(zeros)


def _texts(amounts: dict[str, int]) -> dict[str, str]:
    return {name: _text(amount) for name, amount in amounts.items()}


def _numbers(texts: Any) -> dict[str, int]:
    return {name: _number(text) for name, text in texts.items()}


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
