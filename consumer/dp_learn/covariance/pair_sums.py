"""Sums over all pairs of columns of the variances of `standard_errors`, at a model Theta and without p-by-p forms.

At B = Theta and Sigma = Theta^-1 the forms have covariance C = Theta. With rows scaled so that c_ii = 1,
N = B diag(v) B' and sums over i < j,

    sum (c_ii n_jj + c_jj n_ii) = (p - 1) tr N,      sum 2 c_ij n_ij = <C, N> - tr N,
    sum n_ii n_jj = ((tr N)^2 - sum n_ii^2) / 2,     sum n_ij^2 = (|N|^2 - sum n_ii^2) / 2,
    sum_k kappa_k b_ik^2 b_jk^2 = sum_k kappa_k ((sum_i b_ik^2)^2 - sum_i b_ik^4) / 2.

A sparse Theta needs sparse products alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_learn.covariance.debias import NoisyCovariance, ReleasedCovariance
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.matrices import FloatArray, scale_columns, sparse_if_worth_it


def sum_over_pairs(pooled: PooledCovariance, precision: FloatArray) -> tuple[float, float]:
    """Return the sums over i < j of ``1 + c_ij^2`` and of ``Var[b_i' S^ b_j]``, both of forms of unit variance.

    Parameters
    ----------
    pooled : PooledCovariance
        Its sources; S^ itself plays no part, and varies about Theta^-1.
    precision : ndarray of shape (n_features, n_features)
        Theta, positive definite, in inverse data units.
    """
    unit = 1.0 / np.sqrt(np.diagonal(precision))
    b = precision * unit[:, None]
    c = sparse_if_worth_it(b * unit)
    b = sparse_if_worth_it(b)
    noiseless = (len(unit) * (len(unit) - 2) + _inner(c, c)) / 2.0  # c_ii = 1
    total = pooled.sampling_factor * noiseless
    for source, weight in zip(pooled.sources, pooled.weights, strict=True):
        total += (
            weight
            * weight
            * (_row_sum(source, b, c) if isinstance(source, NoisyCovariance) else _moment_sum(source, b, c))
        )
    return noiseless, total


def _row_sum(source: NoisyCovariance, b: Any, c: Any) -> float:
    n = scale_columns(b, source.noise_variance) @ b.T
    d = n.diagonal()
    trace, squares = float(d.sum()), float(d @ d)
    gaussian = (len(d) - 2) * trace + _inner(c, n) + (trace * trace + _inner(n, n)) / 2.0 - squares
    return gaussian / (source.n_rows - 1) + float(source.noise_fourth_cumulant @ _squares_of_pairs(b)) / source.n_rows


def _moment_sum(source: ReleasedCovariance, b: Any, c: Any) -> float:
    t, u = source.sum_variances
    scaled = scale_columns(b, source.half_widths)
    corner = -(scaled @ source.scaled_mean) / source.constant if source.constant else np.zeros(b.shape[0])
    inner = scaled @ scaled.T
    d = inner.diagonal() + corner * corner
    size = _inner(inner, inner) + 2.0 * float(corner @ (inner @ corner)) + float(corner @ corner) ** 2
    own = (float(corner @ corner) ** 2 - float((corner**4).sum())) / 2.0
    total = t * ((float(d.sum()) ** 2 + size) / 2.0 - float(d @ d))
    total += (u - 2.0 * t) * (float(_squares_of_pairs(scaled).sum()) + own)
    if source.constant:
        total -= u * own
        if not source.exact_count:  # the constant's entry counts the rows, and multiplies C by its own error
            crossed = (float(corner @ (c @ corner)) - float(corner @ corner)) / source.constant**2
            total += u * (own - crossed + (_inner(c, c) - len(corner)) / 2.0 / source.constant**4)
    return total / source.n_rows**2


def _squares_of_pairs(b: Any) -> FloatArray:
    """Return ``sum_{i<j} b_ik^2 b_jk^2`` for every column k."""
    squares = b * b
    sums = np.asarray(squares.sum(axis=0))
    pairs: FloatArray = (sums * sums - np.asarray((squares * squares).sum(axis=0))) / 2.0
    return pairs


def _inner(x: Any, y: Any) -> float:
    """Return the sum of the products of entries."""
    return float(np.vdot(x, y)) if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) else float((x * y).sum())
