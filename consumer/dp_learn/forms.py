"""Variances of bilinear forms f_ij = b_i' S b_j, and how they add up.

References
----------
Isserlis (1918), On a formula for the product-moment coefficient, Biometrika 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_learn.linalg import FloatArray

__all__ = ["FormErrors", "fourth_order", "isserlis", "one_entry", "sum_errors"]


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
        """Return for every pair whichever errors are larger."""
        larger = self.products >= other.products
        return FormErrors(
            np.where(larger, self.products, other.products),
            np.where(larger, self.crossed, other.crossed),
            np.where(larger, self.squares, other.squares),
        )

    def times(self, factor: float) -> FormErrors:
        """Return variances and covariances times a factor."""
        return FormErrors(factor * self.products, factor * self.crossed, factor * self.squares)


def isserlis(x: FloatArray, y: FloatArray) -> FormErrors:
    """Return the bilinear form behind Isserlis' formula: at x = y, the errors for one row with that covariance."""
    dx, dy = np.diagonal(x), np.diagonal(y)
    outer, xy, dxy = np.outer(dx, dy), x * y, dx * dy
    return FormErrors(
        (outer + outer.T) / 2.0 + xy,
        x * (dy[:, None] + dy) + y * (dx[:, None] + dx),
        (dxy[:, None] + dxy) / 2.0 + xy,
    )


def fourth_order(squares: FloatArray, cubes: FloatArray) -> FormErrors:
    """Return what moments, or cumulants, of y_i^2 y_j^2 and of y_i^3 y_j amount to."""
    fourth = np.diagonal(squares)
    return FormErrors(squares, cubes + cubes.T, (fourth[:, None] + fourth + 2.0 * squares) / 4.0)


def sum_errors(parts: Sequence[FormErrors]) -> FormErrors:
    """Return the errors of the sum of independent forms, of at least one."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def one_entry(k: FloatArray) -> FormErrors:
    """Return the errors of forms f_ij = k_ij e with one e of unit variance."""
    d = np.diagonal(k)
    total = d[:, None] + d
    return FormErrors(k * k, k * total, (total / 2.0) ** 2)
