"""What has been spent on each dataset, and what may still be spent.

One SQLite file, whose only table is a log: a release is reserved before any noise is drawn, sealed before its file gets
a name, and published once it has it; or it is cancelled, which only a reservation can be that was not sealed yet. It
counts as spent from the reservation on, so that the books never show less than what was released. Every line of the log
carries the hash of the one before it: a line that was changed, removed or inserted shows at the next use, and the
ledger refuses to go on.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dp_bundle.errors import DpGraphError, ParameterError, PrivacyError
from dp_bundle.files import make_private_folder
from dp_bundle.home import home_folder
from dp_bundle.manifest import Cumulative, Lineage
from dp_publish.spending import Cost, Entry, entities, require_budgets, total

__all__ = ["Ledger", "Reservation"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    line INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, sha256 TEXT NOT NULL
)
"""
_MAX_NAME = 1_000  # characters; what a manifest takes
_PATIENCE = 60.0  # seconds that a process waits for others


@dataclass(frozen=True)
class Reservation:
    """A release that has been put on the books, the total cost that the dataset then has, and its budgets by unit."""

    dataset: str
    lineage: Lineage
    cumulative: Cumulative
    budgets: Mapping[str, float]


@dataclass
class _Books:
    """The log, read whole: every release by dataset and number, budgets by dataset and unit, and the last hash."""

    head: str = ""
    entries: dict[tuple[str, int], Entry] = field(default_factory=dict)
    budgets: dict[str, dict[str, float]] = field(default_factory=dict)

    def of(self, dataset: str | None) -> list[Entry]:
        return [entry for entry in self.entries.values() if dataset in (None, entry.dataset)]


class Ledger:
    """The ledger file.

    Parameters
    ----------
    path : Path, optional
        The SQLite file; `ledger.sqlite` in the user's state folder by default.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else home_folder() / "ledger.sqlite"

    def reserve(
        self,
        dataset: str,
        cost: Cost,
        *,
        partition: str | None = None,
        budget_mu: float | Mapping[str, float] | None = None,
        columns: Iterable[str] = (),
    ) -> Reservation:
        """Put a release on the books, as spent, before any noise is drawn.

        Parameters
        ----------
        dataset : str
            The account.
        cost : Cost
            What the release costs.
        partition : str, optional
            The part of the rows that it is about, disjoint from every other partition's.
        budget_mu : float or mapping of str to float, optional
            What all releases of the dataset may cost together, in the release's unit or by unit. It stays on the books:
            later releases keep to it, too, until another one is given for that unit.
        columns : iterable of str
            The columns to be published.

        Raises
        ------
        BudgetExceededError
            The release would pass a budget, or leave what was promised without one; nothing is written.
        PrivacyError
            A column was the unit of privacy of an earlier release; nothing is written.
        ParameterError
            The partition has no name that can be printed.
        """
        if partition is not None and not (0 < len(partition) <= _MAX_NAME and partition.isprintable()):
            raise ParameterError("partition", f"a printable name of at most {_MAX_NAME} characters", partition)
        created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._open() as (connection, books):
            earlier = books.of(dataset)
            number = 1 + max((entry.number for entry in earlier), default=0)
            entry = Entry(dataset, partition, number, created, cost)
            spent = [entry for entry in earlier if entry.state != "cancelled"]
            declared = _by_unit(budget_mu, cost.unit)
            budgets = {**books.budgets.get(dataset, {}), **declared}
            require_budgets(dataset, spent, entry, budgets)
            _require_no_entity(dataset, spent, columns)
            content = {
                "event": "reserved",
                "dataset": dataset,
                "partition": partition,
                "number": number,
                "time": created,
                "unit": cost.unit,
                "mu": cost.mu,
                "continuous": cost.continuous,
                "excepted_delta": cost.excepted_delta,
                **({"budgets": declared} if declared else {}),
            }
            _append(connection, books, content)
        previous = next((entry.manifest_sha256 for entry in reversed(spent) if entry.state == "published"), None)
        lineage = Lineage(number=number, created=created, previous=previous, partition=partition)
        return Reservation(dataset, lineage, total([*spent, entry], cost.unit), budgets)

    def seal(self, reservation: Reservation, manifest_sha256: str, file: Path) -> None:
        """Mark a reserved release as signed, just before its file gets a name: from then on it cannot be cancelled."""
        content = {"event": "sealed", "manifest_sha256": manifest_sha256, "file": str(file)}
        self._note(reservation, content, after=("reserved",))

    def commit(self, reservation: Reservation, manifest_sha256: str, file: Path) -> None:
        """Mark a release as published, once its file is in place."""
        content = {"event": "published", "manifest_sha256": manifest_sha256, "file": str(file)}
        self._note(reservation, content, after=("reserved", "sealed"))

    def cancel(self, reservation: Reservation) -> None:
        """Take a reservation off the books: only where nothing of the release can have left the process."""
        self._note(reservation, {"event": "cancelled"}, after=("reserved",))

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """Return all releases, or those of one dataset, oldest first; cancelled ones are left out."""
        if not self.path.exists():
            return []
        with self._open() as (_, books):
            return [entry for entry in books.of(dataset) if entry.state != "cancelled"]

    def total(self, dataset: str, unit: str) -> Cumulative | None:
        """Return the total cost of a dataset's releases in a unit of privacy; None if there are none."""
        entries = self.entries(dataset)
        return total(entries, unit) if entries else None

    def budgets(self, dataset: str) -> dict[str, float]:
        """Return a dataset's budgets by unit of privacy, as they were last given."""
        if not self.path.exists():
            return {}
        with self._open() as (_, books):
            return books.budgets.get(dataset, {})

    def entities(self, dataset: str) -> dict[str, int]:
        """Return the columns that were the unit of privacy of a release of the dataset, with the first one's number."""
        return entities(self.entries(dataset))

    def _note(self, reservation: Reservation, content: dict[str, Any], after: tuple[str, ...]) -> None:
        dataset, number = reservation.dataset, reservation.lineage.number
        with self._open() as (connection, books):
            entry = books.entries.get((dataset, number))
            if entry is None or entry.state not in after:
                raise PrivacyError(f"release {number} of {dataset!r} is not reserved in the ledger {self.path}")
            _append(connection, books, {**content, "dataset": dataset, "number": number})

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[sqlite3.Connection, _Books]]:
        """Hold the ledger alone, read and checked; what is appended is kept if the block ends without an error."""
        try:
            make_private_folder(self.path.parent)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
            try:
                _use_write_ahead_log(connection)
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_SCHEMA)
                yield connection, _read(connection, self.path)
                connection.execute("COMMIT")
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            raise DpGraphError(
                f"the ledger {self.path} cannot be used ({error}): make sure that it can be read and written, and that "
                "there is room for it"
            ) from error


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Set the journal mode; SQLite does not wait for others here, as it does everywhere else, so this does."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _append(connection: sqlite3.Connection, books: _Books, content: dict[str, Any]) -> None:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    connection.execute("INSERT INTO log (content, sha256) VALUES (?, ?)", (text, _chain(books.head, text)))


def _chain(head: str, text: str) -> str:
    return hashlib.sha256(f"{head}\n{text}".encode()).hexdigest()


def _read(connection: sqlite3.Connection, path: Path) -> _Books:
    books = _Books()
    expected = 0
    for line, text, digest in connection.execute("SELECT line, content, sha256 FROM log ORDER BY line"):
        expected += 1
        books.head = _chain(books.head, text)
        if line != expected or digest != books.head:
            raise _altered(path, expected)
        _replay(books, json.loads(text))
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").fetchone()
    if last is not None and last[0] != expected:
        raise _altered(path, expected + 1)
    return books


def _replay(books: _Books, content: dict[str, Any]) -> None:
    place = (content["dataset"], content["number"])
    if content["event"] == "reserved":
        excepted = content.get("excepted_delta", 0.0)  # which older lines do not have
        cost = Cost(content["unit"], content["mu"], content["continuous"], excepted)
        books.entries[place] = Entry(place[0], content["partition"], place[1], content["time"], cost)
        books.budgets.setdefault(place[0], {}).update(content.get("budgets", {}))
    else:
        changes = {name: content[name] for name in ("manifest_sha256", "file") if name in content}
        books.entries[place] = replace(books.entries[place], state=content["event"], **changes)


def _by_unit(budget_mu: float | Mapping[str, float] | None, unit: str) -> dict[str, float]:
    if budget_mu is None:
        return {}
    return dict(budget_mu) if isinstance(budget_mu, Mapping) else {unit: budget_mu}


def _require_no_entity(dataset: str, spent: Iterable[Entry], columns: Iterable[str]) -> None:
    """Refuse to publish a column that an earlier release took for the name of whom it protects."""
    found = entities(spent)
    for name in columns:
        if name in found:
            raise PrivacyError(
                f"column {name!r} was the unit of privacy of release {found[name]} of {dataset!r} and is never "
                "published: set drop = true for it in the policy"
            )


def _altered(path: Path, line: int) -> PrivacyError:
    return PrivacyError(
        f"the ledger {path} was altered at line {line}, so what has been spent is not known: restore it from a backup"
    )
