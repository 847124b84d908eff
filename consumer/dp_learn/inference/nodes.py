"""Tests of all pairs of nodes from the errors of single entries, whatever released them.

Take units in which the residuals y = Theta (x - mean x) of a node, noise included, are uncorrelated. Then the entries
of a block of T are uncorrelated where the nodes are independent given the others: Cov[y_i y_j, y_k y_l] is then E[y_i
y_k] E[y_j y_l]. So the sum of the squares of the entries over their own errors is chi-squared with as many degrees of
freedom as there are entries. The errors of entries are those of `edges`: from the rows, or stated by the release. Of a
block they are the model's, raised by as much as the rows vary more than it over the whole block. The rows' own errors
of entries with rare levels are too uncertain to be divided by one by one.

References
----------
Jankova & van de Geer (2015), eq. 4, for T. Wilson & Hilferty (1931), The
distribution of chi-square, PNAS 17(12). Benjamini & Hochberg (1995). Hotelling (1936), Relations between two
sets of variates, Biometrika 28, for canonical correlations.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dp_learn.covariance.estimate import NoisyCovariance, PooledCovariance
from dp_learn.covariance.standard_errors import form_variances
from dp_learn.inference.edges import EdgeInference, Pairs, RowErrors, desparsify, pair_q_values
from dp_learn.matrices.linalg import SMALLEST_P, FloatArray, Places, is_positive_definite, sandwich

_LEAST = 1e-12  # of the largest eigenvalue of a node's residuals


@dataclass(frozen=True, eq=False)
class NodeInference:
    """Strengths and tests of all pairs of nodes, G of them.

    Attributes
    ----------
    nodes : tuple
    estimate : ndarray of shape (n_features, n_features)
        T, the desparsified precision matrix, in inverse data units.
    strength : ndarray of shape (G, G)
        The largest canonical partial correlation of each pair, without a graph; 1 on the diagonal.
    statistic : ndarray of shape (G, G)
        Wald's, chi-squared where there is no edge; 0 on the diagonal.
    degrees : ndarray of int, shape (G, G)
        Its degrees of freedom, at most the product of the nodes' columns.
    bars : tuple of EdgeInference and ndarray of int, or None
        Those of all pairs of columns, and the first column of each node: intervals of pairs of one column each.
    """

    nodes: tuple[Any, ...]
    estimate: FloatArray
    strength: FloatArray
    statistic: FloatArray
    degrees: Places
    bars: tuple[EdgeInference, Places] | None = None

    @cached_property
    def p_values(self) -> FloatArray:
        """The p-values of no edge; 1 on the diagonal."""
        from scipy import special

        tails = special.gammaincc(self.degrees / 2.0, self.statistic / 2.0)
        return np.where(self.degrees > 0, np.maximum(tails, SMALLEST_P), 1.0)

    @cached_property
    def q_values(self) -> FloatArray:
        """The smallest false discovery rate at which each pair would be listed; 1 on the diagonal."""
        return pair_q_values(self.p_values)

    @property
    def scores(self) -> FloatArray:
        """The statistics as normal scores: how many standard errors a link of one column each would be from zero."""
        return normal_scores(self.statistic, self.degrees)

    def at(self, pairs: Pairs) -> dict[str, Any]:
        """Return the tests of some pairs, given by the positions of their nodes, and intervals of single columns."""
        told = {
            "statistic": self.statistic[pairs],
            "degrees_of_freedom": self.degrees[pairs],
            "p_value": self.p_values[pairs],
            "q_value": self.q_values[pairs],
        }
        if self.bars is None:
            return told
        bars, ends = self.bars[0], tuple(self.bars[1][end] for end in pairs)
        found = {"desparsified": bars.partial_correlation[ends], **bars.error_bars_at(ends)}
        return {name: np.where(self.degrees[pairs] == 1, each, np.nan) for name, each in found.items()} | told


def infer_nodes(
    pooled: PooledCovariance,
    precision: FloatArray,
    labels: Places,
    nodes: tuple[str, ...],
    errors_of: RowErrors,
) -> NodeInference:
    """Test every pair of nodes for an edge. A strength has the sign of the partial correlation of two single columns.

    Parameters
    ----------
    pooled : PooledCovariance
        S^ and what it came from.
    precision : ndarray of shape (n_features, n_features)
        Theta, positive definite, in inverse data units.
    labels : ndarray of int, shape (n_features,)
        The node of each column, a place in `nodes`.
    nodes : tuple of str
        The nodes.
    errors_of : callable
        Returns the errors of the forms B S^ B' for a matrix B, as the rows have them where there are any.
    """
    statistic, degrees = block_statistics(pooled, precision, labels, len(nodes), errors_of)
    t = desparsify(pooled, precision)
    definite = t.copy()
    for place in _own_blocks(labels):
        if not is_positive_definite(t[place]):
            definite[place] = precision[place]
    return NodeInference(nodes, t, node_strengths(definite, labels, len(nodes)), statistic, degrees)


def block_statistics(
    pooled: PooledCovariance,
    precision: FloatArray,
    labels: Places,
    n_nodes: int,
    errors_of: RowErrors | None = None,
) -> tuple[FloatArray, Places]:
    """Return the sums of the squares of the entries of T over their errors, and the numbers of entries.

    Parameters
    ----------
    pooled, precision, labels
        As in `infer_nodes`.
    n_nodes : int
        The number of nodes, G.
    errors_of : callable, optional
        As in `infer_nodes`; without it errors are those of Gaussian rows.

    Returns
    -------
    ndarray of shape (G, G), ndarray of int of shape (G, G)
        The sums are 0 on the diagonal.
    """
    root = whiten_blocks(sandwich(precision, _noisy(pooled)), precision, labels, _LEAST)
    forms, whitened = root @ precision, root @ desparsify(pooled, precision) @ root.T
    members = (np.arange(n_nodes)[:, None] == labels).astype(float)
    variances = form_variances(pooled, forms)
    if errors_of is not None:  # of Gaussian rows, times what all entries of a block vary more than these
        model, of_rows = members @ variances @ members.T, members @ errors_of(forms).products @ members.T
        ratio = np.divide(of_rows, model, out=np.ones_like(model), where=model > 0.0)
        variances = variances * (members.T @ np.maximum(ratio, 1.0) @ members)
    squares = np.divide(whitened**2, variances, out=np.zeros_like(whitened), where=variances > 0.0)
    statistic = members @ squares @ members.T
    statistic = (statistic + statistic.T) / 2.0
    np.fill_diagonal(statistic, 0.0)
    sizes = members.sum(axis=1).astype(np.intp)
    return statistic, np.outer(sizes, sizes)


def block_scores(pooled: PooledCovariance, precision: FloatArray, labels: Places, n_nodes: int) -> FloatArray:
    """Return the statistics of Gaussian rows as normal scores, zero on the diagonal and where they are negative."""
    return np.maximum(normal_scores(*block_statistics(pooled, precision, labels, n_nodes)), 0.0)


def node_strengths(precision: FloatArray, labels: Places, n_nodes: int) -> FloatArray:
    """Return the largest canonical partial correlation of each pair of nodes, shape (G, G), 1 on the diagonal.

    Of two nodes of one column it is the partial correlation, with its sign.
    """
    places = [np.flatnonzero(labels == node) for node in range(n_nodes)]
    strength = np.eye(n_nodes)
    for g, h in zip(*np.triu_indices(n_nodes, 1), strict=True):
        a, b = places[g], places[h]
        if not precision[np.ix_(a, b)].any():
            continue
        value = float(canonical_partial_correlations(precision, a, b)[0])
        if len(a) == len(b) == 1 and precision[a[0], b[0]] > 0.0:
            value = -value
        strength[g, h] = strength[h, g] = value
    return strength


def normal_scores(statistic: FloatArray, degrees: Places) -> FloatArray:
    """Return the sizes of normal numbers that are as unlikely as chi-squared ones, by Wilson and Hilferty's cube root.

    For one degree of freedom they are exact.
    """
    from scipy import special

    d = np.maximum(degrees, 1).astype(np.float64)
    upper = (np.cbrt(statistic / d) - (1.0 - 2.0 / (9.0 * d))) / np.sqrt(2.0 / (9.0 * d))
    both = -special.ndtri_exp(special.log_ndtr(-upper) - math.log(2.0))  # two tails of the one for one of the other
    scores: FloatArray = np.where(d == 1.0, np.sqrt(np.maximum(statistic, 0.0)), both)
    return scores


def _noisy(pooled: PooledCovariance) -> FloatArray:
    """Return the covariance with the noise of rows, as far as it is known."""
    total = pooled.covariance.copy()
    for source, weight in zip(pooled.sources, pooled.weights, strict=True):
        if isinstance(source, NoisyCovariance):
            total += weight * (source.covariance - source.debiased)
    return total


def whiten_blocks(matrix: FloatArray, precision: FloatArray, labels: Places, least: float = 0.0) -> FloatArray:
    """Return the block diagonal matrix R that makes the own blocks of R M R' identity matrices.

    Where the smallest eigenvalue of one is not above a share of the largest, the own block of Theta takes its place.
    """
    root = np.zeros_like(matrix)
    for place in _own_blocks(labels):
        values, vectors = np.linalg.eigh(matrix[place])
        if not values[0] > least * values[-1]:
            values, vectors = np.linalg.eigh(precision[place])
        root[place] = (vectors / np.sqrt(values)) @ vectors.T
    return root


def _own_blocks(labels: Places) -> list[Any]:
    """Return the places of every node's own block."""
    return [np.ix_(labels == node, labels == node) for node in range(int(labels.max()) + 1)]


def canonical_partial_correlations(precision: FloatArray, first: Places, second: Places) -> FloatArray:
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
