"""The compiled kernel of the second-order solver: C-contiguous float64 arrays, nothing validated.

Legend: S standardised covariance, L penalties, W inverse of the precision matrix T around which the model is made,
X = T + D the point of the model, U = D W.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.matrices.linalg import Array


@njit(cache=True, fastmath={"reassoc", "contract"})
def descend_once(S: Array, L: Array, W: Array, X: Array, U: Array, rows: Array, cols: Array) -> float:
    """Minimise ``<S - W, D> + 1/2 <W D W, D> + sum L |X|`` along each chosen entry of X in turn, once.

    The entries are (rows[k], cols[k]) with rows <= cols, sorted by column; their penalties are finite. Overwrites X and
    U; returns by how much the model fell.
    """
    p = S.shape[0]
    u = np.empty(p)
    column = -1
    decrease = 0.0

    for entry in range(rows.shape[0]):
        i, j = rows[entry], cols[entry]
        if j != column:
            column = j
            for k in range(p):
                u[k] = U[k, j]

        # the slope and the curvature along the entry and its mirror image
        curvature = 0.0
        for k in range(p):
            curvature += W[i, k] * u[k]
        slope = S[i, j] - W[i, j] + curvature
        a = W[i, j] * W[i, j]
        if i != j:
            a += W[i, i] * W[j, j]

        # the minimum along it
        old = X[i, j]
        z = old - slope / a
        threshold = L[i, j] / a
        if z > threshold:
            new = z - threshold
        elif z < -threshold:
            new = z + threshold
        else:
            new = 0.0
        step = new - old
        if step == 0.0:
            continue

        # the step
        gain = L[i, j] * (abs(old) - abs(new)) - step * (slope + 0.5 * a * step)
        X[i, j] = new
        for k in range(p):
            U[i, k] += step * W[j, k]
        u[i] += step * W[j, j]
        if i != j:
            X[j, i] = new
            for k in range(p):
                U[j, k] += step * W[i, k]
            u[j] += step * W[i, j]
            gain *= 2.0
        decrease += gain
    return decrease
