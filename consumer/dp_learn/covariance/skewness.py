"""How skewed a column is at least, by its mean, its deviation and its bounds, and what that does to sampling errors.

A variable that is d above its lower bound on average, with the standard deviation s, has the skewness

    g >= s / d - d / s,

with equality for two values of which one is the bound (Cauchy-Schwarz: E[y^2]^2 <= E[y] E[y^3] for y >= 0): of 0 and 1
with 5 % ones 4.1, of numbers that are mostly zero nearly as much. The mirror image is that of an upper bound.

Of two standardized columns with the correlation r, let z_i^2 depend on z_i alone by its regression, 1 + g_i z_i, which
is exact for two values. Then E[z_i^2 z_j^2] = 1 + g_i g_j r. Elliptical rows with kurtosis 1 + kappa have (1 + kappa)
(1 + 2 r^2), which is less where linked events are rare: these vary together. By what is missing, the mean over pairs of
columns with weights b_ik^2 s_k^2 and b_jl^2 s_l^2, the sampling variance of b_i' S^ b_j is raised, in units of c_ii
c_jj. As a mean it stays within reason where columns are nearly collinear and b is large. Noise in r would raise it on
average, so r is shrunk by 1 - se^2 / r^2, not below zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dp_bundle.manifest.columns import Column
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.matrices.linalg import FloatArray

if TYPE_CHECKING:
    from dp_bundle.data.latent import Steps


def least_skewness(
    limits: Sequence[tuple[float, float]], mean: FloatArray, variance: FloatArray, n_rows: int
) -> FloatArray:
    """Return the least skewness in size that a column can have, zero where its limits say nothing.

    Parameters
    ----------
    limits : sequence of tuple
        The least and the largest value of each column, which may be infinite; see `limits_of`.
    mean, variance : ndarray of shape (n_features,)
        On the scale that is released; where noise puts the mean beyond a bound, the skewness is that of one row in all.
    n_rows : int
        The number of rows.
    """
    low, high = np.array(limits).T
    deviation = np.sqrt(np.maximum(variance, 0.0))
    floor = deviation / np.sqrt(n_rows)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = [deviation / np.maximum(distance, floor) for distance in (mean - low, high - mean)]
        above, below = (np.where(ratio > 1.0, ratio - 1.0 / ratio, 0.0) for ratio in ratios)
    return np.asarray(above - below)


def limits_of(column: Column, scores: Mapping[str, Steps]) -> tuple[float, float]:
    """Return the least and the largest value on the scale that is released; of scores those of its steps, if given."""
    if column.name in scores:
        return float(scores[column.name].values[0]), float(scores[column.name].values[-1])
    if column.block is not None and column.missing != "indicator":
        return 0.0, 1.0  # of a level, whatever the bounds
    if column.bounds is None or column.transform is not None:
        return -np.inf, np.inf
    return column.bounds


def excess_products(
    pooled: PooledCovariance, b: FloatArray, size: FloatArray, variances: Callable[[PooledCovariance], FloatArray]
) -> Callable[[slice], FloatArray] | None:
    """Return a function that gives rows of what skewed columns add to the variances of the forms; None if nothing.

    Parameters
    ----------
    pooled : PooledCovariance
        The debiased covariance and what it came from.
    b : ndarray of shape (q, n_features)
        One linear form per row.
    size : ndarray of shape (q,)
        The variances of the forms.
    variances : callable
        `standard_errors.entry_variances`.
    """
    kept = np.flatnonzero((pooled.skewness != 0.0) & (np.diagonal(pooled.covariance) > 0.0))
    if len(kept) < 2:
        return None
    of_kept, g = keep_columns(pooled, kept), pooled.skewness[kept]
    r = np.clip(of_kept.correlation, -1.0, 1.0)
    r *= np.maximum(1.0 - variances(of_kept) / np.maximum(r * r, 1e-300), 0.0)
    excess = np.maximum(1.0 + r * np.outer(g, g) - pooled.kurtosis * (1.0 + 2.0 * r * r), 0.0)
    np.fill_diagonal(excess, 0.0)
    share = size / np.maximum(b * b @ np.maximum(np.diagonal(pooled.covariance), 0.0), 1e-300)
    weights = (b[:, kept] * of_kept.deviations) ** 2 * share[:, None]
    return lambda rows: weights[rows] @ excess @ weights.T * (pooled.sampling_factor / pooled.kurtosis)
