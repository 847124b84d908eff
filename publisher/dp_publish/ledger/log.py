"""The ledger's log, and the copies of logs beside the signing key, which show a rollback.

A copy is plain text, one line for each event, and named after the place of its ledger. But a ledger is known by its
first line, too, which no later event changes and which bears a random mark. So every copy in the folder that begins
with that line is a copy of the same ledger. It does not matter where the ledger was when the copy was written, or how
its place was spelled. A copy is behind its ledger only where a crash cut it short. So a ledger which lacks lines of any
copy of it was rolled back or replaced, and is refused. A chain of hashes alone does not show that its end is missing.
"""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from operator import eq
from pathlib import Path
from typing import Any, TypeAlias

from dp_bundle.base.errors import DpGraphError, PrivacyError, StoreError
from dp_bundle.files.new_files import locked, require_own, settle, write_whole
from dp_publish.ledger.books import Books, line_that_restores, new_line, read_books, read_event
from dp_publish.ledger.budget import Entry
from dp_publish.ledger.events import PATIENCE, Append, Events, file_of

_COPIES = "ledger*.log"
_Copies: TypeAlias = dict[Path, list[str]]  # the lines of each, that of the ledger's place first


class OutrunError(DpGraphError):
    """Somebody else has appended since the log was read: what was decided must be decided again."""


@dataclass(frozen=True)
class OpenLog:
    """A log as it was when it was opened, and a way to append.

    Attributes
    ----------
    books : Books
        All that the log adds up to.
    """

    books: Books
    _append: Append

    def append(self, content: dict[str, Any]) -> None:
        """Append an event, with a mark of its own, by which its line differs from one that says the same.

        Raises
        ------
        OutrunError
            Somebody else was first; nothing is appended.
        """
        self.append_line(new_line(content))

    def append_line(self, line: str) -> None:
        """Append an event that is a line already, in the same way."""
        read_event(line)
        if not self._append(len(self.books.lines) + 1, self.books.head, line):
            raise OutrunError("the ledger is written to by others without a break: try again later")
        self.books.add(line)

    def put_back(self, entry: Entry, budgets: dict[str, float] | None = None) -> bool:
        """Append a release that the books lack, with its dataset's budgets; return False if they know it already."""
        line = line_that_restores(self.books, entry, budgets)
        if line is not None:
            self.append_line(line)
        return line is not None

    def merge(self, lines: list[str]) -> None:
        """Append what a copy holds beyond the log."""
        kept, own = read_books(lines), self.books.lines
        if kept.lines[: len(own)] == own:
            for line in kept.lines[len(own) :]:
                self.append_line(line)
        elif own[: len(kept.lines)] != kept.lines:
            for entry in kept.of(None):
                self.put_back(entry, kept.budgets.get(entry.dataset))


@dataclass(frozen=True)
class Log:
    """A log, wherever its events are.

    Parameters
    ----------
    events : Events
        What holds them.
    copy : Path or None
        The copy of the lines that were seen from here, if one is kept.
    """

    events: Events
    copy: Path | None

    def is_there(self) -> bool:
        """Return True if there is a log, or a copy with lines."""
        with self._in_our_words():
            return self.events.is_there() or bool(_own(self._copies()))

    def books(self) -> Books:
        """Read and check all of the log."""
        with self.open(whole=True) as log:
            return log.books

    @contextlib.contextmanager
    def open(self, *, whole: bool = False) -> Iterator[OpenLog]:
        """Read the log; what is appended to a file, which is held alone, is kept if the block ends without an error.

        Parameters
        ----------
        whole : bool
            Whether to read events of shared storage, too, that the copy has already.

        Raises
        ------
        PrivacyError
            The log was altered, or lacks lines that a copy has.
        KeyStoreError
            Others may read or change it, or its copy.
        DpGraphError
            It cannot be used.
        """
        with self._in_our_words(), self._locked(needed=not self.events.is_shared):
            self._require_own()
            copies = self._copies()  # before the log, to which others may append meanwhile
            with self.events.open(_own(copies), whole=whole) as (books, append):
                for path in self._of_this_log(copies, books):
                    if books.lines[: len(copies[path])] != copies[path]:  # the log does not begin with them all
                        raise self._rolled_back()
                self._extend_copy(books)
                yield OpenLog(books, append)
            self._extend_copy(books)

    def rebuild(self) -> tuple[Path | None, int]:
        """Make a log readable that was altered, damaged or rolled back, and complete as far as copies of it are.

        Returns
        -------
        damaged : Path or None
            Where the damaged file is now, if there was one.
        n_lines : int
            How many events came from copies.
        """
        with self._in_our_words(), self._locked():
            self._require_own()
            copies = self._copies()
            damaged, n_lines = self.events.repair([*copies.values()])
            merged: list[Path] = []
            with self.events.open([], whole=True) as (books, append):
                log, n_before = OpenLog(books, append), len(books.lines)
                while waiting := [path for path in self._of_this_log(copies, books) if path not in merged]:
                    log.merge(copies[waiting[0]])  # which may tell the first line, and so of more copies
                    merged.append(waiting[0])
            for path in merged:
                write_whole(path, _encode(books.lines), mode=0o600, replace=True)
        return damaged, n_lines + len(books.lines) - n_before

    def backup(self, target: Path) -> None:
        """Write the log to a new file, which is a ledger by itself.

        Raises
        ------
        FileExistsError
            There is a file at `target`.
        """
        write_whole(target, file_of(self.books().lines), mode=0o600, replace=False)

    def _copies(self) -> _Copies:
        """Return the lines of the copy, and of all others in its folder."""
        if self.copy is None:
            return {}
        return {path: _read_copy(path) for path in (self.copy, *sorted(self.copy.parent.glob(_COPIES)))}

    def _of_this_log(self, copies: _Copies, books: Books) -> list[Path]:
        """Return the copies of this log: that of its place, and those that begin with its first line."""
        return [path for path, lines in copies.items() if path == self.copy or lines[:1] == books.lines[:1] != []]

    def _extend_copy(self, books: Books) -> None:
        """Append to the copy what it lacks; another process may have appended more.

        Raises
        ------
        PrivacyError
            Somebody went on with an older state of this log, at another place.
        """
        with self._locked(needed=self.events.is_shared):
            copies = self._copies()
            for path in self._of_this_log(copies, books):
                if not all(map(eq, copies[path], books.lines)):
                    raise self._rolled_back()
            if self.copy is not None and len(_own(copies)) < len(books.lines):
                _append_to(self.copy, _own(copies), books.lines)

    def _rolled_back(self) -> PrivacyError:
        return PrivacyError(
            f"the ledger {self.events.place} lacks lines that it had before, here or at another place, as if an old "
            f"copy had replaced it. What has been spent is not known: {self.events.remedy}"
        )

    def _locked(self, *, needed: bool = True) -> contextlib.AbstractContextManager[None]:
        """Hold all copies in the folder, as several may be of one ledger."""
        if self.copy is None or not needed:
            return contextlib.nullcontext()
        return locked(self.copy.with_name("ledger.lock"), PATIENCE)

    def _require_own(self) -> None:
        """Refuse a ledger's file, or a copy, that others may read, write or replace, where a copy is kept."""
        if self.copy is not None:
            for path in (self.copy, *self.events.files):
                require_own(path, private=True, holds="what the ledger has as spent")

    @contextlib.contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """Turn errors of the system, of SQLite and of the storage into errors that name the ledger."""
        name = f"the ledger {self.events.place}"
        try:
            yield
        except StoreError as error:
            raise StoreError(name, error.reason) from error
        except (sqlite3.Error, OSError) as error:
            raise DpGraphError(f"{name} cannot be used ({error}): {_way_out(error, self.events.remedy)}") from error


def _way_out(error: Exception, remedy: str) -> str:
    """Return what to do about an error of the system or of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more than we need
    number = error.errno if isinstance(error, OSError) else None
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or isinstance(error, TimeoutError):
        return f"another process has held it for {PATIENCE:g} seconds: wait until that ends, and try again"
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return "there is no room for it: free some, and try again"
    forbidden = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)  # the last of a folder that nobody may make
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or number in forbidden:
        return (
            "you need the right to write to it, to its folder and to the folder of your keys, also to read it. Or set "
            "DPGRAPH_HOME to a folder of yours"
        )
    return f"make sure that it can be read and written, and that there is room for it; if it is damaged, {remedy}"


def _own(copies: _Copies) -> list[str]:
    """Return the lines of the copy that is of the ledger's place."""
    return next(iter(copies.values()), [])


def _read_copy(path: Path) -> list[str]:
    """Return the lines of a copy; the last one is left out if a crash cut it short."""
    if not path.is_file():
        return []
    return path.read_bytes().decode("utf-8", errors="replace").split("\n")[:-1]


def _append_to(copy: Path, kept: list[str], lines: list[str]) -> None:
    """Append to a copy the lines that follow those that it has."""
    with os.fdopen(os.open(copy, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), "r+b") as file:
        file.seek(len(_encode(kept)))
        file.truncate()
        file.write(_encode(lines[len(kept) :]))
        settle(file)


def _encode(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
