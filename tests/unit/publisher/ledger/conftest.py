"""A ledger for each test, costs to be booked in it, and what others may do to its files."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dp_publish.accounting.conversions import Cost
from dp_publish.ledger.ledger import Ledger

ROW = Cost("row", {"cell": 3.0, "row": 5.0}, continuous=True)
CELL = Cost("cell", {"cell": 1.0, "row": 12.0}, continuous=True)
NOTHING = Cost("row", {}, continuous=True)
ENTITY = Cost("entity:who", {"cell": 1.0, "row": 2.0, "entity:who": 4.0}, continuous=True)


@pytest.fixture
def ledger(home: Path) -> Ledger:
    """Return this test's ledger."""
    return Ledger()


def execute(path: Path, *statements: str, values: tuple[str, ...] = ()) -> list[Any]:
    """Use a ledger's file as somebody else would, and return what the last statement finds."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return [connection.execute(statement, values).fetchall() for statement in statements][-1]


def lines(ledger: Ledger) -> list[tuple[int, str, str]]:
    """Return the log as it is in the file."""
    return execute(ledger.path, "SELECT line, content, sha256 FROM log ORDER BY line")
