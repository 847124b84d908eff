"""The kurtosis that noise leaves to see: precise where it is weak, cautious where it hides all."""

from __future__ import annotations

import mpmath
import pytest

from dp_learn.covariance.two_rounds import expected_kurtosis


@pytest.mark.parametrize(
    ("seen", "error"),
    [(0.0, 0.1), (1.0, 0.1), (-0.5, 0.2), (3.0, 2.0), (0.3, 0.3), (-4.0, 1.0), (2.0, 30.0), (0.5, 1e4)],
)
def test_expected_kurtosis_is_the_mean_of_what_is_left(seen: float, error: float) -> None:
    """It is the mean of an exponential number given a normal one about it, integrated at high precision."""
    with mpmath.workdps(40):

        def density(kappa: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(-kappa - (kappa - seen) ** 2 / (2 * mpmath.mpf(error) ** 2))

        top = max(0.0, seen - error * error)
        ends = [
            0,
            top + 1e-3 * min(1.0, error),
            top + min(1.0, error),
            top + 5 * min(1.0, error),
            top + 80 * min(1.0, error),
        ]
        expected = mpmath.quad(lambda kappa: kappa * density(kappa), ends) / mpmath.quad(density, ends)
    assert expected_kurtosis(seen, error) == pytest.approx(float(expected), rel=1e-4)


def test_what_is_seen_counts_as_far_as_it_can_be_seen() -> None:
    """With little noise the answer is what was seen, and not below zero; with much it is what was thought before."""
    assert expected_kurtosis(0.8, 0.01) == pytest.approx(0.8, abs=1e-3)
    assert 0.0 < expected_kurtosis(-0.3, 0.01) < 1e-3
    assert expected_kurtosis(0.8, 1e6) == pytest.approx(1.0, rel=1e-3)
    assert expected_kurtosis(-50.0, 1e-9) >= 0.0
    assert expected_kurtosis(1e9, 1.0) == pytest.approx(1e9)
