"""From policy to noise and guarantee: equal shares, sound sums, nothing from the data."""

import math
from typing import Any

import mpmath
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import make_policy as make
from tests.unit.publisher.conftest import sealed

from dp_bundle.base.errors import PolicyError, PrivacyError
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.costs import unit_costs
from dp_bundle.manifest.guarantee import Guarantee, release_mu
from dp_publish.accounting.conversions import Cost
from dp_publish.data.table import Table
from dp_publish.policy.columns import choose_columns, prepare
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import Shares, cost_of_rows, guarantee_of_rows, set_noise, share_mu
from dp_publish.rows.noise import N_RUNGS, rung_above
from dp_publish.sampling.exponential import ExponentialMechanism


def made(policy: Policy, kinds: dict[str, str], **found: Any) -> tuple[Shares, tuple[Column, ...], Guarantee, Cost]:
    """Return what calibration makes of a policy, with what was found of the table."""
    shares = share_mu(policy, kinds)
    columns = set_noise(policy, kinds, shares, **found)
    return shares, columns, guarantee_of_rows(policy, columns, shares), cost_of_rows(policy, kinds, shares)


def calibrate(table: Table, policy: Policy) -> tuple[tuple[Column, ...], Cost, Guarantee]:
    """Run the whole calibration."""
    _, columns, guarantee, cost = made(policy, choose_columns(table, policy)[0])
    return columns, cost, guarantee


def widths(columns: tuple[Column, ...]) -> list[Any]:
    """Return every column's width over sigma, in exact arithmetic."""
    return [
        (mpmath.mpf(c.bounds[1]) - mpmath.mpf(c.bounds[0])) / mpmath.mpf(c.noise.sigma) for c in columns if c.bounds
    ]


def test_what_is_public_is_said() -> None:
    """The number of rows is public, and so is which belong together, or lack a value where these are dropped."""
    entry = {"a": {"bounds": [0, 1], "missing": "drop"}}
    dropping = calibrate(sealed(a="continuous"), make({}, entry, mu=1.0))[2]
    assert "no value in 'a'" in dropping.public[1]
    policy = make({"a": [0, 1]}, mu=1.0, unit={"entity": "who", "max_rows": 4})
    guarantee = calibrate(sealed(who="other", a="continuous"), policy)[2]
    assert (guarantee.unit, guarantee.entity, guarantee.max_rows) == ("entity", "who", 4)
    assert guarantee.public == ("the number and the order of the rows", "which rows belong together")


@pytest.mark.parametrize("strength", [{"mu": 1e200}, {"rho": 1e300}, {"mu": 1e-30}, {"sigma": 1e-300}])
@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_hopeless_strengths_are_errors_of_ours(strength: dict[str, float], kind: str) -> None:
    """Strengths at the ends of floating point are refused with an error of the tree and no foreign one."""
    with pytest.raises((PrivacyError, PolicyError)):
        calibrate(sealed(a=kind), make({"a": [0, 1]}, **strength))


def test_integer_columns_need_integer_bounds() -> None:
    """Bounds off the integers are refused for a column that the table, not the policy, says is of integers."""
    with pytest.raises(PolicyError, match="'b' is an integer column"):
        calibrate(sealed(b="integer"), make({"b": [0, 2.5]}, mu=1.0))


FOUND = {"free": (-4.0, 1024.0), "open": (0.0, 2.0**52)}
UNITS: list[Any] = ["cell", "row", {"entity": "who", "max_rows": 1}, {"entity": "who", "max_rows": 37}]


def whole_mu(columns: tuple[Column, ...], unit: Any, searched: int, choice_mu: float, *, of: str) -> Any:
    """Return the exact mu of search and rows together for a unit, straight from the definitions."""
    max_rows = unit["max_rows"] if of == "entity" else 1
    shares = widths(columns)
    rows = max(shares) if of == "cell" else mpmath.sqrt(sum(share**2 for share in shares))
    n_choices = max_rows * mpmath.sqrt(2 * (1 if of == "cell" else searched)) if searched else 0
    odds = mpmath.mpf(2**40) / ExponentialMechanism(choice_mu)._numerator  # e^(epsilon / 2)
    choice = 2 * mpmath.sqrt(2) * mpmath.erfinv(2 * odds / (1 + odds) - 1)
    return mpmath.sqrt(max_rows * rows**2 + (n_choices * choice) ** 2)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("strength", [{"mu": 1.5}, {"rho": 0.02}, {"epsilon": 2.0, "delta": 1e-7}])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.9])
@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (10.0, 1.0, 0.1)])
def test_search_and_rows_together_keep_to_the_strength(
    unit: Any, strength: dict[str, float], share: float, weights: tuple[float, ...]
) -> None:
    """With searched bounds, weights and any unit, the exact mu is at most the guarantee's, and that what is booked."""
    entries = dict(zip(("fixed", "free", "open"), ({"weight": weight} for weight in weights), strict=True))
    entries["fixed"]["bounds"] = [0, 10]  # type: ignore[assignment]
    policy = make({}, entries, unit=unit, bounds_share=share, **strength)
    shares, columns, guarantee, cost = made(policy, dict.fromkeys(entries, "continuous"), found=FOUND)

    assert shares.searched == ("free", "open")
    name = policy.privacy.unit_name
    with mpmath.workdps(40):
        exact = {of: whole_mu(columns, unit, 2, shares.choice_mu, of=of) for of in {"cell", "row", name}}
        assert exact[name] <= guarantee.mu
        assert guarantee.mu <= exact[name] * (1 + 1e-11) or name == "cell"
        assert guarantee.mu <= shares.target
        assert exact["cell"] <= cost.mu["cell"]
        assert exact["row"] <= cost.mu["row"]
    assert guarantee.mu <= cost.mu[policy.privacy.account] <= guarantee.mu * (1 + 1e-11)
    assert set(cost.mu) == {"cell", "row", policy.privacy.account}
    assert guarantee.bounds_mu == pytest.approx(shares.target * math.sqrt(share), rel=1e-8)
    assert [column.bounds_obtained for column in columns] == ["declared", "private-quantiles", "private-quantiles"]


def test_replaced_levels_are_booked_at_what_their_response_loses() -> None:
    """Beside a search for bounds, where a share is larger than what randomised response can lose, this is the cost."""
    levels = {"kind": "category", "categories": ["a", "b", "c"], "mechanism": "randomized-response"}
    policy = make({}, {"x": {}, "town": levels}, mu=84.0)
    prepared = prepare(pa.table({"x": [1.0], "town": ["a"]}), policy)
    _, columns, guarantee, cost = made(prepared.policy, prepared.kinds, found={"x": (0.0, 1.0)})
    assert cost.mu == pytest.approx(unit_costs(guarantee, columns, "row"), rel=1e-9)


@pytest.mark.parametrize("strength", [{"mu": 1.0}, {"rho": 0.5}])
def test_whole_numbers_keep_to_the_strength(strength: dict[str, float]) -> None:
    """Whole numbers within declared or found bounds, few or many, have the noise that is booked before, and no more."""
    for bounds in ((0.0, 1.0), (0.0, 2.0**20)):
        for policy, found in (
            (make({"a": list(bounds)}, **strength), {}),
            (make({}, {"a": {}}, **strength), {"a": bounds}),
        ):
            _, columns, _, cost = made(policy, {"a": "integer"}, found=found)
            assert 0.9 < release_mu("row", columns) <= cost.mu["row"]


def test_weights_share_a_rows_mu_and_not_a_cells() -> None:
    """A column of weight 3 beside one of weight 1 gets 3/4 of a row's mu^2; a cell's mu is each column's own."""
    entries = {"a": {"bounds": [0, 1], "weight": 3.0}, "b": {"bounds": [0, 100], "weight": 1.0}}
    kinds = dict.fromkeys(entries, "continuous")
    row, cell = (share_mu(make({}, entries, mu=2.0, unit=unit), kinds).columns for unit in ("row", "cell"))
    assert row == {"a": pytest.approx(math.sqrt(3)), "b": pytest.approx(1.0)}
    assert cell == {"a": 2.0, "b": 2.0}


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_point_asked_for_is_kept_by_integers_with_searched_bounds(unit: Any) -> None:
    """Whatever bounds the search finds, the guarantee's epsilon at the delta asked for is at most the one asked for."""
    policy = make({"a": [0, 3]}, {"b": {}}, epsilon=2.0, delta=1e-6, unit=unit)
    for bounds in ((0.0, 1.0), (-1.0, 2.0), (0.0, 16.0), (-(2.0**20), 2.0**25)):
        _, _, guarantee, cost = made(policy, {"a": "integer", "b": "integer"}, found={"b": bounds})
        (epsilon,) = [point.epsilon for point in guarantee.epsilon_delta if point.delta == 1e-6]
        assert epsilon <= 2.0 * (1 + 2e-9)
        assert 2 * guarantee.rho <= cost.mu[policy.privacy.account] ** 2
        assert guarantee.mu is None


WIDE = {f"c{index}": [0.0, 1.0 + index / 7] for index in range(300)}


@pytest.mark.parametrize("unit", ["row", "cell"])
@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_columns_of_a_wide_table_share_a_ladder_of_sigmas(unit: str, kind: str) -> None:
    """Sigmas go up by at most 0.55 %, to few mantissas; the sum stays below the target, and is what is charged."""
    bounds = {name: [low, math.ceil(2000 * high)] for name, (low, high) in WIDE.items()}
    policy, kinds = make(bounds, unit=unit, mu=1.0), dict.fromkeys(bounds, kind)
    shares, columns, guarantee, _ = made(policy, kinds)
    cost = cost_of_rows(policy, kinds, shares, columns)
    share = 1.0 if unit == "cell" else 1 / math.sqrt(300)
    with mpmath.workdps(40):
        assert all(share / 1.0055 < reached <= share for reached in widths(columns))
    stated = math.sqrt(2 * guarantee.rho)
    assert 0.994 < stated < 1.0
    assert cost.mu[unit] == pytest.approx(stated, rel=1e-11)
    assert len({math.frexp(column.cell_noise.sigma)[0] for column in columns}) <= N_RUNGS


@settings(max_examples=200)
@given(st.floats(2.0**-400, 2.0**400))
def test_the_next_rung_is_never_below(sigma: float) -> None:
    """A rung is at least sigma and less than 0.55 % above it; a rung stays where it is."""
    rung = rung_above(sigma)
    assert sigma <= rung < 1.0055 * sigma
    assert rung_above(rung) == rung
