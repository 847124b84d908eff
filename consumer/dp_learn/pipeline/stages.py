"""The default graph: EBIC in two stages where the noise is small, and in one where it is not.

The first stage estimates all pairs without a graph, and tests them. In the second each pair is penalised in inverse
proportion to its evidence (the adaptive lasso), so that strong links are hardly shrunk and no longer drag indirect ones
in, and EBIC chooses on that path. Its end, a hundredth of its first alpha, leaves out links far weaker than the
strongest, which many rows would show whatever their size.

Noise makes the first stage unreliable before it hides the correlations themselves. Where its part of the standard error
of a correlation that is zero, `noise_error`, is above `LARGEST_NOISE`, all pairs are penalised equally. The path goes
on past `chance_alpha` as long as chance makes at most a tenth of the entries that exceed their penalty: a graph of many
links may hold a few of chance, and one without links still holds none.

Both count the rows that the entries are worth, `effective_rows`, whatever the graph: where columns are nearly collinear
those that the graph's own conditional variances are worth are so few that hardly an edge is worth its parameter.
Decision 41 has the measurements.

References
----------
Zou (2006), The adaptive lasso and its oracle properties, JASA 101. Fan, Feng & Wu (2009), Network exploration via the
adaptive lasso and SCAD penalties, Annals of Applied Statistics 3(2). Benjamini & Hochberg (1995), Controlling the false
discovery rate, JRSS B 57(1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dp_bundle.base.errors import EstimationError
from dp_bundle.privacy.normal import normal_quantile
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.sample import effective_rows
from dp_learn.covariance.standard_errors import (
    CHANCE_EDGES,
    chance_alpha,
    mechanism_entry_variances,
    null_standard_errors,
)
from dp_learn.inference.edges import fit_for_inference
from dp_learn.inference.evidence import scores_from
from dp_learn.inference.nodes import block_statistics, normal_scores
from dp_learn.matrices.linalg import FloatArray, median_above_diagonal
from dp_learn.pipeline.nodes import block_errors, chance_alpha_of_nodes, start_of_tests
from dp_learn.pipeline.settings import Nodes
from dp_learn.selection.ebic import select_ebic
from dp_learn.selection.path import PathOptions, Selection

LARGEST_NOISE = 0.05  # of a correlation; the crossing of both rules on real and simulated tables
GAMMA = 0.5  # of EBIC in the second stage, whose path does not end at chance
PATIENCE = 8  # graphs; the path is short
CHANCE_SHARE = 0.1  # of the entries that exceed their penalty
_LEAST = 0.1  # of the evidence: the largest weight is then finite
WEAKEST = (
    "the smallest alpha of the path was chosen: links far weaker than the strongest are left out, and tests at a false "
    "discovery rate list them, too"
)
AT_CHANCE_SHARE = "the smallest alpha of the path was chosen: at a smaller one, chance would make too many of the edges"


def noise_error(pooled: PooledCovariance, nodes: Nodes) -> float:
    """Return the noise's part of the median standard error of a correlation, or of a block's entry, that is zero."""
    if nodes.are_numbers:
        variances = mechanism_entry_variances(pooled)
    else:
        entries = np.outer(nodes.sizes, nodes.sizes)
        variances = block_errors(pooled, nodes) ** 2 / entries - pooled.sampling_factor
    return math.sqrt(max(median_above_diagonal(variances), 0.0))


def evidence_weights(pooled: PooledCovariance, nodes: Nodes, matrix: FloatArray) -> FloatArray | None:
    """Return weights of the second stage, in inverse proportion to the evidence; None where there is to be one stage.

    A pair with as much evidence as chance makes, z*, has the weight that equal ones give it: with z the size of its
    desparsified estimate over the standard error, z* / z for numbers, times sqrt(k_g k_h) for blocks. Variances have
    the smallest weight of a pair of numbers, as no link is surer.

    Parameters
    ----------
    pooled : PooledCovariance
        Of the kept columns, in data units, with known errors.
    nodes : Nodes
        The nodes that these stand for, G of them.
    matrix : ndarray of shape (n_kept, n_kept)
        The debiased covariance on the scale of the penalty.

    Returns
    -------
    ndarray of shape (G, G) or None
        None if the noise is too large, or the pairs cannot be estimated without a graph.
    """
    if noise_error(pooled, nodes) > LARGEST_NOISE:
        return None
    try:
        evidence = _evidence(pooled, nodes, matrix)
    except EstimationError:
        return None
    n_pairs = len(evidence) * (len(evidence) - 1) / 2
    relative = -normal_quantile(CHANCE_EDGES / (2.0 * n_pairs)) / np.maximum(evidence, _LEAST)
    np.fill_diagonal(relative, np.inf)
    least = float(relative.min())
    np.fill_diagonal(relative, least)
    weights: FloatArray = relative if nodes.are_numbers else relative * np.sqrt(np.outer(nodes.sizes, nodes.sizes))
    np.fill_diagonal(weights, least)
    return weights


def _evidence(pooled: PooledCovariance, nodes: Nodes, matrix: FloatArray) -> FloatArray:
    """Return the desparsified estimates over their standard errors, of blocks as normal scores, shape (G, G)."""
    if nodes.are_numbers:
        scores = scores_from(pooled, fit_for_inference(pooled).precision)
    else:
        start, _ = start_of_tests(pooled, nodes, matrix)
        statistics = block_statistics(pooled, nodes.rescale(start), nodes.labels, len(nodes.names))
        scores = np.maximum(normal_scores(*statistics), 0.0)
    return (scores + scores.T) / 2.0


def select_second_stage(
    matrix: FloatArray, pooled: PooledCovariance, alphas: FloatArray, options: PathOptions
) -> Selection:
    """Choose alpha on the whole path of weights by the evidence; errors as of `select_ebic`."""
    chosen = select_ebic(
        matrix, effective_rows(pooled), alphas, gamma=GAMMA, patience=PATIENCE, why_last=WEAKEST, **options
    )
    return replace(chosen, rule=f"{chosen.rule}, in two stages as the noise is small")


def select_one_stage(
    matrix: FloatArray,
    pooled: PooledCovariance,
    nodes: Nodes,
    alphas: FloatArray,
    weights: FloatArray | None,
    options: PathOptions,
) -> Selection:
    """Choose alpha on a path that ends where chance would make more than a tenth of it; errors as of `select_ebic`."""
    if nodes.are_numbers:
        errors = null_standard_errors(pooled)
        sizes = np.abs(matrix) / (1.0 if weights is None else weights)
        smallest = _alpha_at_chance_share(sizes, lambda number: chance_alpha(errors, weights, number))
    else:
        of_blocks = block_errors(pooled, nodes)
        equal = np.sqrt(np.outer(nodes.sizes, nodes.sizes))
        sizes = _block_norms(matrix, nodes) / (equal if weights is None else weights)
        smallest = _alpha_at_chance_share(
            sizes, lambda number: chance_alpha_of_nodes(of_blocks, nodes.sizes, weights, number)
        )
    above = alphas[alphas > smallest]
    alphas = np.append(above, smallest) if above.size else alphas[:1]
    chosen = select_ebic(
        matrix, effective_rows(pooled), alphas, gamma=0.0, patience=PATIENCE, why_last=AT_CHANCE_SHARE, **options
    )
    return replace(chosen, rule=f"{chosen.rule}, in one stage as the noise is large")


def _alpha_at_chance_share(sizes: FloatArray, alpha_at: Callable[[float], float]) -> float:
    """Return the alpha at which chance makes a fifth of an edge, or a tenth of the entries that exceed it if more.

    Parameters
    ----------
    sizes : ndarray of shape (G, G)
        Of the entries or blocks, over their weights.
    alpha_at : callable
        Returns the alpha at which chance alone makes a number of edges.
    """
    ranked = sizes[np.triu_indices(len(sizes), 1)]
    alpha, found = math.inf, alpha_at(CHANCE_EDGES)
    while found < alpha:
        alpha = found
        found = alpha_at(max(CHANCE_EDGES, CHANCE_SHARE * int(np.count_nonzero(ranked > alpha))))
    return alpha


def _block_norms(matrix: FloatArray, nodes: Nodes) -> FloatArray:
    """Return the norms of the blocks of a covariance, shape (G, G)."""
    members = np.zeros((len(nodes.names), len(nodes.labels)))
    members[nodes.labels, np.arange(len(nodes.labels))] = 1.0
    norms: FloatArray = np.sqrt(members @ matrix**2 @ members.T)
    return norms
