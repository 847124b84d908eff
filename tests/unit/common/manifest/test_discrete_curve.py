"""The bound from below on delta under discrete noise, against sums over all draws and the publisher's own curve."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_bundle.manifest.discrete_mu import DiscreteLoss, least_deltas
from dp_bundle.manifest.noise import gaussian_delta
from dp_publish.accounting.curve import Loss, epsilon_of_unit


@pytest.mark.parametrize(("width", "sigma"), [(1, 0.5), (1, 1.0), (5, 2.0), (30, 20.0), (7, 11.3)])
def test_single_column_is_exact(width: int, sigma: float) -> None:
    """With one cell nothing is rounded, and the bound is the delta itself."""
    epsilons = [0.0, 0.5, 1.0, 3.0, 6.0]
    losses = {DiscreteLoss(width, sigma): 1}
    exact = [delta_by_enumeration(losses, epsilon) for epsilon in epsilons]
    np.testing.assert_allclose(least_deltas(epsilons, losses), exact, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    ("losses", "mu", "rows"),
    [
        ([(3, 2.0)] * 10, 0.0, 1),
        ([(3, 2.0)] * 10, 1.0, 1),
        ([(width, 3.3 * width**0.5) for width in range(1, 9)], 0.5, 1),
        ([(100, 200.0)] * 4, 0.0, 5),
        ([(100_000, 300_000.0)] * 4, 0.0, 3),
        ([(1_000_000, 2_000_000.0)], 0.0, 1),
        ([(2, 8.0)] * 300, 0.0, 1),
        ([(1, 1.0)], 0.0, 50),
    ],
)
def test_bound_is_below_the_stated_curve_and_near_it(losses: list[tuple[int, float]], mu: float, rows: int) -> None:
    """What the publisher states, which is on the safe side, is never refused; an epsilon that is 5 % better always."""
    cells = [Loss(width, sigma, discrete=True) for width, sigma in losses]
    cells += [Loss(mu, 1.0, discrete=False)] if mu else []
    numbers = {loss: rows * losses.count((loss.width, loss.sigma)) for loss in (DiscreteLoss(*loss) for loss in losses)}
    for delta in (1e-4, 1e-6, 1e-10):
        epsilon = epsilon_of_unit("row", cells, delta, rows)
        honest, boasted = least_deltas([epsilon, 0.95 * epsilon], numbers, mu * math.sqrt(rows))
        assert 0.7 * delta < honest <= delta
        assert boasted > 1.2 * delta


def delta_by_enumeration(losses: dict[DiscreteLoss, int], epsilon: float) -> float:
    """Return the delta of all cells together, by adding up over all draws of all of them."""
    chances, total = np.ones(1), np.zeros(1)
    for loss, number in losses.items():
        draws = np.arange(-math.ceil(12 * loss.sigma), math.ceil(12 * loss.sigma) + 1)
        weights = np.exp(-0.5 * (draws / loss.sigma) ** 2)
        for _ in range(number):
            chances = np.multiply.outer(chances, weights / weights.sum()).ravel()
            total = np.add.outer(total, (loss.width * draws + loss.width**2 / 2) / loss.sigma**2).ravel()
    return float(chances @ -np.expm1(np.minimum(epsilon - total, 0.0)))


cells = st.builds(DiscreteLoss, st.integers(1, 6), st.floats(0.2, 3.5))


@settings(max_examples=40)
@given(st.lists(cells, min_size=1, max_size=3), st.floats(0.0, 12.0))
def test_bound_is_below_what_adding_up_gives(kinds: list[DiscreteLoss], epsilon: float) -> None:
    """Whatever the columns, the bound is below their delta, and above it a tenth further on the curve."""
    losses = dict(Counter(kinds))
    (least,) = least_deltas([epsilon], losses)
    assert least <= delta_by_enumeration(losses, epsilon) * (1 + 1e-9) + 1e-15
    assert least >= delta_by_enumeration(losses, 1.05 * epsilon + 0.05) * (1 - 1e-9) - 1e-10


@pytest.mark.parametrize(("sigma", "least"), [(3.0, 0.9), (30.0, 0.995), (1e6, 0.999)])
def test_all_of_many_columns_count(sigma: float, least: float) -> None:
    """Of 3000 columns that all differ the bound knows nearly the whole mu."""
    losses = {DiscreteLoss(1 + index % 3, sigma * (1 + index / 3000)): 1 for index in range(3000)}
    mu = math.hypot(*(loss.mu for loss in losses))
    epsilons = [mu**2 / 2 + place * mu for place in range(7)]
    for epsilon, bound in zip(epsilons, least_deltas(epsilons, losses), strict=True):
        assert gaussian_delta(least * mu, epsilon) <= bound <= gaussian_delta(mu, epsilon)


def test_bounds_reach_as_far_as_numbers_do() -> None:
    """Without width there is no loss; where e^epsilon is no float64 any more the bound still holds."""
    assert least_deltas([1.0], {DiscreteLoss(0, 1.0): 3}) == [0.0]
    assert least_deltas([1.0], {DiscreteLoss(0, 1.0): 3}, 0.0) == [0.0]
    low, high = least_deltas([1000.0, 500_500.0], {DiscreteLoss(1000, 1.0): 1})
    assert low == pytest.approx(1.0)
    assert high == pytest.approx(0.3005, abs=1e-4)  # that a draw is not below 1
    (alone,) = least_deltas([1.0], {}, 1.0)
    assert alone == pytest.approx(0.126937, abs=1e-6)  # Balle & Wang (2018) at mu = 1
