r"""The nearest positive semidefinite matrix in a weighted max norm (CoCoLasso's step), with a proof of the distance.

The matrix found bounds the smallest distance from above; a positive semidefinite certificate Z bounds it from below,
because every positive semidefinite W within distance t has ``0 <= <W, Z> <= <S, Z> + t sum_ij w_ij |Z_ij|``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_learn.checks import check_covariance, check_free_diagonal
from dp_learn.linalg import (
    FloatArray,
    balancing_factor,
    negative_part,
    raise_to_semidefinite,
    smallest_eigenvalue,
)

__all__ = ["MaxNormProjection", "nearest_psd_max_norm", "project_max_norm"]

RELAXATION = 1.6
CHECK_EVERY = 5  # iterations between two evaluations of the bounds
BALANCE_EVERY = 10  # iterations between two changes of rho
RESOLUTION = 1e-13  # distances below this are rounding, relative to the entries


@dataclass(frozen=True, eq=False)
class MaxNormProjection:
    """A positive semidefinite matrix near S, with both bounds on the smallest possible distance.

    Attributes
    ----------
    matrix : ndarray, shape (p, p)
        Positive semidefinite.
    distance : float
        ``max_ij |matrix_ij - S_ij| / w_ij``, an upper bound on the smallest distance.
    lower_bound : float
        No positive semidefinite matrix is closer: ``-<S, Z> / sum_ij w_ij |Z_ij|``.
    certificate : ndarray, shape (p, p)
        The positive semidefinite Z that proves it.
    n_iter : int
        Iterations, one eigendecomposition each.
    """

    matrix: FloatArray
    distance: float
    lower_bound: float
    certificate: FloatArray
    n_iter: int


def nearest_psd_max_norm(
    covariance: FloatArray, *, fix_diagonal: bool = False, rtol: float = 1e-4, max_iter: int = 5000
) -> MaxNormProjection:
    r"""Return the positive semidefinite matrix nearest in the max norm, between proven bounds.

    .. math:: \min_{W \succeq 0} \max_{ij} |W_{ij} - S_{ij}|

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        S, symmetric.
    fix_diagonal : bool
        Keep the variances, which must be positive, and move covariances only.
    rtol : float
        Stop when the bounds on the smallest distance are this close, relative to the upper one.
    max_iter : int
        Most eigendecompositions; the bounds are proven even when it is reached.

    References
    ----------
    Datta and Zou (2017), section 2.2.
    """
    s = check_covariance(covariance)
    if smallest_eigenvalue(s) >= 0.0:
        return MaxNormProjection(s, 0.0, 0.0, np.zeros_like(s), 0)
    scale = float(np.abs(s).max())
    weights = np.ones_like(s)
    if fix_diagonal:
        np.fill_diagonal(weights, 0.0)
        check_free_diagonal(s, weights)
        inside = np.diag(s.diagonal() / scale)
    else:
        inside = np.eye(s.shape[0])
    unit = project_max_norm(s / scale, weights, inside, rtol=rtol, max_iter=max_iter)
    matrix = scale * unit.matrix
    return MaxNormProjection(
        matrix, float(np.abs(matrix - s).max()), scale * unit.lower_bound, unit.certificate, unit.n_iter
    )


def project_max_norm(
    s: FloatArray, weights: FloatArray, inside: FloatArray, *, rtol: float, max_iter: int
) -> MaxNormProjection:
    """Minimise t subject to W positive semidefinite and ``|W - S| <= t * weights``, by over-relaxed ADMM.

    Parameters
    ----------
    s : ndarray, shape (p, p)
        Symmetric, with entries of order one.
    weights : ndarray, shape (p, p)
        Symmetric, non-negative: 0 keeps an entry as it is, inf lets it move at no cost.
    inside : ndarray, shape (p, p)
        A positive definite matrix equal to S where the weights are zero: iterates are drawn towards it until they
        are positive semidefinite themselves.
    rtol, max_iter : float, int
        As in `nearest_psd_max_norm`.

    References
    ----------
    Boyd, Parikh, Chu, Peleato and Eckstein (2011), sections 3.3 to 3.4.
    """
    costly = np.isfinite(weights) & (weights > 0.0)
    w = np.where(costly, weights, 0.0)
    floor = smallest_eigenvalue(inside)
    box, dual = s, np.zeros_like(s)
    matrix, upper = inside, _distance(inside, s, w, costly)
    certificate, lower = dual, 0.0
    rho, n_iter = 1.0 / s.shape[0], 0
    while n_iter < max_iter and upper - lower > max(rtol * upper, RESOLUTION):
        n_iter += 1
        negative = negative_part(box - dual)
        psd = box - dual + negative
        before, excess = box, RELAXATION * psd + (1.0 - RELAXATION) * box + dual - s
        dual = _project_weighted_l1_ball(excess, w, weights == 0.0, costly, 1.0 / rho)
        box = s + excess - dual
        if n_iter % CHECK_EVERY == 0:
            z = negative if np.isfinite(weights).all() else raise_to_semidefinite(dual)
            norm = float((w * np.abs(z)).sum())
            bound = -float((s * z).sum()) / norm if norm > 0.0 else 0.0
            if bound > lower:
                certificate, lower = z / norm, bound
            candidate = _draw_inside(box, inside, floor)
            distance = _distance(candidate, s, w, costly)
            if distance < upper:
                matrix, upper = candidate, distance
        if n_iter % BALANCE_EVERY == 0:
            factor = balancing_factor(psd - box, box - s, box - before, dual)
            rho, dual = rho * factor, dual / factor
    return MaxNormProjection(matrix, upper, lower, certificate, n_iter)


def _distance(matrix: FloatArray, s: FloatArray, w: FloatArray, costly: NDArray[np.bool_]) -> float:
    """Return the largest weighted change of an entry."""
    moved = np.abs(matrix - s)
    return float(np.divide(moved, w, out=np.zeros_like(s), where=costly).max())


def _project_weighted_l1_ball(
    c: FloatArray, w: FloatArray, free: NDArray[np.bool_], costly: NDArray[np.bool_], radius: float
) -> FloatArray:
    """Return the nearest V with ``sum w |V| <= radius`` over costly entries, V = c where free, V = 0 elsewhere."""
    size = np.abs(c)
    threshold = 0.0
    a, b = (size * w)[costly], (w * w)[costly]
    if a.sum() > radius:
        active = np.ones(a.shape, dtype=np.bool_)
        for _ in range(100):  # Michelot's iteration: finite, and short in practice
            higher = (float(a[active].sum()) - radius) / float(b[active].sum())
            if higher <= threshold * (1.0 + 1e-15):
                break
            threshold = higher
            active = a > threshold * b
    projected = np.where(costly, np.sign(c) * np.maximum(size - threshold * w, 0.0), 0.0)
    return np.where(free, c, projected)


def _draw_inside(box: FloatArray, inside: FloatArray, floor: float) -> FloatArray:
    """Mix in just enough of a positive definite matrix to be positive semidefinite."""
    lacking = max(0.0, -smallest_eigenvalue(box)) + 1e-13
    share = lacking / (lacking + floor)
    return (1.0 - share) * box + share * inside
