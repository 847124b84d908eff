"""Tails of distributions, without importing scipy for a few of them: it takes a third of a second."""

from __future__ import annotations

import math

import numpy as np

from dp_learn.matrices.linalg import FloatArray

_MANY = 50_000  # numbers, for which scipy is worth importing


def normal_tails(x: FloatArray) -> FloatArray:
    """Return for every number the probability that a standard normal one exceeds it."""
    if x.size < _MANY:
        tails = np.fromiter(map(math.erfc, (x * math.sqrt(0.5)).ravel().tolist()), np.float64, x.size)
        return 0.5 * tails.reshape(x.shape)
    from scipy import special

    return np.asarray(special.ndtr(-x))


def chi_squared_quantiles(degrees: float, chance: float) -> tuple[float, float]:
    """Return the limits that a chi-squared number is below, and above, with this chance each."""
    from scipy import special

    low, high = special.gammaincinv(degrees / 2.0, chance), special.gammainccinv(degrees / 2.0, chance)
    return 2.0 * float(low), 2.0 * float(high)
