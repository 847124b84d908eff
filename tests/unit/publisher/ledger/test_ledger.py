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
from dp_publish.ledger import checkpoint
from dp_publish.ledger import ledger as ledger_module
from dp_publish.ledger.books import chain, encode_line
from dp_publish.ledger.budget import Entry
from dp_publish.ledger.ledger import Ledger, open_ledger

WHOLE = Cost("row", {"cell": 2.0, "row": 4.0}, continuous=False)


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
    for finished in (first, second):
        with pytest.raises(PrivacyError, match="not reserved"):
            ledger.cancel(finished)

    (entry,) = ledger.entries("wine")
    assert (entry.state, entry.manifest_sha256, entry.file, entry.cost) == ("published", "a" * 64, "out.tar", ROW)


def test_sealed_releases_cannot_be_cancelled(ledger: Ledger) -> None:
    """Once a file may get its name the cost stays, and the release can only be published."""
    first = ledger.reserve("wine", ROW)
    ledger.seal(first, "a" * 64, Path("out.tar"))
    with pytest.raises(PrivacyError, match="not reserved"):
        ledger.cancel(first)
    with pytest.raises(PrivacyError, match="not reserved"):
        ledger.seal(first, "b" * 64, Path("out.tar"))
    assert ledger.total("wine", "row") == first.cumulative
    assert [(entry.state, entry.manifest_sha256) for entry in ledger.entries()] == [("sealed", "a" * 64)]
    assert ledger.reserve("wine", ROW).lineage.previous is None
    ledger.commit(first, "a" * 64, Path("out.tar"))
    assert ledger.entries()[0].state == "published"


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
    rho = {"cell": math.nextafter(0.004, 1), "row": math.pi * 1e-15}
    cost = Cost("row", {"cell": math.nextafter(0.1, 1), "row": math.pi * 1e-7}, continuous=False, rho=rho)
    ledger.reserve("wine", cost)
    assert [entry.cost for entry in Ledger().entries()] == [cost]


def test_names_are_data_and_not_commands(ledger: Ledger) -> None:
    """A dataset's name cannot reach the database's language."""
    name = "'; DROP TABLE log; --"
    ledger.reserve(name, ROW)
    assert [entry.dataset for entry in ledger.entries(name)] == [name]


def test_asking_makes_no_file(ledger: Ledger) -> None:
    """Looking into a ledger that does not exist finds nothing and creates nothing."""
    assert ledger.entries() == []
    assert ledger.total("wine", "cell") is None
    assert not ledger.path.exists()


@pytest.mark.slow
def test_two_processes_lose_nothing(home: Path) -> None:
    """Processes that reserve at the same moment get different numbers and all costs are kept."""
    code = "for _ in range(25): Ledger().reserve('wine', Cost('row', {'cell': 1.0, 'row': 1.0}, True))"
    assert run_at_once(2, code) == [0, 0]
    assert sorted(entry.number for entry in Ledger().entries("wine")) == list(range(1, 51))
    total = Ledger().total("wine", "row")
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
    """A release that cannot be written down leaves no half entry, and the ledger goes on."""
    ledger.reserve("wine", ROW)
    with pytest.raises(TypeError):
        ledger.reserve("wine", Cost("row", {"row": object()}, continuous=True))  # type: ignore[dict-item]
    assert len(ledger.entries()) == 1
    assert ledger.reserve("wine", ROW).lineage.number == 2
    assert execute(ledger.path, "PRAGMA integrity_check") == [("ok",)]


def test_entities_add_up_in_their_own_account(ledger: Ledger) -> None:
    """An entity's total exists only if all releases protect that entity; a row's takes every release's row cost."""
    first = ledger.reserve("wine", ENTITY).cumulative
    second = ledger.reserve("wine", ENTITY).cumulative
    third = ledger.reserve("wine", ROW).cumulative
    assert (first.mu, second.mu) == (4.0, pytest.approx(math.sqrt(32)))
    assert third.mu == pytest.approx(math.sqrt(4 + 4 + 25))
    total = ledger.total("wine", "entity:who")
    assert (total.releases, total.mu, total.rho) == (3, None, None)
    other = ledger.total("wine", "entity:whom")
    assert other.rho is None


def test_partitions_cost_in_parallel_and_all_else_on_top(ledger: Ledger) -> None:
    """The total is the costliest partition's, plus what was released about all rows."""
    for partition, cost in (("a", ROW), ("b", ROW), ("b", ROW), ("c", WHOLE)):
        ledger.reserve("wine", cost, partition=partition)
    total = ledger.total("wine", "row")
    assert total.rho == pytest.approx((25 + 25) / 2)
    assert total.mu is None
    after = ledger.reserve("wine", CELL)
    assert after.cumulative.rho == pytest.approx((1 + 9 + 9) / 2)
    assert after.lineage.partition is None
    row = ledger.total("wine", "row")
    assert row.rho == pytest.approx((144 + 25 + 25) / 2)


def test_entities_are_not_split_by_partitions(ledger: Ledger) -> None:
    """An entity may have rows in every partition, so its costs add up over partitions, as its rows' do not."""
    ledger.reserve("wine", ENTITY, partition="2026-10")
    second = ledger.reserve("wine", ENTITY, partition="2026-11").cumulative
    assert second.mu == pytest.approx(math.sqrt(32))
    rows = ledger.total("wine", "row")
    assert rows.mu == pytest.approx(2.0)
    with pytest.raises(BudgetExceededError):
        ledger.reserve("wine", ENTITY, partition="2026-12", budget_mu=6.9)


@pytest.mark.parametrize("partition", ["", "x" * 1001, "a\nb", "\udc80", "\0"])
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
    with pytest.raises(PrivacyError, match="'who' was the unit of privacy of release 3 of 'wine'"):
        ledger.reserve("wine", ROW, columns=["x", "who"])
    assert len(ledger.entries()) == 2
    assert ledger.reserve("beer", ROW, columns=["who"]).lineage.number == 1


def test_only_reservations_of_this_ledger_can_be_finished(ledger: Ledger, tmp_path: Path) -> None:
    """A reservation from elsewhere is refused, twice published is refused, and neither harms the log."""
    foreign = Ledger(tmp_path / "other.sqlite").reserve("wine", ROW)
    for finish in (ledger.cancel, lambda r: ledger.commit(r, "a" * 64, Path("a"))):
        with pytest.raises(PrivacyError, match="not reserved"):
            finish(foreign)
    own = ledger.reserve("wine", ROW)
    ledger.commit(own, "a" * 64, Path("a"))
    with pytest.raises(PrivacyError, match="not reserved"):
        ledger.commit(own, "b" * 64, Path("b"))
    assert [entry.manifest_sha256 for entry in ledger.entries()] == ["a" * 64]


TAMPERINGS = {
    "edited": ["UPDATE log SET content = replace(content, '5.0', '0.1') WHERE line = 3"],
    "edited hash": ["UPDATE log SET sha256 = replace(sha256, 'a', 'b') || 'a' WHERE line = 2"],
    "emptied": ["UPDATE log SET content = '' WHERE line = 2"],
    "blob": ["UPDATE log SET content = x'00' WHERE line = 2"],
    "deleted first": ["DELETE FROM log WHERE line = 1"],
    "deleted inside": ["DELETE FROM log WHERE line = 3"],
    "truncated": ["DELETE FROM log WHERE line = 5"],
    "cut to nothing": ["DELETE FROM log"],
    "closed up": ["DELETE FROM log WHERE line = 3", "UPDATE log SET line = line - 1 WHERE line > 3"],
    "inserted": ["INSERT INTO log (content, sha256) SELECT content, sha256 FROM log WHERE line = 2"],
    "swapped": [
        "UPDATE log SET line = 99 WHERE line = 2",
        "UPDATE log SET line = 2 WHERE line = 3",
        "UPDATE log SET line = 3 WHERE line = 99",
    ],
}


@pytest.mark.parametrize("statements", TAMPERINGS.values(), ids=TAMPERINGS)
def test_every_tampering_shows(statements: list[str], ledger: Ledger) -> None:
    """A line that was edited, deleted, inserted, moved or cut off stops every use of the ledger."""
    first = ledger.reserve("wine", ROW)
    ledger.commit(first, "a" * 64, Path("a.tar"))
    second = ledger.reserve("wine", ROW)
    ledger.cancel(second)
    ledger.reserve("beer", CELL)
    assert len(lines(ledger)) == 5
    execute(ledger.path, *statements)
    for use in (ledger.entries, lambda: ledger.reserve("wine", ROW), lambda: ledger.total("wine", "row")):
        with pytest.raises(PrivacyError, match="altered at line") as caught:
            use()
        assert "\n" not in str(caught.value)


def test_exceptions_add_up_and_old_lines_have_none(ledger: Ledger) -> None:
    """Probabilities of an exception add up over all partitions, and lines from before they were kept count as 0."""
    wishart = Cost("row", {"cell": 1.0, "row": 1.0}, continuous=True, excepted_delta=1e-6)
    ledger.reserve("wine", ROW)
    content = json.loads(lines(ledger)[0][1])
    ledger.copy.unlink()  # which earlier versions did not keep
    assert content.pop("excepted_delta") == 0.0
    assert "budgets" not in content
    old = encode_line(content)
    execute(ledger.path, "UPDATE log SET content = ?, sha256 = ?", values=(old, chain("", old)))

    assert ledger.entries()[0].cost == ROW
    assert ledger.reserve("wine", wishart, partition="a").cumulative.excepted_delta == 1e-6
    total = ledger.reserve("wine", wishart, partition="b").cumulative
    assert total.excepted_delta == 2e-6
    assert ledger.entries()[1].cost == wishart


def _of_changes(**limits: float | None) -> Cost:
    return Cost("change", {"cell": 50.0, "row": 80.0, "change": 0.5}, continuous=False, changes=limits)


@pytest.mark.parametrize("second", [{"n": 2}, {"n": None}, {"n": 1, "m": 1}])
def test_changes_of_another_size_are_another_unit(second: dict[str, float | None], ledger: Ledger) -> None:
    """A change by 1 and one by 2 do not add up, whether the books are read whole or from their checkpoint."""
    first = ledger.reserve("cases", _of_changes(n=1, m=None))
    ledger.seal(first, "0" * 64, "1.tar")
    ledger.commit(first, "0" * 64, "1.tar")
    with pytest.raises(PrivacyError, match=r"the max_change of column '.' was .* in release 1 of 'cases' and is"):
        ledger.reserve("cases", _of_changes(**second))
    with pytest.raises(PrivacyError, match="do not add up"):
        Ledger(ledger.path, ledger.copy).reserve("cases", _of_changes(**second))
    assert len(ledger.entries()) == 1
    assert ledger.books().account("cases").changes == {"n": [1, 1], "m": [None, 1]}

    assert ledger.reserve("cases", _of_changes(n=1)).cumulative.rho == pytest.approx(0.25)
    assert ledger.reserve("cases", _of_changes(other=7)).cumulative.rho == pytest.approx(0.375)
    assert ledger.reserve("cases", ROW).lineage.number == 4


def test_a_cancelled_release_leaves_changes_open(ledger: Ledger) -> None:
    """What was never released commits nobody to the size of a change."""
    ledger.cancel(ledger.reserve("cases", _of_changes(n=1)))
    assert ledger.reserve("cases", _of_changes(n=2)).lineage.number == 2


@pytest.mark.parametrize("first_is_of_rows", [True, False])
def test_a_release_of_rows_counts_for_changes_of_their_cells(first_is_of_rows: bool, ledger: Ledger) -> None:
    """Tables that differ by one change differ in one cell, which costs as much as any: in either order, in all."""
    costs = [ROW, _of_changes(n=1)]
    for cost in costs if first_is_of_rows else reversed(costs):
        last = ledger.reserve("cases", cost).cumulative
    expected = 0.5 * (ROW.mu["cell"] ** 2 + 0.5**2)
    if first_is_of_rows:
        assert (last.unit, last.rho) == ("change", pytest.approx(expected))
        assert {*last.other_units_rho} == {"cell", "row"}
    total = ledger.total("cases", "change")  # from the whole log
    assert total.rho == pytest.approx(expected)
    third = ledger.reserve("cases", _of_changes(n=1)).cumulative  # and from its checkpoint
    assert third.rho == pytest.approx(expected + 0.125)
    ledger.reserve("cases", NOTHING)
    assert ledger.reserve("cases", _of_changes(n=1)).cumulative.rho is None


def test_rows_are_charged_to_a_budget_for_changes(ledger: Ledger) -> None:
    """A budget for changes is spent by rows as well, by the mu of their cells, and refuses what passes it."""
    cells = Cost("cell", {"cell": 0.6, "row": 0.9}, continuous=True)
    ledger.reserve("cases", _of_changes(n=1), budget_mu={"change": 1.0, "cell": 100.0})
    ledger.reserve("cases", cells)
    with pytest.raises(BudgetExceededError) as refused:
        ledger.reserve("cases", Cost("cell", {"cell": 0.7, "row": 0.9}, continuous=True))
    assert (refused.value.unit, refused.value.requested_mu) == ("change", 0.7)
    assert refused.value.spent_mu == pytest.approx(math.hypot(0.5, 0.6))


def test_a_checkpoint_without_changes_is_made_anew(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that an earlier version left, which kept nothing for changes, states a total for the next of them."""
    with monkeypatch.context() as earlier:
        earlier.setattr(Cost, "booked", property(lambda cost: cost.mu))
        earlier.setattr(checkpoint, "_VERSION", 1)
        ledger.reserve("cases", ROW)
    rho = Ledger(ledger.path, ledger.copy).reserve("cases", _of_changes(n=1)).cumulative.rho
    assert rho == pytest.approx(0.5 * (ROW.mu["cell"] ** 2 + 0.5**2))


@pytest.mark.parametrize("shared", [False, True])
def test_a_clock_that_goes_back_is_told(
    shared: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A release that would be older than the one before is booked with a warning; an hour between machines is none."""
    ledger = open_ledger(f"{tmp_path}/books/") if shared else Ledger()
    now = datetime.datetime(2026, 11, 25, 12, 0, 0, tzinfo=datetime.UTC)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return moment.astimezone(tz)

    for hours in (0, -1, 0, 30):
        moment = now + datetime.timedelta(hours=hours)
        with monkeypatch.context() as patch:
            patch.setattr(ledger_module.datetime, "datetime", Clock)
            ledger.reserve("wine", ROW)
        assert not caplog.records
    moment = now - datetime.timedelta(days=3 * 365)
    with monkeypatch.context() as patch:
        patch.setattr(ledger_module.datetime, "datetime", Clock)
        ledger.reserve("beer", ROW)
    assert caplog.messages == [
        "this machine's clock says 2023-11-26T12:00:00Z, but the newest release in the ledger was booked at "
        "2026-11-26T18:00:00Z: if the clock is wrong, set it, as release 1 of 'beer' states its time"
    ]


@pytest.mark.parametrize("shared", [False, True])
def test_a_clock_before_a_release_that_was_put_back_is_told(
    shared: bool, home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A ledger made anew from bundles knows by them, too, what time it cannot be yet."""
    place = f"{tmp_path}/books/" if shared else str(tmp_path / "l.sqlite")
    released = Entry("wine", None, 1, "2999-01-01T00:00:00Z", ROW, state="published", manifest_sha256="a" * 64)
    assert open_ledger(place).put_back([released]) == [released]
    assert not caplog.records
    open_ledger(place).reserve("beer", ROW)
    (said,) = caplog.messages
    assert "was booked at 2999-01-01T00:00:00Z: if the clock is wrong, set it" in said


def test_a_pipe_is_no_ledger(home: Path, tmp_path: Path) -> None:
    """To open it would wait for ever."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(DpGraphError, match="as it is neither a file nor a folder: name another place"):
        open_ledger(tmp_path / "pipe").reserve("wine", ROW)
