"""Privacy parameters against mpmath."""

import math
from typing import Any

import mpmath
import pytest
from tests.unit.publisher.accounting.test_curve import exact_delta as exact_delta_discrete

from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_publish.accounting.conversions import (
    delta_for_epsilon,
    delta_for_epsilon_zcdp,
    epsilon_for_delta,
    epsilon_for_delta_zcdp,
    mu_for_epsilon_delta,
    rho_for_epsilon_delta,
    rho_for_mu,
)

MUS = [0.1, 0.5, 1.0, 2.0, 5.0]
DELTAS = [1e-3, 1e-6, 1e-10]


def exact_delta(mu: float, epsilon: float) -> Any:
    """Return delta of mu-GDP (Dong, Roth & Su, corollary 2.13), in 60 digits."""
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


def exact_delta_zcdp(rho: float, epsilon: float) -> Any:
    """Minimise the bound of Canonne, Kamath & Steinke (2020), proposition 12, by brute force, in 40 digits."""
    rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)

    def log_bound(t: Any) -> Any:
        a = 1 + mpmath.exp(t)
        return (a - 1) * (a * rho - epsilon) - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a)

    grid = [mpmath.mpf(k) / 4 for k in range(-60, 121)]
    best = min(range(len(grid)), key=lambda k: log_bound(grid[k]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(120):
        third = (high - low) / 3
        low, high = (low, high - third) if log_bound(low + third) < log_bound(high - third) else (low + third, high)
    return min(mpmath.mpf(1), mpmath.exp(log_bound(low)))


@pytest.mark.parametrize("mu", [1e-4, 1.0, 1000.0])
@pytest.mark.parametrize("at", [0.0, 0.01, 1.0, 12.0])
def test_delta_is_that_of_the_definition(mu: float, at: float) -> None:
    """Delta agrees with 60-digit arithmetic, from the middle of the curve far into its tail."""
    epsilon = at * mu + mu * mu / 2 if at else 0.0
    with mpmath.workdps(60):
        expected = float(exact_delta(mu, epsilon))
    assert delta_for_epsilon(mu, epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("rho", [1e-9, 0.5, 50.0])
@pytest.mark.parametrize("at", [0.0, 2.0, 12.0])
def test_zcdp_delta_is_the_smallest_bound(rho: float, at: float) -> None:
    """The conversion finds the minimum that a brute-force search in 40 digits finds, and never goes below it."""
    epsilon = rho + at * math.sqrt(2 * rho) if at else 0.0
    with mpmath.workdps(40):
        expected = float(exact_delta_zcdp(rho, epsilon))
    found = delta_for_epsilon_zcdp(rho, epsilon)

    assert found == pytest.approx(expected, rel=1e-7)
    assert found >= expected * (1 - 1e-9)


@pytest.mark.parametrize(("sigma", "width"), [(0.3, 1), (1.0, 1), (2.0, 5), (10.0, 7), (7.5, 30)])
def test_zcdp_bounds_the_true_discrete_gaussian(sigma: float, width: int) -> None:
    """What is stated for integer columns holds: the exact delta of the discrete Gaussian is never above it."""
    rho = rho_for_mu(width / sigma)
    with mpmath.workdps(40):
        for delta in DELTAS:
            epsilon = epsilon_for_delta_zcdp(rho, delta)
            assert exact_delta_discrete(sigma, width, epsilon) <= delta
        for factor in (0.3, 1.0, 2.0):
            epsilon = factor * width / sigma
            assert exact_delta_discrete(sigma, width, epsilon) <= delta_for_epsilon_zcdp(rho, epsilon)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize("delta", [0.5, 1e-6, 1e-30])
def test_strength_for_epsilon_delta_is_the_largest_sound_one(epsilon: float, delta: float) -> None:
    """The mu keeps to the requested point exactly, by 60-digit arithmetic, and a slightly larger one would not."""
    mu = mu_for_epsilon_delta(epsilon, delta)
    with mpmath.workdps(60):
        assert exact_delta(mu, epsilon) <= delta * (1 + mpmath.mpf("1e-11"))
        assert exact_delta(mu * (1 + 1e-9), epsilon) > delta
    rho = rho_for_epsilon_delta(epsilon, delta)
    assert delta_for_epsilon_zcdp(rho, epsilon) <= delta < delta_for_epsilon_zcdp(rho * (1 + 1e-6), epsilon)
    assert rho <= rho_for_mu(mu) * (1 + 1e-9)


def test_impossible_points_are_refused() -> None:
    """A point that only boundless noise could reach is refused."""
    with pytest.raises(PrivacyError):
        mu_for_epsilon_delta(1e-30, 1e-300)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_arguments_out_of_range_are_refused(bad: float) -> None:
    """Nothing that is no strength is computed with."""
    calls = [
        lambda: delta_for_epsilon(bad, 1.0),
        lambda: delta_for_epsilon_zcdp(bad, 1.0),
        lambda: epsilon_for_delta(bad, 1e-6),
        lambda: epsilon_for_delta_zcdp(bad, 1e-6),
        lambda: epsilon_for_delta(1.0, bad),
        lambda: mu_for_epsilon_delta(1.0, bad),
        lambda: rho_for_epsilon_delta(1.0, bad),
    ]
    calls += [] if bad == 0 else [lambda: delta_for_epsilon(1.0, bad), lambda: mu_for_epsilon_delta(bad, 1e-6)]
    for call in calls:
        with pytest.raises(ParameterError):
            call()
