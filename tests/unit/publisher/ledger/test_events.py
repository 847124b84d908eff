"""A line of the ledger's log is believed only if it is an event, whoever chained it."""

import json
import sqlite3
from pathlib import Path

import pytest

from dp_bundle.base.errors import PrivacyError
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger.books import chain
from dp_publish.ledger.ledger import Ledger
from dp_publish.ledger.restoring import restore

RESERVED = {
    "event": "reserved",
    "dataset": "d",
    "partition": None,
    "number": 1,
    "time": "2026-01-01T00:00:00Z",
    "unit": "row",
    "mu": {"row": 1.0},
    "continuous": True,
    "excepted_delta": 0.0,
    "budgets": {"row": 3.0},
}
PUBLISHED = {"event": "published", "dataset": "d", "number": 1, "manifest_sha256": "ab" * 32, "file": "a.tar"}
FORGED = [
    *("1e999", "null", "[]", '"x"', "{", "[" * 100_000, "9" * 5000),
    *(json.dumps({**RESERVED, name: "@"}).replace('"@"', "1e999") for name in RESERVED),
    *(
        json.dumps({key: value for key, value in RESERVED.items() if key != name})
        for name in PUBLISHED
        if name in RESERVED
    ),
    json.dumps({**RESERVED, "mu": {"row": "@"}}).replace('"@"', "1e999"),
    json.dumps({**RESERVED, "mu": {"row": -1.0}}),
    json.dumps({**RESERVED, "number": True}),
    json.dumps({**RESERVED, "state": "new"}),
    json.dumps({**RESERVED, "dataset": "\ud800"}),
    json.dumps({**PUBLISHED, "number": 2}),
    json.dumps({**PUBLISHED, "manifest_sha256": "x"}),
]


def _write(path: Path, lines: list[str]) -> None:
    """Write a log and chain it, as whoever holds the file could."""
    head = ""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE log (line INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, sha256 TEXT NOT NULL)"
        )
        for line in lines:
            head = chain(head, line)
            connection.execute("INSERT INTO log (content, sha256) VALUES (?, ?)", (line, head))
    connection.close()


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_a_forged_line_is_refused_and_can_be_repaired(forged: str, tmp_path: Path) -> None:
    """Numbers like 1e999 and whatever else is no event make the ledger refuse, until it is restored up to that line."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    _write(ledger.path, [json.dumps(RESERVED), json.dumps(PUBLISHED), forged])
    with pytest.raises(PrivacyError, match="was altered at line 3"):
        ledger.reserve("d", Cost("row", {"row": 1.0}, continuous=True))
    restore(ledger, ())
    assert [(entry.number, entry.state) for entry in ledger.entries()] == [(1, "published")]
