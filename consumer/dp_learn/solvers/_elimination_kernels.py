"""The compiled determinant of a small sparse matrix, by elimination in an order of small fill.

The vertex of fewest neighbours is eliminated first (minimum degree: Tinney & Walker 1967), in a square array, which is
affordable up to hundreds of columns; once the fewest neighbours are
half of the vertices that are left, the rest is factored as it is.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dp_learn.solvers._sparse_kernels import TINY, SparseRows

__all__ = ["log_determinant", "log_determinant_in"]

Array = np.ndarray

DENSE = 2  # once the fewest neighbours are one column in so many, the rest is factored as it is


@njit(cache=True, nogil=True)
def log_determinant(edges: SparseRows, diagonal: Array) -> float:
    """Return the logarithm of a symmetric matrix's determinant, -inf unless it is positive definite.

    The matrix has these entries off its diagonal.
    """
    return log_determinant_in(edges, diagonal, np.empty((diagonal.size, diagonal.size)))


@njit(cache=True, nogil=True)
def log_determinant_in(edges: SparseRows, diagonal: Array, M: Array) -> float:
    """Return the same and overwrite M, a square array of that size."""
    p = diagonal.size
    M[:] = 0.0
    pivot, degree = diagonal.copy(), edges.length.copy()
    neighbour = np.empty((p, p), dtype=np.int32)
    for i in range(p):
        for e in range(degree[i]):
            neighbour[i, e] = edges.column[i, e]
            M[i, edges.column[i, e]] = edges.value[i, e]
    remaining = np.arange(p)
    total, fewest = 0.0, 0
    for n_left in range(p, 0, -1):
        best = 0
        for a in range(n_left):
            if degree[remaining[a]] < degree[remaining[best]]:
                best = a
            if degree[remaining[best]] <= fewest:
                break
        k = remaining[best]
        fewest = max(degree[k] - 1, 0)  # of the others none will have fewer
        if DENSE * degree[k] >= n_left > 2:
            return total + _dense_log_determinant(M, pivot, remaining[:n_left])
        if not pivot[k] > 0.0:
            return -np.inf
        total += np.log(pivot[k])
        remaining[best] = remaining[n_left - 1]
        _eliminate(k, M, pivot, neighbour, degree)
    return total


@njit(cache=True, nogil=True)
def _eliminate(k: int, M: Array, pivot: Array, neighbour: Array, degree: Array) -> None:
    """Eliminate one vertex, overwriting what its neighbours have."""
    for a in range(degree[k]):
        i = neighbour[k, a]
        row = M[i]
        x = M[k, i] / pivot[k]
        pivot[i] -= x * M[k, i]
        e = 0
        while neighbour[i, e] != k:
            e += 1
        degree[i] -= 1
        neighbour[i, e] = neighbour[i, degree[i]]
        for c in range(a):
            j = neighbour[k, c]
            if row[j] == 0.0:
                neighbour[i, degree[i]], neighbour[j, degree[j]] = j, i
                degree[i] += 1
                degree[j] += 1
            new = row[j] - x * M[k, j]
            new = new if new != 0.0 else TINY  # zero says that there is no edge
            row[j], M[j, i] = new, new


@njit(cache=True, nogil=True)
def _dense_log_determinant(M: Array, pivot: Array, index: Array) -> float:
    """Return the logarithm of the determinant of the rows and columns in `index`, by a Cholesky factorisation."""
    n = index.size
    factor = np.empty((n, n))
    total = 0.0
    for a in range(n):
        for c in range(a):
            t = M[index[a], index[c]] - _dot(factor[a], factor[c], c)
            factor[a, c] = t / factor[c, c]
        t = pivot[index[a]] - _dot(factor[a], factor[a], a)
        if not t > 0.0:
            return -np.inf
        factor[a, a] = np.sqrt(t)
        total += np.log(t)
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(x: Array, y: Array, n: int) -> float:
    """Return the inner product of the first n entries."""
    total = 0.0
    for e in range(n):
        total += x[e] * y[e]
    return total
