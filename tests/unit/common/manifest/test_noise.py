"""The exact variances and fourth cumulants of the noise against sums taken to 120 digits."""

import math

import mpmath
import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.noise import (
    discrete_gaussian_fourth_cumulant,
    discrete_gaussian_variance,
    rounded_gaussian_fourth_cumulant,
    rounded_gaussian_variance,
)

SIGMAS = [0.05, 0.0501, 0.07, 0.1, 0.2, 0.3, 0.4, math.nextafter(0.5, 0), 0.5, 0.7, 0.9, math.nextafter(1, 0), 1, 1.1]
SIGMAS += [1.3, 2, 5.3, 30, *np.geomspace(0.05, 3, 60)]


def summed_moments(sigma: float, *, discrete: bool) -> list[mpmath.mpf]:
    """Return the second and the fourth moment of the discrete or the rounded Gaussian from its definition."""
    s, terms = mpmath.mpf(sigma), range(1, int(25 * sigma) + 20)
    if discrete:
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * s**2)) for k in terms]
        total = 1 + 2 * mpmath.fsum(weights)
        return [
            2 * mpmath.fsum(k**m * weight for k, weight in zip(terms, weights, strict=True)) / total for m in (2, 4)
        ]
    above = [mpmath.erfc(mpmath.mpf(2 * k - 1) / (2 * mpmath.sqrt(2) * s)) for k in [*terms, len(terms) + 1]]
    return [mpmath.fsum(k**m * (above[k - 1] - above[k]) for k in terms) for m in (2, 4)]


@pytest.mark.slow
@pytest.mark.parametrize("sigma", SIGMAS)
def test_variances_and_fourth_cumulants_agree_with_the_sums(sigma: float) -> None:
    """Relative to 1e-14 and 1e-11; the rounded cumulant, which changes its sign, to 1e-15 of the squared scale.

    At 0.05 the discrete variance is 2 exp(-200), and not zero.
    """
    with mpmath.workdps(120):
        (discrete, fourth), (rounded, rounded_fourth) = (summed_moments(sigma, discrete=each) for each in (True, False))
        assert abs(discrete_gaussian_variance(sigma) / discrete - 1) < 1e-14
        assert abs(rounded_gaussian_variance(sigma) / rounded - 1) < 1e-14
        if sigma < 5:
            assert abs(discrete_gaussian_fourth_cumulant(sigma) / (fourth - 3 * discrete**2) - 1) < 1e-11
        cumulant = rounded_fourth - 3 * rounded**2
        assert abs(rounded_gaussian_fourth_cumulant(sigma) - cumulant) < 1e-15 * (1 + rounded**2)


@pytest.mark.parametrize("sigma", [7.0, 10.0, 300.0, 4096.5, 1e6, 1e9])
def test_large_noise_is_gaussian_up_to_the_rounding(sigma: float) -> None:
    """For large sigma variances are Sheppard's, and the cumulants zero and that of a uniform error."""
    assert discrete_gaussian_variance(sigma) == pytest.approx(sigma**2, rel=1e-15)
    assert rounded_gaussian_variance(sigma) == pytest.approx(sigma**2 + 1 / 12, rel=1e-15)
    assert discrete_gaussian_fourth_cumulant(sigma) == 0.0
    assert rounded_gaussian_fourth_cumulant(sigma) == pytest.approx(-1 / 120, rel=1e-15)


@pytest.mark.parametrize("sigma", [0.0, 0.049, -1.0, 1.1e9, math.inf, math.nan, "1"])
@pytest.mark.parametrize(
    "call",
    [
        discrete_gaussian_variance,
        rounded_gaussian_variance,
        discrete_gaussian_fourth_cumulant,
        rounded_gaussian_fourth_cumulant,
    ],
)
def test_sigma_outside_the_range_is_refused(call: object, sigma: float) -> None:
    """Every function names sigma when it is out of range or no number."""
    with pytest.raises(ParameterError, match=r"sigma must be a number from 0\.05 to 1e"):
        call(sigma)  # type: ignore[operator]
