"""Covariance releases that are refused, interrupted or given up, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.release.conftest import Publish
from tests.unit.publisher.release.covariance_policies import BOUNDS, make_policy

from dp_bundle.base.errors import BudgetExceededError, DataError, ParameterError, PolicyError, PrivacyError
from dp_publish import Policy
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.ledger.ledger import Ledger

MECHANISMS = ("auto", "gaussian")
LIMITS = {name: {"bounds": limits} for name, limits in BOUNDS.items()}
DROP = {"drop": True}


def _entity(**privacy: Any) -> dict[str, Any]:
    return {"unit": {"entity": "name", "max_rows": 10}, **privacy}


REFUSED: list[tuple[dict[str, Any] | None, dict[str, Any], type[Exception]]] = [
    ({"height": {"bounds": [120, 220]}}, {"mu": 1.0, "mechanism": "gaussian"}, PolicyError),
    (None, {"mu": 1.0, "l2_radius": 2.0}, PolicyError),
    *((None, {"mu": mu}, ParameterError) for mu in (1e7, 1e-300)),
    *((None, {"epsilon": epsilon}, ParameterError) for epsilon in (1e4, 5e-324)),
    *((None, _entity(**strength), ParameterError) for strength in ({"rho": 1e-300}, {"epsilon": 1e300})),
    (None, {"epsilon": 1.0, "delta": 1e-300, "mechanism": "wishart"}, PrivacyError),
    *((None, {"epsilon": each, "delta": 1e-6, "mechanism": "wishart"}, ParameterError) for each in (1000.0, 1e-300)),
    (None, {"epsilon": 1.0, "delta": 0.5, "mechanism": "wishart", "neighbours": "add-remove"}, ParameterError),
    (None, {"epsilon": 1e-300, "delta": 1e-6, "mechanism": "sulq"}, ParameterError),
    (None, {"epsilon": 1.0, "delta": 1e-320, "mechanism": "sulq"}, ParameterError),
    ({"(constant)": {"bounds": [0, 1]}}, {"mu": 1.0}, PolicyError),
    *(({"empty": {"bounds": [0, 1], "missing": "drop"}}, {"mu": 1.0, "mechanism": m}, DataError) for m in MECHANISMS),
]


@pytest.mark.parametrize(("columns", "privacy", "error"), REFUSED, ids=str)
def test_what_cannot_be_released_is_refused_before_it_costs(
    columns: dict[str, Any] | None,
    privacy: dict[str, Any],
    error: type[Exception],
    table: pd.DataFrame,
    tmp_path: Path,
    publish_here: Publish,
) -> None:
    """Missing bounds, impossible radii, strengths and names, and tables without rows leave no file and no cost."""
    frame = table.assign(**{"(constant)": 1.0, "empty": np.nan})
    if columns is not None and "height" not in columns:
        frame = frame[[*columns]]
    with pytest.raises(error) as caught:
        publish_here(frame, make_policy(columns or {**LIMITS, "(constant)": DROP, "empty": DROP}, **privacy))
    assert "\n" not in str(caught.value)
    assert Ledger().entries() == []
    assert not (tmp_path / "a.tar").exists()


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
