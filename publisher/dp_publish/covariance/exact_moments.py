"""Sums of products of scaled rows: exact, in any order, in memory that does not grow with the rows.

Scaled values are cut towards zero to multiples of 2^-20, so that every product is an integer of at most 2^40 in units
of 2^-40. A block of 4096 rows has sums of at most 2^52. As float64 represents them and everything on the way to them, a
BLAS product is exact whatever its order of summation. Blocks are added up as Python integers, which do not overflow.
The sensitivity therefore holds for the very numbers that a mechanism adds noise to, not for real numbers near them: a
row's contribution is the outer product of an integer vector with itself, of which

    sum k_j^2 <= R^2 4^20

holds because |k_j| <= 2^20, or, where rows are clipped, because they are shortened to (1 - 2^-36) R first. The relative
error of a norm of up to 8192 float64 numbers, and of the products with its inverse, is below 2^-39. Cutting towards
zero only shortens. How a raw value became a scaled one, with what rounding, is of no concern. It is a function of that
row alone, and what counts is the ball it ends in.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import DataError, ParameterError
from dp_publish.covariance.scaling import GRID_BITS, Scaling

_UNIT = 2.0**GRID_BITS
_BLOCK = 1 << (52 - 2 * GRID_BITS)
_SHORTER = 1 - 2.0**-36


@dataclass(frozen=True, eq=False)
class ExactMoments:
    """Exact sums over rows. All of it is private, apart from `scaling` and, for replace-one neighbours, `n_rows`.

    Attributes
    ----------
    scaling : Scaling
        Where rows were put.
    n_rows : int
        How many there were.
    products : ndarray of Python int, shape (p, p)
        Sum of z_i z_j, in units of 2^-40.
    sums : ndarray of Python int, shape (p,)
        Sum of z_j, in units of 2^-20.
    n_clipped : int
        How many rows were outside their bounds or the ball; for the publisher's eyes only.
    """

    scaling: Scaling
    n_rows: int = field(repr=False)
    products: NDArray[Any] = field(repr=False)
    sums: NDArray[Any] = field(repr=False)
    n_clipped: int = field(default=0, repr=False)

    @classmethod
    def near(cls, scaling: Scaling, n_rows: int, products: Floats, sums: Floats) -> "ExactMoments":
        """Return those nearest to products and sums in floating point, in units of 1."""
        return cls(scaling, n_rows, _integers(products * _UNIT**2), _integers(sums * _UNIT))

    @property
    def steps(self) -> NDArray[Any]:
        """The sum of (z, c)(z, c)^T in units of 2^-40, as Python integers."""
        constant = round(self.scaling.constant * _UNIT)
        if not constant:
            return self.products
        edge = self.sums * constant
        corner = np.array([[self.n_rows * constant * constant]], dtype=object)
        return np.block([[self.products, edge[:, None]], [edge[None, :], corner]])

    @property
    def matrix(self) -> Floats:
        """The sum of (z, c)(z, c)^T, every entry rounded to float64."""
        exact = self.steps
        return np.array([int(entry) / 4**GRID_BITS for entry in exact.flat], dtype=np.float64).reshape(exact.shape)


def moments_of_batch(values: Floats, scaling: Scaling) -> ExactMoments:
    """Scale, clip and sum one batch: a pure function, whose results `merge` in any order.

    Parameters
    ----------
    values : ndarray, shape (n_rows, p)
        In data units; infinite values are clipped like any other.
    scaling : Scaling
        Centres, half-widths and radius.

    Raises
    ------
    DataError
        A value is missing (NaN).
    ParameterError
        `values` does not have p columns.
    """
    if values.ndim != 2 or values.shape[1] != scaling.n_features:
        raise ParameterError("values", f"a table of {scaling.n_features} columns", values.shape)
    if np.isnan(values).any():
        raise DataError("a table for a covariance release must not have missing values: fill or drop them first")
    products = np.zeros((scaling.n_features,) * 2, dtype=object)
    sums = np.zeros(scaling.n_features, dtype=object)
    n_clipped = 0
    for start in range(0, len(values), _BLOCK):
        block, clipped = _scale(np.asarray(values[start : start + _BLOCK], dtype=np.float64), scaling)
        products += (block.T @ block).astype(np.int64).astype(object)
        sums += block.sum(axis=0).astype(np.int64).astype(object)
        n_clipped += clipped
    return ExactMoments(scaling, len(values), products, sums, n_clipped)


def merge(one: ExactMoments, other: ExactMoments) -> ExactMoments:
    """Return the moments of the rows of both.

    Raises
    ------
    ParameterError
        They were not scaled alike.
    """
    if not one.scaling.equals(other.scaling):
        raise ParameterError("parts", "one or more, all made with one scaling", 2)
    return ExactMoments(
        one.scaling,
        one.n_rows + other.n_rows,
        one.products + other.products,
        one.sums + other.sums,
        one.n_clipped + other.n_clipped,
    )


def sum_moments(batches: Iterable[Floats], scaling: Scaling) -> ExactMoments:
    """Return the moments of the rows of all batches; see `moments_of_batch`."""
    none = moments_of_batch(np.empty((0, scaling.n_features)), scaling)
    return reduce(merge, (moments_of_batch(values, scaling) for values in batches), none)


def _scale(values: Floats, scaling: Scaling) -> tuple[Floats, int]:
    """Return rows of integers in units of 2^-20, and how many were clipped."""
    with np.errstate(over="ignore"):
        raw = (values - scaling.centers) / scaling.half_widths
    z = np.clip(raw, -1.0, 1.0)
    outside = (np.abs(raw) > 1 + 1e-12).any(axis=1)  # an end of the bounds itself may round to just above 1
    if scaling.clips:
        norms = np.sqrt(np.einsum("ij,ij->i", z, z))
        long = norms > scaling.radius * _SHORTER
        z[long] *= (scaling.radius * _SHORTER / norms[long])[:, None]
        outside |= long
    return np.trunc(z * _UNIT), int(np.count_nonzero(outside))


def _integers(values: Floats) -> NDArray[Any]:
    return np.array([round(value) for value in values.flat], dtype=object).reshape(values.shape)
