"""The ledger: what is spent stays spent, adds up soundly, and survives two publishers at once."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from dp_bundle.errors import DpGraphError
from dp_publish.ledger import Cost, Ledger

ROW = Cost("row", 3.0, 5.0, continuous=True)
CELL = Cost("cell", 1.0, 12.0, continuous=True)
WHOLE = Cost("row", 2.0, 4.0, continuous=False)
NOTHING = Cost("row", None, None, continuous=True)


@pytest.fixture
def ledger(home: Path) -> Ledger:
    """Return this test's ledger."""
    return Ledger()


def test_releases_add_up_in_their_own_unit(ledger: Ledger) -> None:
    """A row-level total composes the rows' mus of all releases, a cell-level total the cells', whatever their units."""
    first = ledger.reserve("wine", ROW).cumulative
    second = ledger.reserve("wine", CELL).cumulative
    third = ledger.reserve("wine", ROW).cumulative

    assert (first.releases, first.mu, first.rho) == (1, 5.0, 12.5)
    assert (second.releases, second.mu) == (2, pytest.approx(math.sqrt(9 + 1)))
    assert third.mu == pytest.approx(math.sqrt(25 + 144 + 25))
    assert third.rho == pytest.approx((25 + 144 + 25) / 2)
    assert ledger.total("wine", "row") == third


def test_totals_leave_out_what_does_not_hold(ledger: Ledger) -> None:
    """With discrete noise anywhere there is no total mu, and after a release without guarantee no total at all."""
    ledger.reserve("wine", ROW)
    mixed = ledger.reserve("wine", WHOLE).cumulative
    nothing = ledger.reserve("wine", NOTHING).cumulative
    later = ledger.reserve("wine", ROW).cumulative

    assert (mixed.mu, mixed.rho) == (None, pytest.approx((25 + 16) / 2))
    assert (nothing.releases, nothing.mu, nothing.rho) == (3, None, None)
    assert (later.releases, later.mu, later.rho) == (4, None, None)


def test_datasets_have_accounts_of_their_own(ledger: Ledger) -> None:
    """Numbers, totals and lists are kept per dataset."""
    ledger.reserve("wine", ROW)
    beer = ledger.reserve("beer", ROW)
    assert (beer.lineage.number, beer.cumulative.releases) == (1, 1)
    assert [entry.dataset for entry in ledger.entries()] == ["wine", "beer"]
    assert [entry.dataset for entry in ledger.entries("beer")] == ["beer"]
    assert ledger.total("cider", "row") is None


def test_reservations_count_until_they_are_cancelled(ledger: Ledger) -> None:
    """A reserved release is spent, a cancelled one is not, and a published one cannot be cancelled."""
    first, second = ledger.reserve("wine", ROW), ledger.reserve("wine", ROW)
    assert ledger.total("wine", "row") == second.cumulative
    ledger.cancel(second)
    assert ledger.total("wine", "row") == first.cumulative
    ledger.commit(first, "a" * 64, Path("out.tar"))
    ledger.cancel(first)

    (entry,) = ledger.entries("wine")
    assert (entry.state, entry.manifest_sha256, entry.file, entry.cost) == ("published", "a" * 64, "out.tar", ROW)


def test_numbers_grow_and_refer_to_the_last_published_release(ledger: Ledger) -> None:
    """Each release has the next number and the digest of the newest published one before it."""
    first = ledger.reserve("wine", ROW)
    ledger.commit(first, "a" * 64, Path("1.tar"))
    second, third = ledger.reserve("wine", ROW), ledger.reserve("wine", ROW)
    ledger.commit(third, "c" * 64, Path("3.tar"))
    fourth = ledger.reserve("wine", ROW)
    ledger.cancel(second)
    fifth = ledger.reserve("wine", ROW)

    assert [r.lineage.number for r in (first, second, third, fourth, fifth)] == [1, 2, 3, 4, 5]
    previous = [r.lineage.previous for r in (first, second, third, fourth, fifth)]
    assert previous == [None, "a" * 64, "a" * 64, "c" * 64, "c" * 64]


def test_floats_come_back_to_the_last_bit(ledger: Ledger) -> None:
    """What is stored as spent is exactly what was reserved."""
    cost = Cost("row", math.nextafter(0.1, 1), math.pi * 1e-7, continuous=False)
    ledger.reserve("wine", cost)
    assert [entry.cost for entry in Ledger().entries()] == [cost]


def test_names_are_data_and_not_commands(ledger: Ledger) -> None:
    """A dataset's name cannot reach the database's language."""
    name = "'; DROP TABLE releases; --"
    ledger.reserve(name, ROW)
    assert [entry.dataset for entry in ledger.entries(name)] == [name]


def test_asking_makes_no_file(ledger: Ledger) -> None:
    """Looking into a ledger that does not exist finds nothing and creates nothing."""
    assert ledger.entries() == []
    assert ledger.total("wine", "cell") is None
    assert not ledger.path.exists()


def test_two_processes_lose_nothing(home: Path) -> None:
    """Processes that reserve at the same moment get different numbers and all costs are kept."""
    script = (
        "from dp_publish.ledger import Cost, Ledger\n"
        "import sys; sys.stdin.readline()\n"
        "for _ in range(25): Ledger().reserve('wine', Cost('row', 1.0, 1.0, True))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) for _ in range(2)]
    for process in running:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=60)
    assert [process.returncode for process in running] == [0, 0]
    assert sorted(entry.number for entry in Ledger().entries("wine")) == list(range(1, 51))
    total = Ledger().total("wine", "row")
    assert total is not None
    assert total.mu == pytest.approx(math.sqrt(50))


@pytest.mark.parametrize("content", [b"this is no database" * 100, b""])
def test_unusable_files_are_errors_of_ours(content: bytes, tmp_path: Path) -> None:
    """A file that is no ledger, or a place that cannot hold one, is refused in one line."""
    (tmp_path / "ledger.sqlite").write_bytes(content)
    path = tmp_path / "ledger.sqlite" if content else tmp_path / "ledger.sqlite" / "deeper"
    with pytest.raises(DpGraphError, match="cannot be used") as caught:
        Ledger(path).reserve("wine", ROW)
    assert "\n" not in str(caught.value)


def test_failure_within_a_transaction_books_nothing(ledger: Ledger) -> None:
    """A release that the database refuses leaves no half entry."""
    ledger.reserve("wine", ROW)
    with pytest.raises(DpGraphError):
        ledger.reserve("wine", Cost("table", 1.0, 1.0, continuous=True))
    assert len(ledger.entries()) == 1
    with sqlite3.connect(ledger.path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
