"""Correlations of normal variables behind columns that are steps of them: a Gaussian copula from what is observed.

A column of scores s(Z) is a step function of a standard normal Z. With its Hermite coefficients a_n, of which the sum
of squares is 1, two columns whose Z have the correlation r have themselves

    sum_n a_n b_n r^n,

which grows with r and is nearer to zero. `latent_correlations` inverts it.

A column of levels without an order has a normal variable for each level, independent of each other. The level with the
least -log Phi(U) / share wins. It has exactly its share, being a race of exponential variables. To first order the
indicators of winners are linear in the U (`race_matrix`).

References
----------
Lancaster (1957), Biometrika 44, for the series. Higham (2002), IMA J. Numer. Anal. 22, for nearest correlations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dp_bundle.base.arrays import Floats
from dp_bundle.data.margins import mean_and_deviation, parts_of

TERMS = 100
_HALVINGS = 40
LEAST_DEVIATION = 1e-12
_GRID = np.linspace(-9.0, 9.0, 1801)  # the normal density is smooth: sums over it are integrals to many digits
_ROUNDS, _STILL, _LEAST_EIGENVALUE = 50, 1e-5, 1e-9


@dataclass(frozen=True, eq=False)
class Steps:
    """A step function of a standard normal variable.

    Attributes
    ----------
    ends : ndarray of float64, shape (m - 1,)
        The cumulative shares at which steps end, ascending; a step of no share has its end twice.
    values : ndarray of float64, shape (m,)
        Ascending.
    """

    ends: Floats
    values: Floats

    @classmethod
    def of_shares(cls, shares: Floats, values: Floats) -> Steps:
        """Return the steps that have these shares, which need not add up to 1."""
        return cls(np.minimum(np.cumsum(parts_of(shares))[:-1], 1.0), values)

    @property
    def shares(self) -> Floats:
        """The share of each step."""
        return np.diff(self.ends, prepend=0.0, append=1.0)

    def cells(self, ranks: Floats) -> NDArray[np.intp]:
        """Return the step of each rank, in [0, 1]."""
        return np.searchsorted(self.ends, ranks, side="right")

    def coefficients(self, n_terms: int = TERMS) -> Floats:
        """Return the Hermite coefficients a_1, a_2, ... of the function over its standard deviation, 100 by default.

        That of a jump at t is, from the definition of the polynomials, h_{n-1}(t) phi(t) / sqrt(n), with normalised h.
        """
        found = np.zeros(n_terms)
        _, deviation = mean_and_deviation(self.values, self.shares)
        inside = (self.ends > 0.0) & (self.ends < 1.0)
        if deviation < LEAST_DEVIATION or not inside.any():
            return found
        t = special.ndtri(self.ends[inside])
        jumps = np.diff(self.values)[inside] / deviation * np.exp(-0.5 * t**2) / math.sqrt(2 * math.pi)

        before, this = np.zeros(len(t)), np.ones(len(t))
        for n in range(1, n_terms + 1):
            found[n - 1] = jumps @ this / math.sqrt(n)
            before, this = this, (t * this - math.sqrt(n - 1) * before) / math.sqrt(n)
        return found


def linear_coefficients() -> Floats:
    """Return the Hermite coefficients of a column that is normal itself."""
    found: Floats = np.eye(1, TERMS)[0]
    return found


def latent_correlations(observed: Floats, coefficients: Floats) -> Floats:
    """Return the correlations of the normal variables, from those of the columns.

    Parameters
    ----------
    observed : ndarray, shape (p, p)
        Symmetric. What is beyond the reach of the margins becomes 1 or -1.
    coefficients : ndarray, shape (p, n)
        Of each column, as `Steps.coefficients` returns them; all zero of a constant, which has the correlation 0.

    Returns
    -------
    ndarray, shape (p, p)
        With a unit diagonal; not necessarily positive semidefinite.
    """
    p = len(observed)
    found = np.eye(p)
    for row in range(p - 1):
        products = (coefficients[row] * coefficients[row + 1 :]).T[::-1]
        wanted = observed[row, row + 1 :]
        low, high = np.full(len(wanted), -1.0), np.full(len(wanted), 1.0)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            value = np.zeros(len(wanted))
            for product in products:
                value = (value + product) * middle
            low, high = np.where(value < wanted, middle, low), np.where(value < wanted, high, middle)
        found[row, row + 1 :] = np.where(products.any(axis=0), 0.5 * (low + high), 0.0)
    return np.triu(found, 1) + np.triu(found).T


def race_matrix(shares: Floats) -> Floats:
    """Return ``E[U_a 1(l wins)]`` for levels l (rows) and their variables a (columns), shape (k, k).

    Whether a wins depends on U_a through Phi(U_a)^((1 - share) / share), and who does else is independent of U_a.
    """
    others = np.divide(1.0 - shares, shares, out=np.full(len(shares), np.inf), where=shares > 0.0)
    density = np.exp(-0.5 * _GRID**2) / math.sqrt(2 * math.pi) * (_GRID[1] - _GRID[0])
    with np.errstate(over="ignore"):
        won = np.exp(np.outer(np.minimum(others, 1e300), special.log_ndtr(_GRID))) @ (_GRID * density)
    won[shares >= 1.0] = 0.0
    lost = np.divide(won, 1.0 - shares, out=np.zeros(len(shares)), where=shares < 1.0)
    matrix = -np.outer(shares, lost)
    np.fill_diagonal(matrix, won)
    return matrix


def winners(normal: Floats, shares: Floats) -> NDArray[np.intp]:
    """Return the level that wins in each row of standard normal variables, shape (n, k)."""
    with np.errstate(divide="ignore"):
        found: NDArray[np.intp] = np.argmin(-special.log_ndtr(normal) / shares, axis=1)
    return found


def nearest_correlations(matrix: Floats, blocks: Sequence[slice] = (), weights: Floats | None = None) -> Floats:
    """Return a positive definite matrix of correlations near a symmetric one, by projections in turns.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        Symmetric.
    blocks : sequence of slice
        Variables that are independent of each other.
    weights : ndarray, shape (p,), optional
        How much an entry counts is the product of its variables', squared: least of those that noise is largest in.
    """
    units = np.ones(len(matrix)) if weights is None else weights / weights.max()
    found, correction = _with_unit_blocks(matrix, blocks), np.zeros_like(matrix)
    for _ in range(_ROUNDS):
        moved = found - correction
        semidefinite = _semidefinite(moved, units)
        correction = semidefinite - moved
        before, found = found, _with_unit_blocks(semidefinite, blocks)
        if np.abs(found - before).max() < _STILL:
            break

    found = _semidefinite(found, units)
    change = np.diag(1.0 / np.sqrt(np.diagonal(found)))
    for block in blocks:
        values, vectors = np.linalg.eigh(found[block, block])
        change[block, block] = (vectors / np.sqrt(values)) @ vectors.T
    return _with_unit_blocks(change @ found @ change, blocks)


def _semidefinite(matrix: Floats, units: Floats) -> Floats:
    """Return the nearest positive definite matrix where variables have such units."""
    values, vectors = np.linalg.eigh(matrix * np.outer(units, units))
    vectors = vectors / units[:, None]
    found: Floats = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    return found


def _with_unit_blocks(matrix: Floats, blocks: Sequence[slice]) -> Floats:
    changed = 0.5 * (matrix + matrix.T)
    np.fill_diagonal(changed, 1.0)
    for block in blocks:
        changed[block, block] = np.eye(block.stop - block.start)
    return changed
