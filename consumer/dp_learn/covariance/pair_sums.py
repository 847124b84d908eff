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

from dp_learn.covariance.bilinear_forms import inner_product, squares_of_pairs
from dp_learn.covariance.debias import NoisyCovariance
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.matrices.linalg import FloatArray, sparse_if_worth_it


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
    noiseless = (len(unit) * (len(unit) - 2) + inner_product(c, c)) / 2.0  # c_ii = 1
    total = pooled.sampling_factor * noiseless
    for source, weight in zip(pooled.sources, pooled.weights, strict=True):
        if isinstance(source, NoisyCovariance):
            part = _row_sum(source, b, c)
        else:
            part = source.known_noise.sum_over_pairs(b, c)
        total += weight * weight * part
    return noiseless, total


def _row_sum(source: NoisyCovariance, b: Any, c: Any) -> float:
    n = source.noise_forms(b)
    d = n.diagonal()
    trace, squares = float(d.sum()), float(d @ d)
    gaussian = (len(d) - 2) * trace + inner_product(c, n) + (trace * trace + inner_product(n, n)) / 2.0 - squares
    return gaussian / (source.n_rows - 1) + float(source.noise_fourth_cumulant @ squares_of_pairs(b)) / source.n_rows
