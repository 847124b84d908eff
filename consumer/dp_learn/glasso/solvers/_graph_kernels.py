"""Compiled kernels of the unpenalised fit on a sparse graph (see `graph_descent`).

Nothing is validated; each says what it overwrites.

Legend: S covariance, E the rows of the graph with the entries of S in standard form, W dual matrix, B regression
coefficients in the places of E, G Gram matrix of the neighbours of a column.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import FAST, njit
from dp_learn.glasso.solvers._column_kernels import factor_and_solve, refresh_row, write_columns
from dp_learn.glasso.solvers._sparse_kernels import SparseRows
from dp_learn.matrices.linalg import Array

WAITING = 32  # rows whose columns are written together: strided writes miss the translation of addresses
CLIQUE = 8  # neighbours of a column that is removed, at most


@njit()
def remove_cliques(edges: Array, column: Array, length: Array):  # type: ignore[no-untyped-def]
    """Return the columns to remove, in order, with their neighbours then, and which columns are left.

    A column is removed when all its neighbours are neighbours of each other.
    """
    p = length.size
    degree, left, is_waiting = length.copy(), np.ones(p, dtype=np.bool_), np.ones(p, dtype=np.bool_)
    waiting, n_waiting = np.arange(p), p
    order, near = np.empty(p, dtype=np.int64), np.zeros((p, CLIQUE), dtype=np.int64)
    count, n_removed = np.empty(p, dtype=np.int64), 0

    while n_waiting:
        n_waiting -= 1
        j = waiting[n_waiting]
        is_waiting[j] = False
        if degree[j] > CLIQUE:
            continue

        k = 0
        for a in range(length[j]):
            if left[column[j, a]]:
                near[n_removed, k] = column[j, a]
                k += 1
        if not _is_clique(edges, near[n_removed], k):
            continue

        order[n_removed], count[n_removed], left[j] = j, k, False
        for a in range(k):
            i = near[n_removed, a]
            degree[i] -= 1
            if not is_waiting[i]:
                is_waiting[i] = True
                waiting[n_waiting] = i
                n_waiting += 1
        n_removed += 1
    return order[:n_removed], near[:n_removed], count[:n_removed], left


@njit()
def _is_clique(edges: Array, near: Array, k: int) -> bool:
    for a in range(k):
        for c in range(a):
            if not edges[near[a], near[c]]:
                return False
    return True


@njit()
def regress_removed(S: Array, order: Array, near: Array, count: Array):  # type: ignore[no-untyped-def]
    """Return rows, columns and values of what the removed columns add to the precision matrix, one after the other.

    With u = e_j less the coefficients of column j on its neighbours, that is ``u u' / variance``. Then come the sum of
    the logarithms of these variances, and False where one is not positive.
    """
    size = ((count + 1) ** 2).sum()
    rows, columns, values = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32), np.empty(size)
    G, b, u, member = np.empty((CLIQUE, CLIQUE)), np.empty(CLIQUE), np.empty(CLIQUE + 1), np.empty(CLIQUE + 1)
    n, total = 0, 0.0

    for r in range(order.size):
        j, k = order[r], count[r]
        for a in range(k):
            for c in range(a + 1):
                G[a, c] = S[near[r, a], near[r, c]]
            b[a] = S[j, near[r, a]]

        definite = factor_and_solve(G, b, k)
        variance = S[j, j]
        for a in range(k):
            variance -= S[j, near[r, a]] * b[a]
            u[a], member[a] = -b[a], near[r, a]
        u[k], member[k] = 1.0, j
        if not definite or not variance > 0.0:
            return rows, columns, values, total, False

        total += np.log(variance)
        for a in range(k + 1):
            for c in range(k + 1):
                rows[n], columns[n], values[n] = member[a], member[c], u[a] * u[c] / variance
                n += 1
    return rows, columns, values, total, True


@njit()
def sweep_graph(E: SparseRows, W: Array, B: Array, variance: Array, relaxation: float):  # type: ignore[no-untyped-def]
    """Regress every column on its neighbours once, and move its row of W by so many times the step to the best one.

    Overwrites W, whose entries on the graph stay, B and the variance of each column given the others. Returns a
    measure of the step, and False when a column lost positive definiteness.
    """
    p, x = W.shape[0], W.ravel()
    G, b, w = np.empty((E.column.shape[1], E.column.shape[1])), np.empty(E.column.shape[1]), np.empty(p)
    progress = 0.0
    first = 0  # W's rows first..j-1 are newer than its columns
    for j in range(p):
        if j - first == WAITING:
            write_columns(x, p, first, j)
            first = j
        refresh_row(x, p, j, first, j)
        k = E.length[j]
        for a in range(k):
            i = E.column[j, a]
            refresh_row(x, p, i, first, j)
            for c in range(a):
                G[a, c] = W[i, E.column[j, c]]
            G[a, a] = 1.0
            b[a] = E.value[j, a]
        definite = factor_and_solve(G, b, k)
        left = 1.0
        for a in range(k):
            left -= E.value[j, a] * b[a]
            B[j, a] = b[a]
        if not definite or not left > 0.0:
            write_columns(x, p, first, j)
            return progress, False
        variance[j] = left

        _add_rows(W, E.column[j], b, k, w)
        for a in range(k):
            w[E.column[j, a]] = E.value[j, a]
        w[j] = 1.0
        progress += _move_row(W, j, w, relaxation) / left
        for i in range(first, j):
            W[i, j] = W[j, i]
    write_columns(x, p, first, p)
    return progress, True


@njit(fastmath=FAST)
def _add_rows(W: Array, near: Array, b: Array, k: int, w: Array) -> None:
    """Overwrite `w` with the sum of the neighbours' rows of W, each times its coefficient, four at a time."""
    w[:] = 0.0
    for a in range(0, k - k % 4, 4):
        i0, i1, i2, i3 = near[a], near[a + 1], near[a + 2], near[a + 3]
        b0, b1, b2, b3 = b[a], b[a + 1], b[a + 2], b[a + 3]
        for c in range(w.size):
            w[c] += b0 * W[i0, c] + b1 * W[i1, c] + b2 * W[i2, c] + b3 * W[i3, c]
    for a in range(k - k % 4, k):
        i0, b0 = near[a], b[a]
        for c in range(w.size):
            w[c] += b0 * W[i0, c]


@njit(fastmath=FAST)
def _move_row(W: Array, j: int, w: Array, relaxation: float) -> float:
    """Move row j of W towards `w`, by so many times the way; return the squared length of the way."""
    way = 0.0
    for i in range(w.size):
        step = w[i] - W[j, i]
        W[j, i] += relaxation * step
        way += step * step
    return way
