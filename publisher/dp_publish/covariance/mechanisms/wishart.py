"""Wishart noise on the second moments: positive definite, with a mean that the reader subtracts.

The noise is N^2 G^T G, with m rows of standard normal numbers in G, and its mean N^2 m I. How private it is says the
curve below. That speaks of real numbers. What is released is their sum with the exact moments, rounded to a grid of
about 2^-8 of the noise. That is post-processing, but for the chance that the computer's G rounds some entry
differently. G is within 2^-75 of normal numbers (`gaussian`), and everything after it is exact (`exact_products`). An
entry of N^2 G^T G is therefore off by at most

    eta = 2 sqrt(m) (sqrt(m) + 14.2) 2^-75 N^2

unless a column of G is longer than sqrt(m) + 14.2, which has a chance below e^-100. It rounds differently with a chance
below 4 eta / step, as its density is bounded by a small multiple of 1 / (256 step). Added over entries, with the total
variation of the normal numbers themselves, that is at most about 1e-11; it is counted: (1 + e^epsilon) times it is
taken off delta before the degrees of freedom are chosen.

References
----------
Sheffet (2015), arXiv 1507.00056. Wang, Huai & Xu (2018), theorem 5, who do not subtract the mean.

The exact privacy curve of Wishart noise, and the fewest degrees of freedom for a guarantee.

Let W ~ W_d(m, I) and u a unit vector. One more row adds s u u^T, 0 <= s <= 1, to the sum. The densities' ratio at X = M
+ W depends on X only through ``Q = 1 / (u^T W^-1 u)``. That is because det(W - s u u^T) = det(W) (1 - s / Q). Q is a
chi-squared variable with ``nu = m - d + 1`` degrees of freedom, and that of W + s u u^T is Q + s. So the mechanism is
as private as chi-squared noise on a number that moves by s; the worst is s = 1, as that noise is log-concave for nu >=
2. With a = nu / 2, the likelihood ratio ``(q / (q - 1))^(a - 1) e^(-1/2)`` falls in q, which gives both directions:

    H(noise || noise + 1) = F(q) - e^eps F(q - 1),   q = 1 / (1 - exp(-(eps + 1/2) / (a - 1)))
    H(noise + 1 || noise) = S(q - 1) - e^eps S(q),   q = 1 / (1 - exp(-(1/2 - eps) / (a - 1))),   0 from eps = 1/2 on

with F and S the chi-squared law and its complement, H the hockey-stick divergence at eps. Add-remove neighbours need
the larger. Replace-one neighbours are two such steps, M + v v^T to M to M + w w^T or by way of M + v v^T + w w^T. So
H(P || R) <= H_e1(P || T) + e^e1 H_(eps - e1)(T || R) for every e1. That is a bound, not the exact curve.

P(Q < 1) is what no epsilon covers: outputs that are impossible under the neighbour. Hence Wishart noise is never mu-GDP
and never pure, and its guarantee is (epsilon, delta) only.

Sheffet's degrees of freedom, ``d + 14 ln(4 / delta) / epsilon^2`` for epsilon < 1, are about 14 times as many as that.

References
----------
Sheffet (2015), Private approximations of the 2nd-moment matrix, arXiv 1507.00056, for the mechanism. Muirhead (1982),
Aspects of multivariate statistical theory, theorem 3.2.12, for Q. Dong, Roth & Su (2022), proposition A.3, for
log-concave noise.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.manifest.matrix_noise import MatrixNoise, WishartNoise
from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import ApproximateDP, PureDP, Strength
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import DyadicGrid, NoisyMoments, OneSum, grid_for, released
from dp_publish.covariance.mechanisms.exact_products import LIMB, add_and_round, gram_in_parts, limbs_of
from dp_publish.sampling.gaussian import HALF_PLACE, PLACES, TOTAL_VARIATION, normal_parts
from dp_publish.sampling.keystream import Keystream

_FINENESS = 8
_SLACK = 1e-3  # the share of delta that is left for rounding
_OFFSETS = (0, LIMB, 2 * LIMB, 46, 46 + LIMB)  # of the limbs of cell * 2^46 + inner


@dataclass(frozen=True)
class Wishart(OneSum):
    """Wishart noise of the fewest degrees of freedom for (epsilon, delta), and one row."""

    name: ClassVar[str] = "wishart"
    noise: ClassVar[type[MatrixNoise]] = WishartNoise
    strength: ApproximateDP

    @classmethod
    def form_of(cls, strength: Strength) -> ApproximateDP:
        """Return an (epsilon, delta) as it is."""
        if not isinstance(strength, ApproximateDP):
            raise PolicyError("the wishart mechanism is calibrated by epsilon and delta: give both")
        return strength

    def check_strength(self) -> None:
        """Refuse an epsilon or delta out of range, or one that takes too much noise."""
        self.degrees_for(self.strength.delta)

    @property
    def sensitivity(self) -> float:
        """The largest squared length of a row, which is the scale of the noise."""
        return self.scaling.square

    def spends(self, rows: int, *, replaced: bool = False) -> PureDP:  # noqa: ARG002  it protects one row
        """Return epsilon, but for an event of probability delta; by group privacy for a removal and an addition."""
        epsilon, delta = self.strength.epsilon, self.strength.delta
        if replaced and self.neighbours.per_replacement == 2:
            return PureDP(2.0 * epsilon, delta * (1.0 + math.exp(epsilon)))
        return PureDP(epsilon, delta)

    def degrees_for(self, delta: float) -> int:
        """Return the degrees of freedom for this delta."""
        return degrees_tight(self.scaling.n_coordinates, self.strength.epsilon, delta, self.neighbours)

    @cached_property
    def confirmed_degrees(self) -> int:
        """The degrees of freedom, confirmed to give (epsilon, delta) with what rounding adds."""
        epsilon, delta = self.strength.epsilon, self.strength.delta
        d, square, kept = self.scaling.n_coordinates, self.scaling.square, (1 - _SLACK) * delta
        m = self.degrees_for(kept)
        rounded = _rounding_chance(m, d, square, self._grid(m))
        if (
            delta_of_wishart(m - d + 1, epsilon, self.neighbours) > kept
            or (1 + math.exp(epsilon)) * rounded > _SLACK * delta
        ):
            raise PrivacyError(
                f"{m} degrees of freedom are not known to give epsilon = {epsilon:g} with delta = {delta:g} for "
                f"{self.neighbours} neighbours: use the gaussian mechanism, or a larger delta"
            )
        return m

    @property
    def off_diagonal_variance(self) -> float:
        """The degrees of freedom times the square of the scale."""
        return self.degrees_for(self.strength.delta) * self.scaling.square**2

    def draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return the second moments with Wishart noise, (epsilon, delta)-differentially private; see `Mechanism`."""
        m, square = self.confirmed_degrees, self.scaling.square
        grid = self._grid(m)
        noise = _wishart(m, self.scaling.n_coordinates, rng)
        matrix = add_and_round(moments.steps, noise, 2 * PLACES, square, grid)
        return released(self, matrix, moments, WishartNoise(grid.step, float(m), square))

    def _grid(self, m: int) -> DyadicGrid:
        return grid_for(math.sqrt(m) * self.scaling.square, _FINENESS)


def _rounding_chance(m: int, d: int, square: float, grid: DyadicGrid) -> float:
    """Return a bound on the chance that what is released differs from the ideal mechanism's rounded output."""
    eta = 2 * math.sqrt(m) * (math.sqrt(m) + 14.2) * HALF_PLACE * square
    return d * (d + 1) / 2 * 4 * eta / grid.step + m * d * TOTAL_VARIATION + d * math.exp(-100)


def _wishart(m: int, d: int, rng: Keystream) -> NDArray[Any]:
    """Return G^T G in units of 2^-150, as Python integers."""

    def draw(rows: int) -> tuple[list[Floats], tuple[int, ...]]:
        cell, inner = normal_parts((rows, d), rng)
        return [*limbs_of(inner, 3 * LIMB - 1), *limbs_of(cell, 2 * LIMB - 1)], _OFFSETS

    return gram_in_parts(m, d, draw)


MECHANISM = Wishart


_EPSILONS = (1e-6, 100.0)
_LARGEST_DELTA = 0.01  # what an exception may be called
_LEAST = 3  # nu: below, the noise is not log-concave
_MOST = 1 << 22
_SPLITS = np.linspace(0.0, 1.0, 65)


def delta_of_wishart(nu: int, epsilon: float, neighbours: Neighbours) -> float:
    """Return a delta that Wishart noise of scale N^2 I has at epsilon; exact for add-remove neighbours.

    Parameters
    ----------
    nu : int
        m - d + 1, at least 3.
    epsilon : float
        In [0, inf).
    neighbours : Neighbours
        What the guarantee speaks of.
    """
    if not neighbours.n_rows_public:
        return max(_removed(nu, epsilon), _added(nu, epsilon))
    best = 1.0
    for split in _SPLITS * min(epsilon, 0.5):
        first, second = float(split), epsilon - float(split)
        best = min(
            best,
            _added(nu, first) + math.exp(first) * _removed(nu, second),
            _removed(nu, second) + math.exp(second) * _added(nu, first),
        )
    return best


def degrees_tight(n_coordinates: int, epsilon: float, delta: float, neighbours: Neighbours) -> int:
    """Return the fewest degrees of freedom m that are known to give (epsilon, delta).

    Raises
    ------
    ParameterError
        `epsilon` is not in [1e-6, 100], or `delta` not in (0, 0.01].
    PrivacyError
        It would take more than 2^22.
    """
    check_epsilon_and_delta(epsilon, delta)
    high = _LEAST
    while delta_of_wishart(high, epsilon, neighbours) > delta:
        high *= 2
        if high > _MOST:
            raise PrivacyError(
                f"epsilon = {epsilon:g} with delta = {delta:g} takes too much Wishart noise: use gaussian"
            )
    low = max(_LEAST, high // 2)
    while low < high:  # any nu that passes is good; this finds the smallest as delta falls in nu
        middle = (low + high) // 2
        low, high = (low, middle) if delta_of_wishart(middle, epsilon, neighbours) <= delta else (middle + 1, high)
    return high + n_coordinates - 1


def _removed(nu: int, epsilon: float) -> float:
    """Return H(noise || noise + 1)."""
    a = nu / 2
    q = -1 / math.expm1(-(epsilon + 0.5) / (a - 1))
    return max(0.0, float(special.gammainc(a, q / 2) - math.exp(epsilon) * special.gammainc(a, max(q - 1, 0.0) / 2)))


def _added(nu: int, epsilon: float) -> float:
    """Return H(noise + 1 || noise)."""
    if epsilon >= 0.5:
        return 0.0
    a = nu / 2
    q = -1 / math.expm1(-(0.5 - epsilon) / (a - 1))
    return max(0.0, float(special.gammaincc(a, max(q - 1, 0.0) / 2) - math.exp(epsilon) * special.gammaincc(a, q / 2)))


def check_epsilon_and_delta(epsilon: float, delta: float) -> None:
    """Refuse an epsilon outside [1e-6, 100], or a delta outside (0, 0.01]."""
    if not _EPSILONS[0] <= epsilon <= _EPSILONS[1]:
        raise ParameterError("epsilon", f"from {_EPSILONS[0]:g} to {_EPSILONS[1]:g} for Wishart noise", epsilon)
    if not 0 < delta <= _LARGEST_DELTA:
        raise ParameterError("delta", f"in (0, {_LARGEST_DELTA:g}] for Wishart noise", delta)
