"""A debiased covariance on the correlation scale, repaired, with the weights of a penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import DrownedColumnError, ParameterError
from dp_bundle.base.quoting import quote_name
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.standard_errors import penalty_weights, universal_penalty
from dp_learn.matrices.checks import check_alpha
from dp_learn.matrices.labels import align
from dp_learn.matrices.linalg import FloatArray, smallest_eigenvalue
from dp_learn.matrices.repair import Repair, nearest_psd_max_norm, repair_covariance
from dp_learn.matrices.repair_methods import RepairMethod

REPAIR_RTOL = 1e-3  # of the distance to the repaired matrix, as `repair_covariance` by default


@dataclass(frozen=True, eq=False)
class ScaledCovariance:
    """A debiased covariance on the correlation scale, where no unit matters.

    Attributes
    ----------
    pooled : PooledCovariance
        In data units.
    matrix : ndarray of shape (n_features, n_features)
        The debiased correlations, repaired.
    units : ndarray of shape (n_features, n_features)
        What an entry is multiplied by to be in data units.
    weights : ndarray of shape (n_features, n_features) or None
        Of a penalty on the entries of the matrix.
    repair : Repair
        What was done to it.
    smallest_eigenvalue : float
        Before the repair.
    """

    pooled: PooledCovariance
    matrix: FloatArray
    units: FloatArray
    weights: FloatArray | None
    repair: Repair
    smallest_eigenvalue: float


def scale_covariance(
    pooled: PooledCovariance, *, repair: str = "none", weights: str | npt.ArrayLike | None = None
) -> ScaledCovariance:
    """Return a pooled covariance on the correlation scale, repaired, with the weights of a penalty.

    Raises
    ------
    ParameterError
        An unknown repair or weights.
    DrownedColumnError
        A column has no variance left.
    """
    _, drowned = clear_columns(pooled)
    if drowned:
        raise no_variance_left(drowned)
    if isinstance(weights, str) and weights not in {"equal", "noise"}:
        raise ParameterError("weights", "equal, noise, or a matrix", weights)
    correlation = pooled.correlation
    repaired = _repair_correlation(correlation, repair)
    if isinstance(weights, str):
        chosen = penalty_weights(pooled) if weights == "noise" else None
    else:
        chosen = None if weights is None else np.asarray(align("weights", weights, pooled.columns), dtype=float)
    units = np.outer(pooled.deviations, pooled.deviations)
    return ScaledCovariance(pooled, repaired.covariance, units, chosen, repaired, smallest_eigenvalue(correlation))


def _repair_correlation(correlation: FloatArray, method: str) -> Repair:
    """Repair as `repair_covariance`, but keep the unit diagonal in the max norm.

    The true correlations have it too, so that the nearest such matrix is no further away than they are. Without it a
    variance of which the noise leaves little may end next to zero, and its inverse anywhere.
    """
    if method != RepairMethod.MAXNORM or smallest_eigenvalue(correlation) >= 0.0:
        return repair_covariance(correlation, method)
    projection = nearest_psd_max_norm(correlation, fix_diagonal=True, rtol=REPAIR_RTOL)
    return Repair(projection.matrix, RepairMethod.MAXNORM, projection.distance, projection.lower_bound)


def universal_alpha(pooled: PooledCovariance, alpha: float | None = None) -> float:
    """Return the penalty that was given, checked, or by default the alpha of `universal_penalty`."""
    return universal_penalty(pooled)[0] if alpha is None else check_alpha(alpha)


def no_variance_left(columns: tuple[str, ...]) -> DrownedColumnError:
    """Return the error for columns that nothing can be learned about."""
    return DrownedColumnError(
        list(columns),
        f"no variance is left in {', '.join(map(quote_name, columns))}: constant or drowned by the noise; leave it out",
    )
