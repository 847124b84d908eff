"""Compiled kernels of the coordinate solvers.

They work on the standard form of the problem (see `standard_form`): C-contiguous float64 arrays, unit diagonal, nothing
validated. Each says what it overwrites.

Legend: S standardised covariance, L penalties (entries may be 0 or inf), W dual matrix, T precision matrix,
B regression coefficients with row j holding those of column j, G Gram matrix of the active columns.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["label_components", "precision_from_coefficients", "sweep_columns"]

Array = np.ndarray

MAX_PASSES = 500  # over the active coordinates of one lasso
NEWTON_EVERY = 8  # passes


@njit(cache=True)
def label_components(S: Array, L: Array) -> Array:
    """Label the connected components of the graph with an edge wherever ``|S_ij| > L_ij``."""
    p = S.shape[0]
    labels = np.full(p, -1, dtype=np.int64)
    queue = np.empty(p, dtype=np.int64)
    n_components = 0
    for root in range(p):
        if labels[root] >= 0:
            continue
        labels[root] = n_components
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            i = queue[head]
            head += 1
            for j in range(p):
                if labels[j] < 0 and abs(S[i, j]) > L[i, j]:
                    labels[j] = n_components
                    queue[tail] = j
                    tail += 1
        n_components += 1
    return labels


@njit(cache=True)
def _residual(G: Array, s: Array, beta: Array, residual: Array, k: int) -> None:
    """Overwrite `residual` with ``s - G beta``."""
    for a in range(k):
        residual[a] = s[a]
    for a in range(k):
        if beta[a] != 0.0:
            for c in range(k):
                residual[c] -= beta[a] * G[a, c]


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def sweep_columns(S: Array, L: Array, W: Array, B: Array, schur: Array, tol: float):  # type: ignore[no-untyped-def]
    """Solve the lasso of every column once.

    Overwrites W (stays within the box), B and `schur`, the variance of each column given the others.
    Returns an estimate of the dual increase, and False when a column lost positive definiteness.
    """
    p = W.shape[0]
    active = np.empty(p, dtype=np.int64)
    is_active = np.zeros(p, dtype=np.bool_)
    beta = np.empty(p)
    s = np.empty(p)
    penalty = np.empty(p)
    residual = np.empty(p)
    w = np.empty(p)
    G = np.empty((16, 16))
    progress = 0.0
    for j in range(p):
        k = 0
        for i in range(p):
            is_active[i] = False
            if B[j, i] != 0.0:
                active[k] = i
                beta[k] = B[j, i]
                is_active[i] = True
                k += 1
        is_active[j] = True
        while True:
            if k > G.shape[0]:
                G = np.empty((min(p, 2 * k), min(p, 2 * k)))
            for a in range(k):
                s[a] = S[j, active[a]]
                penalty[a] = L[j, active[a]]
                for c in range(k):
                    G[a, c] = W[active[a], active[c]]
            _lasso_on_active(G, s, penalty, beta, residual, k, tol)
            w[:] = 0.0
            for a in range(k):
                if beta[a] != 0.0:
                    b = beta[a]
                    row = W[active[a]]
                    for i in range(p):
                        w[i] += b * row[i]
            added = 0
            for i in range(p):
                if not is_active[i] and abs(S[j, i] - w[i]) > L[j, i] + tol:
                    active[k] = i
                    beta[k] = 0.0
                    is_active[i] = True
                    k += 1
                    added += 1
            if added == 0:
                break
        for i in range(p):
            B[j, i] = 0.0
            w[i] = min(max(w[i], S[j, i] - L[j, i]), S[j, i] + L[j, i])
        variance = 1.0
        for a in range(k):
            if beta[a] != 0.0:
                i = active[a]
                B[j, i] = beta[a]
                w[i] = S[j, i] - (L[j, i] if beta[a] > 0.0 else -L[j, i])
                variance -= w[i] * beta[a]
        if variance <= 0.0:
            return progress, False
        schur[j] = variance
        change = 0.0
        for i in range(p):
            if i != j:
                change += (W[j, i] - w[i]) ** 2
                W[j, i] = w[i]
                W[i, j] = w[i]
        progress += change / variance
    return progress, True


@njit(cache=True)
def precision_from_coefficients(B: Array, schur: Array, T: Array) -> None:
    """Fill T with the symmetrised precision matrix: an entry is kept where both columns agree on its sign."""
    p = B.shape[0]
    for i in range(p):
        T[i, i] = 1.0 / schur[i]
        for j in range(i):
            a = -B[i, j] / schur[i]
            b = -B[j, i] / schur[j]
            t = 0.5 * (a + b) if a * b > 0.0 else 0.0
            T[i, j] = t
            T[j, i] = t
