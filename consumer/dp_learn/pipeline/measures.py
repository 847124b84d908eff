"""The measures of the nodes of a graph: predictability, strength, expected influence, paths and communities.

*Predictability* is the share of a node's variance that all other nodes explain, R^2 = 1 - 1 / (Sigma_ii Theta_ii). It
supposes no graph: Theta is the inverse of S^. Of a node of k columns it is 1 - tr(Sigma_gg^-1 Theta_gg^-1) / k, the
mean share over its columns once these are uncorrelated. It does not depend on the level that is left out. Even where
the others explain nothing, p - 1 coefficients that are estimated explain some of it by chance. It is the more the more
noise is in S^. A parametric bootstrap shows how much, and how uncertain the rest is. Errors E of the law of S^ are
drawn about the covariance Sigma of a fit on a graph. Then log(1 - R^2) at Sigma + E is compared with that at Sigma.

*Strength* is the sum, over a node's edges, of the desparsified partial correlations, each counted as positive where it
has the sign of the edge's weight. *Expected influence* is the sum with their own signs. Both are linear in the partial
correlations, whose first-order errors are forms of E. With B the rows of Theta over sqrt(Theta_ii) and F = B E B', r_ij
errs by F_ij + r_ij (F_ii + F_jj) / 2. Draws of E give the errors of the sums with those that edges share. An edge that
is listed because chance made it large is too large, and so are the sums. Where more than a quarter of the edges lie
within five standard errors of zero, that matters. In simulations intervals then covered less than they should, and
there are none.

Draws are of Gaussian rows. Where there are rows, the variances of the three measures are raised. The factor is the
ratio of the rows' own variance of the measure's first-order terms to that of Gaussian rows, noise included in both.
What chance explains is raised by the mean ratio over nodes. Of elliptical rows with kurtosis 1 + kappa both are 1 +
kappa times those of Gaussian ones.

Draws are about the covariance of the fit that tests start from. Its graph is denser than the one that is reported.
Where that misses links, a node is better predicted than it says, and errors are larger. With categories, and without
such a fit, they are about the reported graph's.

References
----------
Haslbeck & Waldorp (2018), How well do network models predict observations?, Behavior Research Methods 50
(predictability). Robinaugh, Millner & McNally (2016), Identifying highly influential nodes in the complicated grief
network, Journal of Abnormal Psychology 125 (expected influence). Efron & Tibshirani (1993), An Introduction to the
Bootstrap, section 6.5.

What the shape of a graph tells of its nodes: betweenness, closeness, communities, and how sure communities are.

Betweenness and closeness are by shortest paths whose steps are as long as edges are weak. They describe the graph that
was found; their errors are unknown.

Communities are nodes that are linked among each other more than with others: the Louvain method maximises modularity
over the sizes of the edges' weights. Draws show how sure its answer is. Errors of all partial correlations are added to
the weights, which are zero where there is no edge. The pairs of the largest sizes over standard errors, as many as the
graph has edges, are the edges of the draw. Then the method is applied again.

References
----------
Blondel, Guillaume, Lambiotte & Lefebvre (2008), Fast unfolding of communities in large networks, Journal of Statistical
Mechanics P10008. Freeman (1978), Centrality in social networks, Social Networks 1. Opsahl, Agneessens & Skvoretz
(2010), Node centrality in weighted networks, Social Networks 32 (lengths as inverse weights). Wasserman & Faust (1994),
Social Network Analysis, section 5.2.2 (closeness in a graph of several parts).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import EstimationError
from dp_bundle.base.quoting import Brief
from dp_bundle.manifest.noise import normal_quantile
from dp_learn.covariance.estimate import NoiseLaw, NoisyCovariance, PooledCovariance, root_of
from dp_learn.covariance.moments import Rows, map_rows, select_columns
from dp_learn.covariance.sample import DRAWS, ErrorLaw, Sample
from dp_learn.covariance.sources import RowSource
from dp_learn.matrices.linalg import FloatArray, Places, is_positive_definite, sandwich
from dp_learn.pipeline.fit import fit_edges
from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.settings import Fit, Nodes, Settings

ALGORITHM = "Louvain"
_SEED = 1  # of the order in which the method visits nodes
_TIE = 1e-12  # relative: paths whose lengths differ by no more are equally short


def find_communities(sources: Sequence[int], targets: Sequence[int], weights: Sequence[float]) -> list[list[int]]:
    """Return the groups of linked nodes, the largest first, from the ends of edges and the sizes of their weights."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_weighted_edges_from(zip(sources, targets, weights, strict=True))
    found = [sorted(group) for group in nx.community.louvain_communities(graph, seed=_SEED)]
    return sorted(found, key=lambda group: (-len(group), group))


def communities_of(weights: FloatArray) -> FloatArray:
    """Return the number of each node's community from 1 on, NaN for nodes without an edge, shape (G,).

    Parameters
    ----------
    weights : ndarray of shape (G, G)
        Of edges; zero elsewhere.
    """
    sizes = np.abs(weights)
    ends = np.nonzero(np.triu(sizes, 1))
    strongest = np.argsort(-sizes[ends], kind="stable")
    first, second = (end[strongest] for end in ends)
    numbers = np.full(len(weights), np.nan)
    for number, group in enumerate(find_communities(first.tolist(), second.tolist(), sizes[first, second].tolist()), 1):
        numbers[group] = number
    return numbers


def draw_together(weights: FloatArray, errors: Iterable[FloatArray], standard_error: FloatArray) -> FloatArray:
    """Return the share of draws in which two nodes are in one community, shape (G, G), 1 on the diagonal.

    Parameters
    ----------
    weights : ndarray of shape (G, G)
        Of the graph's edges; zero elsewhere.
    errors : iterable of ndarray of shape (G, G)
        Draws of the errors of all partial correlations, at least one.
    standard_error : ndarray of shape (G, G)
        Theirs.
    """
    upper = np.triu_indices(len(weights), 1)
    n_edges = int(np.count_nonzero(weights[upper]))
    together, n_draws = np.zeros(weights.shape), 0
    for error in errors:
        drawn = weights + error
        scores = np.abs(drawn[upper]) / standard_error[upper]
        kept = np.zeros(weights.shape)
        chosen = np.argpartition(-scores, n_edges - 1)[:n_edges]
        places = upper[0][chosen], upper[1][chosen]
        kept[places] = drawn[places]
        numbers = communities_of(kept + kept.T)
        together += numbers[:, None] == numbers
        n_draws += 1
    together /= n_draws
    np.fill_diagonal(together, 1.0)
    return together


def measure_paths(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return betweenness and closeness of every node, each of shape (G,), of edges of length 1 / size of weight.

    Betweenness counts the pairs of other nodes between which a shortest path passes through the node, in shares where
    there are several such paths. Closeness is the inverse of the mean distance to the nodes that can be reached, times
    their share of all other nodes. It is zero where there are none.

    Parameters
    ----------
    weights : ndarray of shape (G, G)
        Of edges; zero elsewhere.
    """
    n_nodes, (first, second) = len(weights), np.nonzero(weights)
    lengths = 1.0 / np.abs(weights[first, second])
    distances = np.full(weights.shape, np.inf)
    distances[first, second] = lengths
    np.fill_diagonal(distances, 0.0)
    shorten_paths(distances)

    betweenness = np.zeros(n_nodes)
    for source, own in enumerate(distances):
        short = np.isfinite(own[first]) & (own[first] + lengths <= own[second] * (1.0 + _TIE))
        before, after = first[short], second[short]
        paths = _sum_steps(np.arange(n_nodes) == source, before, after)
        ends = np.divide(1.0, paths, out=np.zeros(n_nodes), where=paths > 0.0)
        passing = paths * (_sum_steps(ends, after, before) - ends)
        betweenness += np.where(np.arange(n_nodes) == source, 0.0, passing / 2.0)  # both ways are counted

    reached, totals = np.isfinite(distances).sum(axis=1) - 1.0, np.where(np.isfinite(distances), distances, 0.0).sum(1)
    closeness = np.divide(reached * reached, totals * (n_nodes - 1.0), out=np.zeros(n_nodes), where=totals > 0.0)
    return betweenness, closeness


def shorten_paths(distances: FloatArray) -> None:
    """Make the lengths of links, infinite where there is none, the lengths of shortest paths (Floyd and Warshall)."""
    for node in range(len(distances)):  # by way of one node after the other
        np.minimum(distances, distances[:, node, None] + distances[node], out=distances)


def _sum_steps(start: npt.ArrayLike, before: Places, after: Places) -> FloatArray:
    """Return the sum of what a start gives every node along all paths of steps, which have no circle."""
    level: npt.NDArray[Any] = np.asarray(start, dtype=np.float64)
    total: FloatArray = level.copy()
    while (level := np.bincount(after, level[before], len(level))).any():
        total += level
    return total


MOST_DRAWN = 100  # columns: with more, draws take as long as all else
MOST_WALKED = 500  # nodes between which paths are found
_DRAWS, _COMMUNITY_DRAWS, _FEW = 400, 200, 200
_GAUSSIAN_ROWS = 20_000
_AT_ONCE = 4096  # rows
_WAITING = 8  # batches
_NO_FIT = "the noise leaves no unpenalised fit of the graph, so the measures of nodes have no intervals"
_DRAWN_AT_ONCE = 32  # draws
LEAST_SCORE, CLEAR = 5.0, 0.75  # of edges, and the share of edges that have it
LARGEST_OPTIMISM = 0.05  # of log(1 - R^2) of a node that nothing explains
LARGEST_OF_TWO_ROUNDS = 0.0075  # the part of the noise on second moments in two rounds, whose correlations it makes low
_MOST_WEIGHT = 99.0  # the logarithm, which is enough for any limit to be passed
_BY_EXPLAINED = 1.5  # the power of 1 - R^2 that optimism falls with, without noise 0 and with much of it 2
_Z = normal_quantile(0.975)
Intervals = tuple[FloatArray, FloatArray, FloatArray]  # estimates and the ends of their intervals, NaN where unknown


@dataclass(frozen=True, eq=False)
class NodeMeasures(Brief):
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

    Notes
    -----
    The columns:

    node : name
        the column of the table
    predictability : up to 1
        the share of variance that all others explain, less what chance would; it may be slightly below zero
    predictability_low, predictability_high : up to 1
        its interval, cut at 0, or at an estimate below
    strength : 0 and more
        the sum over its edges of `desparsified`, positive where it has the weight's sign; without an interval, of
        sizes of weights
    strength_low, strength_high
        its interval, for the listed edges
    expected_influence
        the sum of `desparsified`, or without an interval of weights, with signs; links of categories count as
        positive
    expected_influence_low, expected_influence_high
        its interval
    n_edges : 0 and more
        the number of its edges
    betweenness : 0 and more
        the pairs of other nodes whose shortest path passes through it; an edge of weight w is 1/|w| long
    closeness : 0 and more
        the inverse mean distance to the nodes that it can reach, times their share of all others
    community : 1 and more
        the number of its community, the largest being 1; empty without an edge
    community_probability : 0 to 1
        the mean probability to be together with another member of it
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
        start = fit.start_of_tests
    except EstimationError:
        return None
    return start.precision if start.is_reliable and start.share == 0.0 else None


def _of_sampling(pooled: PooledCovariance) -> float | None:
    """Return what sampling alone makes of log(1 - R^2), where a source is of two rounds, but for normal scores."""
    laws = [source.noise for source in pooled.sources if isinstance(source.noise, NoiseLaw)]
    in_two = any(law.in_two_rounds and (law.rest is None or law.rest.noise_shared is not None) for law in laws)
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


def _row_ratios(sample: Sample, pooled: PooledCovariance, kept: Places, model: FirstOrder) -> FloatArray:
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
        which = f"all {unknown}" if unknown == len(graph.columns) else f"{unknown} of {len(graph.columns)}"
        said.append(
            f"predictability is left empty of {which} nodes: within its errors, the debiased covariance is nearly "
            "singular, chance alone would explain too much, or the noise of two rounds makes correlations too small"
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


@dataclass(frozen=True, eq=False)
class FirstOrder:
    """What the measures of G nodes err by, to first order, about a model.

    Attributes
    ----------
    covariance, precision : ndarray of shape (n_features, n_features)
        Sigma and Theta of the model, in data units.
    labels : ndarray of int, shape (n_features,)
        The node of each column.
    signs : ndarray of shape (G, G)
        Of the edges' weights; zero where there is no edge, and where an end has several columns.
    """

    covariance: FloatArray
    precision: FloatArray
    labels: Places
    signs: FloatArray

    @cached_property
    def members(self) -> FloatArray:
        """The columns of each node, shape (n_features, G)."""
        return np.asarray(self.labels[:, None] == np.arange(len(self.signs)), dtype=float)

    @cached_property
    def forms(self) -> FloatArray:
        """B, the rows of Theta over the roots of its diagonal."""
        return np.asarray(self.precision / np.sqrt(np.diagonal(self.precision))[:, None])

    @cached_property
    def partial(self) -> FloatArray:
        """The partial correlations of the model, zero on the diagonal."""
        root = np.sqrt(np.diagonal(self.precision))
        partial: FloatArray = -self.precision / np.outer(root, root)
        np.fill_diagonal(partial, 0.0)
        return partial

    @cached_property
    def _signs(self) -> FloatArray:
        """The signs of pairs of columns."""
        return self.signs[np.ix_(self.labels, self.labels)]

    def pair_errors(self, error: FloatArray) -> FloatArray:
        """Return the errors of all partial correlations that an error of S^ makes, shape (n_features, n_features)."""
        forms = sandwich(self.forms, error)
        d = np.diagonal(forms)
        return forms + self.partial * (d[:, None] + d) / 2.0

    def sums(self, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the errors of strengths and of expected influences, each of shape (G,), from those of the pairs."""
        signs = self._signs
        return (signs * errors).sum(axis=1) @ self.members, (np.abs(signs) * errors).sum(axis=1) @ self.members

    def of_rows(self, centred: FloatArray) -> FloatArray:
        """Return what rows add to the errors of all three measures: n E is the sum of their products.

        Parameters
        ----------
        centred : ndarray of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, 3 G)
            Of log(1 - R^2), of strengths and of expected influences.
        """
        y = centred @ self.forms.T
        found = [self._unexplained_of_rows(centred)]
        for weights in (self._signs, np.abs(self._signs)):
            along, square = weights * self.partial, y * y
            found.append((y * (y @ weights) + (square * along.sum(axis=1) + square @ along) / 2.0) @ self.members)
        return np.hstack(found)

    def _unexplained_of_rows(self, centred: FloatArray) -> FloatArray:
        own, inverse = np.zeros_like(self.precision), np.zeros_like(self.precision)
        for node in range(len(self.signs)):
            block = np.ix_(self.labels == node, self.labels == node)
            variance, left = np.linalg.inv(self.covariance[block]), np.linalg.inv(self.precision[block])
            scale = np.trace(variance @ left)
            own[block], inverse[block] = variance @ left @ variance / scale, left @ variance @ left / scale
        z = centred @ self.precision
        found: FloatArray = ((z @ inverse) * z - (centred @ own) * centred) @ self.members
        return found


@dataclass(frozen=True, eq=False)
class Draws:
    """What errors of S^ that were drawn about a model make of the measures.

    Attributes
    ----------
    unexplained : ndarray of shape (n_draws, G)
        log(1 - R^2) less that of the model; NaN where S^ would be indefinite.
    strength, influence : ndarray of shape (n_draws, G)
        First-order errors.
    pairs : ndarray of shape (n_kept, n_features, n_features)
        First-order errors of the partial correlations, of the first draws.
    pair_error : ndarray of shape (n_features, n_features)
        The root of their mean square over all draws.
    """

    unexplained: FloatArray
    strength: FloatArray
    influence: FloatArray
    pairs: FloatArray
    pair_error: FloatArray


def draw_measures(model: FirstOrder, errors: Iterable[FloatArray], n_kept: int = 0) -> Draws:
    """Return what the measures become by each of some errors of S^ about the model's covariance.

    Parameters
    ----------
    model : FirstOrder
    errors : iterable of ndarray of shape (n_features, n_features)
    n_kept : int
        Of how many draws the errors of all pairs are kept.
    """
    at_model = np.log(unexplained_shares(model.covariance, model.labels, model.precision))
    unexplained, sums, squares = [], [], np.zeros(model.precision.shape)
    kept: list[FloatArray] = []
    remaining = iter(errors)
    while batch := list(itertools.islice(remaining, _DRAWN_AT_ONCE)):
        drawn = model.covariance + np.array(batch)
        definite = [is_positive_definite(each) for each in drawn]
        shares = np.full((len(batch), len(at_model)), np.nan)
        shares[definite] = unexplained_shares(drawn[definite], model.labels)
        unexplained.append(np.log(shares) - at_model)
        for error in batch:
            pairs = model.pair_errors(error)
            sums.append(model.sums(pairs))
            squares += pairs * pairs
            if len(kept) < n_kept:
                kept.append(pairs)
    strength, influence = np.array(sums).swapaxes(0, 1)
    return Draws(np.concatenate(unexplained), strength, influence, np.array(kept), np.sqrt(squares / len(sums)))


def unexplained_shares(covariance: FloatArray, labels: Places, precision: FloatArray | None = None) -> FloatArray:
    """Return 1 - R^2 of every node, shape (..., G), of positive definite covariances.

    Parameters
    ----------
    covariance : ndarray of shape (..., n_features, n_features)
    labels : ndarray of int, shape (n_features,)
        The node of each column.
    precision : ndarray of shape (..., n_features, n_features), optional
        Its inverse, where it is known.
    """
    theta = np.linalg.inv(covariance) if precision is None else precision
    single = 1.0 / (np.diagonal(covariance, axis1=-2, axis2=-1) * np.diagonal(theta, axis1=-2, axis2=-1))
    sizes = np.bincount(labels)
    shares: FloatArray = single[..., [int(np.argmax(labels == node)) for node in range(len(sizes))]]
    for node in np.flatnonzero(sizes > 1):
        block = (..., *np.ix_(labels == node, labels == node))
        shares[..., node] = np.linalg.inv(theta[block] @ covariance[block]).trace(axis1=-2, axis2=-1) / sizes[node]
    return shares


def estimate_predictability(
    covariance: FloatArray,
    labels: Places,
    drawn: FloatArray,
    ratio: FloatArray,
    of_sampling: float | None = None,
) -> Intervals:
    """Return R^2 of every node less what chance explains, and the ends of its 95 % interval, each of shape (G,).

    Parameters
    ----------
    covariance : ndarray of shape (n_features, n_features)
        S^.
    labels : ndarray of int, shape (n_features,)
        The node of each column.
    drawn : ndarray of shape (n_draws, G)
        As of `Draws`.
    ratio : ndarray of shape (G,)
        What variances are raised by for the rows.
    of_sampling : float, optional
        Of second moments in two rounds, what sampling alone would lower log(1 - R^2) by.

    Returns
    -------
    tuple of ndarray
        All are NaN where the noise is too strong: where S^, or one that was drawn, is indefinite. Or chance alone would
        lower log(1 - R^2) of unexplained nodes by more than `LARGEST_OPTIMISM`, or the noise of two rounds by more than
        `LARGEST_OF_TWO_ROUNDS`. An estimate may be negative, and its interval begins there then; others are within
        [0, 1].

    Notes
    -----
    The noise makes more optimism where more is explained, or seems to be. A limit on the optimism itself is passed by
    nodes, or releases, of which less than the truth seems explained. What has an interval would then be biased. That of
    unexplained nodes hardly depends on what came out.
    """
    unknown = np.full(len(ratio), np.nan)
    if np.isnan(drawn).any() or not is_positive_definite(covariance):
        return unknown, unknown, unknown
    log, tails = np.log(unexplained_shares(covariance, labels)), float(ratio.mean())
    optimism = -tails * drawn.mean(axis=0)
    middle, margin = log + optimism, _Z * drawn.std(axis=0) * np.sqrt(ratio)
    weight = np.exp(np.minimum(_BY_EXPLAINED * middle, _MOST_WEIGHT))
    too_biased = of_sampling is not None and np.mean((optimism - of_sampling) * weight) > LARGEST_OF_TWO_ROUNDS
    if too_biased or np.mean(optimism * weight) > LARGEST_OPTIMISM:
        return unknown, unknown, unknown
    estimate = 1.0 - np.exp(log) / np.exp(drawn).mean(axis=0) ** tails
    low, high = (1.0 - np.exp(np.minimum(end, 0.0)) for end in (middle + margin, middle - margin))
    return estimate, np.minimum(low, estimate), np.maximum(high, estimate)


def are_clear(scores: FloatArray) -> bool:
    """Return whether enough edges are so clear that listing them hardly depends on chance.

    Parameters
    ----------
    scores : ndarray of shape (n_edges,)
        The sizes of their estimates over their standard errors.
    """
    return bool(len(scores)) and float(np.mean(scores >= LEAST_SCORE)) >= CLEAR


def sum_edges(partial: FloatArray, weights: FloatArray, drawn: FloatArray, ratio: FloatArray) -> Intervals:
    """Return sums of partial correlations over the edges of every node, and the ends of their 95 % intervals.

    Parameters
    ----------
    partial : ndarray of shape (G, G)
        Desparsified.
    weights : ndarray of shape (G, G)
        1 or -1 where there is an edge, else 0.
    drawn : ndarray of shape (n_draws, G)
        Errors of the sums.
    ratio : ndarray of shape (G,)
        What variances are raised by for the rows.

    Returns
    -------
    tuple of ndarray
        The interval of a node without edges is NaN.
    """
    linked = weights != 0.0
    total = np.where(linked, weights * partial, 0.0).sum(axis=1)
    margin = np.where(linked.any(axis=1), _Z * drawn.std(axis=0) * np.sqrt(ratio), np.nan)
    return total, total - margin, total + margin
