"""The compiled kernel of `nearest_psd_max_norm`: one pass over a matrix for every step, without temporary matrices.

Legend: H a matrix, S covariance, A allowance (entries may be inf), weights not negative.
"""

from __future__ import annotations

from dp_bundle.base.kernels import FAST, njit
from dp_learn.matrices.linalg import Array

MOST_STEPS = 100  # Michelot's iteration: finite, and short in practice
ROUNDING = 1e-15


@njit(fastmath=FAST)
def excess_of_box(H: Array, S: Array, A: Array, weights: Array, radius: float, out: Array) -> None:
    """Fill `out` with how far H is outside the box ``|W - S| <= A + t weights``.

    The smallest t, not negative, is taken at which the weighted sum of the excess is at most `radius`.
    """
    p = H.shape[0]
    width = 0.0
    for step in range(MOST_STEPS):
        total, square = 0.0, 0.0
        for i in range(p):
            for j in range(p):  # without a branch, so that it compiles to vector instructions
                beyond, w = abs(H[i, j] - S[i, j]) - A[i, j], weights[i, j]
                outside = beyond > width * w
                total += beyond * w if outside else 0.0
                square += w * w if outside else 0.0
        if step == 0 and not total > radius:
            break
        wider = (total - radius) / square
        if wider <= width * (1.0 + ROUNDING):
            break
        width = wider

    for i in range(p):
        for j in range(p):
            moved = H[i, j] - S[i, j]
            beyond = max(abs(moved) - A[i, j] - width * weights[i, j], 0.0)
            out[i, j] = beyond if moved > 0.0 else -beyond
