"""The normal distribution by the standard library is scipy's."""

import numpy as np
import pytest
from scipy import special

from dp_bundle.manifest.noise import normal_quantile, normal_tail, scaled_tail


@pytest.mark.parametrize("x", [-40.0, -8.0, -1.0, 0.0, 1e-9, 0.3, 4.0, 12.0, 37.0])
def test_tails_are_those_of_scipy(x: float) -> None:
    """So many standard deviations out, in both directions, all digits agree."""
    assert normal_tail(x) == pytest.approx(special.ndtr(-x), rel=1e-13)


@pytest.mark.parametrize("probability", [1e-300, 1e-12, 0.01, 0.4999, 0.5, 0.975, 1.0 - 1e-9])
def test_quantiles_are_those_of_scipy(probability: float) -> None:
    """However small the probability."""
    assert normal_quantile(probability) == pytest.approx(special.ndtri(probability), rel=1e-13, abs=1e-300)


def test_scaled_tails_are_those_of_scipy() -> None:
    """Also where the tail itself is too small a number, and on both sides of the change to the series."""
    for x in [*np.linspace(0.0, 40.0, 401), 35.3553, 35.3554, 100.0, 1e5, 1e100]:
        assert scaled_tail(float(x)) == pytest.approx(0.5 * special.erfcx(x / np.sqrt(2.0)), rel=1e-12)
