"""Covariance releases that are refused, interrupted or given up, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.unit.publisher.release.conftest import Publish
from tests.unit.publisher.release.covariance_policies import BOUNDS, make_policy

from dp_bundle.base.errors import BudgetExceededError, DataError, ParameterError, PolicyError, PrivacyError
from dp_publish import Policy
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.ledger.ledger import Ledger


@pytest.mark.parametrize(
    ("columns", "privacy", "error", "sentence"),
    [
        (
            {"height": {"bounds": [120, 220]}},
            {"mu": 1.0, "mechanism": "gaussian"},
            PolicyError,
            "bounds, which are missing for 'weight'",
        ),
        (None, {"mu": 1.0, "l2_radius": 2.0}, PolicyError, "l2_radius must be from"),
        (None, {"mu": 1e7}, ParameterError, "mu must be from"),
        (None, {"epsilon": 1e4}, ParameterError, "epsilon must be from"),
        (None, {"epsilon": 1.0, "delta": 1e-300, "mechanism": "wishart"}, PrivacyError, "wishart|Wishart|freedom"),
    ],
)
def test_what_cannot_be_released_is_refused_before_it_costs(
    columns: dict[str, Any] | None,
    privacy: dict[str, Any],
    error: type[Exception],
    sentence: str,
    table: pd.DataFrame,
    tmp_path: Path,
    publish_here: Publish,
) -> None:
    """Missing bounds, and impossible radii and strengths, leave no file and no cost."""
    with pytest.raises(error, match=sentence) as caught:
        publish_here(table, make_policy(columns, **privacy))
    assert "\n" not in str(caught.value)
    assert Ledger().entries() == []
    assert not (tmp_path / "a.tar").exists()


def test_a_column_may_not_be_called_constant(publish_here: Publish) -> None:
    """Its label would be the constant's."""
    frame = pd.DataFrame({"(constant)": [1.0]})
    with pytest.raises(PolicyError, match="rename it"):
        publish_here(frame, make_policy({"(constant)": {"bounds": [0, 1]}}, mu=1.0))


def test_budgets_hold_over_both_kinds_of_release(table: pd.DataFrame, publish_here: Publish) -> None:
    """Rows and second moments draw on one account, whose totals the manifest states."""
    columns = {name: {"bounds": limits, "kind": "continuous"} for name, limits in BOUNDS.items()}
    rows = Policy.model_validate({"dataset": {"name": "people"}, "privacy": {"mu": 3.0}, "columns": columns})
    publish_here(table, rows, out="1.tar")
    moments = make_policy(mu=4.0, budget_mu=5.0, mechanism="gaussian")
    second = publish_here(table, moments, out="2.tar").release
    assert second.cumulative.mu == pytest.approx(5.0)
    assert second.lineage.previous is not None
    with pytest.raises(BudgetExceededError):
        publish_here(table, moments, out="3.tar")
    assert len(Ledger().entries()) == 2


def test_empty_tables_are_refused(publish_here: Publish) -> None:
    """No rows, or none left, is an error of the data, and costs nothing."""
    for mechanism in ("auto", "gaussian"):
        policy = make_policy({"x": {"bounds": [0, 1]}}, mu=1.0, mechanism=mechanism)
        with pytest.raises(DataError, match="no rows"):
            publish_here(pd.DataFrame({"x": pd.Series([], dtype=float)}), policy)
    assert Ledger().entries() == []


def test_a_sampler_that_gives_up_is_paid_for(
    table: pd.DataFrame, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How often the eigenvectors' sampler gives up may depend on the data, so that its failure counts as spent."""

    def give_up(*_: object, **__: object) -> None:
        raise PrivacyError("the sampler gave up")

    monkeypatch.setattr(Gaussian, "draw", give_up)
    monkeypatch.setattr(Eigenvectors, "draw", give_up)
    for mechanism, left in (("gaussian", []), ("eigenvectors", ["reserved"])):
        with pytest.raises(PrivacyError, match="gave up"):
            publish_here(table, make_policy(mu=1.0, mechanism=mechanism))
        assert [entry.state for entry in Ledger().entries()] == left


def test_nobody_in_the_table_is_protected_too(publish_here: Publish) -> None:
    """Where rows may come and go, a table without rows is published like one with a single row."""
    columns = {"x": {"bounds": [0, 1]}, "y": {"bounds": [0, 1]}}
    empty = pd.DataFrame({"x": [], "y": []}, dtype=float)
    policy = make_policy(columns, mu=1.0, neighbours="add-remove")
    assert publish_here(empty, policy).release.n_rows >= 1
    with pytest.raises(DataError, match="no rows"):
        publish_here(empty, make_policy(columns, mu=1.0), out="b.tar")


@pytest.mark.parametrize("strength", [{"mu": 1e-300}, {"rho": 1e-300}, {"epsilon": 5e-324}, {"epsilon": 1e300}])
@pytest.mark.parametrize("unit", ["row", {"entity": "name", "max_rows": 10}])
def test_strengths_beyond_every_mechanism_are_refused(
    strength: dict[str, float], unit: Any, table: pd.DataFrame, publish_here: Publish
) -> None:
    """`auto` names the range, and what came, where no mechanism goes so far."""
    with pytest.raises(ParameterError, match="must be from"):
        publish_here(table, make_policy(unit=unit, **strength))


def test_large_epsilon_without_an_exception_costs_none(table: pd.DataFrame, publish_here: Publish) -> None:
    """Group privacy would multiply an excepted delta by e^epsilon, which is no number here, but SULQ excepts none."""
    policy = make_policy(mechanism="sulq", epsilon=1000.0, delta=1e-5, neighbours="add-remove")
    publish_here(table, policy)
    assert [entry.cost.excepted_delta for entry in Ledger().entries()] == [0.0]


@pytest.mark.parametrize(
    "privacy",
    [
        {"mechanism": "wishart", "epsilon": 1000.0, "delta": 1e-6},
        {"mechanism": "wishart", "epsilon": 1e-300, "delta": 1e-6},
        {"mechanism": "wishart", "epsilon": 1.0, "delta": 0.5},
        {"mechanism": "sulq", "epsilon": 1e-300, "delta": 1e-6},
        {"mechanism": "sulq", "epsilon": 1.0, "delta": 1e-320},
    ],
)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_strengths_beyond_a_mechanism_are_refused_before_they_are_booked(
    privacy: dict[str, Any], neighbours: str, table: pd.DataFrame, publish_here: Publish
) -> None:
    """The range is named, and the next release is the first."""
    with pytest.raises(ParameterError, match="must be"):
        publish_here(table, make_policy(neighbours=neighbours, **privacy))
    assert publish_here(table, make_policy(mu=1.0)).release.lineage.number == 1
