"""The normal distribution by the standard library: importing scipy takes longer than verifying a bundle.

The mu that epsilon-DP implies, and the inverse.

References
----------
Balle & Wang (2018), Improving the Gaussian mechanism for differential privacy, arXiv 1805.06530.
Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2.
"""

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
