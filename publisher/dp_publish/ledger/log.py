"""The file that holds the ledger's log, and the copies of logs beside the signing key, which show a rollback.

The file is SQLite, in a mode in which it is complete by itself between any two uses, so that copying it is enough. A
copy is plain text, one line for each event, and named after the place of its ledger; but a ledger is known by its first
line, too, which no later event changes and which bears a random mark. So every copy in the folder that begins with that
line is a copy of the same ledger, wherever the ledger was when the copy was written and however its place was spelled.
A copy is behind its ledger only where a crash cut it short, so that a ledger which lacks lines of any copy of it was
rolled back or replaced, and is refused.

A log on shared storage has one object for each event, created once and never replaced. Object `00000001.txt` holds the
hash of the event before it and, on the next line, the event as a local log has it. That is what the hash of an event is
taken over, so that the SHA-256 of an object is the head of the log up to there, and the heads are those that the same
events have in a local log. To append is to create the next number: of all who try, the storage lets one succeed, and
the others read what came first and decide again. Each event has a random mark, by which two that are otherwise equal
differ, so that nobody takes another's object for his own. A chain does not show that its end is missing. So each
machine keeps a copy of the lines that it has seen, and refuses a log that does not begin with them, by whatever name
its place goes (`copies_of`).
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import re
import shlex
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import DpGraphError, PrivacyError, StoreError
from dp_bundle.files.new_files import locked, make_private_folder, write_whole
from dp_bundle.files.ownership import home_folder, require_own
from dp_bundle.files.places import Store
from dp_publish.ledger.books import Books, OpenLog, chain, encode_line, read_books, read_event

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    line INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, sha256 TEXT NOT NULL
)
"""
_PATIENCE = 60.0  # seconds that a process waits for others
_COPIES = "ledger*.log"
_BESIDE = ("", "-journal", "-wal")  # what SQLite keeps beside the file, by the end of the name
_BEGINNING, _CONTENT = "00000000.txt", b"a ledger of dpgraph, version 1\n"
_EVENT = re.compile(r"[0-9]{8}\.txt")
_AT_ONCE = 16  # objects that are read at the same time


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


class SharedLog:
    """A log under one prefix of a store.

    Parameters
    ----------
    store : Store
        It holds the ledger alone. To create, read and list objects is all that is asked of it.
    copy : Path
        The copy of the lines that were seen from here.
    """

    def __init__(self, store: Store, copy: Path) -> None:
        self.place = store.uri
        self._store, self.copy = store, copy

    def is_there(self) -> bool:
        """Return True if there is an event, or was one."""
        with self._in_our_words():
            return bool(self._store.names()) or bool(read_copy(self.copy))

    def books(self) -> Books:
        """Read and check all of the log."""
        with self._in_our_words():
            return self._read(whole=True)

    @contextlib.contextmanager
    def open(self) -> Iterator[OpenSharedLog]:
        """Read what is new of the log since the copy was written."""
        with self._in_our_words():
            yield OpenSharedLog(self._read(whole=False), self._store, self.copy, self._rolled_back())

    def rebuild(self) -> tuple[None, int]:
        """Create the objects that are missing, as far as the copy has them, and append what only other copies have.

        Raises
        ------
        PrivacyError
            An object was rewritten, which only whoever has the right to replace objects can undo.
        """
        require_own_ledger(self.copy)
        kept, n_lines = self._longest(), 0
        books = Books()
        for number, line in enumerate(kept, start=1):
            content, found = _object(books.head, line), self._find(number)
            if found is None:
                n_lines += self._store.create(_name(number), content) == content
            elif found != content:
                break
            books.add(line)
        if kept:
            begin_log(self._store)
        return None, n_lines + self._merge()

    def backup(self, target: Path) -> None:
        """Write the events to a local ledger."""
        lines = self._read(whole=True).lines
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "ledger.sqlite")
            with LocalLog(path, None).open() as log:
                for line in lines:
                    log.append_line(line)
            content = path.read_bytes()
        write_whole(target, content, mode=0o600, replace=False)

    @contextlib.contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """Name the ledger where its storage cannot be used."""
        try:
            yield
        except StoreError as error:
            raise StoreError(f"the ledger {self.place}", error.reason) from error
        except OSError as error:  # of this machine: those of the storage are StoreErrors
            way_out = "try again" if isinstance(error, TimeoutError) else "set DPGRAPH_HOME to a folder of yours"
            raise DpGraphError(
                f"what this machine has seen of the ledger {self.place} cannot be kept in {self.copy.parent} "
                f"({error.strerror}): {way_out}"
            ) from error

    def _merge(self) -> int:
        """Append what was booked at another place on an older state of this log, and make all copies those of this."""
        log = OpenSharedLog(self._read(whole=True, alone=True), self._store, self.copy, None)
        copies, n_before = copies_of(self.copy, log.books.first), len(log.books.lines)
        del copies[self.copy]
        if not all(log.put_back(read_books(lines)) for lines in copies.values()):
            raise DpGraphError(f"somebody else writes to the ledger {self.place}: try again")
        for copy in copies:
            rewrite_copy(copy, log.books.lines)
        self._read(whole=True)
        return len(log.books.lines) - n_before

    def _read(self, *, whole: bool, alone: bool = False) -> Books:
        """Return the books.

        Lines of the copy are believed, except for the last, unless all is to be read. Copies of this log from other
        places are looked at unless it is to be read alone.
        """
        require_own_ledger(self.copy)
        copies = read_copies(self.copy)
        kept, n_events = copies[self.copy], self._count()
        if n_events < len(kept):
            raise self._rolled_back()
        start = 0 if whole else max(0, len(kept) - 1)
        books = Books()
        for line in kept[:start]:
            books.add(line)

        for number, content in enumerate(self._contents(start, n_events), start=start + 1):
            try:
                head, line = content.decode().split("\n")
                follows = head == books.head
                if follows:
                    books.add(line)
            except ValueError as error:
                raise self._altered(number) from error
            if not follows or (number <= len(kept) and kept[number - 1] != line):
                raise self._altered(number)
        if not alone and not has_all(books.lines, (each for each in copies.values() if each[:1] == books.lines[:1])):
            raise self._rolled_back()
        keep(self.copy, books.lines, None if alone else self._rolled_back())
        return books

    def _longest(self) -> list[str]:
        """Return the copy of most lines, which is of another place if the ledger was moved."""
        first = self._find(1)
        line = first.decode("utf-8", "replace").partition("\n")[2] if first is not None else None
        line = line if line is not None else next(iter(read_copy(self.copy)), None)
        return max(copies_of(self.copy, line).values(), key=len)

    def _count(self) -> int:
        """Return the number of events, after checking that none is missing, and that nothing else lies among them."""
        names = self._store.names()
        if not names:
            return 0
        for name in names:
            if not _EVENT.fullmatch(name):
                raise DpGraphError(
                    f"the ledger {self.place} cannot be used, as {name} is no event of a ledger: give the ledger a "
                    "folder or prefix of its own"
                )
        if names[0] != _BEGINNING or self._store.read(_BEGINNING) != _CONTENT:
            raise DpGraphError(
                f"the ledger {self.place} cannot be used: {_BEGINNING} is missing or is not what a ledger of this "
                f"version begins with; {self._remedy}"
            )
        for number, name in enumerate(names):
            if name != _name(number):
                raise PrivacyError(
                    f"the ledger {self.place} lacks event {number}, so what has been spent is not known: {self._remedy}"
                )
        return len(names) - 1

    def _contents(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the objects of the events from a place to another."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for first in range(start, stop, 64 * _AT_ONCE):
                names = [_name(number + 1) for number in range(first, min(stop, first + 64 * _AT_ONCE))]
                try:
                    yield from pool.map(self._store.read, names)
                except FileNotFoundError as error:
                    raise PrivacyError(
                        f"the ledger {self.place} lost an event while it was read, so what has been spent is not "
                        f"known: {self._remedy}"
                    ) from error

    def _find(self, number: int) -> bytes | None:
        try:
            return self._store.read(_name(number))
        except FileNotFoundError:
            return None

    @property
    def _remedy(self) -> str:
        return (
            f"put back the versions of its objects that the storage kept, or run `dp-publish ledger restore --ledger "
            f"{self.place} BUNDLES`, which puts back missing ones from the copy beside the key"
        )

    def _altered(self, number: int) -> PrivacyError:
        return PrivacyError(
            f"the ledger {self.place} was altered at event {number}, or two ledgers were mixed there, so what has been "
            f"spent is not known: {self._remedy}"
        )

    def _rolled_back(self) -> PrivacyError:
        return PrivacyError(
            f"the ledger {self.place} lacks events that it had before, here or at another place, as if an old copy "
            f"or another ledger had been put there, so what has been spent is not known: {self._remedy}"
        )


class OpenSharedLog(OpenLog):
    """A log on shared storage as it was read.

    Parameters
    ----------
    books : Books
        What it added up to.
    store : Store
        Where it is.
    copy : Path
        The copy of its lines.
    refusal : PrivacyError or None
        What is raised where somebody went on with an older state of this log, at another place.
    """

    def __init__(self, books: Books, store: Store, copy: Path, refusal: PrivacyError | None) -> None:
        super().__init__(books)
        self._store, self._copy, self._refusal = store, copy, refusal

    def append_line(self, line: str) -> bool:
        """Create the next object from a line; the same line from two processes counts as appended by both."""
        read_event(line)
        if not self.books.lines:
            begin_log(self._store)
        ours = _object(self.books.head, line)
        if self._store.create(_name(len(self.books.lines) + 1), ours) != ours:
            return False
        self.books.add(line)
        keep(self._copy, self.books.lines, self._refusal)
        return True


def begin_log(store: Store) -> None:
    """Create the object with which a ledger begins, if it is missing, and check that it cannot be replaced.

    Raises
    ------
    DpGraphError
        The storage replaces objects although it was told not to.
    """
    try:
        found = store.read(_BEGINNING)
    except FileNotFoundError:
        store.create(_BEGINNING, _CONTENT)
        found = store.create(_BEGINNING, b"a trial\n")
    if found != _CONTENT:
        raise DpGraphError(
            f"the ledger {store.uri} cannot be used, as this storage replaces objects although it was told not to: use "
            "another storage"
        )


def keep(copy: Path, lines: list[str], refusal: PrivacyError | None) -> None:
    """Append to the copy what it lacks; another process may have appended more.

    Raises
    ------
    PrivacyError
        The given one: a copy of this log has other lines.
    """
    with locked(lock_of(copy), _PATIENCE):
        for kept in copies_of(copy, lines[0] if lines else None).values():
            if refusal is not None and kept[: len(lines)] != lines[: len(kept)]:
                raise refusal
        kept = read_copy(copy)
        if len(kept) < len(lines) and kept == lines[: len(kept)]:
            extend_copy(copy, lines)


def _name(number: int) -> str:
    return f"{number:08d}.txt"


def _object(head: str, line: str) -> bytes:
    return f"{head}\n{line}".encode()
