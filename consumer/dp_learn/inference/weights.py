"""Weights of listed edges: partial correlations with less error than the fit on the graph, or the estimates of tests.

The fit on the graph has the least error where the graph is right, and is off by what the graph leaves out where it is
not. The desparsified estimates r^ suppose no graph, and have the noise of every pair. Which of the two is better can be
seen: where the graph is right, r^ differs from the fit by no more than its error, above all at pairs without an edge.

Where it differs by more, the weight is r^, shrunk by the error that the noise alone makes: the expectation of r given
r^ for r ~ N(0, t^2) is r^ t^2 / (t^2 + s^2), t^2 estimated by the excess of the mean r^2 over the mean s^2 of the
edges. The fit on the graph limits the shrinkage: an edge is not shrunk beyond it, and not at all where it is larger
than r^. What the rows' own sampling adds to the errors is no reason to shrink: the weights describe these rows.

References
----------
Efron & Morris (1972), Limiting the risk of Bayes and empirical Bayes estimators, JASA 67(337). Xie, Kou & Brown (2012),
SURE estimates for a heteroscedastic hierarchical model, JASA 107(500).
"""

from __future__ import annotations

import numpy as np

from dp_learn.inference.edges import EdgeInference, Pairs
from dp_learn.matrices.linalg import FloatArray

_FEWEST = 60  # pairs without an edge that can tell whether a graph is right
_MOST_WITHOUT, _MOST_WITHIN = 1.2, 1.0  # mean squares, in standard errors, at pairs without an edge and with one


def shrink_weights(inference: EdgeInference, edges: Pairs, fitted: FloatArray) -> FloatArray | None:
    """Return better partial correlations of edges than the fit on their graph, or None where that is best.

    Parameters
    ----------
    inference : EdgeInference
        The desparsified estimates of all pairs, and their errors.
    edges : tuple of ndarray of int
        The positions of the edges' ends, the first below the second.
    fitted : ndarray of shape (n_edges,)
        The partial correlations of the fit on the graph.

    Returns
    -------
    ndarray of shape (n_edges,) or None
        None too where the noise's own error is unknown; no weight is zero unless its estimate is.
    """
    if inference.noise_error is None or not len(fitted) or _is_graph_right(inference, edges, fitted):
        return None
    estimate, error = inference.partial_correlation[edges], inference.noise_error[edges]
    known = np.isfinite(estimate) & np.isfinite(error)
    if not known.any():
        return None
    square = error[known] ** 2
    excess = float(np.mean(estimate[known] ** 2) - np.mean(square))
    variance = max(excess, float(np.mean(square)) / len(square))  # the excess may be negative, by chance
    shrunk = estimate[known] * (variance / (variance + square) if variance > 0.0 else 1.0)
    weights = fitted.copy()
    weights[known] = np.median([shrunk, fitted[known], estimate[known]], axis=0)
    return weights


def _is_graph_right(inference: EdgeInference, edges: Pairs, fitted: FloatArray) -> bool:
    """Return whether the desparsified estimates differ from the fit on the graph by no more than their errors."""
    scores = inference.scores
    n_columns = len(scores)
    n_without = n_columns * (n_columns - 1) // 2 - len(fitted)
    if n_without < _FEWEST:
        return False
    squares = (np.vdot(scores, scores) - np.sum(np.diagonal(scores) ** 2)) / 2.0 - np.sum(scores[edges] ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        within = (inference.partial_correlation[edges] - fitted) / inference.partial_error[edges]
    return bool(squares <= _MOST_WITHOUT * n_without and np.mean(within**2) <= _MOST_WITHIN)
