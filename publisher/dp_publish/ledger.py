"""What has been spent on each dataset.

One SQLite file, one row per release. A release is reserved before any noise is drawn and marked published after its
file is in place; it counts as spent from the reservation on. A release that failed is released from the books only by
whoever can prove that nothing left the process (`cancel`); after a crash the reservation stays spent.

The cost of a release is kept for both units of privacy, so that releases at cell and at row level add up to a sound
total for either: mu = sqrt(sum mu_k^2), rho the sum.
"""

from __future__ import annotations

import contextlib
import datetime
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dp_bundle.errors import DpGraphError
from dp_bundle.files import make_private_folder
from dp_bundle.home import home_folder
from dp_bundle.manifest import Cumulative, Lineage
from dp_publish.accounting import compose_mu, rho_for_mu

__all__ = ["Cost", "Entry", "Ledger", "Reservation"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY,
    dataset TEXT NOT NULL,
    number INTEGER NOT NULL,
    created TEXT NOT NULL,
    unit TEXT NOT NULL CHECK (unit IN ('cell', 'row')),
    mu_cell REAL,
    mu_row REAL,
    continuous INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'published')),
    manifest_sha256 TEXT,
    file TEXT
)
"""


@dataclass(frozen=True)
class Cost:
    """What one release costs: the mu of a cell and of a row (None: no guarantee), and whether mu-GDP holds."""

    unit: str
    mu_cell: float | None
    mu_row: float | None
    continuous: bool


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    dataset: str
    number: int
    created: str
    cost: Cost
    state: str
    manifest_sha256: str | None
    file: str | None


@dataclass(frozen=True)
class Reservation:
    """A release on the books: its place among those of the dataset, and their total cost in its unit."""

    id: int
    lineage: Lineage
    cumulative: Cumulative


class Ledger:
    """The ledger file.

    Parameters
    ----------
    path : Path, optional
        The SQLite file; `ledger.sqlite` in the user's state folder by default.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else home_folder() / "ledger.sqlite"

    def reserve(self, dataset: str, cost: Cost) -> Reservation:
        """Put a release on the books, as spent, before any noise is drawn."""
        created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._connect() as connection:
            earlier = _entries(connection, dataset)
            number = 1 + max((entry.number for entry in earlier), default=0)
            previous = next((entry.manifest_sha256 for entry in reversed(earlier) if entry.manifest_sha256), None)
            cursor = connection.execute(
                "INSERT INTO releases (dataset, number, created, unit, mu_cell, mu_row, continuous, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 'reserved')",
                (dataset, number, created, cost.unit, cost.mu_cell, cost.mu_row, cost.continuous),
            )
            identity = int(cursor.lastrowid or 0)
        lineage = Lineage(number=number, created=created, previous=previous)
        return Reservation(identity, lineage, _cumulative([*(entry.cost for entry in earlier), cost], cost.unit))

    def commit(self, reservation: Reservation, manifest_sha256: str, file: Path) -> None:
        """Mark a reserved release as published."""
        with self._connect() as connection:
            connection.execute(
                "UPDATE releases SET state = 'published', manifest_sha256 = ?, file = ? WHERE id = ?",
                (manifest_sha256, str(file), reservation.id),
            )

    def cancel(self, reservation: Reservation) -> None:
        """Take a reservation off the books: only where nothing of the release can have left the process."""
        with self._connect() as connection:
            connection.execute("DELETE FROM releases WHERE id = ? AND state = 'reserved'", (reservation.id,))

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """Return all releases, or those of one dataset, oldest first."""
        if not self.path.exists():
            return []
        with self._connect() as connection:
            return _entries(connection, dataset)

    def total(self, dataset: str, unit: str) -> Cumulative | None:
        """Return the total cost of a dataset's releases in a unit of privacy; None if there are none."""
        entries = self.entries(dataset)
        return _cumulative([entry.cost for entry in entries], unit) if entries else None

    @contextlib.contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            make_private_folder(self.path.parent)
            connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_SCHEMA)
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            raise DpGraphError(
                f"the ledger {self.path} cannot be used ({error}): make sure that it can be read and written, and that "
                "there is room for it"
            ) from error


def _entries(connection: sqlite3.Connection, dataset: str | None) -> list[Entry]:
    query = (
        "SELECT dataset, number, created, unit, mu_cell, mu_row, continuous, state, manifest_sha256, file FROM releases"
        " WHERE ?1 IS NULL OR dataset = ?1 ORDER BY id"
    )
    return [
        Entry(row[0], row[1], row[2], Cost(row[3], row[4], row[5], bool(row[6])), *row[7:])
        for row in connection.execute(query, (dataset,))
    ]


def _cumulative(costs: list[Cost], unit: str) -> Cumulative:
    mus = [cost.mu_cell if unit == "cell" else cost.mu_row for cost in costs]
    known = [mu for mu in mus if mu is not None]
    if len(known) < len(mus):
        return Cumulative(releases=len(costs), mu=None, rho=None)
    mu = compose_mu(known)
    return Cumulative(
        releases=len(costs), mu=mu if all(cost.continuous for cost in costs) else None, rho=rho_for_mu(mu)
    )
