"""The default graph: EBIC in two stages where the noise is small, and in one where it is not.

The first stage estimates all pairs without a graph, and tests them. In the second each pair is penalised in inverse
proportion to its evidence (the adaptive lasso), so that strong links are hardly shrunk and no longer drag indirect ones
in, and EBIC chooses on that path. Its end, a hundredth of its first alpha, leaves out links far weaker than the
strongest, which many rows would show whatever their size.

Noise makes the first stage unreliable before it hides the correlations themselves. Where its part of the standard error
of a correlation that is zero, `noise_error`, is above `LARGEST_NOISE`, all pairs are penalised equally. The path goes
on past `chance_alpha` as long as chance makes at most a tenth of the entries that exceed their penalty: a graph of many
links may hold a few of chance, and of five tables without links four still have none.

Both count the rows that the entries are worth, `effective_rows`, whatever the graph: where columns are nearly collinear
those that the graph's own conditional variances are worth are so few that hardly an edge is worth its parameter.
Decision 41 has the measurements.

References
----------
Zou (2006), The adaptive lasso and its oracle properties, JASA 101. Fan, Feng & Wu (2009), Network exploration via the
adaptive lasso and SCAD penalties, Annals of Applied Statistics 3(2). Benjamini & Hochberg (1995), Controlling the false
discovery rate, JRSS B 57(1).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

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
from dp_learn.inference.edges import InferenceFit, fit_for_inference
from dp_learn.inference.evidence import scores_from
from dp_learn.inference.nodes import block_statistics, normal_scores
from dp_learn.matrices.linalg import FloatArray, median_above_diagonal
from dp_learn.pipeline.nodes import block_errors, chance_alpha_of_nodes, start_of_tests
from dp_learn.pipeline.settings import Nodes
from dp_learn.selection.ebic import select_ebic
from dp_learn.selection.path import PathOptions, Selection

LARGEST_NOISE = 0.06  # of a correlation; where the rules cross on real and simulated tables
GAMMA = 0.5  # of EBIC in the second stage, whose path does not end at chance
PATIENCE = 8  # graphs; the path is short
CHANCE_SHARE = 0.1  # of the entries that exceed their penalty
_LEAST = 0.1  # of the evidence: the largest weight is then finite
WEAKEST = (
    "the smallest alpha of the path was chosen: links far weaker than the strongest may be left out (--fdr lists what "
    "tests find)"
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


@dataclass(frozen=True, eq=False)
class FirstStage:
    """Estimates of all pairs without a graph.

    Attributes
    ----------
    evidence : ndarray of shape (G, G)
        The size of the desparsified estimate of every pair of nodes over its standard error, of blocks as a normal
        score; zero on the diagonal.
    start : InferenceFit or None
        What the estimates of numbers start from, and the tests of the same pairs can start from.
    """

    evidence: FloatArray
    start: InferenceFit | None = None


def estimate_first_stage(pooled: PooledCovariance, nodes: Nodes, matrix: FloatArray) -> FirstStage | None:
    """Return the first stage; None where there is to be one stage.

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
    FirstStage or None
        None if the noise is too large, or the pairs cannot be estimated without a graph.
    """
    if noise_error(pooled, nodes) > LARGEST_NOISE:
        return None
    try:
        if nodes.are_numbers:
            start = fit_for_inference(pooled)
            return FirstStage(scores_from(pooled, start.precision), start)
        theta = nodes.rescale(start_of_tests(pooled, nodes, matrix)[0])
    except EstimationError:
        return None
    statistics = block_statistics(pooled, theta, nodes.labels, len(nodes.names))
    return FirstStage(np.maximum(normal_scores(*statistics), 0.0))


def evidence_weights(evidence: FloatArray, sizes: npt.NDArray[np.intp]) -> FloatArray:
    """Return weights of the penalty in inverse proportion to the evidence, shape (G, G).

    A pair with as much evidence as chance makes, z*, has the weight of an equal penalty: z* / z times sqrt(k_g k_h)
    with k the numbers of columns. Variances have the smallest z* / z of a pair, as no link is surer.

    Parameters
    ----------
    evidence : ndarray of shape (G, G)
        z, as of `FirstStage`.
    sizes : ndarray of int, shape (G,)
        The number of columns of each node.
    """
    n_pairs = len(evidence) * (len(evidence) - 1) / 2
    at_chance = -normal_quantile(CHANCE_EDGES / (2.0 * n_pairs))
    z = np.maximum((evidence + evidence.T) / 2.0, _LEAST)
    weights: FloatArray = at_chance / z * np.sqrt(np.outer(sizes, sizes))
    np.fill_diagonal(weights, at_chance / z.max())
    return weights


def select_second_stage(
    matrix: FloatArray, pooled: PooledCovariance, alphas: FloatArray, options: PathOptions
) -> Selection:
    """Choose alpha on the whole path of weights by the evidence; errors as of `select_ebic`."""
    chosen = select_ebic(
        matrix, effective_rows(pooled), alphas, gamma=GAMMA, patience=PATIENCE, why_last=WEAKEST, **options
    )
    return replace(chosen, rule=f"{chosen.rule}, in two stages")


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
    alphas = end_path(alphas, smallest)
    chosen = select_ebic(
        matrix, effective_rows(pooled), alphas, gamma=0.0, patience=PATIENCE, why_last=AT_CHANCE_SHARE, **options
    )
    return replace(chosen, rule=f"{chosen.rule}, in one stage")


def end_path(alphas: FloatArray, smallest: float) -> FloatArray:
    """Return the alphas above the smallest one, and this; the first alone where none is."""
    above = alphas[alphas > smallest]
    return np.append(above, smallest) if above.size else alphas[:1]


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
    members = (np.arange(len(nodes.names))[:, None] == nodes.labels).astype(float)
    return np.asarray(np.sqrt(members @ matrix**2 @ members.T))
