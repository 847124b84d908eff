"""The mu of discrete noise, against all thresholds in 40 digits, and what it is a bound on."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.discrete_noise import exact_mu

from dp_bundle.manifest.discrete_mu import (
    DiscreteLoss,
    discrete_gaussian_mu,
    discrete_gaussian_sigma,
    largest_mu_for_rho,
)

SIGMAS = (0.05, 0.1, 0.2, 0.3, 0.31, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 7.0)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_mu_is_the_largest_that_any_threshold_tells(sigma: float) -> None:
    """The thresholds in the middle are the best ones, of all, whatever the distance."""
    for steps in (1, 2, 3, 4, 5, 12, 31):
        assert discrete_gaussian_mu(steps, sigma) == pytest.approx(exact_mu(steps, sigma), rel=1e-13)


@pytest.mark.parametrize("sigma", [20.0, 49.9, 50.0, 120.0, 900.0])
def test_wide_noise_has_the_mu_of_a_series(sigma: float) -> None:
    """From 50 steps on a series takes the place of the sum, which it continues."""
    for steps in (1, 7, 100, 1000):
        ratio = discrete_gaussian_mu(steps, sigma) / exact_mu(steps, sigma)
        assert -1e-10 < ratio - 1 < 2e-8 * (1 + steps / sigma)  # thresholds far out tell less, and are not counted on


def test_masses_of_intervals_fall_off_faster_farther_out_and_for_longer_ones() -> None:
    """The step of docs/reference/proofs.md: squared mass over those beside grows with place and length."""
    with mpmath.workdps(30):

        def fall(middle: float, length: float) -> mpmath.mpf:
            ends = [mpmath.mpf(middle) + (place - 1.5) * length for place in range(4)]
            left, own, right = (mpmath.ncdf(high) - mpmath.ncdf(low) for low, high in itertools.pairwise(ends))
            return 2 * mpmath.log(own) - mpmath.log(left) - mpmath.log(right)

        middles, lengths = np.linspace(0, 6, 13), np.geomspace(0.02, 6, 13)
        table = np.array([[float(fall(-middle, length)) for length in lengths] for middle in middles])
    assert (np.diff(table, axis=0) > 0).all()
    assert (np.diff(table, axis=1) > 0).all()


@settings(max_examples=200)
@given(st.integers(1, 10**6), st.floats(1e-6, 60))
def test_sigma_is_the_least_that_gives_mu(steps: int, mu: float) -> None:
    """And the inverse of mu."""
    sigma = discrete_gaussian_sigma(steps, mu)
    assert mu * (1 - 1e-12) <= discrete_gaussian_mu(steps, sigma) <= mu
    assert steps / mu <= sigma <= 2 * steps / mu
    assert discrete_gaussian_mu(steps, 0.999 * sigma) > mu


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0.05, 30)), min_size=1, max_size=6), st.floats(0, 5))
def test_what_rho_allows_is_never_less_than_mu(cells: list[tuple[int, float]], beside: float) -> None:
    """Of cells with discrete noise, and something else of a known mu: rho alone bounds the mu of all together."""
    losses = [DiscreteLoss(*cell) for cell in cells]
    rho = 0.5 * (math.fsum(loss.ratio**2 for loss in losses) + beside**2)
    mu = math.hypot(beside, *(loss.mu for loss in losses))
    assert math.sqrt(2 * rho) <= mu <= largest_mu_for_rho(rho) * (1 + 1e-12)
    assert largest_mu_for_rho(rho) <= 2 * math.sqrt(2 * rho)


def test_a_single_bit_reaches_what_rho_allows() -> None:
    """No smaller bound would do: one cell of two values has it."""
    for sigma in (0.1, 0.5, 2.0):
        assert largest_mu_for_rho(0.5 / sigma**2) == pytest.approx(discrete_gaussian_mu(1, sigma), rel=1e-12)


def test_nothing_moved_costs_nothing() -> None:
    """A cell that cannot move has a mu of zero."""
    assert discrete_gaussian_mu(0, 1.0) == 0.0
    assert largest_mu_for_rho(0.0) == 0.0
