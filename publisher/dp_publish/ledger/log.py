"""The file that holds the ledger's log, and the copies of logs beside the signing key, which show a rollback.

The file is SQLite, in a mode in which it is complete by itself between any two uses, so that copying it is enough. A
copy is plain text, one line for each event, and named after the place of its ledger; but a ledger is known by its first
line, too, which no later event changes and which bears a random mark. So every copy in the folder that begins with that
line is a copy of the same ledger, wherever the ledger was when the copy was written and however its place was spelled.
A copy is behind its ledger only where a crash cut it short, so that a ledger which lacks lines of any copy of it was
rolled back or replaced, and is refused.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import shlex
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import DpGraphError, PrivacyError
from dp_bundle.files.new_files import locked, make_private_folder, write_whole
from dp_bundle.files.ownership import home_folder, require_own
from dp_publish.ledger.books import Books, OpenLog, chain, encode_line, read_books

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    line INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, sha256 TEXT NOT NULL
)
"""
_PATIENCE = 60.0  # seconds that a process waits for others
_COPIES = "ledger*.log"
_BESIDE = ("", "-journal", "-wal")  # what SQLite keeps beside the file, by the end of the name


@dataclass(frozen=True)
class LocalLog:
    """A log in an SQLite file.

    Parameters
    ----------
    path : Path
        The file.
    copy : Path or None
        The copy of its lines, if one is kept.
    """

    path: Path
    copy: Path | None

    @property
    def place(self) -> str:
        """The file's path."""
        return str(self.path)

    def is_there(self) -> bool:
        """Return True if there is a file, or a copy with lines."""
        return self.path.exists() or bool(read_copy(self.copy))

    def books(self) -> Books:
        """Read and check the log."""
        with self.open() as log:
            return log.books

    @contextlib.contextmanager
    def open(self) -> Iterator[OpenLocalLog]:
        """Read the log, and hold it alone; what is appended is kept if the block ends without an error.

        Raises
        ------
        PrivacyError
            The log was altered, or lacks lines that a copy has.
        DpGraphError
            One of the files cannot be used.
        """
        with self._held():
            with _connected(self.path) as connection:
                books = Books()
                _read(books, connection, self.path)
                if not has_all(books.lines, copies_of(self.copy, books.first).values()):
                    raise PrivacyError(
                        f"the ledger {self.path} lacks lines that it had before, here or at another place, as if an "
                        f"old copy had been put in its place, so what has been spent is not known: {_remedy(self.path)}"
                    )
                yield OpenLocalLog(books, connection)
            extend_copy(self.copy, books.lines)

    def rebuild(self) -> tuple[Path | None, int]:
        """Make the log readable again, and complete as far as the copy is; see `Ledger.rebuild`.

        A file that was altered or damaged is set aside, and its lines up to the damage go into a new one.
        """
        with self._held():
            aside, salvaged = _salvage(self.path) if self.path.exists() else (None, [])
            with _connected(self.path) as connection:
                books = Books()
                _read(books, connection, self.path)
                log = OpenLocalLog(books, connection)
                for line in salvaged:
                    log.append_line(line)
                before = len(books.lines)
                kept = _put_back_copies(log, self.copy)
                n_lines = len(books.lines) - before
            for path_of_copy in kept:
                rewrite_copy(path_of_copy, books.lines)
        return aside, n_lines

    def backup(self, target: Path) -> None:
        """Copy the file while nobody writes to it."""
        with self.open():
            content = self.path.read_bytes()
        write_whole(target, content, mode=0o600, replace=False)

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the log and its copy alone, and turn errors of the system into one of ours."""
        path = self.path
        if path.exists() and not path.is_file():  # to open a pipe would wait for ever
            raise DpGraphError(
                f"the ledger {path} cannot be used, as it is neither a file nor a folder: name another place"
            )
        try:
            with contextlib.ExitStack() as lock:
                if self.copy is not None:
                    require_own_ledger(self.copy, path)
                    lock.enter_context(locked(lock_of(self.copy), _PATIENCE))
                yield
        except (sqlite3.Error, OSError) as error:
            raise DpGraphError(f"the ledger {path} cannot be used ({error}): {_way_out(path, error)}") from error


class OpenLocalLog(OpenLog):
    """An open log in a file.

    Parameters
    ----------
    books : Books
        What it adds up to.
    connection : sqlite3.Connection
        The file.
    """

    def __init__(self, books: Books, connection: sqlite3.Connection) -> None:
        super().__init__(books)
        self._connection = connection

    def append(self, content: dict[str, Any]) -> bool:
        """Append an event, with a mark if it is the first; that always succeeds, as nobody else can."""
        return self.append_line(encode_line(content)) if self.books.lines else super().append(content)

    def append_line(self, line: str) -> bool:
        """Append an event that is a line already."""
        self.books.add(line)
        self._connection.execute("INSERT INTO log (content, sha256) VALUES (?, ?)", (line, self.books.head))
        return True


def _put_back_copies(log: OpenLocalLog, copy: Path | None) -> set[Path]:
    """Append what the copies hold beyond the log, and return them; the first lines may show that there are more."""
    done: set[Path] = set()
    while waiting := {path: lines for path, lines in copies_of(copy, log.books.first).items() if path not in done}:
        path, lines = next(iter(waiting.items()))
        kept, before = read_books(lines), log.books.lines
        if before == kept.lines[: len(before)]:
            for line in kept.lines[len(before) :]:
                log.append_line(line)
        elif before[: len(kept.lines)] != kept.lines:
            log.put_back(kept)
        done.add(path)
    return done


def _way_out(path: Path, error: Exception) -> str:
    """Return what to do about an error of the system or of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more than we need
    number = error.errno if isinstance(error, OSError) else None
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or isinstance(error, TimeoutError):
        return f"another process has held it for {_PATIENCE:g} seconds: wait until that ends, and try again"
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return "there is no room for it: free some, and try again"
    forbidden = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)  # the last of a folder that nobody may make
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or number in forbidden:
        return (
            "you need the right to write to it, to its folder and to the folder of your keys, also to read it; or set "
            "DPGRAPH_HOME to a folder of yours"
        )
    return (
        f"make sure that it can be read and written, and that there is room for it; if it is damaged, {_remedy(path)}"
    )


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file in one transaction, which is committed if the block ends without an error."""
    make_private_folder(path.parent)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        _use_one_file(connection)
        connection.execute("PRAGMA synchronous = EXTRA")  # with which a commit survives a loss of power in that mode
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_SCHEMA)
        yield connection
        connection.execute("COMMIT")
    finally:
        connection.close()


def _use_one_file(connection: sqlite3.Connection) -> None:
    """Keep the whole log in one file; wait for other processes, as SQLite does elsewhere and not here."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _read(books: Books, connection: sqlite3.Connection, path: Path) -> None:
    """Add all lines to the books, up to one that was altered."""
    rows = connection.execute("SELECT line, content, sha256 FROM log ORDER BY line")
    for expected, (line, text, digest) in enumerate(rows, start=1):
        if line != expected or digest != chain(books.head, text):
            raise _altered(path, expected)
        try:
            books.add(text)
        except ValueError as error:
            raise _altered(path, expected) from error
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").fetchone()
    if last is not None and last[0] != len(books.lines):
        raise _altered(path, len(books.lines) + 1)


def _salvage(path: Path) -> tuple[Path | None, list[str]]:
    """Set a file aside that was altered or damaged, and return where it is and its lines up to the damage."""
    books = Books()
    try:
        with _connected(path) as connection:
            _read(books, connection, path)
    except PrivacyError:
        salvaged = books.lines
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # locked, or without room: nothing is known to be damaged
            raise
        salvaged = []
    else:
        return None, []
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")
    return path.rename(path.with_name(f"{path.name}.damaged-{now}")), salvaged


def _remedy(path: Path) -> str:
    place = "" if path == home_folder() / "ledger.sqlite" else f" --ledger {shlex.quote(str(path))}"
    return f"`dp-publish ledger restore{place} BUNDLES` repairs it from the copy beside the key and from your bundles"


def _altered(path: Path, line: int) -> PrivacyError:
    return PrivacyError(
        f"the ledger {path} was altered at line {line}, so what has been spent is not known: {_remedy(path)}"
    )


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
