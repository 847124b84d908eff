"""The smallest mu of which a whole number with discrete Gaussian noise is mu-GDP, and the noise that gives a mu.

Let F be the distribution function of the noise N_Z(0, sigma^2), and z(k) = Phi^-1(F(k)). Whoever tells N_Z(0, sigma^2)
from N_Z(D, sigma^2) does best by a threshold k. He errs with the probabilities 1 - F(k) and F(k - D), the knots of a
piecewise linear trade-off function. That of mu-GDP is convex, and so it is nowhere above if it is not so at the knots.
So the smallest mu is the largest of ``z(k) - z(k - D)``, a sum of D increments of z. These are symmetric about the
middle and fall from there on to 1 / sigma (docs/reference/proofs.md), so that

    mu = z(floor(D / 2)) + z(floor((D - 1) / 2)),

which grows with D: whoever moves fewer steps is protected better. Where sigma is large, it is D / sigma times
``1 + e + 2.1 e^2 + ...`` with e = 1 / (24 sigma^2); where it is small, nearly 2 D / sigma at the most.

References
----------
Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2. Canonne, Kamath & Steinke (2020), The
discrete Gaussian for differential privacy, arXiv 2004.00010, for rho = D^2 / (2 sigma^2), which is exact.
"""

import functools
import math

from dp_bundle.privacy.noise import MIN_SIGMA, normal_quantile, scaled_tail

_SERIES_FROM = 50.0  # steps: the fourth power of e is below 1e-19 from there on
_SERIES = (1.0, 1.0, 2.1, 5.45)  # for D = 1, where the factor is largest
_NEGLIGIBLE = 45.0  # of an exponent: what is smaller than exp(-45) of a sum does not change it
_LEAST_TAIL = 1e-290  # below, a normal quantile is found from the logarithm
_DAMPING = 1.3  # mu falls with sigma to a power from 1 to 1.6
_MOST_STEPS = 200


@functools.lru_cache(maxsize=2**14)
def discrete_gaussian_mu(steps: int, sigma: float) -> float:
    """Return the smallest mu for which a whole number that moves by so many steps is mu-GDP.

    Parameters
    ----------
    steps : int
        How far it may move; 0 if not at all.
    sigma : float
        Of the discrete Gaussian noise, in steps.
    """
    if steps <= 0:
        return 0.0
    if sigma >= _SERIES_FROM:
        e = 1 / (24 * sigma * sigma)
        return steps / sigma * math.fsum(factor * e**power for power, factor in enumerate(_SERIES))
    return _threshold(steps // 2, sigma) + _threshold((steps - 1) // 2, sigma)


@functools.lru_cache(maxsize=2**12)
def discrete_gaussian_sigma(steps: int, mu: float) -> float:
    """Return the smallest sigma, up to rounding, that gives mu; the inverse of `discrete_gaussian_mu`."""
    sigma = steps / mu
    for _ in range(_MOST_STEPS):
        ratio = discrete_gaussian_mu(steps, sigma) / mu
        sigma *= ratio ** (1 / _DAMPING)
        if abs(ratio - 1) < 1e-15:
            break
    while discrete_gaussian_mu(steps, sigma) > mu:
        sigma *= 1 + 1e-15
    return sigma


def largest_mu_for_rho(rho: float) -> float:
    """Return a mu that whatever has this rho by discrete Gaussian noise, and by what is mu-GDP, cannot exceed.

    The mu of a cell exceeds D / sigma by the largest factor where D = 1 and sigma is small. With root = sqrt(2 rho) no
    sigma is below 1 / root, nor below the least that is drawn. The factor is at most 2.
    """
    root = math.sqrt(2 * rho)
    if not 0 < root < math.inf:
        return root
    least = max(1 / root, MIN_SIGMA)
    return root * discrete_gaussian_mu(1, least) * least


def _threshold(k: int, sigma: float) -> float:
    """Return Phi^-1(F(k)) for k >= 0: minus the normal quantile of what lies above k."""
    a = 0.5 / (sigma * sigma)
    beyond = _sum_from(k + 1, a)
    whole = 1 + 2 * math.exp(-a) * _sum_from(1, a)
    tail = math.exp(-a * (k + 1.0) ** 2) * beyond / whole
    if tail > _LEAST_TAIL:
        return -normal_quantile(tail)
    return _far_quantile(a * (k + 1.0) ** 2 - math.log(beyond / whole))


def _sum_from(first: int, a: float) -> float:
    """Return the sum of exp(-a j^2) over j >= first, in units of its first term."""
    number = math.ceil(min(math.sqrt(_NEGLIGIBLE / a), _NEGLIGIBLE / (2 * a * first))) + 1
    return math.fsum(math.exp(-a * i * (2.0 * first + i)) for i in range(number))


def _far_quantile(exponent: float) -> float:
    """Return the x > 0 that a standard normal number exceeds with the probability exp(-exponent), by Newton's steps."""
    x = math.sqrt(2 * exponent)
    for _ in range(8):
        tail = scaled_tail(x)
        x += (math.log(tail) - 0.5 * x * x + exponent) * tail * math.sqrt(2 * math.pi)
    return x
