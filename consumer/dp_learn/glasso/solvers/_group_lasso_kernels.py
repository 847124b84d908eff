"""Compiled kernels of a group lasso with several responses, on its active blocks.

    min_V  1/2 tr(C V' G V) - tr(V' s) + sum_e L_e ||V_e||_F,    C diagonal, and G on the diagonal of its blocks

One block of it is found by its length, one number. C-contiguous float64 arrays, nothing validated.

Legend: G Gram matrix of the active columns with diagonal d, ``U = C V'``, s too transposed: a row for each response.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import FAST, njit
from dp_learn.matrices.linalg import Array

MAX_PASSES = 200  # over the active blocks of one group lasso
MAX_LENGTH_STEPS = 30  # of Newton's method for the length of a block
CLOSE = 1e-3  # Newton's method squares it in the step that it ends with, and goes on in the next pass
SMALL = 0.5  # of the mean square of the last pass: a block whose step is smaller waits for the next one
QUICK, FURTHER = 0.1, 1e-2  # a pass that leaves less of the last is worth another, down to this share of the tolerance


@njit(error_model="numpy", fastmath=FAST)
def group_lasso(
    G: Array, s: Array, d: Array, C: Array, penalty: Array, begin: Array, n: int, U: Array, residual: Array,
    known: int | np.int64, tol: float,
) -> float:  # fmt: skip
    """Minimise over the first n blocks by coordinate descent, overwriting U and `residual`, of which some are `known`.

    Returns the square of what the last pass found of the gradient, relative to C: at most `tol`, unless that is slow.
    """
    m, k = begin[n], C.size
    for a in range(known, m):
        row = G[a]
        for j in range(k):
            rest = s[j, a]
            for c in range(m):
                rest -= U[j, c] * row[c]
            residual[j, a] = rest
    widest = 1
    for e in range(n):
        widest = max(widest, begin[e + 1] - begin[e])
    step = np.empty((k, widest))

    left, before, small = np.inf, np.inf, 0.0
    for _ in range(MAX_PASSES):
        left = 0.0
        for e in range(n):
            square, length = 0.0, 0.0
            for j in range(k):
                inverse = 1.0 / C[j]
                for a in range(begin[e], begin[e + 1]):
                    z = residual[j, a] + U[j, a] * d[a]
                    v = U[j, a] * inverse
                    square += z * z
                    length += v * v
            if square <= penalty[e] * penalty[e]:
                if length == 0.0:
                    continue
                length = 0.0
            elif penalty[e] > 0.0:
                length = _block_length(residual, U, d, C, begin[e], begin[e + 1], penalty[e], square, np.sqrt(length))

            # its step, which costs a tenth of taking it
            total = 0.0
            for j in range(k):
                inverse = 1.0 / C[j]
                lift = penalty[e] / length * inverse if length > 0.0 else 0.0
                for a in range(begin[e], begin[e + 1]):
                    z = residual[j, a] + U[j, a] * d[a]
                    new = z / (d[a] + lift) if length > 0.0 or penalty[e] == 0.0 else 0.0
                    move = new - U[j, a]
                    step[j, a - begin[e]] = move
                    total += move * move * d[a] * d[a] * inverse
            left += total
            if total <= small:
                continue
            for j in range(k):
                for a in range(begin[e], begin[e + 1]):
                    U[j, a] += step[j, a - begin[e]]
            _subtract(residual, step, G, begin[e], begin[e + 1], m, k)
        quick = left < QUICK * before
        if left <= tol and not (quick and left > FURTHER * tol):
            break
        small = 0.0 if quick else SMALL * left / n
        before = left
    return left


@njit(error_model="numpy", fastmath=FAST)
def _subtract(residual: Array, step: Array, G: Array, begin: int, end: int, m: int, k: int) -> None:
    """Subtract rows `begin` to `end` of G, each times its step, from k rows; two at once, as memory is slow."""
    for a in range(begin, end - 1, 2):
        one, other = G[a], G[a + 1]
        for j in range(k):
            row, s0, s1 = residual[j], step[j, a - begin], step[j, a + 1 - begin]
            for c in range(m):
                row[c] -= s0 * one[c] + s1 * other[c]
    if (end - begin) % 2:
        one = G[end - 1]
        for j in range(k):
            row, s0 = residual[j], step[j, end - 1 - begin]
            for c in range(m):
                row[c] -= s0 * one[c]


@njit(error_model="numpy", fastmath=FAST)
def _block_length(
    residual: Array, U: Array, d: Array, C: Array, begin: int, end: int, penalty: float, square: float, length: float
) -> float:
    """Return the t > 0 at which ``sum (z / (d C t + L))^2 = 1``, by Newton's method on the root of its inverse.

    That is concave in t, so that the steps approach the solution from below.
    """
    largest = 0.0
    for a in range(begin, end):
        largest = max(largest, d[a])
    most = 0.0
    for j in range(C.size):
        most = max(most, C[j])
    shortest = (np.sqrt(square) - penalty) / (largest * most)
    t: float = max(length, shortest)
    for _ in range(MAX_LENGTH_STEPS):
        norm, slope = 0.0, 0.0
        for j in range(C.size):
            for a in range(begin, end):
                curvature = d[a] * C[j]
                inverse = 1.0 / (curvature * t + penalty)
                x = (residual[j, a] + U[j, a] * d[a]) * inverse
                norm += x * x
                slope += x * x * curvature * inverse
        root = np.sqrt(norm)
        t = max(t + norm * (root - 1.0) / slope, shortest)
        if abs(root - 1.0) < CLOSE:
            break
    return t
