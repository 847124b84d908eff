"""The places of a log's events: one SQLite file, or one object for each event on shared storage.

The file is in a mode in which it is complete by itself between any two uses, so that copying it is enough. Whoever
opens it holds it alone.

On shared storage each event is an object that is created once and never replaced. Object `00000001.txt` holds the hash
of the event before it and, on the next line, the event as a file has it. That is what the hash of an event is taken
over. So the SHA-256 of an object is the head of the log up to there. The heads are those that the same events have in a
file. To append is to create the next number. Of all who try, the storage lets one succeed, and the others read what
came first and decide again. Each event has a random mark, by which two that are otherwise equal differ, so that nobody
takes another's object for his own.
"""

import contextlib
import datetime
import os
import re
import shlex
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

from dp_bundle.base.errors import DpGraphError, PrivacyError
from dp_bundle.files.new_files import home_folder, make_private_folder
from dp_bundle.files.places import Store
from dp_publish.ledger.books import Books, chain

Append: TypeAlias = Callable[[int, str, str], bool]  # of a number, the head before it and a line; False: it is taken

PATIENCE = 60.0  # seconds that a process waits for others
_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    line INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, sha256 TEXT NOT NULL
)
"""
_BESIDE = ("", "-journal", "-wal")  # what SQLite keeps beside the file, by the end of the name
_BEGINNING, _CONTENT = "00000000.txt", b"a ledger of dpgraph, version 1\n"
_EVENT = re.compile(r"[0-9]{8}\.txt")
_AT_ONCE = 16  # objects that are read at the same time


class _Events:
    """The events of a log at one place.

    Attributes
    ----------
    place : str
        Where they are, for messages.
    is_shared : bool
        Whether others may append while they are open here.
    files : tuple of Path
        Files here that nobody else may read or change.
    """

    place: str
    is_shared: bool
    files: tuple[Path, ...] = ()

    @property
    def remedy(self) -> str:
        """What repairs them, for messages."""
        option = "" if self.place == str(home_folder() / "ledger.sqlite") else f" --ledger {shlex.quote(self.place)}"
        command = f"`dp-publish ledger restore{option} BUNDLES`"
        return f"{command} repairs it from the copy beside the key and from your bundles"

    def add(self, books: Books, line: str, *, follows: bool) -> None:
        """Add an event to the books, unless its hash does not follow from theirs."""
        try:
            if not follows:
                raise ValueError("it does not belong to the events before it")  # noqa: TRY301  refused as the rest is
            books.add(line)
        except ValueError as error:
            raise self.altered(len(books.lines) + 1) from error

    def altered(self, number: int) -> PrivacyError:
        """Return the error for an event that is not what it was."""
        return PrivacyError(
            f"the ledger {self.place} was altered: event {number} is missing, or is not what it was, so what has been "
            f"spent is not known: {self.remedy}"
        )


class EventFile(_Events):
    """Events in an SQLite file."""

    is_shared = False

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, str(path)
        self.files = tuple(path.with_name(f"{path.name}{end}") for end in _BESIDE)

    def is_there(self) -> bool:
        """Return True if there is a file."""
        return self.path.exists()

    @contextlib.contextmanager
    def open(self, _seen: list[str], *, whole: bool) -> Iterator[tuple[Books, Append]]:  # noqa: ARG002  it always is
        """Read and check all events, and hold the file alone; what is appended is kept if the block ends without error.

        Raises
        ------
        PrivacyError
            An event was altered, or the end is missing.
        """
        books = Books()
        with self._connected() as connection:
            self._read(books, connection)
            yield books, partial(_insert, connection)

    def repair(self, _copies: list[list[str]]) -> tuple[Path | None, int]:
        """Set a file aside that was altered or damaged, and put its lines up to the damage into a new one.

        Returns
        -------
        damaged : Path or None
            Where the damaged file is now.
        n_lines : int
            How many events came from copies, which are appended later: none.
        """
        books = Books()
        try:
            if self.is_there():
                with self._connected() as connection:
                    self._read(books, connection)
        except sqlite3.OperationalError:  # locked, or without room: nothing is known to be damaged
            raise
        except (PrivacyError, sqlite3.DatabaseError):
            now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")
            damaged = self.path.rename(self.path.with_name(f"{self.path.name}.damaged-{now}"))
            with self._connected() as connection:  # which knows what to do with what SQLite left beside the other
                _insert_all(connection, books.lines)
            return damaged, 0
        return None, 0

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Open the file in one transaction, which is committed if the block ends without an error."""
        if self.path.exists() and not self.path.is_file():  # to open a pipe would wait for ever
            raise DpGraphError(
                f"the ledger {self.path} cannot be used, as it is neither a file nor a folder: name another place"
            )
        make_private_folder(self.path.parent)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        with contextlib.closing(sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)) as connection:
            _use_one_file(connection)
            connection.execute("PRAGMA synchronous = EXTRA")  # so that a commit survives a loss of power in that mode
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_SCHEMA)
            yield connection
            connection.execute("COMMIT")

    def _read(self, books: Books, connection: sqlite3.Connection) -> None:
        """Add all lines to the books, up to one that was altered."""
        for number, line, digest in connection.execute("SELECT line, content, sha256 FROM log ORDER BY line"):
            follows = number == len(books.lines) + 1 and digest == chain(books.head, line)
            self.add(books, line, follows=follows)
        last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").fetchone()
        if last is not None and last[0] != len(books.lines):
            raise self.altered(len(books.lines) + 1)


def file_of(lines: Iterable[str]) -> bytes:
    """Return the content of a file that has these lines as its events."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(_SCHEMA)
        _insert_all(connection, lines)
        return connection.serialize()


def _insert_all(connection: sqlite3.Connection, lines: Iterable[str]) -> None:
    head = ""
    for number, line in enumerate(lines, start=1):
        _insert(connection, number, head, line)
        head = chain(head, line)


def _use_one_file(connection: sqlite3.Connection) -> None:
    """Keep the whole log in one file; wait for other processes, as SQLite does elsewhere and not here."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _insert(connection: sqlite3.Connection, _number: int, head: str, line: str) -> bool:
    """Append a line, which always succeeds, as nobody else can."""
    connection.execute("INSERT INTO log (content, sha256) VALUES (?, ?)", (line, chain(head, line)))
    return True


class EventObjects(_Events):
    """Events under one prefix of a store.

    Parameters
    ----------
    store : Store
        It holds the ledger alone. To create, read and list objects is all that is asked of it.
    """

    is_shared = True

    def __init__(self, store: Store) -> None:
        self._store, self.place = store, store.uri

    @property
    def remedy(self) -> str:
        """What repairs them: nobody can replace an object, but for the storage itself."""
        return (
            f"put back the versions of its objects that the storage kept; where objects are missing, {super().remedy}"
        )

    def is_there(self) -> bool:
        """Return True if there is an object."""
        return bool(self._store.names())

    @contextlib.contextmanager
    def open(self, seen: list[str], *, whole: bool) -> Iterator[tuple[Books, Append]]:
        """Read and check the events.

        Parameters
        ----------
        seen : list of str
            The lines that were read before.
        whole : bool
            Whether to read them again, all of them and not only the last.

        Raises
        ------
        PrivacyError
            An event was altered, or is missing before others.
        """
        n_events, books = self._count(), Books()
        start = 0 if whole else max(0, len(seen) - 1)
        for line in seen[:start]:
            self.add(books, line, follows=True)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            contents = [*pool.map(self._find, range(start + 1, n_events + 1))]
        for number, content in enumerate(contents, start=start):
            *head, line = (
                (content or b"").decode("utf-8", "surrogateescape").split("\n")
            )  # which no event may have in it
            self.add(books, line, follows=head == [books.head] and [line] == (seen[number : number + 1] or [line]))
        yield books, self._create

    def repair(self, copies: list[list[str]]) -> tuple[None, int]:
        """Create the objects that are missing, as far as a copy of these events has them.

        Raises
        ------
        PrivacyError
            An object was rewritten, which only whoever has the right to replace objects can undo.
        """
        n_lines = 0
        for lines in copies:
            is_own, head = lines is copies[0], ""
            for number, line in enumerate(lines, start=1):
                found = self._find(number)
                if found is None and (is_own or head):  # a first event tells whose copy it is
                    n_lines += self._create(number, head, line)
                elif found != _object(head, line):
                    if is_own:
                        raise self.altered(number)
                    break
                head = chain(head, line)
            if head:
                self._begin()
        return None, n_lines

    def _count(self) -> int:
        """Return the number of events, after checking that none is missing, and that nothing else lies among them."""
        names = self._store.names()
        for number, name in enumerate(names):
            if not _EVENT.fullmatch(name):
                raise DpGraphError(
                    f"the ledger {self.place} cannot be used, as {name} is no event of a ledger: give the ledger a "
                    "folder or prefix of its own"
                )
            if name != _name(number):
                raise self.altered(number)
        if names and self._store.read(_BEGINNING) != _CONTENT:
            raise DpGraphError(
                f"the ledger {self.place} cannot be used: {_BEGINNING} is not what a ledger of this version begins "
                f"with; {self.remedy}"
            )
        return max(0, len(names) - 1)

    def _find(self, number: int) -> bytes | None:
        try:
            return self._store.read(_name(number))
        except FileNotFoundError:
            return None

    def _create(self, number: int, head: str, line: str) -> bool:
        """Create an object; the same line from two processes counts as appended by both."""
        if number == 1:
            self._begin()
        content = _object(head, line)
        return self._store.create(_name(number), content) == content

    def _begin(self) -> None:
        """Create the object with which a ledger begins, if it is missing, and check that it cannot be replaced.

        Raises
        ------
        DpGraphError
            The storage replaces objects although it was asked not to.
        """
        try:
            found = self._store.read(_BEGINNING)
        except FileNotFoundError:
            self._store.create(_BEGINNING, _CONTENT)
            found = self._store.create(_BEGINNING, b"a trial\n")
        if found != _CONTENT:
            raise DpGraphError(
                f"the ledger {self.place} cannot be used, as this storage replaces objects although it was asked not "
                "to: use another storage"
            )


def _name(number: int) -> str:
    return f"{number:08d}.txt"


def _object(head: str, line: str) -> bytes:
    return f"{head}\n{line}".encode()


Events: TypeAlias = EventFile | EventObjects
