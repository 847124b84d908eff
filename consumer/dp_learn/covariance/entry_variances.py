"""Variances of the entries of S^: the closed forms of `standard_errors` at B = I, without its matrix products.

All on the correlation scale, where the entry (i, j) is divided by sqrt(S^_ii S^_jj). With r the correlations,
a_i = v_i / S^_ii the noise relative to the variance, and n rows, an off-diagonal entry has the variance

    ((1 + a_i) (1 + a_j) + r_ij^2) / (n - 1),

of which (1 + r_ij^2) / (n - 1) is the sampling error. For a released sum with off-diagonal noise of
variance t, and columns b~_i = (h_i, -h_i m_i / c) of half-width h, scaled mean m and constant c, the noise adds
(t |b~_i|^2 |b~_j|^2 - t o_ij^2) / n^2, where o_ij = h_i m_i h_j m_j / c^2.
"""

from __future__ import annotations

import numpy as np

from dp_learn.covariance.debias import NoisyCovariance, ReleasedCovariance
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.matrices import FloatArray


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
            part = _moment_part(source, deviations, correlation)
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
            _, u = source.sum_variances
            h, corner = _beside_constant(source, np.ones(len(total)))
            part = _moment_diagonal(source, h, corner)
            if source.constant and not source.exact_count:
                part = part + u * corner**4
            part = part / source.n_rows**2
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


def _moment_part(source: ReleasedCovariance, deviations: FloatArray, correlation: FloatArray | None) -> FloatArray:
    t, u = source.sum_variances
    h, corner = _beside_constant(source, deviations)
    length = h * h + corner * corner
    part = np.outer(t * length, length)
    part -= np.outer(t * corner**2, corner**2)
    np.fill_diagonal(part, _moment_diagonal(source, h, corner))
    if source.constant and not source.exact_count:
        own = np.outer(corner, corner)
        own -= (np.eye(len(own)) if correlation is None else correlation) / source.constant**2
        part += u * own * own
    part /= source.n_rows**2
    return part


def _moment_diagonal(source: ReleasedCovariance, h: FloatArray, corner: FloatArray) -> FloatArray:
    """Return the variance of ``b~_i' E b~_i`` less the part of the constant's own entry."""
    t, u = source.sum_variances
    length = h * h + corner * corner
    return 2.0 * t * length**2 + (u - 2.0 * t) * h**4 - 2.0 * t * corner**4


def _beside_constant(source: ReleasedCovariance, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return h, and the entry of b~ that multiplies the constant."""
    h = source.half_widths / deviations
    return h, -h * source.scaled_mean / source.constant if source.constant else np.zeros_like(h)
