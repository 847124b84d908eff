"""Tests and strengths of links between nodes of several columns, as a category's indicators are.

The estimate is that of `edges`, T = 2 Theta - Theta S^ Theta, whose error is the mean of -y_i y_j over the noisy rows,
with y = Theta (x - mean x), less its expectation. So the covariance of the entries of a block of T is that of the
products y_i y_j, for rows and noise of any distribution, dependent within a node or not.

References
----------
White (1980), Econometrica 48(4), for errors from the rows. Hotelling (1936), Relations between two sets of variates,
Biometrika 28, for canonical correlations. Benjamini & Hochberg (1995), JRSS B 57(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import ParameterError
from dp_learn.covariance.debias import debias_covariance
from dp_learn.inference.edges import benjamini_hochberg
from dp_learn.matrices.linalg import FloatArray, is_positive_definite

RANK = 1e-9  # of the largest eigenvalue of a block's covariance: a direction of less is none


@dataclass(frozen=True, eq=False)
class BlockInference:
    """Strengths and tests of all pairs of nodes.

    Attributes
    ----------
    nodes : tuple
        The nodes, in the order in which they first come; G of them.
    estimate : ndarray of shape (n_features, n_features)
        T, the desparsified precision matrix, in inverse data units.
    strength : ndarray of shape (G, G)
        The largest canonical partial correlation of each pair, between 0 and 1; 1 on the diagonal.
    statistic : ndarray of shape (G, G)
        Wald's, chi-squared where there is no edge; 0 on the diagonal.
    degrees : ndarray of int, shape (G, G)
        Its degrees of freedom, at most the product of the nodes' columns.
    p_values, q_values : ndarray of shape (G, G)
        Of no edge, and the smallest false discovery rate at which a pair would be listed; 1 on the diagonal.
    """

    nodes: tuple[Any, ...]
    estimate: FloatArray
    strength: FloatArray
    statistic: FloatArray
    degrees: npt.NDArray[np.intp]
    p_values: FloatArray
    q_values: FloatArray


def infer_blocks(
    rows: npt.ArrayLike, noise_covariance: npt.ArrayLike, precision: npt.ArrayLike, labels: npt.ArrayLike
) -> BlockInference:
    """Test every pair of nodes for an edge.

    Parameters
    ----------
    rows : array of shape (n_rows, n_features)
        Independent noisy rows, in data units.
    noise_covariance : array of shape (n_features, n_features)
        The exact covariance of one row's noise, or of shape (n_features,) its variances where it is diagonal.
    precision : array of shape (n_features, n_features)
        Theta, a positive definite estimate of the precision matrix of the clean rows, in inverse data units.
    labels : sequence of length n_features
        The node of each column.

    Raises
    ------
    ParameterError
        For arguments that do not fit each other, or a precision matrix that is not positive definite.
    """
    x, theta = np.asarray(rows, dtype=float), np.asarray(precision, dtype=float)
    listed = np.asarray(labels).tolist()
    if x.ndim != 2 or len(x) < 2 or len(listed) != x.shape[1]:
        raise ParameterError("rows.shape", f"(n, {len(listed)}) with n >= 2, like the labels", x.shape)
    if theta.shape != (len(listed), len(listed)) or not is_positive_definite(theta):
        raise ParameterError("precision", f"a positive definite matrix of {len(listed)} columns", theta.shape)

    # the estimate, and the rows whose products are its error
    centred = x - x.mean(axis=0)
    s = debias_covariance(centred.T @ centred / (len(x) - 1), noise_covariance)
    estimate = 2.0 * theta - theta @ s @ theta
    y = centred @ theta

    nodes = tuple(dict.fromkeys(listed))
    places = [np.flatnonzero([label == node for label in listed]) for node in nodes]
    strength, statistic = np.eye(len(nodes)), np.zeros((len(nodes), len(nodes)))
    degrees, p_values = np.zeros((len(nodes), len(nodes)), dtype=np.intp), np.ones((len(nodes), len(nodes)))
    for g, h in zip(*np.triu_indices(len(nodes), 1), strict=True):
        a, b = places[g], places[h]
        products = (y[:, a, None] * y[:, None, b]).reshape(len(x), -1)
        found, df = _wald(estimate[np.ix_(a, b)].ravel(), products)
        own = canonical_partial_correlations(theta, a, b)[0]
        for pair in ((g, h), (h, g)):
            strength[pair], statistic[pair], degrees[pair] = own, found, df
            p_values[pair] = _chi_squared_tail(found, df)

    upper = np.triu_indices(len(nodes), 1)
    q_values = np.ones_like(p_values)
    q_values[upper] = benjamini_hochberg(p_values[upper])
    return BlockInference(nodes, estimate, strength, statistic, degrees, p_values, np.minimum(q_values, q_values.T))


def canonical_partial_correlations(
    precision: FloatArray, first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]
) -> FloatArray:
    """Return the canonical correlations of two sets of columns given all others, largest first.

    They are the singular values of ``Theta_gg^(-1/2) Theta_gh Theta_hh^(-1/2)``: for one column each, the size of the
    partial correlation. The residuals of both sets given the others have the covariance ``Theta_uu^-1``, u both sets;
    their canonical correlations are these. They do not depend on units, or on which level of a category is left out.

    Parameters
    ----------
    precision : ndarray of shape (n_features, n_features)
        Positive definite.
    first, second : ndarray of int
        The positions of the columns of each set.
    """
    left = np.linalg.cholesky(precision[np.ix_(first, first)])
    right = np.linalg.cholesky(precision[np.ix_(second, second)])
    half = np.linalg.solve(left, precision[np.ix_(first, second)])
    values: FloatArray = np.linalg.svd(np.linalg.solve(right, half.T), compute_uv=False)
    return np.clip(values, 0.0, 1.0)


def _wald(estimate: FloatArray, products: FloatArray) -> tuple[float, int]:
    """Return Wald's statistic of a mean of products, and the rank of its covariance."""
    centred = products - products.mean(axis=0)
    scale = np.sqrt((centred * centred).sum(axis=0))
    scale[scale == 0.0] = np.inf
    d, q = np.linalg.eigh((centred / scale).T @ (centred / scale))
    used = d > RANK * max(float(d[-1]), 0.0)
    scores = (q[:, used].T @ (estimate * len(products) / scale)) ** 2 / d[used]
    return float(scores.sum()), int(used.sum())


def _chi_squared_tail(statistic: float, degrees: int) -> float:
    from scipy import special

    return float(special.gammaincc(degrees / 2.0, statistic / 2.0)) if degrees else 1.0
