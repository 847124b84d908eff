"""The smallest mu of which a whole number with discrete Gaussian noise is mu-GDP, and the noise that gives a mu.

Let F be the distribution function of the noise N_Z(0, sigma^2), and z(k) = Phi^-1(F(k)). Whoever tells N_Z(0, sigma^2)
from N_Z(D, sigma^2) does best by a threshold k. He errs with the probabilities 1 - F(k) and F(k - D), the knots of a
piecewise linear trade-off function. That of mu-GDP is convex, and so it is nowhere above if it is not so at the knots.
So the smallest mu is the largest of ``z(k) - z(k - D)``, a sum of D increments of z. These are symmetric about the
middle and fall from there on to 1 / sigma (docs/reference/proofs.md), so that

    mu = z(floor(D / 2)) + z(floor((D - 1) / 2)),

which grows with D: whoever moves fewer steps is protected better. Where sigma is large, it is D / sigma times ``1 + e +
2.1 e^2 + ...`` with e = 1 / (24 sigma^2). Where it is small, it is nearly 2 D / sigma at the most.

References
----------
Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2. Canonne, Kamath & Steinke (2020), The
discrete Gaussian for differential privacy, arXiv 2004.00010, for rho = D^2 / (2 sigma^2), which is exact.

Lower bounds on delta at an epsilon, where columns carry discrete Gaussian noise.

A reader sees width and sigma of every column, and computes a bound from below, so that no honest guarantee is refused.
For tables that differ as far as the bounds allow, let a column's width be D steps, and k a draw of its noise. Then its
privacy loss is L = (D k + D^2 / 2) / sigma^2. So ``delta(eps) = E max(0, 1 - exp(eps - L))`` for the sum L over columns
and rows. That grows with L. So it only becomes smaller if a column is left out, a loss rounded down to a grid, or a
probability left out. What is left is a convolution of finite laws. That of continuous columns is normal.

Nor does delta grow by what is done to the released numbers afterwards. Let 1 / s^2 = 1 / sigma^2 + 1 / t^2. Adding N(0,
t^2) to discrete Gaussian noise gives the density of N(0, sigma^2 + t^2), by Poisson summation. It does so to within a
factor of 1 +- 2 exp(-2 pi^2 s^2). At s^2 = 1.5 that is 1 +- 3e-13, and the column counts as continuous with the mu ``D
/ sqrt(sigma^2 + t^2) = D / sigma sqrt(1 - s^2 / sigma^2)``. In the same way the sum of n draws, on which alone the loss
of n rows depends, is discrete Gaussian with n sigma^2. That holds to within 1e-38 each, where sigma is at least 3.

So any number of columns takes one formula, and only those are convolved, few and short, that would lose much by it.

References
----------
Canonne, Kamath & Steinke (2020), The discrete Gaussian for differential privacy, arXiv 2004.00010. Balle & Wang (2018),
theorem 5, for delta as an expectation over the privacy loss. Micciancio & Regev (2007), Worst-case to average-case
reductions based on Gaussian measures, SIAM J. Comput. 37(1), for sums of discrete and continuous Gaussian noise.
"""

import functools
import heapq
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dp_bundle.base.arrays import Floats
from dp_bundle.manifest.noise import MIN_SIGMA, gaussian_delta, normal_quantile, normal_tail, scaled_tail

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


_TAIL = 9.5  # standard deviations, beyond which nothing is counted
_SMOOTH = 1.5  # s^2, in squared steps
_UNEVEN = 3e-13  # what is left of the steps then: a bound on the factor, less 1
_ADDS_UP = 3.0  # sigma from which on sums of draws are discrete Gaussian too
_LONGEST = 2**11  # points of a law of sums of draws
_GRID = 256  # of mu, over which all kinds of columns together lose less by rounding than one part of it
_MOST_KINDS = 8  # that are convolved
_MUCH = 2e-4  # of the whole mu^2: what a kind that is convolved would lose otherwise; the grid costs about as much
_LARGEST_MU = 1e4  # to which the grid reaches; beyond, one kind stands for all
_MOST_CELLS = 16  # that are looked at one by one


class DiscreteLoss(NamedTuple):
    """The privacy loss of a cell of an integer column, or of several together: width and sigma in steps."""

    width: int
    sigma: float

    @property
    def mu(self) -> float:
        """The distinguishability: the smallest mu of which the cell is mu-GDP."""
        return discrete_gaussian_mu(self.width, self.sigma)

    @property
    def ratio(self) -> float:
        """Width over sigma: sqrt(2 rho), which is below mu, and what mu would be of continuous noise."""
        return self.width / self.sigma

    @property
    def smooth_mu(self) -> float:
        """The mu that is left once so much is added to the noise that it is continuous."""
        return self.ratio * math.sqrt(max(0.0, 1 - _SMOOTH / self.sigma**2))


@dataclass(frozen=True)
class _Law:
    """Probabilities of the losses start, start + step, ...; their sum may be below 1."""

    start: float
    step: float
    probabilities: Floats


def likely_worst(losses: Collection[DiscreteLoss]) -> set[DiscreteLoss]:
    """Return the few cells that lose most at five standard deviations, and a step more."""

    def likely(loss: DiscreteLoss) -> float:
        return loss.ratio * (loss.ratio / 2 + 5 + 1 / loss.sigma)

    smoothest = max(losses, key=lambda loss: loss.smooth_mu)
    return {smoothest, *heapq.nlargest(_MOST_CELLS, losses, key=likely)}


def least_deltas(epsilons: Sequence[float], losses: Mapping[DiscreteLoss, int], mu: float = 0.0) -> list[float]:
    """Return bounds from below on the deltas of cells that are released together.

    Parameters
    ----------
    epsilons : sequence of float
        Where on the curve.
    losses : mapping of DiscreteLoss to int
        The cells with discrete noise, and how many there are of each kind.
    mu : float
        The distinguishability of all cells with continuous noise.
    """
    kinds = [_added_up(loss, number) for loss, number in losses.items() if loss.width > 0]
    uneven = _UNEVEN * len(kinds)
    epsilons = [epsilon + 2 * uneven for epsilon in epsilons]
    smooth = math.hypot(mu, *(_smooth_mu(*kind) for kind in kinds))
    least = [gaussian_delta(smooth, epsilon) if smooth else 0.0 for epsilon in epsilons]

    law = _law_of_all(kinds, mu)
    if law is not None:
        places = law.start + law.step * np.arange(len(law.probabilities), dtype=np.float64)
        exact = [float(law.probabilities @ -np.expm1(np.minimum(epsilon - places, 0.0))) for epsilon in epsilons]
        least = [max(pair) for pair in zip(least, exact, strict=True)]
    return [(1 - uneven) * delta for delta in least]


def _added_up(loss: DiscreteLoss, number: int) -> tuple[DiscreteLoss, int]:
    """Return the sum of so many cells as one of a larger sigma, where that is the same."""
    if loss.sigma < _ADDS_UP:
        return loss, number
    return DiscreteLoss(number * loss.width, math.sqrt(number) * loss.sigma), 1


def _smooth_mu(loss: DiscreteLoss, number: int) -> float:
    return math.sqrt(number) * loss.smooth_mu


def _worth_convolving(kinds: Sequence[tuple[DiscreteLoss, int]], total: float) -> list[tuple[DiscreteLoss, int]]:
    """Return the kinds that lose most by being counted as continuous, if that is much, or if there is no other."""

    def lost(kind: tuple[DiscreteLoss, int]) -> float:
        loss, number = kind
        return number * (loss.ratio**2 - loss.smooth_mu**2)

    fitting = [kind for kind in kinds if 2 * _TAIL * kind[0].sigma <= _LONGEST]
    least = _MUCH * total * total if len(kinds) > 1 else 0.0
    return [kind for kind in heapq.nlargest(_MOST_KINDS, fitting, key=lost) if lost(kind) > least]


def _law_of_all(kinds: Sequence[tuple[DiscreteLoss, int]], mu: float) -> _Law | None:
    """Return the law of the sum of all losses; None if it is better known without steps."""
    total = math.hypot(mu, *(math.sqrt(number) * loss.ratio for loss, number in kinds))
    chosen = _worth_convolving(kinds, total)
    if not chosen:
        return None
    rest = math.hypot(mu, *(_smooth_mu(*kind) for kind in kinds if kind not in chosen))
    if total > _LARGEST_MU or (len(chosen) == 1 and not rest):
        return _law(*chosen[0])
    laws = [_law(*kind) for kind in chosen]
    step = total / (_GRID * (len(laws) + 1))
    return _sum([*laws, _normal_law(rest, step)] if rest else laws, step)


def _law(loss: DiscreteLoss, number: int) -> _Law:
    """Return the law of the loss of so many independent cells of one kind, or of as many as fit into a short one."""
    number = min(number, int((_LONGEST / (2 * _TAIL * loss.sigma)) ** 2) or 1)
    sum_of_draws = _power(_discrete_gaussian(loss.sigma), number, loss.sigma)
    unit = loss.width / loss.sigma**2
    start = number * (loss.ratio**2 / 2) - (len(sum_of_draws) // 2) * unit
    return _Law(start, unit, sum_of_draws)


def _discrete_gaussian(sigma: float) -> Floats:
    """Return the probabilities of the integers up to `_TAIL` sigma on both sides of zero."""
    reach = math.ceil(_TAIL * sigma)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1, dtype=np.float64) / sigma) ** 2)
    return np.asarray(weights / weights.sum(), np.float64)


def _power(law: Floats, number: int, sigma: float) -> Floats:
    """Return the law of the sum of so many draws, without what is far out; every digit holds, as nothing cancels."""
    if number == 1:
        return law
    half = _power(law, number // 2, sigma)
    whole = np.convolve(half, half)
    if number % 2:
        whole = np.convolve(whole, law)
    beyond = max(0, len(whole) // 2 - math.ceil(_TAIL * math.sqrt(number) * sigma) - 1)
    return np.asarray(whole[beyond : len(whole) - beyond], np.float64)


def _sum(laws: list[_Law], step: float) -> _Law:
    """Return the law of the sum of independent losses, each rounded down to the grid."""
    start, total = 0, np.ones(1)
    for law in laws:
        places = np.floor((law.start + law.step * np.arange(len(law.probabilities))) / step).astype(np.int64)
        binned = np.bincount(places - places[0], weights=law.probabilities)
        length = len(total) + len(binned) - 1
        size = 1 << math.ceil(math.log2(length + 1))
        product = np.fft.irfft(np.fft.rfft(total, size) * np.fft.rfft(binned, size), size)[:length]
        total = np.maximum(product - 1e-15, 0.0)
        start += int(places[0])
    return _Law(start * step, step, total)


def _normal_law(mu: float, step: float) -> _Law:
    """Return the law of a loss that is N(mu^2 / 2, mu^2), rounded down to steps."""
    start = mu * mu / 2 - _TAIL * mu
    places = start + step * np.arange(math.ceil(2 * _TAIL * mu / step) + 1, dtype=np.float64)
    above = np.array([normal_tail((place - mu * mu / 2) / mu) for place in places.tolist()])
    return _Law(start, step, np.maximum(above[:-1] - above[1:] - 1e-18, 0.0))
