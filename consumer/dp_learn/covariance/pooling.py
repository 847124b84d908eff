"""The weight of each source in the pooled covariance, and the number of rows without noise that it is worth.

All on the correlation scale, where the entry (i, j) is divided by sqrt(S^_ii S^_jj), so that no unit matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dp_learn.covariance.collinear import clear_variances
from dp_learn.covariance.debias import NoisyCovariance, ReleasedCovariance
from dp_learn.covariance.estimate import PooledCovariance, combine_sources, keep_columns
from dp_learn.covariance.pair_sums import sum_over_pairs
from dp_learn.covariance.standard_errors import entry_variances, mechanism_entry_variances
from dp_learn.matrices.linalg import FloatArray


def pool_sources(
    columns: Sequence[str], sources: Sequence[NoisyCovariance | ReleasedCovariance], *, same_rows: bool = False
) -> PooledCovariance:
    """Return the weighted mean of the sources' debiased covariances whose mean squared error is least.

    With r_k the mean over i < j of Var S^_k,ij / (S^_ii S^_jj), the weights are w_k = (1/r_k) / sum_l (1/r_l). For
    releases of the same rows the sampling error is common to all whatever their weights, and r_k is the mechanism's
    part of the variance alone; sources without noise then share all the weight.

    The r_k need a first S^: the mean with weights n_k - 1, or one source alone if more columns stand clear of its
    noise. The mean over i < j leaves out the columns that are drowned in it.

    Parameters
    ----------
    columns : sequence of str
        The columns, the same in every source.
    sources : sequence of NoisyCovariance or ReleasedCovariance
        At least one.
    same_rows : bool
        Whether they are releases of the same rows with independent noise.

    Raises
    ------
    ParameterError
        The sources do not fit together.
    """
    by_rows = combine_sources(columns, sources, [source.n_rows - 1 for source in sources], same_rows=same_rows)
    if len(sources) == 1:
        return by_rows
    alone = [combine_sources(columns, sources, one.tolist(), same_rows=same_rows) for one in np.eye(len(sources))]
    first = max([by_rows, *alone], key=lambda pooled: int(clear_variances(pooled).sum()))
    clear = clear_variances(first)
    if clear.sum() < 2:
        return first
    shown = keep_columns(first, np.flatnonzero(clear))
    correlation = np.clip(shown.correlation, -1.0, 1.0)
    costs = []
    for source in shown.sources:
        own = replace(shown, sources=(source,), weights=(1.0,))
        found = mechanism_entry_variances(own, correlation) if same_rows else entry_variances(own, correlation)
        costs.append((float(found.sum()) - float(found.trace())) / (len(found) * (len(found) - 1)))
    cost = np.array(costs)
    weights = 1.0 / cost if (cost > 0).all() else (cost == 0).astype(float)
    return combine_sources(columns, sources, weights.tolist(), same_rows=same_rows)


def effective_rows(pooled: PooledCovariance, precision: FloatArray | None = None) -> float:
    """Return the number of rows without noise that would give the entries of S^ the same mean squared error.

    It is ``1 + sum_{i<j} (1 + r_ij^2) / sum_{i<j} Var S^_ij / (S^_ii S^_jj)`` with the correlations r: the number of
    rows itself without noise, and less with it. At a model Theta it is the same of Theta S^ Theta with S^ varying about
    Theta^-1: the rows behind the likelihood of single edges, fewer where the other columns predict one well.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance.
    precision : ndarray of shape (n_features, n_features), optional
        Theta, positive definite, in inverse data units.

    Returns
    -------
    float
        From 1 to the number of rows.
    """
    if precision is not None:
        noiseless, total = sum_over_pairs(pooled, precision)
    else:
        correlation = np.clip(pooled.correlation, -1.0, 1.0)
        p = len(correlation)
        variances = entry_variances(pooled, correlation)
        noiseless = (p * (p - 2) + float(np.vdot(correlation, correlation))) / 2.0
        total = (float(variances.sum()) - float(variances.trace())) / 2.0
    return float(1.0 + noiseless / total)
