"""The links that a page draws: the strongest ones, in groups, and the same places in every run."""

import numpy as np
import pytest

from dp_learn.output.network import MOST_EDGES, Network
from dp_learn.output.page.report import draw_network, network_data
from dp_learn.output.summary import GraphResult
from dp_learn.pipeline.graph import GraphEstimate


def blocks(n_blocks: int, size: int, *, alone: int = 0) -> GraphEstimate:
    """Return a precision matrix of blocks, in which neighbouring columns are linked, and columns without a link."""
    p = n_blocks * size + alone
    precision = 2.0 * np.eye(p)
    for start in range(0, n_blocks * size, size):
        for i in range(start, start + size):
            for j in range(i + 1, start + size):
                precision[i, j] = precision[j, i] = -0.1 / (j - i)
    return GraphEstimate(tuple(f"x{place}" for place in range(p)), precision, np.eye(p))


def network_of(graph: GraphEstimate, **summary: float) -> Network:
    """Return the links of a graph."""
    found = GraphResult([], summary, graph).network
    assert found is not None
    return found


def test_communities_are_the_blocks() -> None:
    """Columns that are linked among each other alone are one group, and columns without a link are in none."""
    network = network_of(blocks(3, 5, alone=2))
    assert network.communities == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]
    assert network_data(network, None)["community"] == [0] * 5 + [1] * 5 + [2] * 5 + [-1] * 2
    assert network.degrees.tolist() == [4] * 15 + [0] * 2


def test_only_the_strongest_links_are_drawn() -> None:
    """Of very many links the strongest are kept, and all are counted."""
    graph = blocks(1, 80)
    network = network_of(graph)
    assert network.n_edges == 80 * 79 // 2
    every = np.sort(np.abs(graph.edge_columns["partial_correlation"]))[::-1]
    assert np.abs(network.weights) == pytest.approx(every[:MOST_EDGES])
    assert f"{MOST_EDGES:,}" in draw_network(network).caption
    assert sum(network_data(network_of(graph, at_least=0.02), None)["strong"]) == 79 + 78


def test_every_column_is_drawn_within_the_figure() -> None:
    """Columns lie between -1 and 1, those without a link below the others, and many of these are left out."""
    data = network_data(network_of(blocks(2, 6, alone=100)), None)
    x, y = np.array(data["x"]), np.array(data["y"])
    assert np.abs([x, y]).max() <= 1.0
    assert data["hidden"] == list(range(72, 112))
    assert y[:12].min() > y[12:72].max()
    places = {(float(a), float(b)) for a, b in zip(x[:72], y[:72], strict=True)}
    assert len(places) == 72
