"""What the shape of a graph tells of its nodes: betweenness, closeness, communities, and how sure communities are.

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

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_learn.matrices.linalg import FloatArray

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


def communities_of(weights: FloatArray) -> npt.NDArray[np.float64]:
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
    their share of all other nodes; zero where there are none.

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
    for node in range(n_nodes):  # Floyd and Warshall's paths through one node after the other
        np.minimum(distances, distances[:, node, None] + distances[node], out=distances)

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


def _sum_steps(start: npt.ArrayLike, before: npt.NDArray[np.intp], after: npt.NDArray[np.intp]) -> FloatArray:
    """Return the sum of what a start gives every node along all paths of steps, which have no circle."""
    level: npt.NDArray[Any] = np.asarray(start, dtype=np.float64)
    total: FloatArray = level.copy()
    while (level := np.bincount(after, level[before], len(level))).any():
        total += level
    return total
