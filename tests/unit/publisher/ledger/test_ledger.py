"""The ledger: what is spent stays spent, adds up soundly, and survives two publishers at once."""

import datetime
import json
import math
import os
from pathlib import Path

import pytest
from tests.unit.publisher.ledger.conftest import CELL, ENTITY, NOTHING, ROW, execute, lines, run_at_once

from dp_bundle.base.errors import BudgetExceededError, DpGraphError, ParameterError, PrivacyError
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger import ledger as ledger_module
from dp_publish.ledger import log as ledger_log
from dp_publish.ledger.books import chain, encode_line
from dp_publish.ledger.budget import Entry
from dp_publish.ledger.ledger import Ledger, open_ledger
from dp_publish.ledger.restoring import restore

WHOLE = Cost("row", {"cell": 2.0, "row": 4.0}, continuous=False)


def test_releases_add_up_in_their_own_unit(ledger: Ledger) -> None:
    """A total composes the mus of its unit if all releases protect it, and has no mu with discrete noise."""
    totals = [ledger.reserve("wine", cost).cumulative for cost in (ROW, CELL, ROW, ENTITY, ENTITY, WHOLE, NOTHING, ROW)]

    assert [total.releases for total in totals] == [*range(1, 9)]
    assert (totals[0].mu, totals[0].rho) == (5.0, 12.5)
    assert totals[1].mu == pytest.approx(math.sqrt(9 + 1))
    assert totals[2].mu == pytest.approx(math.sqrt(25 + 144 + 25))
    assert totals[2].rho == pytest.approx((25 + 144 + 25) / 2)
    assert (totals[3].mu, totals[3].rho) == (None, None)
    assert (totals[4].mu, totals[4].rho) == (None, None)
    assert (totals[5].mu, totals[5].rho) == (None, pytest.approx((25 + 144 + 25 + 4 + 4 + 16) / 2))
    assert [(total.mu, total.rho) for total in totals[6:]] == [(None, None)] * 2
    assert ledger.total("wine", "row") == totals[-1]


def test_datasets_have_accounts_of_their_own(ledger: Ledger) -> None:
    """Numbers, totals and lists are kept per dataset, and its name cannot reach the database's language."""
    assert (ledger.entries(), ledger.entities("wine"), ledger.path.exists()) == ([], {}, False)
    name = "'; DROP TABLE log; --"
    ledger.reserve("wine", ENTITY)
    other = ledger.reserve(name, ENTITY)
    assert (other.lineage.number, other.cumulative.releases, other.cumulative.mu) == (1, 1, 4.0)
    assert [entry.dataset for entry in ledger.entries()] == ["wine", name]
    assert [entry.dataset for entry in ledger.entries(name)] == [name]
    assert ledger.total("cider", "row") is None


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
            with pytest.raises(PrivacyError, match="not reserved"):
                finish(finished, *words)
    assert len(lines(ledger)) == 9


def test_floats_come_back_to_the_last_bit(ledger: Ledger) -> None:
    """What is stored as spent is exactly what was reserved."""
    rho = {"cell": math.nextafter(0.004, 1), "row": math.pi * 1e-15}
    cost = Cost("row", {"cell": math.nextafter(0.1, 1), "row": math.pi * 1e-7}, continuous=False, rho=rho)
    ledger.reserve("wine", cost)
    assert [entry.cost for entry in Ledger().entries()] == [cost]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["own", "other"])
def test_two_processes_lose_nothing(place: str, home: Path, tmp_path: Path) -> None:
    """Processes that reserve at the same moment get numbers of their own, with a copy or without, and all is kept."""
    path = None if place == "own" else tmp_path / "l.sqlite"
    code = "for _ in range(25): Ledger(*map(Path, sys.argv[1:])).reserve('wine', Cost('row', {'row': 1.0}, True))"
    assert run_at_once(2, code, *([] if path is None else [str(path)])) == [0, 0]
    assert sorted(entry.number for entry in Ledger(path).entries("wine")) == list(range(1, 51))
    assert Ledger(path).spent_mu("wine", "row") == pytest.approx(math.sqrt(50))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("place", "step"), [(ledger_log.OpenLocalLog, "append_line"), (ledger_log, "extend_copy")])
def test_kill_at_every_write_leaves_a_ledger_that_is_right(place: object, step: str, moment: str, home: Path) -> None:
    """Killed at any moment, a reservation is on the books or not, and the next one goes on from there."""
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
    assert found == (2 if step == "extend_copy" else 1)
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
    with pytest.raises(DpGraphError, match="cannot be used") as caught:
        Ledger(path / "deeper" if content == b"" else path).reserve("wine", ROW)
    assert "\n" not in str(caught.value)


def test_failure_within_a_transaction_books_nothing(ledger: Ledger) -> None:
    """A release that cannot be written down leaves no half entry, and the ledger goes on."""
    ledger.reserve("wine", ROW)
    with pytest.raises(TypeError):
        ledger.reserve("wine", Cost("row", {"row": object()}, continuous=True))  # type: ignore[dict-item]
    assert len(ledger.entries()) == 1
    assert ledger.reserve("wine", ROW).lineage.number == 2
    assert execute(ledger.path, "PRAGMA integrity_check") == [("ok",)]


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


@pytest.mark.parametrize("partition", ["", "x" * 1001, "a\nb", "\udc80"])
def test_partitions_without_a_usable_name_are_refused(partition: str, ledger: Ledger) -> None:
    """What no manifest can carry as a name is an argument error, before anything is written."""
    with pytest.raises(ParameterError, match="partition"):
        ledger.reserve("wine", ROW, partition=partition)
    assert ledger.entries() == []


def test_entities_are_never_published_as_columns(ledger: Ledger) -> None:
    """A column that was the unit of privacy of a release that counts is refused, in its own dataset."""
    cancelled = ledger.reserve("wine", ENTITY)
    ledger.cancel(cancelled)
    ledger.reserve("wine", ROW, columns=["who", "x"])
    ledger.reserve("wine", ENTITY, columns=["x"])
    assert ledger.entities("wine") == {"who": 3}
    with pytest.raises(PrivacyError, match="'who' was the unit of privacy of release 3"):
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
    for use in (ledger.entries, lambda: ledger.reserve("wine", ROW), lambda: ledger.backup(tmp_path / "b")):
        with pytest.raises(PrivacyError, match="altered at line") as caught:
            use()
        assert "\n" not in str(caught.value)


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
    *("1e999", "null", "{", "[" * 100_000, "9" * 5000),
    *(json.dumps({**EVENT, name: "@"}).replace('"@"', "1e999") for name in EVENT),
    *(
        json.dumps({key: value for key, value in EVENT.items() if key != name})
        for name in ("event", "dataset", "number")
    ),
    *(json.dumps({**EVENT, "mu": {"row": mu}}) for mu in (math.inf, -1.0)),
    *(json.dumps({**EVENT, **odd}) for odd in ({"number": True}, {"state": "new"}, {"dataset": "\ud800"})),
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
    with pytest.raises(PrivacyError, match="altered at line 3"):
        ledger.reserve("d", ROW)
    restore(ledger, ())
    assert [(entry.number, entry.state) for entry in ledger.entries()] == [(1, "published")]


def test_a_ledger_of_an_earlier_version_goes_on(ledger: Ledger) -> None:
    """With a write-ahead log, a table that is none of ours, no copy, and lines without exceptions, which count as 0."""
    wishart = Cost("row", {"cell": 1.0, "row": 1.0}, continuous=True, excepted_delta=1e-6)
    ledger.reserve("wine", ROW)
    content = json.loads(lines(ledger)[0][1])
    assert content.pop("excepted_delta") == 0.0
    assert "budgets" not in content
    old = encode_line(content)
    ledger.copy.unlink()
    execute(ledger.path, "UPDATE log SET content = ?, sha256 = ?", values=(old, chain("", old)))
    execute(ledger.path, "CREATE TABLE checkpoint (dataset TEXT, part TEXT, line INTEGER, content TEXT, sha256 TEXT)")
    execute(ledger.path, "INSERT INTO checkpoint VALUES ('wine', '', 9, '{}', '')")
    execute(ledger.path, "PRAGMA journal_mode = WAL")

    assert ledger.entries()[0].cost == ROW
    assert ledger.reserve("wine", wishart, partition="a").cumulative.excepted_delta == 1e-6
    total = ledger.reserve("wine", wishart, partition="b").cumulative
    assert (total.releases, total.excepted_delta) == (3, 2e-6)
    assert ledger.entries()[1].cost == wishart
    assert execute(ledger.path, "PRAGMA journal_mode") == [("delete",)]
    assert ledger.copy.read_text().splitlines() == ledger.books().lines


def _of_changes(**limits: float | None) -> Cost:
    return Cost("change", {"cell": 50.0, "row": 80.0, "change": 0.5}, continuous=False, changes=limits)


@pytest.mark.parametrize("second", [{"n": 2}, {"n": None}, {"n": 1, "m": 1}])
def test_changes_of_another_size_are_another_unit(second: dict[str, float | None], ledger: Ledger) -> None:
    """A change by 1 and one by 2 do not add up, but of a release that was cancelled."""
    ledger.cancel(ledger.reserve("cases", _of_changes(n=7)))
    ledger.reserve("cases", _of_changes(n=1, m=None))
    with pytest.raises(PrivacyError, match=r"max_change of column '.' was .* in release 2 of 'cases'"):
        ledger.reserve("cases", _of_changes(**second))
    assert len(ledger.entries()) == 1
    assert ledger.books().account("cases").changes == {"n": [1, 2], "m": [None, 2]}

    assert ledger.reserve("cases", _of_changes(n=1)).cumulative.rho == pytest.approx(0.25)
    assert ledger.reserve("cases", _of_changes(other=7)).cumulative.rho == pytest.approx(0.375)
    assert ledger.reserve("cases", ROW).lineage.number == 5


@pytest.mark.parametrize("first_is_of_rows", [True, False])
def test_a_release_of_rows_counts_for_changes_of_their_cells(first_is_of_rows: bool, ledger: Ledger) -> None:
    """Tables that differ by one change differ in one cell, which costs as much as any: in either order, in all."""
    costs = [ROW, _of_changes(n=1)]
    for cost in costs if first_is_of_rows else reversed(costs):
        last = ledger.reserve("cases", cost).cumulative
    expected = 0.5 * (ROW.mu["cell"] ** 2 + 0.5**2)
    if first_is_of_rows:
        assert (last.unit, last.rho, {*last.other_units_rho}) == ("change", pytest.approx(expected), {"cell", "row"})
    assert ledger.reserve("cases", _of_changes(n=1)).cumulative.rho == pytest.approx(expected + 0.125)
    ledger.reserve("cases", NOTHING)
    assert ledger.reserve("cases", _of_changes(n=1)).cumulative.rho is None


@pytest.mark.parametrize("shared", [False, True])
def test_a_clock_that_goes_back_is_told(
    shared: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A release that would be older than the one before is booked with a warning; an hour between machines is none."""
    ledger = open_ledger(f"{tmp_path}/books/") if shared else Ledger()

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.UTC).astimezone(tz) + hours

    def reserve(dataset: str) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(ledger_module.datetime, "datetime", Clock)
            ledger.reserve(dataset, ROW)
        return caplog.messages

    for number in (0, -1, 0, 30):
        hours = datetime.timedelta(hours=number)
        assert reserve("wine") == []
    hours = datetime.timedelta(days=-365)
    (said,) = reserve("beer")
    assert "2025-11-25T12:00:00Z" in said
    assert "2026-11-26T18:00:00Z" in said

    released = Entry("wine", None, 9, "2999-01-01T00:00:00Z", ROW, state="published", manifest_sha256="a" * 64)
    assert ledger.put_back([released]) == [released]
    assert "2999-01-01T00:00:00Z" in reserve("wine")[-1]
