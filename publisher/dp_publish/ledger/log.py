"""The file that holds the ledger's log, and the copy of the log beside the signing key.

The file is SQLite, in a mode in which it is complete by itself between any two uses, so that copying it is enough. The
copy is behind the file only where a crash cut it short, so that a file which lacks lines of the copy, or of any other
copy of the same ledger (`copies`), was rolled back or replaced, and is refused.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import shlex
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import DpGraphError, PrivacyError
from dp_bundle.files.new_files import locked, make_private_folder, write_whole
from dp_bundle.files.ownership import home_folder
from dp_publish.ledger.books import BOOKED, Books, chain, encode_line, line_that_restores, marked, read_books
from dp_publish.ledger.budget import Account
from dp_publish.ledger.checkpoint import (
    advance,
    checkpoint_all,
    file_state,
    is_current,
    read_account,
    read_state,
    write_stamp,
)
from dp_publish.ledger.copies import (
    append_to_copy,
    copies_of,
    extend_copy,
    has_all,
    lock_of,
    read_copy,
    require_own_ledger,
    state_of_copies,
)
from dp_publish.ledger.events import read_event

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    line INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, sha256 TEXT NOT NULL
)
"""
_PATIENCE = 60.0  # seconds that a process waits for others


class Log:
    """An open log: what it adds up to so far, and a way to append.

    Parameters
    ----------
    connection : sqlite3.Connection
        The log's file.
    path, copy : Path, Path or None
        The log's file and its copy.
    end : (int, str), optional
        Number and hash of the last line, if the checkpoint is known to be up to date.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path, copy: Path | None, end: tuple[int, str] | None = None
    ) -> None:
        self.connection = connection
        self.appended: list[str] = []
        self.line, self.head = end or (0, "")
        self._path, self._copy = path, copy
        self._books: Books | None = None
        if end is None:
            self.line, self.head = len(self.books.lines), self.books.head

    @property
    def books(self) -> Books:
        """All that the log adds up to, for which it is read and checked whole."""
        if self._books is None:
            self._books = _read(self.connection, self._path)
            if not has_all(self._books.lines, copies_of(self._copy, self._books.first)):
                raise PrivacyError(
                    f"the ledger {self._path} lacks lines that it had before, here or at another place, as if an old "
                    f"copy had been put in its place, so what has been spent is not known: {_remedy(self._path)}"
                )
        return self._books

    @property
    def is_whole(self) -> bool:
        """True once all of it has been read."""
        return self._books is not None

    @property
    def newest(self) -> str | None:
        """The time of the release that was booked last, or put back; None if there is none."""
        if self._books is not None:
            return self._books.newest
        last = "SELECT content FROM log WHERE instr(content, ?) OR instr(content, ?) ORDER BY line DESC LIMIT 1"
        found = self.connection.execute(last, BOOKED).fetchone()
        return None if found is None else read_event(found[0])["time"]

    def account(self, dataset: str, partition: str | None = None) -> Account:
        """Return what a dataset's releases add up to: all of them, or those of one partition and of none."""
        account = None if self.is_whole else read_account(self.connection, dataset, partition)
        return account if account is not None else self.books.account(dataset)

    def state(self, dataset: str, number: int) -> str | None:
        """Return the state of a release, if there is one."""
        state = None if self.is_whole else read_state(self.connection, dataset, number)
        if state is None and (dataset, number, "") in self.books.entries:
            state = self.books.entries[(dataset, number, "")].state
        return state

    def append(self, content: dict[str, Any]) -> bool:
        """Append an event, which always succeeds, as nobody else can."""
        return self.append_line(encode_line(content if self.line else marked(content)))

    def append_line(self, line: str) -> bool:
        """Append an event that is a line already."""
        digest = chain(self.head, line)
        self.connection.execute("INSERT INTO log (content, sha256) VALUES (?, ?)", (line, digest))
        if self._books is None and not advance(self.connection, self.line + 1, digest, read_event(line)):
            _ = self.books  # the line included, from which the checkpoint is then made anew
        elif self._books is not None:
            self._books.add(line)
        self.line, self.head = self.line + 1, digest
        self.appended.append(line)
        return True


@contextlib.contextmanager
def open_log(path: Path, copy: Path | None, *, whole: bool = False) -> Iterator[Log]:
    """Hold the log alone; what is appended is kept if the block ends without an error.

    Parameters
    ----------
    path : Path
        The SQLite file.
    copy : Path or None
        The copy, if one is kept.
    whole : bool
        Whether to read and check all of it, even if the checkpoint is up to date.

    Raises
    ------
    PrivacyError
        The log was altered, or lacks lines that the copy has.
    DpGraphError
        One of the files cannot be used.
    """
    with _held(path, copy):
        states = file_state(path), state_of_copies(copy)
        with _connected(path) as connection:
            log = Log(connection, path, copy, None if whole else is_current(connection, path, *states))
            yield log
            sound = log.appended and (not log.is_whole or checkpoint_all(connection, log.books))
        if log.is_whole:
            extend_copy(copy, log.books.lines)
        elif log.appended:
            append_to_copy(copy, log.appended)
        if sound:
            write_stamp(path, state_of_copies(copy), log.line, log.head)


def rebuild_log(path: Path, copy: Path | None) -> tuple[Path | None, int]:
    """Make the log readable again, and complete as far as the copy is.

    A file that was altered or damaged is set aside, and its lines up to the damage go into a new one.

    Returns
    -------
    damaged : Path or None
        Where the damaged file is now, if there was one.
    n_lines : int
        How many lines came from the copy.
    """
    with _held(path, copy):
        aside: Path | None = None
        salvaged: list[str] = []
        if path.exists():
            salvaged, whole = _salvage(path)
            aside = None if whole else _set_aside(path)

        with _connected(path) as connection:
            log = Log(connection, path, None)
            for line in salvaged if aside else []:
                log.append_line(line)
            before = len(log.books.lines)
            kept = _put_back_copies(log, copy)
            n_lines = len(log.books.lines) - before
        content = "".join(f"{line}\n" for line in log.books.lines).encode()
        for path_of_copy in kept:
            write_whole(path_of_copy, content, mode=0o600, replace=True)
    return aside, n_lines


def _put_back_copies(log: Log, copy: Path | None) -> list[Path]:
    """Append what the copies hold beyond the log, and return them; the first lines may show that there are more."""
    done: list[Path] = []
    while waiting := [path for path in copies_of(copy, log.books.first) if path not in done]:
        kept, before = read_books(read_copy(waiting[0])), log.books.lines
        if before == kept.lines[: len(before)]:
            for line in kept.lines[len(before) :]:
                log.append_line(line)
        elif before[: len(kept.lines)] != kept.lines:
            _put_back(log, kept)
        done.append(waiting[0])
    return done


def _put_back(log: Log, other: Books) -> None:
    """Append what other books hold beyond these."""
    for entry in other.of(None):
        line = line_that_restores(log.books, entry, other.budgets.get(entry.dataset))
        if line is not None:
            log.append_line(line)


@contextlib.contextmanager
def _held(path: Path, copy: Path | None) -> Iterator[None]:
    """Hold the log and its copy alone, and turn errors of the system into one of ours."""
    if path.exists() and not path.is_file():  # to open a pipe would wait for ever
        raise DpGraphError(
            f"the ledger {path} cannot be used, as it is neither a file nor a folder: name another place"
        )
    try:
        with contextlib.ExitStack() as lock:
            if copy is not None:
                require_own_ledger(copy, path)
                lock.enter_context(locked(lock_of(copy), _PATIENCE))
            yield
    except (sqlite3.Error, OSError) as error:
        raise DpGraphError(f"the ledger {path} cannot be used ({error}): {_way_out(path, error)}") from error


def _way_out(path: Path, error: Exception) -> str:
    """Return what to do about an error of the system or of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more than we need
    number = error.errno if isinstance(error, OSError) else None
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or isinstance(error, TimeoutError):
        return f"another process has held it for {_PATIENCE:g} seconds: wait until that ends, and try again"
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return "there is no room for it: free some, and try again"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "you need the right to write to it, to its folder and to the folder of your keys, also to read it"
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


def _read(connection: sqlite3.Connection, path: Path) -> Books:
    books = Books()
    for expected, (line, text, digest) in enumerate(_rows(connection), start=1):
        if line != expected or digest != chain(books.head, text):
            raise _altered(path, expected)
        try:
            books.add(text)
        except ValueError as error:
            raise _altered(path, expected) from error
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").fetchone()
    if last is not None and last[0] != len(books.lines):
        raise _altered(path, len(books.lines) + 1)
    return books


def _salvage(path: Path) -> tuple[list[str], bool]:
    """Return the lines up to the first that was altered, and whether that is all of them."""
    books = Books()
    try:
        with _connected(path) as connection:
            _read(connection, path)
    except PrivacyError:
        with _connected(path) as connection:
            for expected, (line, text, digest) in enumerate(_rows(connection), start=1):
                if line != expected or digest != chain(books.head, text):
                    break
                try:
                    books.add(text)
                except ValueError:
                    break
        return books.lines, False
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # locked, or without room: nothing is known to be damaged
            raise
        return [], False
    return [], True


def _rows(connection: sqlite3.Connection) -> Iterator[tuple[int, str, str]]:
    yield from connection.execute("SELECT line, content, sha256 FROM log ORDER BY line")


def _set_aside(path: Path) -> Path:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")
    return path.rename(path.with_name(f"{path.name}.damaged-{now}"))


def _remedy(path: Path) -> str:
    place = "" if path == home_folder() / "ledger.sqlite" else f" --ledger {shlex.quote(str(path))}"
    return f"`dp-publish ledger restore{place} BUNDLES` repairs it from the copy beside the key and from your bundles"


def _altered(path: Path, line: int) -> PrivacyError:
    return PrivacyError(
        f"the ledger {path} was altered at line {line}, so what has been spent is not known: {_remedy(path)}"
    )
