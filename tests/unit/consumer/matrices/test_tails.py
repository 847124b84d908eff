"""Tails without scipy are scipy's, and so is what they decide."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from dp_learn.matrices.linalg import chi_squared_quantiles, normal_tails


@pytest.mark.parametrize("size", [12, 60_000])
def test_normal_tails_are_those_of_scipy(size: int) -> None:
    """For few numbers and for many, of any shape, far out too."""
    x = np.linspace(-10.0, 37.0, size).reshape(3, -1)
    np.testing.assert_allclose(normal_tails(x), special.ndtr(-x), rtol=1e-13)


def test_chi_squared_quantiles_are_those_of_scipy() -> None:
    """Both at once."""
    found = chi_squared_quantiles(999, 1e-7)
    np.testing.assert_allclose(found, [stats.chi2.ppf(1e-7, 999), stats.chi2.isf(1e-7, 999)], rtol=1e-10)
