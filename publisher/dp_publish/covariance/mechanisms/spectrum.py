"""The eigenvalues of an integer matrix, each with an error below a stated bound that is proven.

Jacobi's method on integers. A rotation by the angle 2 arctan(p / q), with whole numbers p and q, is exactly
orthogonal, whatever angle floating point has suggested. What it changes, two rows and two columns, is rounded down to
integers, which moves all eigenvalues by at most 2 sqrt(d) (Weyl). Where the method ends, they differ from the diagonal
by at most the Frobenius norm of the rest. That norm is below an eighth of a unit; and so is what rotations have added,
unless there were 2^60 / sqrt(d) of them, as an eighth of a unit is 2^61 integers.

References
----------
Golub & Van Loan (2013), Matrix computations, section 8.5, for the method. Forsythe & Henrici (1960), The cyclic Jacobi
method for computing the principal values of a complex matrix, for its convergence. Horn & Johnson (2013), Matrix
analysis, section 4.3, for Weyl's inequality.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_UNIT_BITS = 64


def eigenvalues_in_units(matrix: NDArray[Any], exponent: int) -> list[int]:
    """Return the eigenvalues in units of 2^exponent, the largest first, each less than 3/4 from the true one.

    Parameters
    ----------
    matrix : ndarray of Python int, shape (d, d)
        Symmetric.
    exponent : int
        At least 0.
    """
    spare = max(0, _UNIT_BITS - exponent)
    rotated, unit = matrix * (1 << spare), exponent + spare
    most = (1 << (unit - 3)) // len(matrix)
    upper = np.triu_indices(len(matrix), 1)
    while True:
        left = np.flatnonzero(np.abs(rotated[upper]) > most)
        if not left.size:
            break
        for i, j in zip(upper[0][left], upper[1][left], strict=True):
            if rotated[i, j]:
                _rotate(rotated, i, j)
    found = [(int(entry) + (1 << (unit - 1))) >> unit for entry in np.diagonal(rotated)]
    return sorted(found, reverse=True)


def _rotate(matrix: NDArray[Any], i: int, j: int) -> None:
    """Make the entry (i, j) about zero by an exact rotation, in place."""
    a, b, h = int(matrix[i, i]), int(matrix[j, j]), int(matrix[i, j])
    ratio = (b - a) / (2 * h)
    tangent = math.copysign(1 / (abs(ratio) + math.hypot(1, ratio)), ratio)
    p, q = (tangent / (1 + math.hypot(1, tangent))).as_integer_ratio()
    c, s, whole = q * q - p * p, 2 * p * q, q * q + p * p

    first, second = (c * matrix[i] - s * matrix[j]) // whole, (s * matrix[i] + c * matrix[j]) // whole
    matrix[i], matrix[j] = first, second
    matrix[:, i], matrix[:, j] = first, second
    matrix[i, i] = (c * c * a - 2 * c * s * h + s * s * b) // (whole * whole)
    matrix[j, j] = (s * s * a + 2 * c * s * h + c * c * b) // (whole * whole)
    matrix[i, j] = matrix[j, i] = (c * s * (a - b) + (c * c - s * s) * h) // (whole * whole)
