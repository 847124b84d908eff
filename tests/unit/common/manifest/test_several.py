"""What protects somebody who is in several units of a release, and the pages that say so."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.conftest import policy_with
from tests.discrete_noise import exact_mu

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.costs import cost_of_several, steps_of_exception
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.noise import mu_implied_by_epsilon
from dp_publish.rows.calibration import guarantee_of_rows, set_noise, share_mu

DOCS = Path(__file__).parents[4] / "docs"
KINDS = dict.fromkeys("abc", "continuous")


def rows(column: dict[str, Any], kinds: dict[str, str] | None = None, **privacy: Any) -> tuple[Guarantee, Any, Any]:
    """Return the guarantee of a release of rows with such columns, the columns, and the shares."""
    kinds = kinds or KINDS
    policy = policy_with(dict.fromkeys(kinds, column), **(privacy or {"mu": 1.0}))
    shares = share_mu(policy, kinds)
    found = None if "bounds" in column else dict.fromkeys(kinds, (0.0, 1.0))
    columns = set_noise(policy, kinds, shares, found=found)
    guarantee = guarantee_of_rows(policy, columns, shares)
    return guarantee, columns, shares


def growth(column: dict[str, Any], number: int) -> float:
    """Return how many times sqrt(k) the mu of one row that of k rows is."""
    guarantee, columns, _ = rows(column)
    one, several = (cost_of_several(guarantee, columns, k).mu for k in (1, number))
    return several / one / math.sqrt(number)


def moments(**stated: Any) -> tuple[Guarantee, tuple[Column, ...]]:
    """Return a guarantee of second moments, and a column."""
    known = {"unit": "row", "mu": 1.0, "rho": 0.5, "epsilon_delta": (), "accountant": "gaussian-dp", "public": ()}
    column = Column(name="a", kind="continuous", bounds=(0.0, 1.0), bounds_obtained="declared", noise=None)
    return Guarantee.model_validate({**known, **stated}), (column,)


@pytest.mark.parametrize("number", [1, 2, 10, 100])
def test_noise_on_rows_adds_up_by_squares(number: int) -> None:
    """Where nothing is found, k rows lose sqrt(k) times the mu of one, of whole numbers too, and k times the rho."""
    for kind in ("continuous", "integer"):
        guarantee, columns, _ = rows({"bounds": [0, 3]}, dict.fromkeys("ab", kind), rho=0.5)
        cost = cost_of_several(guarantee, columns, number)
        cell = exact_mu(3, columns[0].cell_noise.sigma) if kind == "integer" else 1 / math.sqrt(2)
        assert cost.mu == pytest.approx(math.sqrt(2 * number) * cell, rel=1e-9)
        assert cost.rho == pytest.approx(0.5 * number)


def test_bounds_cost_more_than_the_root() -> None:
    """So that sqrt(k) alone would promise too much."""
    found: dict[str, Any] = {}
    assert growth({"bounds": [0, 1]}, 100) == pytest.approx(1.0)
    assert growth(found, 100) > 3
    guarantee, columns, _ = rows(found)
    noise = math.hypot(*(column.cell_mu for column in columns))
    assert cost_of_several(guarantee, columns, 9).mu == pytest.approx(math.hypot(3 * noise, 9 * guarantee.bounds_mu))


def test_second_moments_lose_as_many_times_as_much() -> None:
    """Mu and epsilon k times, rho k^2 times, and an excepted delta a geometric sum."""
    gaussian = cost_of_several(*moments(), 7)
    assert gaussian == (7.0, 24.5, None, 0.0)
    mu = mu_implied_by_epsilon(1.0)
    stated = {"epsilon": 1.0, "mu": mu, "rho": mu**2 / 2, "accountant": "pure-epsilon", "excepted_delta": 1e-9}
    pure = cost_of_several(*moments(**stated), 7)
    assert pure.mu == pytest.approx(mu_implied_by_epsilon(7.0))
    assert pure.epsilon == 7.0
    assert pure.excepted_delta == pytest.approx(1e-9 * sum(math.exp(step) for step in range(7)))
    assert cost_of_several(*moments(**stated), 1000).excepted_delta == 1.0
    assert steps_of_exception(30.0, 2) == pytest.approx(1 + math.exp(30))
    assert cost_of_several(*moments(**stated), 1).excepted_delta == pytest.approx(1e-9)


@pytest.mark.parametrize("degrees", [8, 20])
@pytest.mark.parametrize("epsilon", [0.5, 1.5])
@pytest.mark.parametrize("number", [2, 3, 5])
def test_wishart_noise_keeps_to_the_exception_of_several_rows(degrees: int, epsilon: float, number: int) -> None:
    """An entry that moves k times as far has no larger delta at k epsilon, and k times the delta is too little."""
    places = np.linspace(1e-9, 400, 400_001)

    def delta(shift: float, at: float) -> float:
        """Return the mass by which chi-squared noise exceeds e^at times that moved upwards, by numbers."""
        density = stats.chi2.pdf(places, degrees)
        moved = np.interp(places - shift, places, density, left=0.0)
        return float(np.sum(np.maximum(density - math.exp(at) * moved, 0.0)) * (places[1] - places[0]))

    one, several = delta(1.0, epsilon), delta(float(number), number * epsilon)
    assert several <= one * steps_of_exception(epsilon, number)
    if number == 5 and degrees == 8:
        assert several > number * one


def test_pages_have_the_figures() -> None:
    """Known limits say what k rows of a person cost, with figures of this derivation."""
    limits = " ".join((DOCS / "known-limits.md").read_text().split())
    bounds: dict[str, Any] = {}
    assert (
        f"bounds with their default share make it up to {growth(bounds, 10):.1f} times sqrt(k) at k = 10 and "
        f"{growth(bounds, 100):.1f} times at k = 100;"
    ) in limits
    assert f"at epsilon = 1 is {math.ceil(steps_of_exception(1.0, 10)):,} times as much for k = 10" in limits
