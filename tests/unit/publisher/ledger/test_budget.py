"""Budgets: filled exactly and never passed, in every unit, by any order of releases and publishers."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.publisher.ledger.conftest import CELL, ENTITY, NOTHING, ROW, lines

from dp_bundle.base.errors import BudgetExceededError, MissingBudgetError
from dp_publish.accounting.conversions import Cost
from dp_publish.ledger.budget import Account, Entry
from dp_publish.ledger.ledger import Ledger


def test_budget_is_filled_exactly_and_not_passed(ledger: Ledger) -> None:
    """Four releases at mu = 1 fill a budget of 2; a millionth more is refused, and nothing is written."""
    one = Cost("row", {"cell": 1.0, "row": 1.0}, continuous=True)
    for _ in range(4):
        ledger.reserve("wine", one, budget_mu=2.0)
    before = lines(ledger)
    with pytest.raises(BudgetExceededError) as caught:
        ledger.reserve("wine", Cost("row", {"cell": 0.0, "row": 2e-3}, continuous=True), budget_mu=2.0)
    assert (caught.value.spent_mu, caught.value.requested_mu, caught.value.budget_mu) == (pytest.approx(2), 2e-3, 2.0)
    assert caught.value.exit_code == 5
    assert lines(ledger) == before
    assert ledger.reserve("beer", one, budget_mu=1.0).lineage.number == 1


@pytest.mark.parametrize(("before", "cost"), [(NOTHING, ROW), (ROW, NOTHING), (ROW, ENTITY)])
def test_budget_allows_nothing_beside_a_release_without_its_guarantee(before: Cost, cost: Cost, ledger: Ledger) -> None:
    """Where one release does not protect the unit, no budget for that unit holds."""
    ledger.reserve("wine", before)
    with pytest.raises(BudgetExceededError):
        ledger.reserve("wine", cost, budget_mu=1e9)
    assert len(ledger.entries()) == 1


def test_budget_is_not_passed_by_changing_the_unit(ledger: Ledger) -> None:
    """A release in another unit keeps to the budget of the first one, named now or before, and leaves no trace if not.

    Two rows at mu = 1 under a budget of 1.5; a cell-level release that costs a row 3.2 does not fit, whatever the
    cells' budget, nor does it if its policy names no budget at all.
    """
    row = Cost("row", {"cell": 0.3, "row": 1.0}, continuous=True)
    cell = Cost("cell", {"cell": 1.0, "row": 3.2}, continuous=True)
    for _ in range(2):
        ledger.reserve("wine", row, budget_mu=1.5)
    before = lines(ledger)
    for budget in (None, 1.5, {"cell": 1.5}, {"cell": 9.0, "row": 1.5}):
        with pytest.raises(BudgetExceededError) as caught:
            ledger.reserve("wine", cell, budget_mu=budget)
        assert (caught.value.unit, caught.value.requested_mu) == ("row", 3.2)
    assert lines(ledger) == before
    raised = ledger.reserve("wine", cell, budget_mu={"cell": 2.0, "row": 4.0})
    assert raised.budgets == {"cell": 2.0, "row": 4.0}
    assert [*ledger.books().budgets] == ["wine"]


def test_a_budget_limits_what_is_excepted(ledger: Ledger) -> None:
    """Exceptions of 0.0005 each fill a budget exactly, and a third does not fit; without one, at 1 nothing holds."""
    cost = Cost("row", {"row": 0.01}, continuous=True, excepted_delta=5e-4)
    for _ in range(2):
        assert ledger.reserve("wine", cost, budget_mu=5.0).cumulative.mu is not None
    with pytest.raises(BudgetExceededError):
        ledger.reserve("wine", cost, budget_mu=5.0)
    ledger.reserve("cider", replace(cost, excepted_delta=0.01))
    with pytest.raises(BudgetExceededError) as caught:
        ledger.reserve("cider", ROW, budget_mu=50.0)
    assert caught.value.spent_mu is None
    half = replace(cost, excepted_delta=0.6)
    assert ledger.reserve("beer", half).cumulative.mu is not None
    total = ledger.reserve("beer", half).cumulative
    assert (total.mu, total.rho, total.excepted_delta) == (None, None, 1.0)


@pytest.mark.parametrize(("first", "second", "unit"), [(ROW, CELL, "row"), (CELL, ROW, "cell")])
def test_every_unit_in_which_something_was_promised_needs_a_budget(
    first: Cost, second: Cost, unit: str, ledger: Ledger
) -> None:
    """Books without budgets take none in one unit alone, and a release in a new unit names one for that unit."""
    ledger.reserve("wine", first)
    with pytest.raises(MissingBudgetError) as caught:
        ledger.reserve("wine", second, budget_mu=50.0)
    assert (caught.value.exit_code, caught.value.unit) == (5, unit)
    assert len(ledger.entries()) == 1
    assert ledger.reserve("wine", second, budget_mu={"row": 50.0, "cell": 50.0}).lineage.number == 2


def test_rows_are_charged_to_a_budget_for_changes(ledger: Ledger) -> None:
    """A budget for changes is spent by rows as well, by the mu of their cells, and refuses what passes it."""
    changes = Cost("change", {"cell": 50.0, "row": 80.0, "change": 0.5}, continuous=False, changes={"n": 1})
    ledger.reserve("cases", changes, budget_mu={"change": 1.0, "cell": 100.0})
    ledger.reserve("cases", Cost("cell", {"cell": 0.6, "row": 0.9}, continuous=True))
    with pytest.raises(BudgetExceededError) as refused:
        ledger.reserve("cases", Cost("cell", {"cell": 0.7, "row": 0.9}, continuous=True))
    assert (refused.value.unit, refused.value.requested_mu) == ("change", 0.7)
    assert refused.value.spent_mu == pytest.approx(math.hypot(0.5, 0.6))


@given(st.lists(st.tuples(st.floats(0.0, 1e300), st.sampled_from([None, "a", "b"])), max_size=5))
def test_sums_do_not_depend_on_the_order(released: list[tuple[float, str | None]]) -> None:
    """The total of one release is its own, and no total depends on the order of releases."""
    entries = [Entry("wine", part, 1, "", Cost("row", {"row": mu}, continuous=True)) for mu, part in released]
    assert [Account((entry,)).mu("row") for entry in entries] == [mu for mu, _ in released]
    assert Account(tuple(entries)).mu("row") == Account(tuple(reversed(entries))).mu("row")
