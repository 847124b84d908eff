"""The exact variances against sums taken to 60 digits, and the sampling estimate against the exact variance."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_bundle.privacy.noise import (
    discrete_gaussian_variance,
    rounded_gaussian_variance,
)

SIGMAS = [0.05, 0.0501, 0.07, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, math.nextafter(1, 0), 1, 1.1, 1.3, 2, 5.3, 30]
OUTSIDE = [0.0, 0.049, -1.0, 1.1e9, math.inf, math.nan, "1"]


def _summed_discrete_variance(sigma: float) -> mpmath.mpf:
    terms = range(1, int(20 * sigma) + 20)
    with mpmath.workdps(60):
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for k in terms]
        moment = mpmath.fsum(k * k * weight for k, weight in zip(terms, weights, strict=True))
        return 2 * moment / (1 + 2 * mpmath.fsum(weights))


def estimate_discrete_gaussian_variance(sigma: float, n_draws: int, rng: np.random.Generator) -> float:
    """Return the mean square of so many draws, by rejection from the discrete Laplace (Canonne et al., algorithm 3)."""
    t = math.floor(sigma) + 1
    p = -math.expm1(-1.0 / t)
    draws = np.empty(0)
    while draws.size < n_draws:
        values = (rng.geometric(p, n_draws) - rng.geometric(p, n_draws)).astype(np.float64)
        kept = rng.random(n_draws) < np.exp(-(((np.abs(values) - sigma * sigma / t) / sigma) ** 2) / 2.0)
        draws = np.concatenate([draws, values[kept]])
    return float(np.square(draws[:n_draws]).mean())


def _summed_rounded_variance(sigma: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        steps = [mpmath.mpf(2 * k + 1) / (2 * mpmath.sqrt(2) * mpmath.mpf(sigma)) for k in range(int(20 * sigma) + 20)]
        above = [mpmath.erfc(step) for step in steps]  # of the magnitude, over k + 1/2
        return mpmath.fsum(k * k * (above[k - 1] - above[k]) for k in range(1, len(above)))


@pytest.mark.parametrize("sigma", SIGMAS)
def test_discrete_variance_agrees_with_the_sum_over_the_integers(sigma: float) -> None:
    """The discrete variance is the direct sum to a relative 1e-14."""
    expected = _summed_discrete_variance(sigma)
    assert abs(discrete_gaussian_variance(sigma) / expected - 1) < 1e-14


@pytest.mark.parametrize("sigma", SIGMAS)
def test_rounded_variance_agrees_with_the_sum_over_the_steps(sigma: float) -> None:
    """The rounded variance is the sum of squares times normal probabilities to a relative 1e-14."""
    expected = _summed_rounded_variance(sigma)
    assert abs(rounded_gaussian_variance(sigma) / expected - 1) < 1e-14


@pytest.mark.parametrize("sigma", np.geomspace(0.05, 3, 120))
def test_variances_hold_for_arbitrary_sigma(sigma: float) -> None:
    """No sigma between the round ones, where rounding of the exponent shows most, is worse than 1e-14."""
    assert abs(discrete_gaussian_variance(sigma) / _summed_discrete_variance(sigma) - 1) < 1e-14
    assert abs(rounded_gaussian_variance(sigma) / _summed_rounded_variance(sigma) - 1) < 1e-14


@pytest.mark.parametrize("sigma", [7.0, 300.0, 4096.5, 1e6, 1e9])
def test_large_variances_are_sheppards(sigma: float) -> None:
    """For large sigma the variances are sigma^2 and sigma^2 + 1/12 up to an exponentially small rest."""
    assert discrete_gaussian_variance(sigma) == pytest.approx(sigma**2, rel=1e-15)
    assert rounded_gaussian_variance(sigma) == pytest.approx(sigma**2 + 1 / 12, rel=1e-15)


def test_smallest_variance_does_not_underflow() -> None:
    """At sigma = 0.05 the discrete variance is 2 exp(-200) and not zero."""
    expected = 2 * mpmath.exp(-1 / (2 * mpmath.mpf(0.05) ** 2))
    assert abs(discrete_gaussian_variance(0.05) / expected - 1) < 1e-14


@pytest.mark.parametrize("sigma", [0.3, 0.8, 3.0, 1e6, 1e9])
def test_estimate_approaches_the_exact_variance(sigma: float) -> None:
    """A million draws estimate the variance to within 5 of their standard errors, and reject 0.97 of sigma."""
    n_draws = 1_000_000
    estimate = estimate_discrete_gaussian_variance(sigma, n_draws, np.random.default_rng(5))
    exact = discrete_gaussian_variance(sigma)
    fourth_moment = 3 * sigma**4 if sigma > 1 else exact + 12 * math.exp(-2 / sigma**2)
    standard_error = math.sqrt((fourth_moment - exact**2) / n_draws)
    assert abs(estimate - exact) < 5 * standard_error
    assert abs(estimate - discrete_gaussian_variance(0.97 * sigma)) > 5 * standard_error


def test_estimate_of_a_variance_too_small_to_see_is_zero() -> None:
    """At sigma = 0.05 no sample shows anything but zeros, which is what the exact variance is for."""
    assert estimate_discrete_gaussian_variance(0.05, 1000, np.random.default_rng(0)) == 0.0


@pytest.mark.parametrize("sigma", OUTSIDE)
def test_sigma_outside_the_range_is_refused(sigma: float) -> None:
    """Every function names sigma when it is out of range or no number."""
    for call in (discrete_gaussian_variance, rounded_gaussian_variance):
        with pytest.raises(ParameterError, match=r"sigma must be a number from 0\.05 to 1e"):
            call(sigma)
