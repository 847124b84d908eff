"""The ledger: what is spent stays spent, adds up soundly, and survives two publishers at once."""

import datetime
import json
import math
import os
from pathlib import Path

import pytest
from tests.discrete_noise import exact_mu
from tests.unit.publisher.ledger.conftest import CELL, ENTITY, NOTHING, ROW, execute, lines

from dp_bundle.base.errors import BudgetExceededError, DpGraphError, PrivacyError
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger import events
from dp_publish.ledger import ledger as ledger_module
from dp_publish.ledger import log as ledger_log
from dp_publish.ledger.books import Booking, chain, content_of, encode_line, entry_of, read_books, read_event
from dp_publish.ledger.budget import Entry
from dp_publish.ledger.ledger import Ledger
from dp_publish.ledger.restoring import restore

WHOLE = Cost("row", {"cell": 2.0, "row": 4.0}, continuous=False)


def test_releases_add_up_in_their_own_unit(ledger: Ledger) -> None:
    """A total composes the mus of its unit if all releases protect it, and has no mu with discrete noise."""
    totals = [ledger.reserve("wine", cost).cumulative for cost in (ROW, CELL, ROW, ENTITY, ENTITY, WHOLE, NOTHING, ROW)]

    rows, nothing = 25 + 144 + 25, (None, None)
    assert [total.releases for total in totals] == [*range(1, 9)]
    assert [(total.mu, total.rho) for total in totals] == [
        (5.0, 12.5),
        pytest.approx((math.sqrt(9 + 1), (9 + 1) / 2)),
        pytest.approx((math.sqrt(rows), rows / 2)),
        *[nothing] * 2,
        (None, pytest.approx((rows + 4 + 4 + 16) / 2)),
        *[nothing] * 2,
    ]


def test_datasets_have_accounts_of_their_own(ledger: Ledger) -> None:
    """Numbers and totals are kept per dataset, and its name cannot reach the database's language."""
    assert (ledger.entries(), ledger.entities("wine"), ledger.path.exists()) == ([], {}, False)
    names = ["wine", "'; DROP TABLE log; --"]
    for name in names:
        made = ledger.reserve(name, ENTITY)
        assert (made.lineage.number, made.cumulative.releases, made.cumulative.mu) == (1, 1, 4.0)
        assert [entry.dataset for entry in ledger.entries(name)] == [name]
    assert [entry.dataset for entry in ledger.entries()] == names


def test_a_release_is_reserved_sealed_published_or_cancelled(ledger: Ledger, tmp_path: Path) -> None:
    """A cancelled one costs nothing and keeps its number; one that may have left cannot be cancelled; none is twice."""
    first, second, third = (ledger.reserve("wine", ROW) for _ in range(3))
    ledger.cancel(second)
    ledger.seal(first, "a" * 64, Path("1.tar"))
    assert [(entry.state, entry.manifest_sha256) for entry in ledger.entries()] == [
        ("sealed", "a" * 64),
        ("reserved", None),
    ]
    assert ledger.reserve("wine", ROW).lineage.previous is None
    ledger.commit(third, "c" * 64, Path("3.tar"))
    ledger.commit(first, "a" * 64, Path("1.tar"))
    fifth = ledger.reserve("wine", ROW)

    assert [entry.number for entry in ledger.entries("wine")] == [1, 3, 4, 5]
    assert (fifth.lineage.number, fifth.lineage.previous, fifth.cumulative.releases) == (5, "c" * 64, 4)
    entry = ledger.entries()[0]
    assert (entry.state, entry.manifest_sha256, entry.file, entry.cost) == ("published", "a" * 64, "1.tar", ROW)
    foreign = Ledger(tmp_path / "other.sqlite").reserve("beer", ROW)
    for finished in (first, second, foreign):
        for finish, words in ((ledger.cancel, ()), (ledger.seal, ("b" * 64, "b")), (ledger.commit, ("b" * 64, "b"))):
            with pytest.raises(PrivacyError):
                finish(finished, *words)
    assert len(lines(ledger)) == 9


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("place", "step"), [(events, "_insert"), (ledger_log, "_append_to")])
def test_kill_at_every_write_leaves_a_ledger_that_is_right(place: object, step: str, moment: str, home: Path) -> None:
    """Killed at any moment, a reservation is in the ledger or not, and the next one goes on from there."""
    ledger = Ledger()
    ledger.reserve("wine", ROW)
    child = os.fork()
    if not child:
        work = getattr(place, step)

        def kill(*arguments: object) -> None:
            if moment == "after":
                work(*arguments)
            os._exit(9)

        setattr(place, step, kill)
        ledger.reserve("wine", ROW)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    found = len(ledger.books().lines)
    assert found == (2 if step == "_append_to" else 1)
    assert ledger.reserve("wine", ROW).cumulative.releases == found + 1
    assert (home / "keys" / "ledger.log").read_text().splitlines() == ledger.books().lines


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"", None], ids=["text", "no folder", "pipe"])
def test_unusable_files_are_errors_of_ours(content: bytes | None, tmp_path: Path) -> None:
    """A file that is no ledger, a place that cannot hold one, or a pipe, at which one would wait, is refused."""
    path = tmp_path / "ledger.sqlite"
    if content is None:
        os.mkfifo(path, 0o600)
    else:
        path.write_bytes(content)
    with pytest.raises(DpGraphError):
        Ledger(path / "deeper" if content == b"" else path).reserve("wine", ROW)


def test_partitions_cost_in_parallel_and_all_else_on_top(ledger: Ledger) -> None:
    """The total is the costliest partition's, plus what was released about all rows; entities are in all partitions."""
    for partition, cost in (("a", ROW), ("b", ROW), ("b", ROW), ("c", WHOLE)):
        last = ledger.reserve("wine", cost, partition=partition)
    assert (last.lineage.partition, last.cumulative.mu) == ("c", None)
    assert last.cumulative.rho == pytest.approx((25 + 25) / 2)
    after = ledger.reserve("wine", CELL).cumulative
    assert (after.rho, after.other_units_rho["row"]) == pytest.approx(((1 + 9 + 9) / 2, (144 + 25 + 25) / 2))

    ledger.reserve("beer", ENTITY, partition="2026-10")
    second = ledger.reserve("beer", ENTITY, partition="2026-11").cumulative
    assert (second.mu, second.other_units_rho["row"]) == pytest.approx((math.sqrt(32), 2.0))
    with pytest.raises(BudgetExceededError):
        ledger.reserve("beer", ENTITY, partition="2026-12", budget_mu=6.9)


def test_entities_are_never_published_as_columns(ledger: Ledger) -> None:
    """A column that was the unit of privacy of a release that counts is refused, in its own dataset."""
    cancelled = ledger.reserve("wine", ENTITY)
    ledger.cancel(cancelled)
    ledger.reserve("wine", ROW, columns=["who", "x"])
    ledger.reserve("wine", ENTITY, columns=["x"])
    assert ledger.entities("wine") == {"who": 3}
    with pytest.raises(PrivacyError, match="'who'"):
        ledger.reserve("wine", ROW, columns=["x", "who"])
    assert len(ledger.entries()) == 2
    assert ledger.reserve("beer", ROW, columns=["who"]).lineage.number == 1


TAMPERINGS = {
    "edited": ["UPDATE log SET content = replace(content, '5.0', '0.1') WHERE line = 3"],
    "edited hash": ["UPDATE log SET sha256 = replace(sha256, 'a', 'b') || 'a' WHERE line = 2"],
    "blob": ["UPDATE log SET content = x'00' WHERE line = 2"],
    "deleted first": ["DELETE FROM log WHERE line = 1"],
    "truncated": ["DELETE FROM log WHERE line = 5"],
    "cut to nothing": ["DELETE FROM log"],
    "closed up": ["DELETE FROM log WHERE line = 3", "UPDATE log SET line = line - 1 WHERE line > 3"],
    "inserted": ["INSERT INTO log (content, sha256) SELECT content, sha256 FROM log WHERE line = 2"],
}


@pytest.mark.parametrize("statements", TAMPERINGS.values(), ids=TAMPERINGS)
def test_every_tampering_shows(statements: list[str], ledger: Ledger, tmp_path: Path) -> None:
    """A line that was edited, deleted, inserted, moved or cut off stops every use of the ledger."""
    ledger.commit(ledger.reserve("wine", ROW), "a" * 64, Path("a.tar"))
    ledger.cancel(ledger.reserve("wine", ROW))
    ledger.reserve("beer", CELL)
    assert len(lines(ledger)) == 5
    execute(ledger.path, *statements)
    for use in (ledger.entries, lambda: ledger.reserve("wine", ROW), lambda: ledger.log.backup(tmp_path / "b")):
        with pytest.raises(PrivacyError, match="altered"):
            use()


EVENT = {
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
    *("1e999", "{", "[" * 100_000, "9" * 5000),
    *(json.dumps({**EVENT, name: "@"}).replace('"@"', "1e999") for name in EVENT),
    *(json.dumps({key: EVENT[key] for key in EVENT if key != name}) for name in ("event", "dataset")),
    *(
        json.dumps({**EVENT, **odd})
        for odd in ({"mu": {"row": math.inf}}, {"mu": {"row": -1.0}}, {"number": True}, {"state": "new"})
    ),
    *(json.dumps({**PUBLISHED, **odd}) for odd in ({"number": 2}, {"manifest_sha256": "x"})),
]


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_a_forged_line_is_refused_and_can_be_repaired(forged: str, tmp_path: Path) -> None:
    """A line that is no event is not believed, whoever chained it, until the ledger is restored up to that line."""
    ledger, head = Ledger(tmp_path / "ledger.sqlite"), ""
    execute(ledger.path, "CREATE TABLE log (line INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT, sha256 TEXT)")
    for line in (json.dumps(EVENT), json.dumps(PUBLISHED), forged):
        head = chain(head, line)
        execute(ledger.path, "INSERT INTO log (content, sha256) VALUES (?, ?)", values=(line, head))
    with pytest.raises(PrivacyError, match="event 3"):
        ledger.reserve("d", ROW)
    restore(ledger, ())
    assert [(entry.number, entry.state) for entry in ledger.entries()] == [(1, "published")]


def _of_changes(**limits: float | None) -> Cost:
    return Cost("change", {"cell": 50.0, "row": 80.0, "change": 0.5}, continuous=False, changes=limits)


def test_changes_of_another_size_are_another_unit(ledger: Ledger) -> None:
    """A change by 1 and one by 2 do not add up, but of a release that was cancelled."""
    ledger.cancel(ledger.reserve("cases", _of_changes(n=7)))
    ledger.reserve("cases", _of_changes(n=1, m=None))
    for second in ({"n": 2}, {"n": None}, {"n": 1, "m": 1}):
        with pytest.raises(PrivacyError, match="max_change"):
            ledger.reserve("cases", _of_changes(**second))
    assert ledger.books().account("cases").changes == {"n": (1, 2), "m": (None, 2)}
    assert ledger.reserve("cases", _of_changes(n=1, other=7)).cumulative.rho == pytest.approx(0.25)
    assert ledger.reserve("cases", ROW).lineage.number == 4


def test_a_release_of_rows_counts_for_changes_of_their_cells(ledger: Ledger) -> None:
    """Tables that differ by one change differ in one cell, which costs as much as any."""
    *_, last = (ledger.reserve("cases", cost).cumulative for cost in (_of_changes(n=1), ROW, _of_changes(n=1)))
    assert (last.unit, last.rho) == ("change", pytest.approx(0.5 * (ROW.mu["cell"] ** 2 + 2 * 0.5**2)))
    assert {*last.other_units_rho} == {"cell", "row"}


def test_a_clock_that_goes_back_is_told(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A release that would be older than the one before is booked with a warning; an hour between machines is none."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.UTC).astimezone(tz) + hours

    monkeypatch.setattr(ledger_module.datetime, "datetime", Clock)
    for number in (0, -1, 0, 30, -8760):
        hours = datetime.timedelta(hours=number)
        ledger.reserve("wine", ROW)
    (said,) = caplog.messages
    assert "2025-11-25T12:00:00Z" in said
    assert "2026-11-26T18:00:00Z" in said


def test_older_lines_of_a_ledger_count_with_the_largest_mu_they_can_have() -> None:
    """Of discrete noise they have sqrt(2 rho) in place of mu; a line that has both is taken at its word."""
    for sigma in (0.1, 1.0, 4.0):
        cost = Cost("row", {"cell": 1 / sigma, "row": 3 / sigma}, continuous=False)
        content = {**content_of(Entry("d", None, 1, "2026-01-01", cost)), "event": "reserved"}
        assert _cost_of(content).mu == cost.mu
        older = {name: value for name, value in content.items() if name not in ("rho", "excepted_delta")}
        (entry,) = read_books([encode_line(older)]).of("d")
        assert entry.cost.rho == pytest.approx({"cell": 0.5 / sigma**2, "row": 4.5 / sigma**2})
        assert entry.cost.mu["cell"] == pytest.approx(exact_mu(1, sigma), rel=1e-9)  # as it may have been one bit
        assert _cost_of({**content_of(entry), "event": "restored"}) == entry.cost


def _cost_of(content: dict[str, object]) -> Cost:
    event = read_event(encode_line(content))
    assert isinstance(event, Booking)
    return entry_of(event).cost


def test_what_is_put_back_is_what_the_books_lack(tmp_path: Path) -> None:
    """The first line of a log has a mark, and no other; what is known already is not written again."""
    made = Ledger(tmp_path / "a.sqlite")
    for _ in range(2):
        made.reserve("wine", ROW)
    other = Ledger(tmp_path / "b.sqlite")
    assert [len(other.put_back(made.entries())) for _ in range(2)] == [2, 0]
    assert ["mark" in json.loads(line) for line in other.books().lines] == [True, False]
