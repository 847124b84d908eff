"""The seam between the ledger's rules and the place of its log: an SQLite file here, or objects on shared storage.

A change of the ledger reads the log, decides, and appends one line. On a file that is done under a lock. On shared
storage there is none: whoever comes second is told so, and reads, decides and appends again. So all rules about budgets
exist once, in `Ledger`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dp_bundle.files.new_files import write_whole
from dp_publish.ledger.books import Books
from dp_publish.ledger.budget import Account
from dp_publish.ledger.copies import read_copy
from dp_publish.ledger.log import open_log, rebuild_log


class OpenLog(Protocol):
    """A log as it was when it was opened, and a way to append."""

    @property
    def head(self) -> str:
        """The hash of the last line."""

    @property
    def books(self) -> Books:
        """All that the log adds up to."""

    @property
    def newest(self) -> str | None:
        """The time of the release that was booked last, or put back; None if there is none."""

    def account(self, dataset: str, partition: str | None = None) -> Account:
        """Return what a dataset's releases add up to: all of them, or those of one partition and of none."""

    def state(self, dataset: str, number: int) -> str | None:
        """Return the state of a release, if there is one."""

    def append(self, content: dict[str, Any]) -> bool:
        """Append an event; return False, and append nothing, if somebody else has appended since."""

    def append_line(self, line: str) -> bool:
        """Append an event that is a line already, in the same way."""


class LedgerLog(Protocol):
    """The place of a log."""

    @property
    def place(self) -> str:
        """A path or URI for messages, without credentials."""

    def is_there(self) -> bool:
        """Return True if the log has a line, or had one by its copy."""

    def open(self, *, whole: bool = False) -> AbstractContextManager[OpenLog]:
        """Open the log, perhaps to read and check all of it; what is appended is kept if no error ends the block.

        Raises
        ------
        PrivacyError
            The log was altered, or lacks lines that its copy has.
        DpGraphError
            It cannot be used.
        """

    def rebuild(self) -> tuple[Path | None, int]:
        """Make the log readable and complete, as far as the copy is; see `Ledger.rebuild`."""

    def backup(self, target: Path) -> None:
        """Write all of it to a new SQLite file; see `Ledger.backup`."""


@dataclass(frozen=True)
class LocalLog:
    """A log in an SQLite file; `LedgerLog` says the rest.

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

    def open(self, *, whole: bool = False) -> AbstractContextManager[OpenLog]:
        """Hold the log alone."""
        return open_log(self.path, self.copy, whole=whole)

    def rebuild(self) -> tuple[Path | None, int]:
        """Set a damaged file aside, and make a new one."""
        return rebuild_log(self.path, self.copy)

    def backup(self, target: Path) -> None:
        """Copy the file while nobody writes to it."""
        with self.open(whole=True):
            content = self.path.read_bytes()
        write_whole(target, content, mode=0o600, replace=False)
