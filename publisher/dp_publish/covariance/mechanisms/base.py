"""What a covariance mechanism returns, and the dyadic grid that entry-wise noise lives on.

An exact sum is a matrix of integers. It is rounded to a grid of 2^e of these units, far finer than the noise, and
integer noise in steps of the grid is added, so that no floating-point number comes between the data and the release.
Rounding two neighbouring sums may add one step to the difference of each entry; that is added to the sensitivity.
Where the noise is so small that e = 0, nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_publish.covariance.scaling import GRID_BITS, Scaling
from dp_publish.covariance.second_moments import SecondMoments

__all__ = ["Cost", "Grid", "NoisyMoments", "grid_for", "with_exact_corner"]


@dataclass(frozen=True)
class Cost:
    """What a release guarantees, for one row under the stated neighbours; None where nothing of the kind holds.

    Attributes
    ----------
    mu : float or None
        Gaussian differential privacy; for pure epsilon the one that it implies.
    epsilon, delta : float or None
        One (epsilon, delta) that holds; delta is 0 for a pure guarantee.
    """

    mu: float | None
    epsilon: float | None = None
    delta: float | None = None


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """A noisy sum of (z, c)(z, c)^T over rows, and all that a reader must know of the noise.

    Attributes
    ----------
    matrix : ndarray of float64, shape (d, d)
        Symmetric. With replace-one neighbours the constant's own entry, n c^2, is exact.
    mechanism : str
        Its name.
    neighbours : {"replace-one", "add-remove"}
        What the guarantee speaks of.
    scaling : Scaling
        Where rows were put before the sum.
    n_rows : int or None
        The number of rows, where it is public; with add-remove neighbours it is read from the constant's entry.
    granularity : float or None
        Entries are multiples of this power of two; None of what is not fit for a release.
    distribution : str or None
        "rounded-gaussian", "discrete-laplace" or "wishart"; None if the noise does not act entry by entry.
    parameters : mapping of str to float
        The distribution's, in the matrix's units.
    diagonal_variance, off_diagonal_variance : float or None
        The variance of the noise. Entries of the upper triangle are independent, or uncorrelated ("wishart").
    bias : float
        The mean of the noise is this multiple of the identity (constant's entry apart if exact): subtract it.
    cost : Cost
        The guarantee.
    unshrunk : ndarray of float64, shape (d, d), or None
        Where the noise does not act entry by entry: the matrix before what was done against its noise on average, from
        which the mechanism's error is estimated. It is as private as `matrix`.
    """

    matrix: NDArray[np.float64] = field(repr=False)
    mechanism: str
    neighbours: str
    scaling: Scaling = field(repr=False)
    n_rows: int | None
    granularity: float | None
    distribution: str | None
    parameters: Mapping[str, float]
    diagonal_variance: float | None
    off_diagonal_variance: float | None
    bias: float
    cost: Cost
    unshrunk: NDArray[np.float64] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Grid:
    """Steps of 2^exponent units of 2^-40."""

    exponent: int

    @property
    def step(self) -> float:
        """One step, in the matrix's units."""
        return math.ldexp(1.0, self.exponent - 2 * GRID_BITS)

    @property
    def rounding(self) -> float:
        """By how much rounding to the grid may increase the difference of one entry, in the matrix's units."""
        return self.step if self.exponent else 0.0

    def round(self, exact: NDArray[Any]) -> NDArray[Any]:
        """Return the nearest numbers of steps; integers in, integers out."""
        return (exact + (1 << (self.exponent - 1))) >> self.exponent if self.exponent else exact

    def add(self, moments: SecondMoments, noise: NDArray[np.int64], *, exact_corner: bool) -> NDArray[np.float64]:
        """Return the sum, rounded to the grid, plus the symmetric noise in the upper triangle of `noise`."""
        upper = np.triu(noise).astype(object)
        noisy = self.round(moments.steps) + upper + np.triu(upper, 1).T
        step = self.step
        matrix = np.array([int(entry) * step for entry in noisy.flat], dtype=np.float64).reshape(noisy.shape)
        return with_exact_corner(matrix, moments) if exact_corner else matrix


def grid_for(scale: float, fineness: int = 28) -> Grid:
    """Return the coarsest grid with at least 2^fineness steps to a noise of that scale, none finer than exact sums."""
    return Grid(max(0, math.frexp(scale)[1] - 1 - fineness + 2 * GRID_BITS))


def with_exact_corner(matrix: NDArray[np.float64], moments: SecondMoments) -> NDArray[np.float64]:
    """Return the matrix with n c^2, which is public under replace-one neighbours, as the constant's own entry."""
    if moments.scaling.constant:
        matrix[-1, -1] = moments.n_rows * moments.scaling.constant**2
    return matrix
