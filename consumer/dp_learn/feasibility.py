"""Whether the penalised problem has a solution, proven either way.

It has one exactly when some positive definite W lies in the box ``|W - S| <= L``. None does exactly when a positive
semidefinite ``Z != 0`` has ``<S, Z> + sum_ij L_ij |Z_ij| <= 0``, since that sum is the largest ``<W, Z>`` in the box.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dp_learn.checks import check_covariance, check_free_diagonal, check_weights
from dp_learn.linalg import FloatArray, eigendecomposition, is_positive_definite, raise_to_semidefinite
from dp_learn.max_norm import project_max_norm

__all__ = ["feasible_covariance", "smallest_solvable_alpha", "soft_threshold"]

FIRST_FLOOR = 1e-3  # the smallest eigenvalue asked for at first, in units of the variances
LAST_FLOOR = 1e-11  # a box without a matrix this definite is unsolvable in double precision
MAX_ITER = 5000
RTOL = 5e-5  # width of the bounds on the smallest alpha, relative to it


def feasible_covariance(s: FloatArray, penalty: FloatArray) -> FloatArray | None:
    """Return a positive definite matrix in the box, or None when there is none.

    Parameters
    ----------
    s : ndarray, shape (p, p)
        Unit diagonal.
    penalty : ndarray, shape (p, p)
        Zero diagonal; entries may be 0 or inf.

    Notes
    -----
    Three guesses cost one Cholesky factorisation each; failing these, ADMM looks for a point common to the box and
    to the matrices with eigenvalues above a floor, and lowers the floor when a certificate proves it too high.
    """
    soft = soft_threshold(s, penalty)
    for guess in (soft, s.copy(), 0.5 * (soft + s)):
        if is_positive_definite(guess):
            return guess
    low, high = s - penalty, s + penalty
    box, dual, floor = soft, np.zeros_like(s), FIRST_FLOOR
    bounded = bool(np.isfinite(penalty).all())
    for n_iter in range(1, MAX_ITER + 1):
        d, q = eigendecomposition(box - dual)
        k = int(np.searchsorted(d, floor))
        root: FloatArray = q[:, :k] * np.sqrt(floor - d[:k])
        lift = root @ root.T
        target = box + lift  # the projection onto the cone, plus the dual
        box = np.clip(target, low, high)
        dual = target - box
        if is_positive_definite(box):
            return box
        if n_iter % 5 == 0:
            z = lift if bounded else raise_to_semidefinite(dual)
            reach = _largest_smallest_eigenvalue(s, penalty, z)
            if reach < LAST_FLOOR:
                return None
            floor = min(floor, 0.3 * reach)
    return None


def smallest_solvable_alpha(
    covariance: ArrayLike, *, weights: ArrayLike | None = None, penalize_diagonal: bool = True
) -> float:
    r"""Return the smallest alpha at which the graphical lasso has a solution.

    .. math:: \inf \{\alpha : W \succ 0, |W_{ij} - S_{ij}| \le \alpha w_{ij}\}

    Parameters
    ----------
    covariance, weights, penalize_diagonal
        As in `graphical_lasso`.

    Returns
    -------
    float
        At this alpha a solution exists, and 2e-4 below it (relatively) provably none; 0 for a positive definite
        covariance, which needs no penalty; inf when no alpha helps, because the free entries alone are indefinite.

    Raises
    ------
    ParameterError
        For a bad argument, and for a variance that is not positive where the diagonal is not penalised.
    """
    s = check_covariance(covariance)
    w = check_weights(weights, s.shape[0], penalize_diagonal=penalize_diagonal)
    check_free_diagonal(s, w)
    largest = np.abs(s).max(axis=1)
    scale = 1.0 / np.sqrt(np.where(largest > 0.0, largest, 1.0))
    s, w = s * np.outer(scale, scale), w * np.outer(scale, scale)
    if is_positive_definite(s):
        return 0.0
    costly = np.isfinite(w) & (w > 0.0)
    needed = float((np.abs(s[costly]) / w[costly]).max(initial=0.0))
    inside = _find_inside(s, w, needed) if needed > 0.0 else None
    if inside is None:
        return math.inf
    projection = project_max_norm(s, w, inside, rtol=RTOL, max_iter=MAX_ITER)
    alpha = projection.distance * (1.0 + RTOL)
    while alpha < needed:
        share = (alpha - projection.distance) / (2.0 * needed)
        if is_positive_definite((1.0 - share) * projection.matrix + share * inside):
            break
        alpha = 2.0 * alpha + 1e-15 * needed
    return alpha


def soft_threshold(s: FloatArray, penalty: FloatArray) -> FloatArray:
    """Return the matrix of the box ``|W - S| <= L`` whose entries are nearest to zero."""
    shrunk: FloatArray = s - np.clip(s, -penalty, penalty)
    return shrunk


def _largest_smallest_eigenvalue(s: FloatArray, penalty: FloatArray, z: FloatArray) -> float:
    """Return an upper bound on the smallest eigenvalue of any matrix in the box, from a positive semidefinite Z."""
    trace = float(np.trace(z))
    if trace <= 0.0:
        return math.inf
    nonzero = z != 0.0
    return float(s[nonzero] @ z[nonzero] + penalty[nonzero] @ np.abs(z[nonzero])) / trace


def _find_inside(s: FloatArray, w: FloatArray, needed: float) -> FloatArray | None:
    """Return a positive definite matrix that a large alpha allows, within about three times `needed` if possible."""
    for alpha in (2.0 * needed, 1e2 * needed, 1e4 * needed):
        variance = s.diagonal() + alpha * w.diagonal()
        unit = 1.0 / np.sqrt(variance)
        outer = np.outer(unit, unit)
        standard, penalty = s * outer, alpha * w * outer
        np.fill_diagonal(standard, 1.0)
        np.fill_diagonal(penalty, 0.0)
        found = feasible_covariance(standard, penalty)
        if found is not None:
            inside: FloatArray = found / outer
            return inside
    return None
