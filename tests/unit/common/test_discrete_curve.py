"""The bound from below on delta under discrete noise, against exact sums in 40 digits and the publisher's own curve."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dp_bundle.discrete_curve import DiscreteLoss, least_deltas
from dp_publish.privacy_curve import Loss, epsilon_of_unit


def exact_delta(width: int, sigma: float, epsilon: float) -> float:
    """Return the hockey-stick divergence of N_Z(0, sigma^2) from its shift by `width`, summed over all integers."""
    with mpmath.workdps(40):
        reach = math.ceil(30 * sigma) + width
        weight = {k: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for k in range(-reach, reach + 1)}
        gains = (weight[k] - mpmath.exp(epsilon) * weight.get(k + width, 0) for k in weight)
        return float(sum(gain for gain in gains if gain > 0) / sum(weight.values()))


@pytest.mark.parametrize(("width", "sigma"), [(1, 0.5), (1, 1.0), (5, 2.0), (30, 20.0), (7, 11.3)])
def test_single_column_is_exact(width: int, sigma: float) -> None:
    """With one cell nothing is rounded, and the bound is the delta itself."""
    epsilons = [0.0, 0.5, 1.0, 3.0, 6.0]
    exact = [exact_delta(width, sigma, epsilon) for epsilon in epsilons]
    np.testing.assert_allclose(least_deltas(epsilons, {DiscreteLoss(width, sigma): 1}), exact, rtol=1e-9, atol=1e-18)


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


def test_nothing_is_bounded_where_nothing_is_protected() -> None:
    """Without width there is no loss, and beyond every sensible mu no bound is computed."""
    assert least_deltas([1.0], {DiscreteLoss(0, 1.0): 3}) == [0.0]
    assert least_deltas([1.0, 2.0], {DiscreteLoss(1000, 1.0): 1}) == [0.0, 0.0]
    (alone,) = least_deltas([1.0], {}, 1.0)
    assert 0.995 * 0.126937 < alone < 0.126937  # Balle & Wang (2018) at mu = 1
