"""Compiled kernels of block coordinate descent: the lasso of one column, and a sweep over all columns.

They work on the standard form of the problem (see `standard_form`): C-contiguous float64 arrays, unit diagonal, nothing
validated. Each says what it overwrites.

Legend: S standardised covariance, L penalties (entries may be 0 or inf), W dual matrix, B regression coefficients,
G Gram matrix of the active columns.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dp_learn.solvers._sparse_kernels import PENDING, TINY, SparseRows, add_multiple

__all__ = ["sweep_columns"]

Array = np.ndarray

MAX_PASSES = 500  # over the active coordinates of one lasso
NEWTON_EVERY = 8  # passes


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _residual(G: Array, s: Array, beta: Array, residual: Array, k: int) -> None:
    """Overwrite `residual` with ``s - G beta``."""
    for a in range(k):
        residual[a] = s[a]
    for a in range(k):
        if beta[a] != 0.0:
            for c in range(k):
                residual[c] -= beta[a] * G[a, c]


@njit(cache=True, nogil=True)
def _lasso_on_active(G: Array, s: Array, penalty: Array, beta: Array, residual: Array, k: int, tol: float) -> None:
    """Minimise ``1/2 b'Gb - b's + sum penalty |b|`` over the first k coordinates; overwrites `beta` and `residual`.

    Rounds of coordinate descent find the signs; where they are slow, a Newton step settles the values.
    """
    _residual(G, s, beta, residual, k)
    for n_pass in range(MAX_PASSES):
        largest = 0.0
        for a in range(k):
            old = beta[a]
            z = residual[a] + old * G[a, a]
            if z > penalty[a]:
                new = (z - penalty[a]) / G[a, a]
            elif z < -penalty[a]:
                new = (z + penalty[a]) / G[a, a]
            else:
                new = 0.0
            if new != old:
                step = new - old
                beta[a] = new
                for c in range(k):
                    residual[c] -= step * G[a, c]
                largest = max(largest, abs(step))
        if largest <= tol:
            return
        if n_pass % NEWTON_EVERY == NEWTON_EVERY - 1:
            _newton_step(G, s, penalty, beta, residual, k)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _newton_step(G: Array, s: Array, penalty: Array, beta: Array, residual: Array, k: int) -> None:
    """Minimise over the coordinates that are not zero with their signs held, or go as far as the first sign change."""
    chosen = np.empty(k, dtype=np.int64)
    m = 0
    for a in range(k):
        if beta[a] != 0.0:
            chosen[m] = a
            m += 1
    factor = np.empty((m, m))
    step = np.empty(m)
    for a in range(m):
        i = chosen[a]
        for c in range(a + 1):
            t = G[i, chosen[c]]
            for e in range(c):
                t -= factor[a, e] * factor[c, e]
            if c < a:
                factor[a, c] = t / factor[c, c]
            elif t > 0.0:
                factor[a, a] = np.sqrt(t)
            else:
                return
        t = residual[i] - (penalty[i] if beta[i] > 0.0 else -penalty[i])
        for e in range(a):
            t -= factor[a, e] * step[e]
        step[a] = t / factor[a, a]
    length = 1.0
    blocking = -1
    for a in range(m - 1, -1, -1):
        for e in range(a + 1, m):
            step[a] -= factor[e, a] * step[e]
        step[a] /= factor[a, a]
        b = beta[chosen[a]]
        if b * (b + length * step[a]) < 0.0:
            length = -b / step[a]
            blocking = chosen[a]
    for a in range(m):
        beta[chosen[a]] += length * step[a]
    if blocking >= 0:
        beta[blocking] = 0.0
    _residual(G, s, beta, residual, k)


@njit(cache=True, nogil=True)
def sweep_columns(S: Array, L: Array, W: Array, B: SparseRows, schur: Array, tol: float):  # type: ignore[no-untyped-def]
    """Solve the lasso of every column once; row j of B holds the regression coefficients of column j.

    Overwrites W (stays within the box), B and `schur`, the variance of each column given the others.
    Returns B, in wider arrays where they were too narrow, an estimate of the dual increase, and False when a column
    lost positive definiteness.
    """
    p = W.shape[0]
    index, value, count = B.column, B.value, B.length
    active = np.empty(p, dtype=np.int64)
    is_active = np.zeros(p, dtype=np.bool_)
    beta = np.empty(p)
    s = np.empty(p)
    penalty = np.empty(p)
    residual = np.empty(p)
    w = np.empty(p)
    G = np.empty((16, 16))
    progress = 0.0
    first = 0  # W's rows first..j-1 are newer than its columns: written one by one, those would miss the cache
    for j in range(p):
        if j - first == PENDING:
            _write_columns(W, first, j)
            first = j
        _refresh_row(W, j, first, j)
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
            for a in range(k):
                for c in range(max(a, known), k):
                    G[a, c] = W[active[a], active[c]]
                    G[c, a] = G[a, c]
            known = k
            _lasso_on_active(G, s, penalty, beta, residual, k, tol)
            w[:] = 0.0
            for a in range(k):
                if beta[a] != 0.0:
                    add_multiple(w, beta[a], W[active[a]])
            w[j] = 1.0
            k = _activate_violators(S[j], L[j], w, tol, active, is_active, beta, k)
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
        schur[j] = variance
        progress += _replace_row(W[j], w, S[j], L[j]) / variance
        for i in range(first, j):
            W[i, j] = W[j, i]
        if n_nonzero > index.shape[1]:
            index, value = _widen(index, value, n_nonzero)
        count[j] = 0
        for a in range(k):
            if beta[a] != 0.0:
                index[j, count[j]] = active[a]
                value[j, count[j]] = beta[a]
                count[j] += 1
    _write_columns(W, first, p)
    return SparseRows(index, value, count), progress, True


@njit(cache=True, nogil=True)
def _write_columns(W: Array, first: int, last: int) -> None:
    """Overwrite columns first..last-1 of W with its rows."""
    for i in range(W.shape[0]):
        if i < first or i >= last:
            for c in range(last - first):
                W[i, first + c] = W[first + c, i]


@njit(cache=True, nogil=True)
def _refresh_row(W: Array, i: int, first: int, last: int) -> None:
    """Overwrite W[i, first..last-1] with W[first..last-1, i], unless row i is one of these."""
    if i < first or i >= last:
        for c in range(first, last):
            W[i, c] = W[c, i]


@njit(cache=True, nogil=True)
def _activate_violators(  # type: ignore[no-untyped-def]
    s: Array, penalty: Array, w: Array, tol: float, active: Array, is_active: Array, beta: Array, k: int
):
    """Append the coordinates outside the box to `active`, with `beta` zero; return how many there are now."""
    n_outside = 0
    for i in range(w.size):  # without a branch, so that it compiles to vector instructions
        n_outside += abs(s[i] - w[i]) > penalty[i] + tol
    if n_outside == 0:
        return k
    for i in range(w.size):
        if not is_active[i] and abs(s[i] - w[i]) > penalty[i] + tol:
            active[k] = i
            beta[k] = 0.0
            is_active[i] = True
            k += 1
    return k


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _replace_row(row: Array, w: Array, s: Array, penalty: Array) -> float:
    """Overwrite a row of W with `w`, clipped to the box; return the squared distance from what it was."""
    change = 0.0
    for i in range(w.size):
        low, high = s[i] - penalty[i], s[i] + penalty[i]
        new = w[i] if abs(w[i]) > TINY else 0.0
        new = low if new < low else new
        new = high if new > high else new
        step = new - row[i]
        row[i] = new
        change += step * step
    return change


@njit(cache=True, nogil=True)
def _widen(index: Array, value: Array, needed: int):  # type: ignore[no-untyped-def]
    """Return both arrays with room for at least `needed` entries a row."""
    p, width = index.shape
    wider = min(p, max(needed, 2 * width))
    new_index, new_value = np.empty((p, wider), dtype=np.int32), np.empty((p, wider))
    new_index[:, :width] = index
    new_value[:, :width] = value
    return new_index, new_value
