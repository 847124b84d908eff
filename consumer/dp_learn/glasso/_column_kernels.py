"""Compiled kernels of block coordinate descent: a sweep over all columns.

They work on problems of unit variances: C-contiguous float64 arrays, S of unit diagonal and L of zero diagonal, nothing
validated. Each says what it overwrites.

The work on one column takes well under a microsecond, so that calls and index checks count. Helpers are inlined, and
matrices are indexed by unsigned numbers in one dimension, which spares a test for negative ones at every access.

Legend: S standardised covariance, L penalties (entries may be 0 or inf), W dual matrix, G Gram matrix of the active
columns. For a matrix, x is its entries row after row.
"""

from typing import Any, NamedTuple

import numpy as np

from dp_bundle.base.machine import FAST, njit
from dp_learn.matrices.linalg import Array

LARGE = 256  # columns of a matrix that no fast cache holds
PENDING = 8  # rows whose columns are written together: as many doubles as a cache line holds
TINY = 1e-100  # entries below are zero: numbers that underflow in products are slow
MAX_PASSES = 500  # over the active coordinates of one lasso
NEWTON_EVERY = 8  # passes


class Coefficients(NamedTuple):
    """The regression of every column on the others: that of j on ``column[j, a]`` is ``value[j, a]``, a < length[j].

    `variance` is that of each column given the others.
    """

    column: Array
    value: Array
    length: Array
    variance: Array


@njit(error_model="numpy", fastmath=FAST)
def sweep_columns(S: Array, L: Array, W: Array, B: Coefficients, tol: float):  # type: ignore[no-untyped-def]
    """Solve the lasso of every column once.

    Overwrites W (stays within the box) and B. Returns an estimate of the dual increase, and False when a column lost
    positive definiteness.
    """
    size = W.shape[0]
    p: Any = np.uint64(size)
    x = W.ravel()
    index, value, count = B.column, B.value, B.length
    active = np.empty(size, dtype=np.uint64)
    is_active = np.zeros(size, dtype=np.bool_)
    room = np.empty((5, size))
    beta, s, penalty, residual, w = room[0], room[1], room[2], room[3], room[4]
    G = np.empty((16, 16))
    progress = 0.0
    waits, newer = size > LARGE, False
    first: Any = np.uint64(0)  # rows first..j-1 are newer than columns that wait, as one by one they miss the cache
    for j in range(first, p):
        if waits:
            if j - first == np.uint64(PENDING):
                if newer:
                    _write_columns(x, p, first, j)
                first, newer = j, False
            _refresh_row(x, p, j, first, j)
        k = count[j]
        for a in range(k):
            active[a] = index[j, a]
            beta[a] = value[j, a]
            is_active[active[a]] = True
        is_active[j] = True
        known = 0
        while True:
            if k > G.shape[0]:
                G = np.empty((min(size, 2 * k), min(size, 2 * k)))
                known = 0
            for a in range(known, k):
                i = active[a]
                if waits:
                    _refresh_row(x, p, i, first, j)
                s[a] = S[j, i]
                penalty[a] = L[j, i]
                for c in range(a):
                    g = x[i * p + active[c]]
                    G[a, c] = g
                    G[c, a] = g
                G[a, a] = 1.0
            known = k
            if not lasso_on_active(G, s, penalty, beta, residual, k, tol):
                settle(G, s, penalty, beta, residual, k, tol)
            _add_rows(x, p, active, beta, k, w)
            w[j] = 1.0
            k = activate_violators(S, L, j, w, tol, active, is_active, beta, k)
            if k == known:
                break

        variance = 1.0
        for a in range(k):
            i = active[a]
            is_active[i] = False
            if beta[a] != 0.0:
                w[i] = s[a] - (penalty[a] if beta[a] > 0.0 else -penalty[a])
                variance -= w[i] * beta[a]
        is_active[j] = False
        if variance <= 0.0:
            if waits:
                _write_columns(x, p, first, j)
            return progress, False
        progress += _replace_row(x, p, j, w, S, L) / variance
        newer = True
        for i in range(first if waits else np.uint64(0), j if waits else p):
            x[i * p + j] = x[j * p + i]

        n = 0
        for a in range(k):
            if beta[a] != 0.0:
                index[j, n], value[j, n] = active[a], beta[a]
                n += 1
        count[j], B.variance[j] = n, variance
    if waits:
        _write_columns(x, p, first, p)
    return progress, True


@njit(error_model="numpy")
def _write_columns(x: Array, p: int, first: int, last: int) -> None:
    """Overwrite columns first..last-1 of a matrix with its rows."""
    for i in range(p):
        if i < first or i >= last:
            for c in range(first, last):
                x[i * p + c] = x[c * p + i]


@njit(error_model="numpy", inline="always")
def _refresh_row(x: Array, p: int, i: int, first: int, last: int) -> None:
    """Overwrite entries first..last-1 of row i with those of its column, unless row i is one of these."""
    if i < first or i >= last:
        for c in range(first, last):
            x[i * p + c] = x[c * p + i]


@njit(error_model="numpy", inline="always")
def _add_rows(x: Array, p: int, active: Array, beta: Array, k: int, w: Array) -> None:
    """Overwrite `w` with the sum of the active rows, each times its coefficient, two at a time."""
    n_odd = k % 2
    if n_odd:
        one, b0 = active[0] * p, beta[0]
        for c in range(p):
            w[c] = b0 * x[one + c]
    else:
        w[:] = 0.0
    for a in range(n_odd, k, 2):
        one, other, b0, b1 = active[a] * p, active[a + 1] * p, beta[a], beta[a + 1]
        for c in range(p):
            w[c] += b0 * x[one + c] + b1 * x[other + c]


@njit(error_model="numpy", inline="always")
def activate_violators(  # type: ignore[no-untyped-def]
    S: Array, L: Array, j: int, w: Array, tol: float, active: Array, is_active: Array, beta: Array, k: int
):
    """Append the coordinates outside the box of row j to `active`, with `beta` zero; return how many there are now."""
    n_outside = 0
    for i in range(w.size):  # without a branch, so that it compiles to vector instructions
        n_outside += abs(S[j, i] - w[i]) > L[j, i] + tol
    if n_outside > 0:
        for i in range(w.size):
            if not is_active[i] and abs(S[j, i] - w[i]) > L[j, i] + tol:
                active[k] = i
                beta[k] = 0.0
                is_active[i] = True
                k += 1
    return k


@njit(error_model="numpy", inline="always")
def _replace_row(x: Array, p: int, j: int, w: Array, S: Array, L: Array) -> float:
    """Overwrite row j with `w`, clipped to the box; return the squared distance from what it was."""
    change = 0.0
    for i in range(p):
        low, high = S[j, i] - L[j, i], S[j, i] + L[j, i]
        new = w[i] if abs(w[i]) > TINY else 0.0
        new = low if new < low else new
        new = high if new > high else new
        step = new - x[j * p + i]
        x[j * p + i] = new
        change += step * step
    return change


@njit(error_model="numpy", inline="always")
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


@njit(error_model="numpy", fastmath=FAST)
def settle(G: Array, s: Array, penalty: Array, beta: Array, residual: Array, k: int, tol: float) -> None:
    """Go on where rounds of coordinate descent have found the signs, but are slow: Newton steps settle the values."""
    for n_pass in range(NEWTON_EVERY, MAX_PASSES):
        if n_pass % NEWTON_EVERY == 0:
            _newton_step(G, s, penalty, beta, residual, k)
        if _pass(G, penalty, beta, residual, k) <= tol:
            break


@njit(error_model="numpy", inline="always")
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


@njit(error_model="numpy", inline="always")
def _residual(G: Array, s: Array, beta: Array, residual: Array, k: int) -> None:
    """Overwrite `residual` with ``s - G beta``."""
    for a in range(k):
        left = s[a]
        for c in range(k):
            left -= beta[c] * G[a, c]
        residual[a] = left


@njit(error_model="numpy", inline="always")
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
    if not _factor_and_solve(block, step, m):
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


@njit(error_model="numpy", inline="always")
def _factor_and_solve(G: Array, b: Array, k: int) -> bool:
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
