"""Compiled kernels of block coordinate descent: a sweep over all columns.

They work on the standard form of the problem (see `standard_form`): C-contiguous float64 arrays, unit diagonal, nothing
validated. Each says what it overwrites.

Legend: S standardised covariance, L penalties (entries may be 0 or inf), W dual matrix, B regression coefficients,
G Gram matrix of the active columns. Inner loops index whole matrices: views of rows cost more than short rows do.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.kernels import njit
from dp_learn.solvers._lasso_kernels import lasso_on_active
from dp_learn.solvers._sparse_kernels import PENDING, TINY, SparseRows

__all__ = ["activate_violators", "sweep_columns", "widen"]

Array = np.ndarray


@njit(cache=True, nogil=True)
def sweep_columns(  # type: ignore[no-untyped-def]
    S: Array, L: Array, W: Array, B: SparseRows, schur: Array, tol: float, stale: Array, fresh: float
):
    """Solve the lasso of every column once; row j of B holds the regression coefficients of column j.

    A column is passed over where `stale` is at most `fresh`. That is the square of its residual ``W_11 b - w_12``
    relative to its variance, estimated from what has been added to the rows of W that it is a sum of: as if these
    changes were orthogonal, and with ``b_i / t_jj = b_j / t_ii`` as for the symmetric precision matrix T.

    Overwrites W (stays within the box), B, `schur`, the variance of each column given the others, and `stale`.
    Returns B, in wider arrays where they were too narrow, an estimate of the dual increase, and False when a column
    lost positive definiteness.
    """
    p = W.shape[0]
    index, value, count = B.column, B.value, B.length
    active = np.empty(p, dtype=np.int64)
    is_active = np.zeros(p, dtype=np.bool_)
    beta, s, penalty, residual, w = np.empty(p), np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    G = np.empty((16, 16))
    progress = 0.0
    first = 0  # W's rows first..j-1 are newer than its columns: written one by one, those would miss the cache
    newer = False
    for j in range(p):
        if j - first == PENDING:
            if newer:
                _write_columns(W, first, j)
            first, newer = j, False
        _refresh_row(W, j, first, j)
        if stale[j] <= fresh:
            continue
        k = count[j]
        for a in range(k):
            active[a] = index[j, a]
            beta[a] = value[j, a]
            is_active[active[a]] = True
        is_active[j] = True
        known = 0
        while True:
            if k > G.shape[0]:
                G = np.empty((min(p, 2 * k), min(p, 2 * k)))
                known = 0
            for a in range(known, k):
                i = active[a]
                _refresh_row(W, i, first, j)
                s[a] = S[j, i]
                penalty[a] = L[j, i]
                for c in range(a):
                    G[a, c] = W[i, active[c]]
                    G[c, a] = G[a, c]
                G[a, a] = 1.0
            known = k
            lasso_on_active(G, s, penalty, beta, residual, k, tol)
            _add_rows(W, active, beta, k, w)
            w[j] = 1.0
            k = activate_violators(S, L, j, w, tol, active, is_active, beta, k)
            if k == known:
                break
        variance = 1.0
        n_nonzero = 0
        for a in range(k):
            i = active[a]
            is_active[i] = False
            if beta[a] != 0.0:
                w[i] = s[a] - (penalty[a] if beta[a] > 0.0 else -penalty[a])
                variance -= w[i] * beta[a]
                n_nonzero += 1
        is_active[j] = False
        if variance <= 0.0:
            _write_columns(W, first, j)
            return SparseRows(index, value, count), progress, False
        change = _replace_row(W, j, w, S, L)
        progress += change / variance
        newer = True
        for i in range(first, j):
            W[i, j] = W[j, i]
        if n_nonzero > index.shape[1]:
            index, value = widen(index, value, n_nonzero)
        count[j] = 0
        for a in range(k):
            if beta[a] != 0.0:
                i = active[a]
                index[j, count[j]] = i
                value[j, count[j]] = beta[a]
                count[j] += 1
                stale[i] += beta[a] * beta[a] * change * schur[i] / (variance * variance)
        schur[j], stale[j] = variance, 0.0
    _write_columns(W, first, p)
    return SparseRows(index, value, count), progress, True


@njit(cache=True, nogil=True)
def _write_columns(W: Array, first: int, last: int) -> None:
    """Overwrite columns first..last-1 of W with its rows."""
    for i in range(W.shape[0]):
        if i < first or i >= last:
            for c in range(last - first):
                W[i, first + c] = W[first + c, i]


@njit(cache=True, nogil=True, inline="always")  # called so often that a call would cost more than the copy
def _refresh_row(W: Array, i: int, first: int, last: int) -> None:
    """Overwrite W[i, first..last-1] with W[first..last-1, i], unless row i is one of these."""
    if i < first or i >= last:
        for c in range(first, last):
            W[i, c] = W[c, i]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_rows(W: Array, active: Array, beta: Array, k: int, w: Array) -> None:
    """Overwrite `w` with the sum of the active rows of W, each times its coefficient, four at a time."""
    w[:] = 0.0
    for a in range(0, k, 4):
        last = k - 1
        i0, i1, i2, i3 = active[a], active[min(a + 1, last)], active[min(a + 2, last)], active[min(a + 3, last)]
        b0 = beta[a]
        b1 = beta[a + 1] if a + 1 <= last else 0.0
        b2 = beta[a + 2] if a + 2 <= last else 0.0
        b3 = beta[a + 3] if a + 3 <= last else 0.0
        if b0 == 0.0 and b1 == 0.0 and b2 == 0.0 and b3 == 0.0:
            continue
        for c in range(w.size):
            w[c] += b0 * W[i0, c] + b1 * W[i1, c] + b2 * W[i2, c] + b3 * W[i3, c]


@njit(cache=True, nogil=True)
def activate_violators(  # type: ignore[no-untyped-def]
    S: Array, L: Array, j: int, w: Array, tol: float, active: Array, is_active: Array, beta: Array, k: int
):
    """Append the coordinates outside the box of row j to `active`, with `beta` zero; return how many there are now."""
    n_outside = 0
    for i in range(w.size):  # without a branch, so that it compiles to vector instructions
        n_outside += abs(S[j, i] - w[i]) > L[j, i] + tol
    if n_outside == 0:
        return k
    for i in range(w.size):
        if not is_active[i] and abs(S[j, i] - w[i]) > L[j, i] + tol:
            active[k] = i
            beta[k] = 0.0
            is_active[i] = True
            k += 1
    return k


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _replace_row(W: Array, j: int, w: Array, S: Array, L: Array) -> float:
    """Overwrite row j of W with `w`, clipped to the box; return the squared distance from what it was."""
    change = 0.0
    for i in range(w.size):
        low, high = S[j, i] - L[j, i], S[j, i] + L[j, i]
        new = w[i] if abs(w[i]) > TINY else 0.0
        new = low if new < low else new
        new = high if new > high else new
        step = new - W[j, i]
        W[j, i] = new
        change += step * step
    return change


@njit(cache=True, nogil=True)
def widen(index: Array, value: Array, needed: int):  # type: ignore[no-untyped-def]
    """Return both arrays with room for at least `needed` entries a row; the new ones are zero."""
    p, width = index.shape
    wider = min(p, max(needed, 2 * width))
    new_index, new_value = np.empty((p, wider), dtype=np.int32), np.zeros((p, wider))
    new_index[:, :width] = index
    new_value[:, :width] = value
    return new_index, new_value
