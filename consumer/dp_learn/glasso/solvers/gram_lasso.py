"""Lasso problems on one Gram matrix, by coordinate descent over active sets: a problem per column.

    minimise  1/2 b'Gb - b'c + sum_i l_i |b_i|

Neighbourhood selection and SCIO are made of these. Each ends with its optimality residual, the largest violation of
``|c - Gb| <= l``, with equality of sign where b is not zero.
"""

from typing import Any

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.glasso.solvers._column_kernels import activate_violators, lasso_on_active, settle
from dp_learn.matrices.linalg import Array, FloatArray

MAX_ROUNDS = 40  # of the active set, or of more passes over it where rounding or a flat direction holds them up


def solve_gram_lassos(
    gram: FloatArray, linear: FloatArray, penalty: FloatArray, *, tol: float = 1e-10
) -> tuple[FloatArray, FloatArray]:
    """Return the solution of every column's problem, and the optimality residual of each.

    Parameters
    ----------
    gram : ndarray of shape (p, p)
        G, positive semidefinite with a positive diagonal, of order one.
    linear : ndarray of shape (q, p)
        One c per row.
    penalty : ndarray of shape (q, p)
        One l per row, >= 0, inf where a coordinate is forbidden.
    tol : float
        The residual to stop at. One that stays above says that the problem is unbounded, or that rounding is in the
        way.

    Returns
    -------
    tuple of ndarray of shape (q, p) and ndarray of shape (q,)
        One b per row, exactly zero where the penalty holds it there, and its residual.
    """
    c = np.ascontiguousarray(linear, dtype=np.float64)
    solutions, residuals = np.zeros_like(c), np.zeros(len(c))
    _descend(np.ascontiguousarray(gram), c, np.ascontiguousarray(penalty), solutions, residuals, tol)
    return solutions, residuals


@njit()
def _descend(G: Array, C: Array, L: Array, B: Array, residuals: Array, tol: float) -> None:
    """Solve every row's problem; overwrites B and `residuals`."""
    p = G.shape[0]
    active = np.empty(p, dtype=np.int64)
    beta, s, penalty, rest, w = np.empty(p), np.empty(p), np.empty(p), np.empty(p), np.empty(p)

    for j in range(C.shape[0]):
        is_active = np.zeros(p, dtype=np.bool_)
        k: Any = np.int64(0)  # no literal: what takes it is compiled once
        for _ in range(MAX_ROUNDS):
            w[:] = 0.0
            for a in range(k):
                if beta[a] != 0.0:
                    _add_multiple(w, beta[a], G[active[a]])
            residuals[j] = _violation(C[j], L[j], w, active, is_active, beta, k)
            if not residuals[j] > tol:
                break

            k = activate_violators(C, L, j, w, tol, active, is_active, beta, k)
            block = np.empty((k, k))
            for a in range(k):
                s[a] = C[j, active[a]]
                penalty[a] = L[j, active[a]]
                for c in range(k):
                    block[a, c] = G[active[a], active[c]]
            if not lasso_on_active(block, s, penalty, beta, rest, k, 0.01 * tol):
                settle(block, s, penalty, beta, rest, k, 0.01 * tol)
        for a in range(k):
            B[j, active[a]] = beta[a]


@njit(error_model="numpy", fastmath={"contract"})
def _add_multiple(w: Array, b: float, row: Array) -> None:
    """Add ``b row`` to `w`."""
    for i in range(w.size):
        w[i] += b * row[i]


@njit()
def _violation(c: Array, penalty: Array, w: Array, active: Array, is_active: Array, beta: Array, k: int) -> float:
    """Return the optimality residual at the active coordinates `beta`, whose image under G is `w`."""
    largest = 0.0
    for i in range(w.size):
        if not is_active[i]:
            largest = max(largest, abs(c[i] - w[i]) - penalty[i])
    for a in range(k):
        i = active[a]
        rest = c[i] - w[i]
        if beta[a] == 0.0:
            largest = max(largest, abs(rest) - penalty[i])
        else:
            largest = max(largest, abs(rest - (penalty[i] if beta[a] > 0.0 else -penalty[i])))
    return largest
