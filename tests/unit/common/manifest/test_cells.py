"""What a cell and a row lose: against all neighbouring rows, one by one, and the exact law of randomised response."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.discrete_noise import exact_mu

from dp_bundle.manifest.columns import Column, Noise, RandomizedResponse, cells_of
from dp_bundle.manifest.guarantee import check_gaussian_strength, release_mu

STEPS = 2**32
SIGMAS = (0.3, 0.45, 0.8, 1.3, 2.1, 3.4, 5.0)


def integers(name: str, bounds: tuple[float, float], sigma: float, **more: Any) -> Column:
    """Return a column of integers with noise of this sigma."""
    noise = Noise.discrete_gaussian(sigma)
    return Column(name=name, kind="integer", bounds=bounds, bounds_obtained="declared", noise=noise, **more)


def block(name: str, n_levels: int, sigma: float) -> list[Column]:
    """Return a category's columns with noise of this sigma."""
    return [integers(f"{name}={level}", (0.0, 1.0), sigma, block=name) for level in range(n_levels)]


def _moved(kind: str, size: int, sigma: float, limit: int | None = None) -> float:
    """Return the mu of a cell of which one level becomes another, or that moves as far as its width or limit."""
    if kind == "block":
        return math.sqrt(2) * exact_mu(1, sigma)
    return exact_mu(min(size, limit or size), sigma)


cells = st.one_of(
    st.tuples(st.just("block"), st.integers(3, 6), st.sampled_from(SIGMAS), st.none()),
    st.tuples(st.just("count"), st.integers(1, 8), st.sampled_from(SIGMAS), st.one_of(st.none(), st.integers(1, 10))),
)


@settings(max_examples=80)
@given(st.lists(cells, min_size=1, max_size=6))
def test_mu_is_that_of_the_farthest_neighbouring_rows(drawn: list[tuple[str, int, float, int | None]]) -> None:
    """Of any blocks and integers, mu for a cell, a row and a change is that of the worst of all pairs of rows."""
    columns: list[Column] = []
    for index, (kind, size, sigma, limit) in enumerate(drawn):
        if kind == "block":
            columns += block(f"c{index}", size, sigma)
        else:
            columns.append(integers(f"c{index}", (0.0, float(size)), sigma, max_change=limit and float(limit)))
    cells = [_moved(*cell[:3]) for cell in drawn]
    cell, row, change = max(cells), math.hypot(*cells), max(_moved(*cell) for cell in drawn)
    assert release_mu("cell", columns) == pytest.approx(cell, rel=1e-12)
    assert release_mu("row", columns) == pytest.approx(row, rel=1e-12)
    assert release_mu("entity", columns, 3) == pytest.approx(math.sqrt(3) * row, rel=1e-12)
    assert release_mu("change", columns) == pytest.approx(change, rel=1e-12)
    assert len(cells_of(columns)) == len(drawn)


def _errors(response: RandomizedResponse) -> list[tuple[float, float]]:
    """Return the corners of the exact trade-off between two levels, by the likelihood ratio of every outcome."""
    rest = response.n_levels - 2
    null = [response.p_same, response.p_other, *[response.p_other] * rest]
    other = [response.p_other, response.p_same, *[response.p_other] * rest]
    order = sorted(range(response.n_levels), key=lambda k: -other[k] / null[k])  # what is rejected first
    corners = [(0.0, 1.0)]
    for k in order:
        first, second = corners[-1]
        corners.append((first + null[k], second - other[k]))
    return corners


def _normal_curve(mu: float, alpha: float) -> float:
    return float(stats.norm.cdf(stats.norm.isf(alpha) - mu))


responses = st.builds(
    lambda n_levels, steps: RandomizedResponse(
        distribution="randomized-response", n_levels=n_levels, replaced=steps / STEPS
    ),
    st.integers(2, 40),
    st.integers(1, STEPS - 1),
)


@settings(max_examples=150)
@given(responses)
def test_mu_of_randomised_response_is_the_smallest_below_its_trade_off(response: RandomizedResponse) -> None:
    """The normal curve of mu is nowhere above the exact trade-off, touches it at a corner; a smaller one is above."""
    corners = [(alpha, beta) for alpha, beta in _errors(response) if 1e-13 < alpha < 1 - 1e-13]
    slack = [beta - _normal_curve(response.mu, alpha) for alpha, beta in corners]
    assert min(slack) >= -1e-12
    alpha, beta = response.p_other, 1 - response.p_same
    assert _normal_curve(response.mu, alpha) == pytest.approx(beta, rel=1e-5)
    assert _normal_curve(0.99 * response.mu, alpha) > beta


@pytest.mark.parametrize(("n_levels", "steps"), [(2, 2**30), (3, 2**31), (7, 3 * 2**28)])
def test_variance_of_unbiased_indicators_is_that_of_every_outcome(n_levels: int, steps: int) -> None:
    """The mean over levels of the variance of (y - q) / (p - q), by listing outcomes, is the stated one."""
    response = RandomizedResponse(distribution="randomized-response", n_levels=n_levels, replaced=steps / STEPS)
    chances = np.full(n_levels, response.p_other)
    chances[0] = response.p_same
    assert math.fsum(chances) == pytest.approx(1, rel=1e-15)
    outcomes = (np.eye(n_levels) - response.p_other) / (response.p_same - response.p_other)
    mean = chances @ outcomes
    np.testing.assert_allclose(mean, np.eye(n_levels)[0], atol=1e-12)
    variance = chances @ (outcomes - mean) ** 2
    assert float(np.mean(variance)) == pytest.approx(response.variance, rel=1e-12)


def test_levels_that_are_replaced_are_whole_numbers() -> None:
    """Noise has a grid of its own; and a curve is judged where it is asked for."""
    fine = Noise.discrete_gaussian(1.0).model_copy(update={"granularity": 0.25})
    noisy = integers("x", (0.0, 1.0), 1.0).model_copy(update={"noise": fine})
    replaced = noisy.model_copy(update={"noise": RandomizedResponse.model_construct()})
    assert (replaced.grid, noisy.grid) == (1.0, 0.25)
    points = [SimpleNamespace(epsilon=1.0, delta=1e-9)]
    stated = SimpleNamespace(mu=1.0, rho=0.5, epsilon_delta=points, excepted_delta=0.0)
    check_gaussian_strength(stated, 1.0, with_curve=False)
    with pytest.raises(ValueError, match="epsilon is smaller"):
        check_gaussian_strength(stated, 1.0, with_curve=True)
