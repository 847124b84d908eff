"""Variances of the entries of S^: the closed forms of `standard_errors` at B = I, without its matrix products.

All on the correlation scale, where the entry (i, j) is divided by sqrt(S^_ii S^_jj). With r the correlations,
a_i = v_i / S^_ii the noise relative to the variance, and n rows, an off-diagonal entry has the variance

    ((1 + a_i) (1 + a_j) + r_ij^2) / (n - 1),

of which (1 + r_ij^2) / (n - 1) is the sampling error. What noise on a released sum adds is in `one_round` and
`two_round_noise`.
"""

from __future__ import annotations

import numpy as np

from dp_learn.covariance.debias import NoisyCovariance
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.matrices.linalg import FloatArray


def entry_variances(pooled: PooledCovariance, correlation: FloatArray | None = None) -> FloatArray:
    """Return the squared standard errors of the entries for Gaussian rows.

    Parameters
    ----------
    pooled : PooledCovariance
        All columns with a positive debiased variance.
    correlation : ndarray of shape (n_features, n_features), optional
        With a unit diagonal and no entry above 1 in size; by default no two columns are correlated.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric; on the diagonal, of the variances.
    """
    variances = mechanism_entry_variances(pooled, correlation)
    variances += pooled.sampling_factor
    variances[np.diag_indices_from(variances)] += pooled.sampling_factor
    if correlation is not None:
        squares = correlation * correlation
        np.fill_diagonal(squares, 0.0)
        squares *= pooled.sampling_factor
        variances += squares
    return variances


def mechanism_entry_variances(pooled: PooledCovariance, correlation: FloatArray | None = None) -> FloatArray:
    """Return the noise's part of these variances, for rows of any distribution."""
    deviations = pooled.deviations
    total = np.zeros((len(deviations), len(deviations)))
    for source, weight in zip(pooled.sources, pooled.weights, strict=True):
        if isinstance(source, NoisyCovariance):
            part = _row_part(source, deviations)
        else:
            part = source.known_noise.entry_variances(deviations, correlation)
        part *= weight * weight
        total += part
    return total


def unexplained_variances(pooled: PooledCovariance) -> FloatArray:
    """Return the variances, in data units to the fourth, of the debiased variances of columns of noise alone."""
    total = np.zeros(len(pooled.columns))
    for source, weight in zip(pooled.sources, pooled.weights, strict=True):
        if isinstance(source, NoisyCovariance):
            noise = 2.0 * source.noise_variance**2 / (source.n_rows - 1)
            part = noise + source.noise_fourth_cumulant / source.n_rows
        else:
            part = source.known_noise.variances_of_variances()
        total += weight * weight * part
    return total


def _row_part(source: NoisyCovariance, deviations: FloatArray) -> FloatArray:
    a = source.noise_variance / deviations**2
    part = np.outer(1.0 + a, 1.0 + a)
    part -= 1.0
    part /= source.n_rows - 1
    kurtosis = source.noise_fourth_cumulant / deviations**4 / source.n_rows
    np.fill_diagonal(part, (4.0 * a + 2.0 * a * a) / (source.n_rows - 1) + kurtosis)
    return part
