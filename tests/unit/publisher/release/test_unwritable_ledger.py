"""A ledger that cannot be written in the course of a release: what is said of the file, and what to do, is true."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from tests.unit.publisher.release.conftest import Publish

from dp_bundle.base.errors import DpGraphError
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger import log as ledger_log
from dp_publish.ledger.ledger import Ledger

TABLE = pd.DataFrame({"x": [0.5, 0.25]})


@pytest.fixture
def lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Return what has somebody else hold the user's ledger from then on, for longer than anybody waits."""
    monkeypatch.setattr(ledger_log, "_PATIENCE", 0.2)
    with contextlib.ExitStack() as held:

        def hold() -> None:
            other = sqlite3.connect(home / "ledger.sqlite", isolation_level=None, check_same_thread=False)
            held.callback(other.close)
            other.execute("BEGIN EXCLUSIVE")

        yield hold


def test_no_file_is_said_to_be_where_none_can_be(
    lock: Callable[[], None], tmp_path: Path, publish_here: Publish
) -> None:
    """A release that the ledger does not take as signed gets no name, which is what its publisher is told."""
    with pytest.raises(DpGraphError, match="another process") as caught:
        publish_here(TABLE, progress=lambda _: lock())
    (note,) = caught.value.__notes__
    assert "is not published, no file of it is anywhere, and it stays on the books" in note
    assert not (tmp_path / "a.tar").exists()


def test_an_error_is_told_though_nothing_can_be_taken_back(lock: Callable[[], None], publish_here: Publish) -> None:
    """What ended the release comes first; that it stays spent, and why, comes with it."""

    def stop(_rows: int) -> None:
        lock()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        publish_here(TABLE, progress=stop)
    (note,) = caught.value.__notes__
    assert "it stays on the books as spent, as it could not be taken back: " in note


@pytest.mark.parametrize(("pragma", "said"), [("query_only = ON", "right"), ("max_page_count = 1", "room")])
def test_each_cause_has_its_own_sentence(pragma: str, said: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said to be damaged where there is no room, or no right."""
    use_one_file = ledger_log._use_one_file

    def hinder(connection: sqlite3.Connection) -> None:
        use_one_file(connection)
        connection.execute(f"PRAGMA {pragma}")

    monkeypatch.setattr(ledger_log, "_use_one_file", hinder)
    with pytest.raises(DpGraphError, match=said):
        Ledger().reserve("wine", Cost("row", {"cell": 1.0, "row": 1.0}, continuous=True))
