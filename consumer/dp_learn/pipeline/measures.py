"""The measures of the nodes of a graph: predictability, strength, expected influence, paths and communities.

`inference.node_measures` defines the first three and their intervals. Draws are about the covariance of the fit that
tests start from. Its graph is denser than the one that is reported: where that misses links, a node is better predicted
than it says, and errors are larger. With categories, and without such a fit, they are about the reported graph's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import EstimationError
from dp_learn.covariance.draws import ErrorLaw
from dp_learn.covariance.estimate import NoiseAndGaps, NoisyCovariance, PooledCovariance, ReleasedCovariance, root_of
from dp_learn.covariance.moments import Rows, map_rows, select_columns
from dp_learn.covariance.sample import DRAWS, Sample
from dp_learn.covariance.sources import RowSource
from dp_learn.covariance.two_rounds import TwoRounds
from dp_learn.inference.edges import fit_for_inference
from dp_learn.inference.networks import communities_of, draw_together, measure_paths
from dp_learn.inference.node_measures import (
    LEAST_SCORE,
    FirstOrder,
    Intervals,
    are_clear,
    draw_measures,
    estimate_predictability,
    sum_edges,
)
from dp_learn.matrices.linalg import FloatArray, is_positive_definite
from dp_learn.pipeline.fit import fit_edges
from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.settings import Fit, Nodes, Settings

MOST_DRAWN = 100  # columns: with more, draws take as long as all else
MOST_WALKED = 500  # nodes between which paths are found
_DRAWS, _COMMUNITY_DRAWS, _FEW = 400, 200, 200
_GAUSSIAN_ROWS = 20_000
_AT_ONCE = 4096  # rows
_WAITING = 8  # batches
_NO_FIT = "the noise leaves no unpenalised fit of the graph, so the measures of nodes have no intervals"


@dataclass(frozen=True, eq=False)
class NodeMeasures:
    """Measures of the nodes of a graph, G of them.

    Attributes
    ----------
    columns : dict of str to list, or to ndarray
        The table of nodes: `node`; `predictability`, `strength` and `expected_influence`, each with `_low` and `_high`;
        `n_edges`, `betweenness`, `closeness`, `community`, `community_probability`. NaN for what is unknown.
    together : ndarray of shape (G, G) or None
        The probability that two nodes are in one community, where there are draws.
    notes : list of str
        Sentences on what is unknown.
    """

    columns: dict[str, Any]
    together: FloatArray | None
    notes: list[str]


def measure_nodes(sample: Sample, fit: Fit, graph: GraphEstimate, settings: Settings) -> NodeMeasures:
    """Return the measures of a graph's nodes.

    Parameters
    ----------
    sample : Sample
        The rows.
    fit : Fit
        Theirs.
    graph : GraphEstimate
        With its edges.
    settings : Settings
        Of the fit.
    """
    why = why_undrawn(fit.pooled)
    precision = None if why else _choose_precision(fit, settings)
    return measure_at(sample, fit.pooled, fit.nodes, graph, precision, why=why)


def measure_at(
    sample: Sample,
    pooled: PooledCovariance,
    nodes: Nodes,
    graph: GraphEstimate,
    precision: FloatArray | None,
    *,
    why: str,
    thorough: bool = True,
) -> NodeMeasures:
    """Return the measures of a graph's nodes with the intervals that draws about a precision matrix give.

    Parameters
    ----------
    sample, graph
        As of `measure_nodes`.
    pooled : PooledCovariance
        Of the kept columns.
    nodes : Nodes
        Which these are, and the nodes that they stand for.
    precision : ndarray of shape (n_features, n_features) or None
        In inverse data units. None, and one that is not positive definite, leaves intervals out.
    why : str
        The reason, where `why_undrawn` knows one.
    thorough : bool
        Whether to draw as often as for one graph, and to tell how probably nodes are in one community, which takes
        longest.
    """
    model = None if precision is None or not is_positive_definite(precision) else _model(precision, nodes, graph)
    notes = [] if model is not None else [why or _NO_FIT]
    weights = graph.weights
    unknown = np.full(len(weights), np.nan)
    missing: Intervals = unknown, unknown, unknown
    predictability, strength, influence = missing, _sums(weights), _sums(weights, signed=True)
    community, together, probability = communities_of(weights), None, unknown
    if model is not None:
        n_drawn, n_kept = (_DRAWS, _COMMUNITY_DRAWS) if thorough else (_FEW, 0)
        rng = np.random.default_rng(DRAWS)
        draws = draw_measures(model, ErrorLaw(pooled, model.covariance).draws(rng, n_drawn), n_kept)
        ratio = np.split(_row_ratios(sample, pooled, nodes.columns.kept, model), 3)
        predictability = estimate_predictability(
            pooled.covariance, model.labels, draws.unexplained, ratio[0], _of_sampling(pooled)
        )
        tests = graph.inference
        if tests is not None and are_clear(tests.scores[np.nonzero(np.triu(graph.adjacency, 1))]):
            strength = sum_edges(tests.partial_correlation, model.signs, draws.strength, ratio[1])
            influence = sum_edges(tests.partial_correlation, np.abs(model.signs), draws.influence, ratio[2])
        if thorough and not graph.categories and weights.any():
            together = draw_together(weights, draws.pairs, draws.pair_error)
            probability = _mean_within(together, community)
    paths = measure_paths(weights) if len(weights) <= MOST_WALKED else (unknown, unknown)
    columns: dict[str, Any] = {"node": list(graph.columns)}
    for name, values in zip(
        ("predictability", "strength", "expected_influence"), (predictability, strength, influence), strict=True
    ):
        columns |= {name: values[0], f"{name}_low": values[1], f"{name}_high": values[2]}
    columns |= {"n_edges": graph.adjacency.sum(axis=1), "betweenness": paths[0], "closeness": paths[1]}
    columns |= {"community": community, "community_probability": probability}
    return NodeMeasures(columns, together, [*notes, *_describe_unknown(graph, columns, model)])


def why_undrawn(pooled: PooledCovariance) -> str:
    """Return why measures of nodes have no intervals, whatever the fit; empty if they may have some."""
    if not pooled.has_error_law:
        return "the errors of the release have no known law, so the measures of nodes have no intervals"
    if len(pooled.columns) > MOST_DRAWN:
        return f"measures of nodes have intervals for up to {MOST_DRAWN} columns, categories by their levels"
    return ""


def _choose_precision(fit: Fit, settings: Settings) -> FloatArray | None:
    """Return what draws are about, if there is such a fit."""
    precision = _fit_of_tests(fit)
    if precision is None:
        precision = fit.precision if fit.share == 0.0 else fit_edges(fit, fit.nodes.linked(fit.precision), settings)
    return precision


def _model(precision: FloatArray, nodes: Nodes, graph: GraphEstimate) -> FirstOrder:
    single = nodes.sizes == 1
    signs = np.sign(graph.weights) * np.outer(single, single)
    return FirstOrder(np.asarray(np.linalg.inv(precision), dtype=np.float64), precision, nodes.labels, signs)


def _fit_of_tests(fit: Fit) -> FloatArray | None:
    """Return what tests of numbers start from, whose graph misses fewer links; None where it rests on a penalty."""
    if not fit.nodes.are_numbers:
        return None
    try:
        start = fit.start or fit_for_inference(fit.pooled)
    except EstimationError:
        return None
    return start.precision if start.is_reliable and start.share == 0.0 else None


def _of_sampling(pooled: PooledCovariance) -> float | None:
    """Return what sampling alone makes of log(1 - R^2), where a source is of two rounds."""
    laws = [source.noise for source in pooled.sources if isinstance(source, ReleasedCovariance)]
    in_two = any(isinstance(law.noise if isinstance(law, NoiseAndGaps) else law, TwoRounds) for law in laws)
    return (len(pooled.columns) - 1) * pooled.sampling_factor if in_two else None


def _sums(weights: FloatArray, *, signed: bool = False) -> Intervals:
    """Return the sums of the edges' weights or of their sizes, without intervals."""
    total = (weights if signed else np.abs(weights)).sum(axis=1)
    unknown = np.full(len(total), np.nan)
    return total, unknown, unknown


def _mean_within(together: FloatArray, community: FloatArray) -> FloatArray:
    """Return how probably a node is together with the others of its community, on average; NaN where it has none."""
    same = (community[:, None] == community) & ~np.eye(len(community), dtype=bool)
    counts = same.sum(axis=1)
    sums: FloatArray = (together * same).sum(axis=1)
    return sums / np.where(counts > 0, counts, np.nan)


def _row_ratios(sample: Sample, pooled: PooledCovariance, kept: npt.NDArray[np.int64], model: FirstOrder) -> FloatArray:
    """Return by how much the rows' own variances of first-order terms exceed those of Gaussian rows, shape (3 G,).

    Of several sources of rows, the mean by their parts in the variance; at least 1, and 1 without rows.
    """
    found, expected = np.zeros(3 * len(model.signs)), np.zeros(3 * len(model.signs))
    sources = zip(sample.sources, sample.moments, pooled.sources, pooled.weights, strict=True)
    for source, moments, described, weight in sources:
        if not isinstance(source, RowSource) or not isinstance(described, NoisyCovariance):
            continue
        batches = select_columns(source.matrices(), kept)
        factor = weight * weight / described.n_rows
        found += factor * _variance(map_rows(partial(_powers, model, moments.mean[kept]), batches, _WAITING))
        expected += factor * _gaussian_variance(model, described.covariance)
    return np.maximum(np.divide(found, expected, out=np.ones_like(found), where=expected > 0.0), 1.0)


def _powers(model: FirstOrder, mean: FloatArray, rows: Rows | FloatArray) -> tuple[int, FloatArray, FloatArray]:
    """Return the number of rows, and the sums and the sums of squares of what they add to first-order terms."""
    values = rows.read() if isinstance(rows, Rows) else rows
    first, second = np.zeros(3 * len(model.signs)), np.zeros(3 * len(model.signs))
    for start in range(0, len(values), _AT_ONCE):
        terms = model.of_rows(values[start : start + _AT_ONCE] - mean)
        first += terms.sum(axis=0)
        second += (terms * terms).sum(axis=0)
    return len(values), first, second


def _variance(powers: Iterator[tuple[int, FloatArray, FloatArray]]) -> FloatArray:
    counts, first, second = zip(*powers, strict=True)
    mean = np.asarray(sum(first)) / sum(counts)
    variance: FloatArray = np.asarray(sum(second)) / sum(counts) - mean * mean
    return variance


def _gaussian_variance(model: FirstOrder, covariance: FloatArray) -> FloatArray:
    """Return the variance of first-order terms of Gaussian rows with this covariance, from drawn ones."""
    root = root_of(covariance)
    drawn = np.random.default_rng(DRAWS).standard_normal((_GAUSSIAN_ROWS, len(root))) @ root.T
    return _variance(iter([_powers(model, np.zeros(len(root)), drawn)]))


def _describe_unknown(graph: GraphEstimate, columns: dict[str, Any], model: FirstOrder | None) -> list[str]:
    """Return sentences on the empty cells of a table of nodes that has draws."""
    if model is None:
        return []
    said, unknown = [], int(np.isnan(columns["predictability"]).sum())
    if unknown:
        said.append(
            f"of {unknown} of {len(graph.columns)} nodes, predictability is left empty: within its errors, the "
            "debiased covariance is nearly singular, chance alone would explain too much, or the noise of two rounds "
            "makes correlations too small"
        )
    if graph.categories and graph.adjacency.any():
        said.append(
            "strengths have no intervals, and communities no probabilities, as some nodes are categories or have "
            "published gaps: their links have no sign"
        )
    elif graph.inference is not None and graph.adjacency.any() and np.isnan(columns["strength_low"]).all():
        said.append(
            f"more than a quarter of the edges lie within {LEAST_SCORE:.0f} standard errors of zero: listed edges are "
            "then too large by chance, so that strengths and expected influences, which are sums of the edges' weights "
            "here, have no intervals"
        )
    return said
