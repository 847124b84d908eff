"""How small delta can be at an epsilon, at least, where columns carry discrete Gaussian noise.

A reader sees width and sigma of every column, and computes a bound from below, so that no honest guarantee is refused.
For tables that differ as far as the bounds allow, a column's privacy loss is L = (D k + D^2 / 2) / sigma^2 at a draw k
of its noise, with D its width in steps, and ``delta(eps) = E max(0, 1 - exp(eps - L))`` for the sum L over columns and
rows. That grows with L. So it only becomes smaller if a column is left out, a loss rounded down to a grid, or a
probability left out; what is left is a convolution of finite laws. That of continuous columns is normal.

References
----------
Canonne, Kamath & Steinke (2020), The discrete Gaussian for differential privacy, arXiv 2004.00010. Balle & Wang (2018),
theorem 5, for delta as an expectation over the privacy loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_bundle.normal import normal_tail

__all__ = ["DiscreteLoss", "least_deltas"]

_TAIL = 9.5  # standard deviations
_FINEST = 4096.0  # steps to a sigma, of the law of one draw
_LONGEST = 2**20  # points of a law
_GRID = 256  # of mu, over which all kinds of columns together lose less by rounding than one part of it
_MOST_KINDS = 12  # those that lose the most; others are left out
_LARGEST_MU = 30.0  # beyond, e^epsilon is no float64, and nobody is protected

_Floats = NDArray[np.float64]


@dataclass(frozen=True, order=True)
class DiscreteLoss:
    """What one cell of an integer column may lose: its width in steps, and sigma in steps."""

    width: int
    sigma: float

    @property
    def mu(self) -> float:
        """Width over sigma."""
        return self.width / self.sigma


@dataclass(frozen=True)
class _Law:
    """Probabilities of the losses start, start + step, ...; their sum may be below 1."""

    start: float
    step: float
    probabilities: _Floats


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
    numbers = {loss: number for loss, number in losses.items() if loss.width > 0}
    kinds = sorted(numbers, key=lambda loss: -numbers[loss] * loss.mu**2)[:_MOST_KINDS]
    total = math.hypot(mu, *(math.sqrt(numbers[loss]) * loss.mu for loss in kinds))
    if not 0 < total <= _LARGEST_MU:
        return [0.0] * len(epsilons)
    laws = [_law(loss, numbers[loss]) for loss in kinds]
    step = total / (_GRID * (len(laws) + 1))
    laws += [_normal_law(mu, step)] if mu else []
    law = laws[0] if len(laws) == 1 else _sum(laws, step)
    places = law.start + law.step * np.arange(len(law.probabilities), dtype=np.float64)
    return [float(law.probabilities @ -np.expm1(np.minimum(epsilon - places, 0.0))) for epsilon in epsilons]


def _law(loss: DiscreteLoss, number: int) -> _Law:
    """Return the law of the loss of so many independent cells of one kind, each draw rounded down to a lattice."""
    most = _LONGEST / (2 * _TAIL * math.sqrt(number))
    block = max(1, math.ceil(loss.sigma / min(_FINEST, most)))
    reach = math.ceil(_TAIL * loss.sigma / block)
    single = _discrete_gaussian(loss.sigma, block, reach)
    length = min(2 * reach * number, math.ceil(2 * _TAIL * math.sqrt(number) * loss.sigma / block)) + 1
    together, first = _power(single, number, length)
    unit = loss.width * block / loss.sigma**2
    start = number * (loss.mu**2 / 2) + (first - number * reach) * unit
    return _Law(start, unit, together)


def _discrete_gaussian(sigma: float, block: int, reach: int) -> _Floats:
    """Return bounds from below on the probabilities of the blocks of integers that begin at ``-reach block``, ..."""
    first = block * np.arange(-reach, reach + 1, dtype=np.float64)
    farthest = np.maximum(np.abs(first), np.abs(first + (block - 1)))
    weights = np.exp(-0.5 * (farthest / sigma) ** 2)
    if block == 1:
        return np.asarray(weights / weights.sum(), np.float64)
    return np.asarray(block * weights / (sigma * math.sqrt(2 * math.pi)) * (1 - 1e-12), np.float64)


def _power(law: _Floats, number: int, length: int) -> tuple[_Floats, int]:
    """Return the middle of the law of the sum of so many, and its place among all; by fast Fourier transform."""
    if number == 1:
        return law, 0
    whole = (len(law) - 1) * number + 1
    length = min(whole, length)
    size = 1 << math.ceil(math.log2(max(2 * length, len(law) + 1)))
    first = (whole - length) // 2
    transformed = np.fft.rfft(law, size) ** number
    together = np.fft.irfft(transformed, size)  # what is far out has come round to where hardly anything is
    places = (first + np.arange(length)) % size
    return np.maximum(together[places] - 1e-15, 0.0), first


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
