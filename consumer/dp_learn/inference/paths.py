"""Betweenness and closeness of nodes, by shortest paths whose steps are as long as edges are weak.

They describe the graph that was found; their errors are unknown.

References
----------
Freeman (1978), Centrality in social networks, Social Networks 1. Opsahl, Agneessens & Skvoretz (2010), Node centrality
in weighted networks, Social Networks 32 (lengths as inverse weights). Wasserman & Faust (1994), Social Network
Analysis, section 5.2.2 (closeness in a graph of several parts).
"""

from __future__ import annotations

import numpy as np

from dp_learn.matrices.linalg import FloatArray


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
    import networkx as nx

    sizes = np.abs(weights)
    graph = nx.Graph()
    graph.add_nodes_from(range(len(sizes)))
    first, second = np.nonzero(np.triu(sizes, 1))
    lengths = zip(first.tolist(), second.tolist(), (1.0 / sizes[first, second]).tolist(), strict=True)
    graph.add_weighted_edges_from(lengths)
    betweenness = nx.betweenness_centrality(graph, weight="weight", normalized=False)
    closeness = nx.closeness_centrality(graph, distance="weight")
    return tuple(np.array([found[node] for node in range(len(sizes))]) for found in (betweenness, closeness))  # type: ignore[return-value]
