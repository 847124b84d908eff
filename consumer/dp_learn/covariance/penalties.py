"""The errors of entries that should be zero, and the penalties that they call for.

All on the correlation scale, where the entry (i, j) is divided by sqrt(S^_ii S^_jj), so that no unit matters.
"""

from __future__ import annotations

import math

import numpy as np

from dp_bundle.privacy.normal import normal_quantile
from dp_learn.covariance.collinear import clear_variances
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.standard_errors import entry_variances
from dp_learn.matrices.linalg import FloatArray, median_above_diagonal, normal_tails

CHANCE_EDGES = 0.2  # in four of five tables of unrelated columns there is then none
_BINS = 256


def null_standard_errors(pooled: PooledCovariance) -> FloatArray:
    """Return the standard errors of the entries on the correlation scale where the columns are uncorrelated.

    For one source of rows, ``se_ij^2 = (1 + v_i / S^_ii) (1 + v_j / S^_jj) / (n - 1)``; on the diagonal, half of the
    variance's squared error takes its place, which is the same: a scale for penalties.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric, positive.
    """
    variances = entry_variances(pooled)
    np.fill_diagonal(variances, np.diagonal(variances) / 2.0)
    return np.sqrt(variances, out=variances)


def typical_errors(pooled: PooledCovariance) -> tuple[float, float] | None:
    """Return the median error of a correlation that is zero, as it is and as it would be without the noise.

    None where nothing is known of the noise, or fewer than two columns stand clear of it.
    """
    clear = np.flatnonzero(clear_variances(pooled))
    if not pooled.has_errors or len(clear) < 2:
        return None
    variances = entry_variances(keep_columns(pooled, clear))
    median = median_above_diagonal(variances)
    return math.sqrt(median), math.sqrt(pooled.sampling_factor)


def universal_penalty(pooled: PooledCovariance) -> tuple[float, FloatArray]:
    """Return the universal penalty, sqrt(2 log p) standard errors of every entry, as alpha and weights.

    Of p independent normal errors, none is likely to exceed it, so hardly any edge is chosen for its noise alone. The
    weights are `penalty_weights`; with equal ones, alpha is as many standard errors of a typical entry.

    References
    ----------
    Donoho & Johnstone (1994), Ideal spatial adaptation by wavelet shrinkage, Biometrika 81(3).
    """
    errors = null_standard_errors(pooled)
    typical = median_above_diagonal(errors)
    return math.sqrt(2.0 * math.log(len(errors))) * typical, errors / typical


def penalty_weights(pooled: PooledCovariance) -> FloatArray:
    """Return each entry's `null_standard_errors` divided by their off-diagonal median, as weights of the penalty.

    Noisier entries are penalised more, in proportion, and a typical entry as before, so that alpha keeps its meaning;
    without noise all weights are 1. The errors are those of uncorrelated columns because a penalty must exceed the
    error of an entry that should be zero. They depend on the diagonal alone: a weight that grew with the estimated
    correlation would punish a strong edge for being strong.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric, positive.
    """
    return universal_penalty(pooled)[1]


def chance_alpha(errors: FloatArray, weights: FloatArray | None = None) -> float:
    """Return the alpha at which chance alone is expected to make a fifth of an edge among unrelated columns.

    The entry (i, j) exceeds alpha w_ij by chance with probability ``2 Phi(-alpha w_ij / se_ij)``, and alpha makes these
    sum to 0.2. For equal errors it is nearly sqrt(2 log m) of them, m the number of pairs: the largest of m errors.

    Parameters
    ----------
    errors : ndarray of shape (n_features, n_features)
        `null_standard_errors`, on the scale of the penalty.
    weights : ndarray of shape (n_features, n_features), optional
        Of the penalty, ones by default; pairs with weight 0 or inf play no part.

    References
    ----------
    Donoho & Johnstone (1994), Ideal spatial adaptation by wavelet shrinkage, Biometrika 81(3).
    """
    penalised = ~np.eye(len(errors), dtype=bool)
    if weights is not None:
        penalised &= (weights > 0.0) & np.isfinite(weights)
        errors = np.divide(errors, weights, out=np.zeros_like(errors), where=penalised)
    each = errors[penalised]
    if not each.size:
        return 0.0
    limits = np.geomspace(each.min(), each.max() * (1.0 + 1e-9), _BINS + 1)
    counts = np.histogram(each, limits)[0] / 2.0  # each pair is there twice
    low, high = 0.0, -normal_quantile(CHANCE_EDGES / each.size) * limits[-1]
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        expected = float(counts @ normal_tails(middle / limits[1:])) * 2.0
        low, high = (middle, high) if expected > CHANCE_EDGES else (low, middle)
    return float(high)
