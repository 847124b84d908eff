"""The compiled determinant of a small sparse matrix, by elimination in an order of small fill.

The vertex of fewest neighbours is eliminated first (minimum degree: Tinney & Walker 1967), in a square array, which is
affordable up to hundreds of columns; once the fewest neighbours are
half of the vertices that are left, the rest is factored as it is.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.glasso.solvers._sparse_kernels import TINY, SparseRows
from dp_learn.matrices.linalg import Array

SMALLEST, LARGEST = 1e-50, 1e50  # products of pivots, before their logarithm is taken
DENSE = 2  # once the fewest neighbours are one column in so many, the rest is factored as it is


@njit(cache=True, nogil=True, error_model="numpy")
def log_determinant(edges: SparseRows, diagonal: Array, M: Array, neighbour: Array) -> float:
    """Return the logarithm of a symmetric matrix's determinant, -inf unless it is positive definite.

    The matrix has these off-diagonal entries. Overwrites M and `neighbour`, of its size, the second of integers.
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


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
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
