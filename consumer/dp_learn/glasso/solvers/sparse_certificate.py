"""The certificate of a sparse precision matrix, at the cost of a sparse factorisation and one sparse product.

With ``R = Theta W - I`` the determinant of W is that of Theta times that of I + R, up to the sign of the logarithm. The
eigenvalues of R are real, and where their squares sum to ``q = tr R^2 < 1``, both matrices are positive definite if one
is, and with ``d = sqrt(q)``

    logdet(I + R) >= tr R - q / 2 - q d / (3 (1 - d))

as ``log(1 + x) >= x - x^2 / 2 - |x|^3 / (3 (1 - |x|))``. So a gap is proven without the dense factors of Theta and W,
and close to the optimum, where d is small, the bound is the gap itself up to a fraction d of it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from dp_learn.glasso.problem import ROUNDING
from dp_learn.glasso.solvers._sparse_kernels import SparseRows, linear_terms, residual_square
from dp_learn.matrices.linalg import FloatArray

DENSE_SPEED = 64  # below one entry in so many, sparse arithmetic beats the far faster dense kind


def is_sparse(edges: SparseRows) -> bool:
    """Return whether sparse factors of a matrix with these off-diagonal entries are faster than dense ones."""
    p = edges.length.size
    return DENSE_SPEED * (p + int(edges.length.sum())) <= p * p


def sparse_logdet(edges: SparseRows, diagonal: FloatArray) -> float:
    """Return the logarithm of the determinant of a symmetric matrix, -inf unless it is positive definite.

    Parameters
    ----------
    edges : SparseRows
        The entries off the diagonal.
    diagonal : ndarray, shape (p,)
        The diagonal.

    Notes
    -----
    Gaussian elimination with the pivots on the diagonal, in an order of small fill: the matrix is positive definite
    exactly when no pivot had to be exchanged and all are positive.
    """
    p = diagonal.size
    used = np.arange(edges.column.shape[1]) < edges.length[:, None]
    column = np.repeat(np.arange(p, dtype=np.int32), edges.length)
    own = np.arange(p, dtype=np.int32)
    entries = np.concatenate([edges.value[used], diagonal])
    positions = np.concatenate([edges.column[used], own]), np.concatenate([column, own])
    matrix = csc_array((entries, positions), shape=(p, p))
    try:
        factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # a pivot of exactly zero
        return -math.inf
    pivots = factors.U.diagonal()
    if not ((pivots > 0.0).all() and np.array_equal(factors.perm_r, factors.perm_c)):
        return -math.inf
    return float(np.log(pivots).sum())


def certify_sparse(
    s: FloatArray, penalty: FloatArray, edges: SparseRows, diagonal: FloatArray, w: FloatArray
) -> tuple[float, float]:
    """Return the objective and an upper bound on its gap to the dual value at `w`, which lies in its box.

    Parameters
    ----------
    s, penalty, w : ndarray, shape (p, p)
        Standard form, and a symmetric dual matrix.
    edges, diagonal
        The precision matrix.

    Returns
    -------
    tuple of float
        Both are inf when the precision matrix is not positive definite, the gap also where `w` is too far from its
        inverse for the bound to hold.
    """
    logdet = sparse_logdet(edges, diagonal)
    if logdet == -math.inf:
        return math.inf, math.inf
    linear, size, complementarity = linear_terms(s, penalty, w, edges, diagonal)
    value = linear - logdet
    return value, complementarity + gap_bound(residual_square(w, edges, diagonal)) + ROUNDING * size


def gap_bound(square: float) -> float:
    """Return the bound on ``tr R - logdet(I + R)`` for a sum of squares of eigenvalues; inf where that is too large."""
    distance = math.sqrt(max(square, 0.0))
    return square * (0.5 + distance / (3.0 * (1.0 - distance))) if distance < 1.0 else math.inf
