"""Wishart noise on the second moments: positive definite, with a mean that the reader subtracts.

The noise is N^2 G^T G, with m rows of standard normal numbers in G, and its mean N^2 m I. How private it is says
`wishart_curve`. That speaks of real numbers. What is released is their sum with the exact moments, rounded to a grid of
about 2^-8 of the noise: post-processing, but for the chance that the computer's G rounds some entry differently.
G is within 2^-75 of normal numbers (`normals`), and everything after it is exact: products of 17-bit limbs are integers
that float64 represents, summed up as Python integers. An entry of N^2 G^T G is therefore off by at most

    eta = 2 sqrt(m) (sqrt(m) + 14.2) 2^-75 N^2

unless a column of G is longer than sqrt(m) + 14.2, which has a chance below e^-100, and it rounds differently with a
chance below 4 eta / step, as its density is bounded by a small multiple of 1 / (256 step). Added over entries, with the
total variation of the normal numbers themselves, that is at most about 1e-11; it is counted: (1 + e^epsilon) times it
is taken off delta before the degrees of freedom are chosen.

References
----------
Sheffet (2015), arXiv 1507.00056. Wang, Huai & Xu (2018), theorem 5, who do not subtract the mean.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.errors import ParameterError, PrivacyError
from dp_publish.covariance.mechanisms.base import Cost, Grid, NoisyMoments, grid_for, with_exact_corner
from dp_publish.covariance.mechanisms.wishart_curve import degrees_printed, degrees_tight, delta_of_wishart
from dp_publish.covariance.scaling import GRID_BITS
from dp_publish.covariance.second_moments import SecondMoments
from dp_publish.covariance.sensitivity import check_neighbours
from dp_publish.sampling import HALF_PLACE, PLACES, TOTAL_VARIATION, Keystream, SecureKeystream, normal_parts

__all__ = ["release_wishart"]

_FINENESS = 8
_SLACK = 1e-3  # the share of delta that is left for rounding
_LIMB = 17
_OFFSETS = (0, 17, 34, 46, 63)  # of the limbs of cell * 2^46 + inner
_ROWS = 1 << 12  # at a time; sums of products of limbs stay below 2^47


def release_wishart(
    moments: SecondMoments,
    *,
    epsilon: float,
    delta: float,
    neighbours: str = "replace-one",
    degrees: str = "tight",
    rng: Keystream | None = None,
) -> NoisyMoments:
    """Return the second moments with Wishart noise, (epsilon, delta)-differentially private.

    Parameters
    ----------
    moments : SecondMoments
        The exact sums.
    epsilon, delta : float
        The guarantee.
    neighbours : {"replace-one", "add-remove"}
        What it speaks of.
    degrees : {"tight", "printed"}
        How the degrees of freedom are chosen; "printed" is Sheffet's formula, for epsilon below 1. In either case the
        curve of `delta_of_wishart` confirms the guarantee.
    rng : Keystream, optional
        Where random bits come from; a new `SecureKeystream` unless given.

    Raises
    ------
    ParameterError
        An argument is not allowed.
    PrivacyError
        The guarantee cannot be confirmed.
    """
    check_neighbours(moments.scaling, neighbours)
    if degrees not in ("tight", "printed"):
        raise ParameterError("degrees", '"tight" or "printed"', degrees)
    d, square = moments.scaling.n_coordinates, moments.scaling.square
    kept = (1 - _SLACK) * delta
    m = degrees_tight(d, epsilon, kept, neighbours) if degrees == "tight" else degrees_printed(d, epsilon, delta)
    grid = grid_for(math.sqrt(m) * square, _FINENESS)
    if (
        delta_of_wishart(m - d + 1, epsilon, neighbours) > kept
        or (1 + math.exp(epsilon)) * _rounding_chance(m, d, square, grid) > _SLACK * delta
    ):
        raise PrivacyError(
            f"{m} degrees of freedom are not known to give epsilon = {epsilon:g} with delta = {delta:g} for "
            f"{neighbours} neighbours: use the gaussian mechanism, or a larger delta"
        )
    noise = _wishart(m, d, SecureKeystream() if rng is None else rng)
    matrix = _add_and_round(moments.steps, noise, square, grid)
    public_rows = neighbours == "replace-one"
    rounding = grid.step**2 / 12
    return NoisyMoments(
        matrix=with_exact_corner(matrix, moments) if public_rows else matrix,
        mechanism="wishart",
        neighbours=neighbours,
        scaling=moments.scaling,
        n_rows=moments.n_rows if public_rows else None,
        granularity=grid.step,
        distribution="wishart",
        parameters={"degrees_of_freedom": float(m), "scale": square},
        diagonal_variance=2 * m * square**2 + rounding,
        off_diagonal_variance=m * square**2 + rounding,
        bias=m * square,
        cost=Cost(None, epsilon, delta),
    )


def _rounding_chance(m: int, d: int, square: float, grid: Grid) -> float:
    """Return a bound on the chance that what is released differs from the ideal mechanism's rounded output."""
    eta = 2 * math.sqrt(m) * (math.sqrt(m) + 14.2) * HALF_PLACE * square
    return d * (d + 1) / 2 * 4 * eta / grid.step + m * d * TOTAL_VARIATION + d * math.exp(-100)


def _wishart(m: int, d: int, rng: Keystream) -> NDArray[Any]:
    """Return G^T G in units of 2^-150, as Python integers."""
    total = np.zeros((d, d), dtype=object)
    for start in range(0, m, _ROWS):
        limbs = _limbs(*normal_parts((min(_ROWS, m - start), d), rng))
        for (i, left), (j, right) in combinations_with_replacement(enumerate(limbs), 2):
            product = (left.T @ right).astype(np.int64).astype(object) << (_OFFSETS[i] + _OFFSETS[j])
            total += product if i == j else product + product.T
    return total


def _limbs(cell: NDArray[np.int64], inner: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """Split numbers into limbs of 17 bits, the highest of each part with its sign, as float64."""
    mask = (1 << _LIMB) - 1
    parts = [inner & mask, (inner >> _LIMB) & mask, inner >> (2 * _LIMB), cell & mask, cell >> _LIMB]
    return [part.astype(np.float64) for part in parts]


def _add_and_round(steps: NDArray[Any], noise: NDArray[Any], square: float, grid: Grid) -> NDArray[np.float64]:
    """Return the sum, in units of 2^-40, plus `square` times the noise, in units of 2^-150, on the grid."""
    factor = Fraction(square)  # its denominator is a power of two, as a float's is
    places = 2 * PLACES + factor.denominator.bit_length() - 1
    shift = grid.exponent - 2 * GRID_BITS + places
    total = (steps << (places - 2 * GRID_BITS)) + noise * factor.numerator
    rounded = (total + (1 << (shift - 1))) >> shift
    return np.array([int(entry) * grid.step for entry in rounded.flat], dtype=np.float64).reshape(rounded.shape)
