"""Compiled kernels of the certificate of a sparse precision matrix (see `sparse_certificate`).

They work on the standard form of the problem: C-contiguous float64 arrays, unit diagonal, nothing validated.

Legend: S standardised covariance, L penalties, W dual matrix, T precision matrix, R residual T W - I.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.glasso.solvers._sparse_kernels import PENDING, SparseRows, add_multiple
from dp_learn.matrices.linalg import Array


@njit(cache=True, nogil=True, error_model="numpy")
def linear_terms(S: Array, L: Array, W: Array, T: SparseRows, diagonal: Array):  # type: ignore[no-untyped-def]
    """Return ``<S, T> + sum L |T|``, the size of its terms, and it minus ``<W, T>``.

    T holds the entries of the precision matrix off its diagonal.
    """
    linear, size, complementarity = 0.0, 0.0, 0.0
    for i in range(diagonal.size):
        linear += diagonal[i]
        size += diagonal[i]
        for a in range(T.length[i]):
            k, t = T.column[i, a], T.value[i, a]
            penalty = L[i, k] * abs(t)
            linear += S[i, k] * t + penalty
            size += abs(S[i, k] * t) + penalty
            complementarity += (S[i, k] - W[i, k]) * t + penalty
    return linear, size, complementarity


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def small_residual_square(W: Array, T: SparseRows, diagonal: Array, R: Array) -> float:
    """Return the trace of ``R^2`` and overwrite R, for which there is room where a matrix is small."""
    p = diagonal.size
    total = 0.0
    for i in range(p):
        for c in range(p):
            R[i, c] = diagonal[i] * W[i, c]
        for a in range(T.length[i]):
            k, t = T.column[i, a], T.value[i, a]
            for c in range(p):
                R[i, c] += t * W[k, c]
        R[i, i] -= 1.0
        total += R[i, i] * R[i, i]
        for c in range(i):
            total += 2.0 * R[i, c] * R[c, i]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def residual_square(W: Array, T: SparseRows, diagonal: Array) -> float:
    """Return the trace of ``R^2``, a few rows of R at a time."""
    p = W.shape[0]
    rows = np.empty((PENDING, p))  # of R
    columns = np.zeros((p, PENDING))  # of W
    square = 0.0
    for first in range(0, p, PENDING):
        rows[:] = 0.0
        for r in range(min(PENDING, p - first)):
            i = first + r
            add_multiple(rows[r], diagonal[i], W[i])
            for a in range(T.length[i]):
                add_multiple(rows[r], T.value[i, a], W[T.column[i, a]])
            rows[r, i] -= 1.0
            square -= rows[r, i]
            for j in range(p):
                columns[j, r] = W[i, j]
        square += _paired_with_columns(rows, columns, T, diagonal)
    return square


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _paired_with_columns(rows: Array, columns: Array, T: SparseRows, diagonal: Array) -> float:
    """Return the inner product of `rows` with the transpose of ``T columns``."""
    product = np.empty(PENDING)
    total = 0.0
    for j in range(rows.shape[1]):
        for r in range(PENDING):
            product[r] = diagonal[j] * columns[j, r]
        for a in range(T.length[j]):
            k, t = T.column[j, a], T.value[j, a]
            for r in range(PENDING):
                product[r] += t * columns[k, r]
        for r in range(PENDING):
            total += rows[r, j] * product[r]
    return total
