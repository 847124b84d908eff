"""Calibration of categories and changes: a cell's one share, the square root of 2, and the strength of responses."""

import math
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import policy_with
from tests.discrete_noise import exact_mu as of_steps

from dp_bundle.base.errors import PolicyError, PrivacyError
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.discrete_mu import discrete_gaussian_sigma
from dp_bundle.manifest.guarantee import Guarantee
from dp_publish.accounting.conversions import Cost
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Table
from dp_publish.policy.columns import choose_columns, resolve
from dp_publish.rows.calibration import cost_of_rows, guarantee_of_rows, set_noise, share_mu
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.missing import RowReport
from dp_publish.rows.noise import ENOUGH_SIGMA, is_response_better, response_for
from dp_publish.sampling.keystream import insecure_keystream

FIVE = {"kind": "category", "categories": ["a", "b", "c", "d", "e"], "mechanism": "gaussian"}
TWO = {"kind": "category", "categories": ["f", "m"], "mechanism": "gaussian"}
NUMBER = {"bounds": [0, 10], "kind": "integer"}
STEP = 2.0**-32


def calibrate(columns: dict[str, Any], **privacy: Any) -> tuple[dict[str, Column], Cost, Guarantee | None]:
    """Return the columns by name, what they cost and what they guarantee; no value can be read."""

    def read(*_: Any) -> Any:
        raise AssertionError("a value was read")

    types = {
        name: ColumnType.TEXT if "categories" in entry or "levels" in entry else ColumnType.INTEGER
        for name, entry in columns.items()
    }
    table = Table({**types, "who": ColumnType.TEXT}, read)
    policy = policy_with(columns, **privacy)
    table, policy = resolve(table, policy)
    kinds, _ = choose_columns(table, policy)
    shares = share_mu(policy, kinds)
    made = set_noise(policy, kinds, shares)
    cost = cost_of_rows(policy, kinds, shares, made)
    return {column.name: column for column in made}, cost, guarantee_of_rows(policy, made, shares)


def exact_mu(columns: dict[str, Column]) -> Any:
    """Return the mu of a changed row, from the definitions: sqrt(2) of a category, once for all its columns."""
    squares, seen = mpmath.mpf(0), set()
    for column in columns.values():
        if column.block is not None and column.block in seen:
            continue
        seen.add(column.block)
        if column.response is not None:
            squares += mu_of_response(column.response.n_levels, column.response.replaced) ** 2
            continue
        low, high = column.bounds or (0, 0)
        squares += (2 if column.block else 1) * mpmath.mpf(of_steps(round(high - low), column.cell_noise.sigma)) ** 2
    return mpmath.sqrt(squares)


def quantile(probability: Any) -> Any:
    """Return the standard normal's quantile."""
    return mpmath.sqrt(2) * mpmath.erfinv(2 * probability - 1)


def mu_of_response(n_levels: int, replaced: float) -> Any:
    """Return the least mu of which this randomised response is GDP."""
    with mpmath.workdps(60):
        other = mpmath.mpf(replaced) / n_levels
        return quantile(1 - mpmath.mpf(replaced) + other) - quantile(other)


@pytest.mark.parametrize("unit", ["cell", "row", {"entity": "who", "max_rows": 4}])
def test_a_category_takes_one_cells_share(unit: Any) -> None:
    """Of three cells each has a third of a row's mu^2, however many columns it becomes, or all of a cell's."""
    columns, cost, guarantee = calibrate({"x": FIVE, "sex": TWO, "n": NUMBER}, unit=unit, mu=1.2)
    per_row = 1.2 if unit in ("cell", "row") else 0.6
    share = per_row if unit == "cell" else per_row / math.sqrt(3)
    sigmas = {name: column.cell_noise.sigma for name, column in columns.items()}
    assert [of_steps(1, sigmas[f"x={level}"]) for level in "abcde"] == pytest.approx([share / math.sqrt(2)] * 5)
    assert of_steps(1, sigmas["sex"]) == pytest.approx(share)
    assert of_steps(10, sigmas["n"]) == pytest.approx(share)
    assert 10 / share < sigmas["n"] < 10.02 / share

    with mpmath.workdps(40):
        row = exact_mu(columns)
    assert row <= cost.mu["row"] <= row * (1 + 1e-9)
    assert cost.mu["cell"] == pytest.approx(share, rel=1e-9)
    assert math.sqrt(2 * guarantee.rho) == pytest.approx(1.2, rel=1e-9)
    assert guarantee.mu is None


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["cell", "row"])
def test_epsilon_and_delta_are_kept(unit: str) -> None:
    """The curve of blocks and responses together passes below the point that was asked for, and not far below."""
    columns = {"x": FIVE, "y": {**FIVE, "mechanism": "randomized-response"}, "n": NUMBER}
    _, _, guarantee = calibrate(columns, unit=unit, epsilon=2.0, delta=1e-6)
    (epsilon,) = (point.epsilon for point in guarantee.epsilon_delta if point.delta == 1e-6)
    assert 1.9 < epsilon <= 2.0 * (1 + 1e-8)


@pytest.mark.parametrize("max_change", [1, 3, 50])
def test_changes_move_a_count_by_as_much_as_the_policy_says(max_change: int) -> None:
    """Sigma is for max_change, or for the width of the bounds where that is less, or where no change is declared."""
    count = {"kind": "integer", "bounds": [0, 20], "max_change": max_change}
    columns, cost, guarantee = calibrate({"n": count, "m": NUMBER, "x": FIVE}, unit="change", mu=0.5)
    reach, sigmas = min(max_change, 20), {name: column.cell_noise.sigma for name, column in columns.items()}
    assert of_steps(reach, sigmas["n"]) == pytest.approx(0.5)
    assert of_steps(10, sigmas["m"]) == pytest.approx(0.5)
    assert math.sqrt(2) * of_steps(1, sigmas["x=a"]) == pytest.approx(0.5)
    assert columns["n"].max_change == cost.changes["n"] == max_change
    assert guarantee.unit == "change"
    assert math.sqrt(2 * guarantee.rho) == pytest.approx(0.5, rel=1e-9)
    assert cost.mu["change"] == pytest.approx(0.5, rel=1e-9)
    whole = of_steps(20, sigmas["n"])
    assert cost.mu["cell"] == pytest.approx(max(whole, 0.5), rel=1e-9)
    row = math.sqrt(whole**2 + 2 * 0.5**2)
    assert cost.mu["row"] == pytest.approx(row, rel=1e-9)


@pytest.mark.parametrize("n_levels", [2, 3, 12, 500])
@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 3.0, 6.0])
def test_responses_have_the_largest_strength_allowed(n_levels: int, mu: float) -> None:
    """On the grid of 2^-32 the next smaller probability of another level would cost more than mu."""
    response = response_for(n_levels, mu)
    assert (response.replaced / STEP).is_integer()
    assert mu_of_response(n_levels, response.replaced) <= mu * (1 + 1e-9)
    if response.replaced > STEP:
        assert mu_of_response(n_levels, response.replaced - STEP) > mu * (1 - 1e-9)
    assert response.mu == pytest.approx(float(mu_of_response(n_levels, response.replaced)), rel=1e-9)


@pytest.mark.parametrize(("n_levels", "mu"), [(2, 1e-10), (12, 1e-10)])
def test_responses_that_would_show_nothing_are_none(n_levels: int, mu: float) -> None:
    """Where even a level that is nearly always replaced costs more."""
    assert response_for(n_levels, mu) is None
    section = {**FIVE, "mechanism": "randomized-response"}
    with pytest.raises(PrivacyError, match="randomised response on 'x' would show nothing"):
        calibrate({"x": section}, unit="cell", mu=mu)


@pytest.mark.parametrize("n_levels", [2, 3, 12])
def test_the_mechanism_with_less_variance_is_taken(n_levels: int) -> None:
    """Of unbiased indicators of all levels, by closed forms."""
    for mu in (0.2, 0.7, 1.0, 2.0, 3.0, 4.0, 8.0):
        response = response_for(n_levels, mu)
        p = np.where(np.arange(n_levels) == 0, response.p_same, response.p_other)

        sigma = discrete_gaussian_sigma(1, mu / (math.sqrt(2) if n_levels > 2 else 1.0))
        steps = np.arange(-60, 61)
        law = np.exp(-(steps**2) / (2 * sigma**2))
        added = (steps**2 @ law) / law.sum() * (n_levels - 1 if n_levels > 2 else 2)
        replaced = (p * (1 - p)).sum() / (response.p_same - response.p_other) ** 2
        # noise that leaves nearly all cells as they are is not taken, accurate as it is
        better = sigma < ENOUGH_SIGMA or replaced < added
        assert is_response_better(n_levels, mu, sigma) == better
        category = {"kind": "category", "categories": [*map(str, range(n_levels))]}
        columns = calibrate({"x": category}, unit="cell", mu=mu)[0].values()
        assert {each.response is not None for each in columns} == {better}


@pytest.mark.parametrize("n_levels", [2, 5])
def test_which_levels_are_replaced_does_not_depend_on_them(n_levels: int) -> None:
    """With the same random bits, a row of chance whose level no other row has comes out as what replaced it."""
    levels = ["a", "b", "c", "d", "e"][:n_levels]
    town = {"kind": "category", "categories": levels, "mechanism": "randomized-response"}
    columns = tuple(calibrate({"town": town}, unit="cell", mu=1.5)[0].values())

    def out(codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        coded = [codes] if len(columns) == 1 else [(codes == level).astype(np.int64) for level in range(n_levels)]
        batch = pa.RecordBatch.from_arrays([pa.array(each) for each in coded], names=[each.name for each in columns])
        noisy = add_noise(batch, columns, insecure_keystream(3), RowReport())
        return np.stack([each.to_numpy() for each in noisy.columns])

    base = np.zeros(200, dtype=np.int64)
    common = out(base)
    replaced = np.flatnonzero((common == out(base + 1)).all(axis=0))
    assert len(replaced) > 20
    for row in replaced[:12]:
        for level in range(1, n_levels):
            alone = base.copy()
            alone[row] = level
            assert np.array_equal(out(alone), common)


@pytest.mark.parametrize("section", [{"kind": "ordered", "levels": ["low", "high"]}, {"bounds": [0, 1]}])
def test_mechanism_of_numbers_is_refused(section: dict[str, Any]) -> None:
    """Places of ordered levels are numbers, and numbers are not replaced, so asking for it is refused."""
    with pytest.raises(PolicyError, match="mechanism, of column 'grade'"):
        calibrate({"grade": {**section, "mechanism": "randomized-response"}}, mu=1.0)
