"""Compiled kernels of a lasso on its active coordinates.

They are given C-contiguous float64 arrays; nothing is validated. Each says what it overwrites. Called for every column,
they are inlined: passing so many arrays costs more than a lasso of few coordinates.

Legend: G Gram matrix of the active columns, with a positive diagonal.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.matrices.linalg import Array

MAX_PASSES = 500  # over the active coordinates of one lasso
NEWTON_EVERY = 8  # passes


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def lasso_on_active(G: Array, s: Array, penalty: Array, beta: Array, residual: Array, k: int, tol: float) -> bool:
    """Minimise ``1/2 b'Gb - b's + sum penalty |b|`` over the first k coordinates; overwrites `beta` and `residual`.

    Returns whether a few rounds of coordinate descent were enough; if not, `settle` goes on from there.
    """
    _residual(G, s, beta, residual, k)
    largest = np.inf
    for _ in range(NEWTON_EVERY):
        largest = _pass(G, penalty, beta, residual, k)
        if largest <= tol:
            break
    return largest <= tol


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def settle(G: Array, s: Array, penalty: Array, beta: Array, residual: Array, k: int, tol: float) -> None:
    """Go on where rounds of coordinate descent have found the signs, but are slow: Newton steps settle the values."""
    for n_pass in range(NEWTON_EVERY, MAX_PASSES):
        if n_pass % NEWTON_EVERY == 0:
            _newton_step(G, s, penalty, beta, residual, k)
        if _pass(G, penalty, beta, residual, k) <= tol:
            break


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _pass(G: Array, penalty: Array, beta: Array, residual: Array, k: int) -> float:
    """Minimise along one coordinate after the other; return the largest step."""
    largest = 0.0
    for a in range(k):
        old = beta[a]
        z = residual[a] + old * G[a, a]
        new = 0.0
        if z > penalty[a]:
            new = z - penalty[a]
        elif z < -penalty[a]:
            new = z + penalty[a]
        if G[a, a] != 1.0:  # a division takes as long as all the rest
            new /= G[a, a]
        if new != old:
            step = new - old
            beta[a] = new
            for c in range(k):
                residual[c] -= step * G[a, c]
            largest = max(largest, abs(step))
    return largest


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _residual(G: Array, s: Array, beta: Array, residual: Array, k: int) -> None:
    """Overwrite `residual` with ``s - G beta``."""
    for a in range(k):
        left = s[a]
        for c in range(k):
            left -= beta[c] * G[a, c]
        residual[a] = left


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _newton_step(G: Array, s: Array, penalty: Array, beta: Array, residual: Array, k: int) -> None:
    """Minimise over the coordinates that are not zero with their signs held, or go as far as the first sign change."""
    chosen = np.empty(k, dtype=np.int64)
    m = 0
    for a in range(k):
        if beta[a] != 0.0:
            chosen[m] = a
            m += 1

    block, step = np.empty((m, m)), np.empty(m)
    for a in range(m):
        i = chosen[a]
        for c in range(a + 1):
            block[a, c] = G[i, chosen[c]]
        step[a] = residual[i] - (penalty[i] if beta[i] > 0.0 else -penalty[i])
    if not factor_and_solve(block, step, m):
        return

    length, blocking = 1.0, -1
    for a in range(m - 1, -1, -1):
        b = beta[chosen[a]]
        if b * (b + length * step[a]) < 0.0:
            length = -b / step[a]
            blocking = chosen[a]

    for a in range(m):
        beta[chosen[a]] += length * step[a]
    if blocking >= 0:
        beta[blocking] = 0.0
    _residual(G, s, beta, residual, k)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def factor_and_solve(G: Array, b: Array, k: int) -> bool:
    """Overwrite `b` with the solution of ``G x = b`` and the lower triangle of G with its Cholesky factor.

    The first k rows and columns count. Returns False where there is no factor.
    """
    for a in range(k):
        for c in range(a + 1):
            left = G[a, c]
            for e in range(c):
                left -= G[a, e] * G[c, e]
            if c < a:
                G[a, c] = left / G[c, c]
            elif left > 0.0:
                G[a, a] = np.sqrt(left)
            else:
                return False

    for a in range(k):
        left = b[a]
        for e in range(a):
            left -= G[a, e] * b[e]
        b[a] = left / G[a, a]
    for a in range(k - 1, -1, -1):
        left = b[a]
        for e in range(a + 1, k):
            left -= G[e, a] * b[e]
        b[a] = left / G[a, a]
    return True
