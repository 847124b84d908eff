"""The mu that epsilon-DP implies, and the inverse.

References
----------
Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2.
"""

from __future__ import annotations

import math

_SMALL = 1e-3  # of epsilon: the next term is below 1e-12 of it


def mu_implied_by_epsilon(epsilon: float) -> float:
    """Return the mu that every epsilon-DP mechanism has: 2 Phi^-1(e^epsilon / (1 + e^epsilon)).

    The trade-off function of epsilon-DP consists of the chords from (0, 1) and (1, 0) to (a, a), a = 1/(1 + e^epsilon).
    That of mu-GDP is convex and passes through all three points if Phi(-mu/2) = a, so it lies below. No smaller mu
    would do (Dong, Roth & Su 2022, section 2). For small epsilon it is a series, as the logarithm of nearly a half
    loses the digits.
    """
    if 0 <= epsilon < _SMALL:
        return math.sqrt(math.pi / 2) * epsilon * (1 + epsilon * epsilon * (math.pi / 48 - 1 / 12))
    softplus = max(epsilon, 0.0) + math.log1p(math.exp(-abs(epsilon)))
    from scipy import special

    return float(-2 * special.ndtri_exp(-softplus))


def epsilon_for_implied_mu(mu: float) -> float:
    """Return ln(Phi(mu/2) / Phi(-mu/2)); the inverse of `mu_implied_by_epsilon`."""
    from scipy import special

    return float(special.log_ndtr(mu / 2) - special.log_ndtr(-mu / 2))
