"""The evidence for an edge between each pair of nodes: `score_pairs` where nodes have several columns.

A block's statistic is the sum of the squares of its entries of T = 2 Theta - Theta S^ Theta over their errors, from a
group graphical lasso Theta at twice the universal penalty, not refitted. Blocks are penalised in proportion to their
errors: with equal weights, the noisiest pair would keep every other one out of Theta. The score is the size of a normal
number as unlikely as the statistic, |T_gh| over its standard error for nodes of one column each. So chance gives a
block of many entries no higher a rank than one of few.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.errors import NoSolutionError
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.inference.evidence import FACTOR
from dp_learn.inference.nodes import block_statistics, normal_scores
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.node_layout import Nodes
from dp_learn.pipeline.node_penalties import block_errors, block_weights, universal_alpha_of_nodes
from dp_learn.pipeline.settings import Fit


def score_nodes(fit: Fit, nodes: Nodes) -> FloatArray:
    """Return the evidence for an edge between every pair of nodes: the larger, the surer.

    Parameters
    ----------
    fit : Fit
        Its errors are known or estimated. Only its covariance plays a part, not its graph.
    nodes : Nodes
        Its nodes.

    Returns
    -------
    ndarray of shape (G, G)
        Symmetric, not negative, zero on the diagonal.
    """
    theta = fit_for_ranking(fit, nodes)
    scores = normal_scores(*block_statistics(fit.pooled, theta, nodes.labels, len(nodes.names)))
    scores = np.maximum(scores, 0.0)
    np.fill_diagonal(scores, 0.0)
    return scores


def fit_for_ranking(fit: Fit, nodes: Nodes) -> FloatArray:
    """Return the penalised precision matrix that the ranking starts from, in inverse data units.

    Where there is no solution, it is that of unrelated nodes, so that correlations rank.
    """
    errors = block_errors(fit.pooled, nodes)
    alpha, weights = universal_alpha_of_nodes(errors, nodes.sizes), block_weights(errors, nodes.sizes)
    theta = np.eye(len(nodes.labels))
    try:
        solution = graphical_lasso(fit.debiased, FACTOR * alpha, weights=weights, groups=nodes.labels)
        theta = solution.precision if solution.converged else theta
    except NoSolutionError:
        pass
    return nodes.root @ theta @ nodes.root
