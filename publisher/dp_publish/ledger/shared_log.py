"""A ledger's log on shared storage: one object for each event, created once and never replaced.

Object `00000001.txt` holds the hash of the event before it and, on the next line, the event as a local log has it. That
is what the hash of an event is taken over, so that the SHA-256 of an object is the head of the log up to there, and the
heads are those that the same events have in a local log. To append is to create the next number: of all who try, the
storage lets one succeed, and the others read what came first and decide again. Each event has a random mark, by which
two that are otherwise equal differ, so that nobody takes another's object for his own.

A chain does not show that its end is missing. So each machine keeps a copy of the lines that it has seen, beside its
signing key, and refuses a log that does not begin with them, by whatever name its place goes (`copies_of`).
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dp_bundle.base.errors import DpGraphError, PrivacyError, StoreError
from dp_bundle.files.new_files import locked, write_whole
from dp_bundle.files.places import Store
from dp_publish.ledger.books import Books, OpenLog, read_books, read_event
from dp_publish.ledger.log import (
    LocalLog,
    copies_of,
    extend_copy,
    has_all,
    lock_of,
    read_copies,
    read_copy,
    require_own_ledger,
    rewrite_copy,
)

_BEGINNING, _CONTENT = "00000000.txt", b"a ledger of dpgraph, version 1\n"
_EVENT = re.compile(r"[0-9]{8}\.txt")
_AT_ONCE = 16  # objects that are read at the same time
_PATIENCE = 60.0  # seconds that a process waits for others on this machine, to write the copy


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
