"""Compiled kernels on the few entries of a precision matrix: read, symmetrised, bounded, added, factored, certified.

They work on the standard form of the problem (see `standard_form`): C-contiguous float64 arrays, unit diagonal, nothing
validated. Each says what it overwrites.

Legend: S standardised covariance, L penalties, W dual matrix, T precision matrix, R residual T W - I, M any matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dp_bundle.base.kernels import FAST, njit
from dp_learn.matrices.linalg import Array

MAX_SCALINGS = 100
MARGIN = 1.0 - 1e-6  # leaves room for rounding
TINY = 1e-100  # entries below are zero: numbers that underflow in products are slow
PENDING = 8  # rows or columns handled together: as many doubles as a cache line holds
SMALLEST, LARGEST = 1e-50, 1e50  # products of pivots, before their logarithm is taken
DENSE = 2  # once the fewest neighbours are one column in so many, the rest is factored as it is


class SparseRows(NamedTuple):
    """Rows of a matrix: row j has `value[j, a]` in column `column[j, a]` for a < length[j]."""

    column: Array
    value: Array
    length: Array


@njit(error_model="numpy")
def off_diagonal_rows(M: Array) -> SparseRows:
    """Return the entries of a matrix that are not zero, without the diagonal; places beyond a row's count are zero."""
    p = M.shape[0]
    count, width = np.empty(p, dtype=np.int64), 0
    for i in range(p):
        n = 0
        for j in range(p):  # without a branch, so that it compiles to vector instructions
            n += M[i, j] != 0.0
        count[i] = n - (M[i, i] != 0.0)
        width = max(width, count[i])
    index, value = np.empty((p, width), dtype=np.int32), np.zeros((p, width))
    for i in range(p):
        n, left = 0, count[i]
        for j in range(p):
            if left == 0:
                break
            if M[i, j] != 0.0 and j != i:
                index[i, n], value[i, n] = j, M[i, j]
                n += 1
                left -= 1
    return SparseRows(index, value, count)


@njit(error_model="numpy")
def is_dominant(edges: SparseRows, max_scalings: int = MAX_SCALINGS) -> bool:
    """Return whether a scale was found in which the matrix, of unit diagonal, is strictly diagonally dominant.

    That proves it positive definite (Gershgorin). The scale is a power iteration for the leading eigenvector of the
    absolute entries, in which all rows are equally dominant.
    """
    p = edges.length.size
    scale, total = np.ones(p), np.empty(p)
    for _ in range(max_scalings):
        dominant = True
        largest = 0.0
        for i in range(p):
            total[i] = 0.0
            for a in range(edges.length[i]):
                total[i] += abs(edges.value[i, a]) * scale[edges.column[i, a]]
            dominant = dominant and total[i] < MARGIN * scale[i]
            largest = max(largest, total[i] + scale[i])
        if dominant:
            return True
        for i in range(p):
            scale[i] = max((total[i] + scale[i]) / largest, TINY)
    return False


@njit(error_model="numpy")
def fill_precision(B: SparseRows, schur: Array, T: Array):  # type: ignore[no-untyped-def]
    """Fill T with the symmetrised precision matrix: an entry is kept where both columns agree on its sign.

    Returns its off-diagonal entries as rows.
    """
    index, value, count = B.column, B.value, B.length
    p = T.shape[0]
    for j in range(p):
        for i in range(p):
            T[j, i] = 0.0
    for j in range(p):
        for a in range(count[j]):
            T[j, index[j, a]] = -value[j, a] / schur[j]
    kept = SparseRows(np.empty(index.shape, np.int32), np.empty(value.shape), np.zeros(p, np.int64))
    for j in range(p):
        T[j, j] = 1.0 / schur[j]
        for a in range(count[j]):
            i = index[j, a]
            t = 0.5 * (T[i, j] + T[j, i]) if T[i, j] * T[j, i] > 0.0 else 0.0
            T[i, j] = t
            T[j, i] = t
            if t != 0.0:
                kept.column[j, kept.length[j]] = i
                kept.value[j, kept.length[j]] = t
                kept.length[j] += 1
    return kept


@njit(error_model="numpy", fastmath={"contract"})
def add_multiple(w: Array, b: float, row: Array) -> None:
    """Add ``b row`` to `w`."""
    for i in range(w.size):
        w[i] += b * row[i]


@njit(error_model="numpy")
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


@njit(error_model="numpy", fastmath=FAST)
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


@njit(error_model="numpy")
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


@njit(error_model="numpy", fastmath=FAST)
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


@njit(error_model="numpy")
def log_determinant(edges: SparseRows, diagonal: Array, M: Array, neighbour: Array) -> float:
    """Return the logarithm of a symmetric matrix's determinant, -inf unless it is positive definite.

    The matrix has these off-diagonal entries. Overwrites M and `neighbour`, of its size, the second of integers. The
    vertex of fewest neighbours is eliminated first (minimum degree: Tinney & Walker 1967), in a square array, which is
    affordable up to hundreds of columns; once the fewest neighbours are half of the vertices that are left, the rest is
    factored as it is.
    """
    p = diagonal.size
    pivot, degree = np.empty(p), np.empty(p, dtype=np.int64)
    remaining, place = np.empty(p, dtype=np.int64), np.empty(p, dtype=np.int64)
    for i in range(p):
        pivot[i], degree[i], remaining[i], place[i] = diagonal[i], edges.length[i], i, i
        for j in range(p):
            M[i, j] = 0.0
        for e in range(degree[i]):
            neighbour[i, e] = edges.column[i, e]
            M[i, edges.column[i, e]] = edges.value[i, e]

    total: float = 0.0
    product, fewest, at = 1.0, 0, 0

    for n_left in range(p, 0, -1):
        best = at if at < n_left else 0
        if degree[remaining[best]] > fewest:  # search on from the last place, until one has no more than that
            start = best
            for a in range(start + 1, start + n_left):
                other = a if a < n_left else a - n_left
                if degree[remaining[other]] < degree[remaining[best]]:
                    best = other
                    if degree[remaining[best]] <= fewest:
                        break

        k = remaining[best]
        if DENSE * degree[k] >= n_left > 2:
            total += np.log(product) + _dense_log_determinant(M, pivot, remaining[:n_left])
            return total
        if not pivot[k] > 0.0:
            return -np.inf

        product *= pivot[k]
        if not SMALLEST < product < LARGEST:  # one logarithm of many pivots
            total += np.log(product)
            product = 1.0

        remaining[best] = remaining[n_left - 1]
        place[remaining[best]] = best
        fewest, at = degree[k], best
        _eliminate(k, M, pivot, neighbour, degree)
        for e in range(degree[k]):  # of all others none has fewer than before
            i = neighbour[k, e]
            if degree[i] < fewest:
                fewest, at = degree[i], place[i]

    total += np.log(product)
    return total


@njit(error_model="numpy")
def _eliminate(k: int, M: Array, pivot: Array, neighbour: Array, degree: Array) -> None:
    """Eliminate one vertex, overwriting what its neighbours have."""
    for a in range(degree[k]):
        i = neighbour[k, a]
        x = M[k, i] / pivot[k]
        pivot[i] -= x * M[k, i]
        e = 0
        while neighbour[i, e] != k:
            e += 1
        degree[i] -= 1
        neighbour[i, e] = neighbour[i, degree[i]]
        for c in range(a):
            j = neighbour[k, c]
            old = M[i, j]
            if old == 0.0:
                neighbour[i, degree[i]], neighbour[j, degree[j]] = j, i
                degree[i] += 1
                degree[j] += 1
            new = old - x * M[k, j]
            new = new if new != 0.0 else TINY  # zero says that there is no edge
            M[i, j], M[j, i] = new, new


@njit(error_model="numpy", fastmath=FAST)
def _dense_log_determinant(M: Array, pivot: Array, index: Array) -> float:
    """Return the logarithm of the determinant of the rows and columns in `index`, by a Cholesky factorisation."""
    n = index.size
    factor, inverse = np.empty((n, n)), np.empty(n)
    total = 0.0
    for a in range(n):
        i = index[a]
        t = pivot[i]
        for c in range(a):
            dot = 0.0
            for e in range(c):
                dot += factor[a, e] * factor[c, e]
            factor[a, c] = (M[i, index[c]] - dot) * inverse[c]
            t -= factor[a, c] * factor[a, c]
        if not t > 0.0:
            return -np.inf
        inverse[a] = 1.0 / np.sqrt(t)
        total += np.log(t)
    return total
