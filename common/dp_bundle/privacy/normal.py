"""The normal distribution by the standard library: importing scipy takes longer than verifying a bundle.

References
----------
Balle & Wang (2018), Improving the Gaussian mechanism for differential privacy, arXiv 1805.06530.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_STANDARD = NormalDist()
_FAR = 25.0  # beyond it erfc(x) is nearly too small a number, and five terms of the series give all digits
_SERIES = (1.0, -1.0, 3.0, -15.0, 105.0, -945.0)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of mu-GDP at an epsilon (Balle & Wang 2018, theorem 8), which continuous noise attains."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return normal_tail(a) - math.exp(-0.5 * a * a) * scaled_tail(b)


def normal_tail(x: float) -> float:
    """Return the probability that a standard normal number exceeds x."""
    return 0.5 * math.erfc(x * math.sqrt(0.5))


def normal_quantile(probability: float) -> float:
    """Return the number that a standard normal one is below with this probability, in (0, 1)."""
    return _STANDARD.inv_cdf(probability)


def scaled_tail(x: float) -> float:
    """Return ``exp(x^2 / 2)`` times the probability that a standard normal number exceeds x >= 0.

    The product stays a number where its factors do not: far out by the asymptotic series (Abramowitz & Stegun, 7.1.23).
    """
    y = x * math.sqrt(0.5)
    if y < _FAR:
        return 0.5 * math.exp(y * y) * math.erfc(y)
    t = 0.5 / (y * y)
    terms = (factor * t**power for power, factor in enumerate(_SERIES))
    return 0.5 * math.fsum(terms) / (y * math.sqrt(math.pi))
