"""Variances of bilinear forms f_ij = b_i' S b_j, and how they add up.

References
----------
Isserlis (1918), On a formula for the product-moment coefficient, Biometrika 12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_learn.matrices.linalg import FloatArray

ALL = slice(None)
AT_ONCE = 256  # rows


@dataclass(frozen=True)
class FormErrors:
    """Variances of the forms f_ij = b_i' S^ b_j, and of what normalises them.

    Attributes
    ----------
    products : ndarray of shape (q, q)
        Var f_ij.
    crossed : ndarray of shape (q, q)
        Cov(f_ij, f_ii + f_jj).
    squares : ndarray of shape (q, q)
        Var (f_ii + f_jj) / 2.
    """

    products: FloatArray
    crossed: FloatArray
    squares: FloatArray

    def along(self, r: FloatArray | float) -> FloatArray:
        """Return Var[f_ij + r (f_ii + f_jj) / 2], the first-order error of f_ij / sqrt(f_ii f_jj) where that is -r."""
        return self.products + r * self.crossed + r * r * self.squares

    def __add__(self, other: FormErrors) -> FormErrors:
        """Return the errors of the sum of two independent forms."""
        return FormErrors(self.products + other.products, self.crossed + other.crossed, self.squares + other.squares)

    def at_least(self, other: FormErrors) -> FormErrors:
        """Return the larger of the two errors of every pair."""
        larger = self.products >= other.products
        return FormErrors(
            np.where(larger, self.products, other.products),
            np.where(larger, self.crossed, other.crossed),
            np.where(larger, self.squares, other.squares),
        )

    def rows(self, rows: slice) -> FormErrors:
        """Return the errors of some rows."""
        return FormErrors(self.products[rows], self.crossed[rows], self.squares[rows])

    def times(self, factor: float) -> FormErrors:
        """Return variances and covariances times a factor."""
        return FormErrors(factor * self.products, factor * self.crossed, factor * self.squares)


Part = Callable[[slice], FormErrors]  # the errors of some rows of forms


def isserlis(x: Any, y: Any, rows: slice = ALL) -> FormErrors:
    """Return the bilinear form behind Isserlis' formula: at x = y, the errors for one row with that covariance.

    `rows` selects the rows of the result, so that large matrices take little memory.
    """
    dx, dy = x.diagonal(), y.diagonal()
    x, y, ox, oy = rows_of(x, rows), rows_of(y, rows), dx[rows, None], dy[rows, None]
    xy = x * y
    return FormErrors(
        (ox * dy + oy * dx) / 2.0 + xy,
        x * (oy + dy) + y * (ox + dx),
        (ox * oy + dx * dy) / 2.0 + xy,
    )


def isserlis_of(part: FloatArray, diagonal: FloatArray, rows: slice = ALL) -> FormErrors:
    """Return `isserlis` at x = y, from the rows of x alone and its diagonal."""
    own, square = diagonal[rows, None], part * part
    return FormErrors(
        own * diagonal + square,
        2.0 * part * (own + diagonal),
        (own * own + diagonal * diagonal) / 2.0 + square,
    )


def fourth_order(squares: Any, cubes: Any, rows: slice = ALL) -> FormErrors:
    """Return the errors that the moments, or cumulants, of y_i^2 y_j^2 and of y_i^3 y_j make."""
    fourth = squares.diagonal()
    part = rows_of(squares, rows)
    return FormErrors(
        part,
        rows_of(cubes, rows) + rows_of(cubes.T, rows),
        (fourth[rows, None] + fourth + 2.0 * part) / 4.0,
    )


def rows_of(matrix: Any, rows: slice) -> FloatArray:
    """Return some rows of a matrix, sparse or not, as an array."""
    part: FloatArray = matrix[rows] if isinstance(matrix, np.ndarray) else matrix.tocsr()[rows].toarray()
    return part


def by_rows(n_forms: int, part: Callable[[slice], FormErrors], into: FormErrors | None = None) -> FormErrors:
    """Return the errors that a function gives, a few rows at a time to save memory.

    Parameters
    ----------
    n_forms : int
        How many rows.
    part : callable
        Returns the errors of a slice of them.
    into : FormErrors, optional
        What is overwritten.
    """
    whole = into or FormErrors(*(np.empty((n_forms, n_forms)) for _ in range(3)))
    for start in range(0, n_forms, AT_ONCE):
        rows = slice(start, min(start + AT_ONCE, n_forms))
        found = part(rows)
        whole.products[rows], whole.crossed[rows], whole.squares[rows] = found.products, found.crossed, found.squares
    return whole


def sum_errors(parts: Sequence[FormErrors]) -> FormErrors:
    """Return the errors of the sum of independent forms, of at least one."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def one_entry(k: FloatArray, rows: slice = ALL) -> FormErrors:
    """Return the errors of forms f_ij = k_ij e with one e of unit variance."""
    d = np.diagonal(k)
    k, total = k[rows], d[rows, None] + d
    return FormErrors(k * k, k * total, (total / 2.0) ** 2)


def squares_of_pairs(b: Any) -> FloatArray:
    """Return ``sum_{i<j} b_ik^2 b_jk^2`` for every column k of a matrix, sparse or not."""
    squares = b * b
    sums = np.asarray(squares.sum(axis=0))
    pairs: FloatArray = (sums * sums - np.asarray((squares * squares).sum(axis=0))) / 2.0
    return pairs


def inner_product(x: Any, y: Any) -> float:
    """Return the sum of the products of entries of two matrices, sparse or not."""
    return float(np.vdot(x, y)) if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) else float((x * y).sum())
