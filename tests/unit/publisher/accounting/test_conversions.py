"""Privacy parameters against mpmath."""

import math

import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_publish.accounting.conversions import (
    delta_for_epsilon,
    delta_for_epsilon_zcdp,
    epsilon_for_delta,
    epsilon_for_delta_zcdp,
    mu_for_epsilon_delta,
    rho_for_epsilon_delta,
)
from dp_publish.accounting.strength import ApproximateDP, ConcentratedDP, GaussianDP, PureDP

DELTAS = [1e-3, 1e-6, 1e-10]


@pytest.mark.parametrize("rho", [1e-9, 0.5, 50.0])
@pytest.mark.parametrize("at", [0.0, 2.0, 12.0])
def test_zcdp_delta_is_the_smallest_bound(rho: float, at: float) -> None:
    """It is the minimum over a fine grid of proposition 12 of Canonne, Kamath & Steinke (2020), and never below it."""
    epsilon = rho + at * math.sqrt(2 * rho) if at else 0.0
    log_excess = np.linspace(-15, 15, 2_000_001)  # of a - 1
    a = 1 + np.exp(log_excess)
    log_bound = (a - 1) * (a * rho - epsilon) - log_excess + a * (log_excess - np.log(a))
    expected = min(1.0, math.exp(min(0.0, log_bound.min())))
    found = delta_for_epsilon_zcdp(rho, epsilon)
    assert found == pytest.approx(expected, rel=1e-7)
    assert found >= expected * (1 - 1e-7)


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
        lambda: epsilon_for_delta(1.0, 1.0),
        lambda: mu_for_epsilon_delta(1.0, bad),
        lambda: rho_for_epsilon_delta(1.0, bad),
    ]
    calls += [] if bad == 0 else [lambda: delta_for_epsilon(1.0, bad), lambda: mu_for_epsilon_delta(bad, 1e-6)]
    for call in calls:
        with pytest.raises(ParameterError):
            call()


def test_forms_stand_for_each_other() -> None:
    """A pure epsilon and its mu are inverse; rho has mu^2 / 2; the curve of mu passes through (epsilon, delta)."""
    assert PureDP(GaussianDP(1.5).pure_epsilon).mu == pytest.approx(1.5)
    assert 0.5 * ConcentratedDP(0.7).mu ** 2 == pytest.approx(0.7)
    assert ConcentratedDP(0.7).pure_epsilon == math.sqrt(1.4)
    assert delta_for_epsilon(ApproximateDP(2.0, 1e-6).mu, 2.0) == pytest.approx(1e-6)
    assert ApproximateDP(2.0, 1e-6).pure_epsilon == PureDP(2.0).pure_epsilon == 2.0
