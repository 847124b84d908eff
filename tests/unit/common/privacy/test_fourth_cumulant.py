"""The exact fourth cumulants of the noise against sums taken to 120 digits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_bundle.privacy.noise import discrete_gaussian_fourth_cumulant, rounded_gaussian_fourth_cumulant

SIGMAS = [0.05, 0.1, 0.2, 0.3, 0.4, math.nextafter(0.5, 0), 0.5, 0.7, 0.9, 1, 1.3, 2]
SIGMAS += list(np.geomspace(0.06, 3, 12))


def summed_cumulants(sigma: float) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """Return the discrete and the rounded fourth cumulant, and the rounded variance, from their definitions."""
    s, terms = mpmath.mpf(sigma), range(1, int(25 * sigma) + 15)
    weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * s**2)) for k in terms]
    total = 1 + 2 * mpmath.fsum(weights)
    above = [mpmath.erfc(mpmath.mpf(2 * k - 1) / (2 * mpmath.sqrt(2) * s)) for k in [*terms, len(terms) + 1]]

    def discrete(order: int) -> mpmath.mpf:
        return 2 * mpmath.fsum(k**order * weight for k, weight in zip(terms, weights, strict=True)) / total

    def rounded(order: int) -> mpmath.mpf:
        return mpmath.fsum(k**order * (above[k - 1] - above[k]) for k in terms)

    return discrete(4) - 3 * discrete(2) ** 2, rounded(4) - 3 * rounded(2) ** 2, rounded(2)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_fourth_cumulants_agree_with_the_sums(sigma: float) -> None:
    """The discrete one to a relative 1e-11, the rounded one, which changes its sign, to 1e-15 of the squared scale."""
    with mpmath.workdps(120):
        discrete, rounded, variance = summed_cumulants(sigma)
        assert abs(discrete_gaussian_fourth_cumulant(sigma) / discrete - 1) < 1e-11
        assert abs(rounded_gaussian_fourth_cumulant(sigma) - rounded) < 1e-15 * (1 + variance**2)


@pytest.mark.parametrize("sigma", [10.0, 4096.5, 1e9])
def test_large_noise_is_gaussian_up_to_the_rounding(sigma: float) -> None:
    """For large sigma nothing is left of the discrete cumulant, and of the rounded one that of a uniform error."""
    assert discrete_gaussian_fourth_cumulant(sigma) == 0.0
    assert rounded_gaussian_fourth_cumulant(sigma) == pytest.approx(-1 / 120, rel=1e-15)


@pytest.mark.parametrize("sigma", [0.0, 1.1e9, math.nan, "1"])
def test_sigma_outside_the_range_is_refused(sigma: float) -> None:
    """Both functions name sigma when it is out of range or no number."""
    for call in (discrete_gaussian_fourth_cumulant, rounded_gaussian_fourth_cumulant):
        with pytest.raises(ParameterError, match="sigma must be a number"):
            call(sigma)
