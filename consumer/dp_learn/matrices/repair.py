"""Positive semidefinite stand-ins for an indefinite covariance, each named and with its price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dp_bundle.base.errors import ParameterError
from dp_learn.matrices.checks import check_covariance, check_free_diagonal
from dp_learn.matrices.linalg import (
    FloatArray,
    eigendecomposition,
    is_positive_definite,
    smallest_eigenpair,
    smallest_eigenvalue,
)
from dp_learn.matrices.nearest_psd import nearest_psd_max_norm
from dp_learn.matrices.repair_methods import RepairMethod


@dataclass(frozen=True, eq=False)
class Repair:
    """A repaired covariance and what was done to it.

    Attributes
    ----------
    covariance : ndarray, shape (p, p)
        The matrix to go on with.
    method : RepairMethod
        What was done: `none` where the matrix was kept, because that was asked for or nothing had to be repaired.
    distance : float
        The largest absolute change of an entry.
    lower_bound : float
        Proven: no positive semidefinite matrix is closer than this in the max norm.
    """

    covariance: FloatArray
    method: RepairMethod
    distance: float
    lower_bound: float


def repair_covariance(covariance: ArrayLike, method: str = "none", *, rtol: float = 1e-3) -> Repair:
    """Return a positive semidefinite covariance, or the matrix itself where it is one already.

    Parameters
    ----------
    covariance : array, shape (p, p)
        Symmetric, possibly indefinite.
    method : {"none", "maxnorm", "clip", "shrink"}
        `none` returns the matrix as it is; `maxnorm` the nearest in the max norm; `clip` sets negative eigenvalues to
        zero (nearest in the Frobenius norm); `shrink` scales all covariances by one factor and keeps the variances.
    rtol : float
        Relative width of the proven bounds on the max-norm distance.

    Raises
    ------
    ParameterError
        For an unknown method, a matrix that is not a covariance, or `shrink` with a variance <= 0.

    References
    ----------
    Datta and Zou (2017), section 2.2, for `maxnorm`.
    """
    if method not in list(RepairMethod):
        raise ParameterError("repair", "one of " + ", ".join(RepairMethod), method)
    s = check_covariance(covariance)
    if is_positive_definite(s):
        return Repair(s, RepairMethod.NONE, 0.0, 0.0)

    lowest, direction = smallest_eigenpair(s)
    if lowest >= 0.0 and method != RepairMethod.NONE:
        return Repair(s, RepairMethod.NONE, 0.0, 0.0)
    bound = max(0.0, -lowest) / float(np.abs(direction).sum()) ** 2  # certificate: the outer product of the direction
    if method == RepairMethod.NONE:
        return Repair(s, RepairMethod.NONE, 0.0, bound)

    if method == RepairMethod.MAXNORM:
        projection = nearest_psd_max_norm(s, rtol=rtol)
        return Repair(projection.matrix, RepairMethod.MAXNORM, projection.distance, projection.lower_bound)
    if method == RepairMethod.CLIP:
        d, q = eigendecomposition(s)
        root: FloatArray = q * np.sqrt(np.maximum(d, 0.0))
        repaired = root @ root.T
    else:
        repaired = _shrink(s)
    return Repair(repaired, RepairMethod(method), float(np.abs(repaired - s).max()), bound)


def _shrink(s: FloatArray) -> FloatArray:
    """Return S with every covariance divided by the smallest factor that makes it positive semidefinite."""
    check_free_diagonal(s, np.zeros_like(s))
    scale = 1.0 / np.sqrt(s.diagonal())
    excess = -smallest_eigenvalue(s * np.outer(scale, scale))
    shrunk: FloatArray = s / (1.0 + excess)
    np.fill_diagonal(shrunk, s.diagonal())
    return shrunk
