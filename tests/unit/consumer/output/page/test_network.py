"""The links that a page draws: the strongest ones, in groups, and the same places in every run."""

import json

import numpy as np
import pytest

from dp_learn.output.page.network import MOST_EDGES, MOST_NODES, Network, draw_network, find_network, network_data
from dp_learn.output.summary import Result
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


def network_of(graph: GraphEstimate) -> Network:
    """Return the links of a graph."""
    found = find_network(Result([], {}, graph))
    assert found is not None
    return found


def test_communities_are_the_blocks() -> None:
    """Columns that are linked among each other alone are one group, and columns without a link are in none."""
    network = network_of(blocks(3, 5, alone=2))
    assert network.communities == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]
    assert network_data(network, None)["community"] == [0] * 5 + [1] * 5 + [2] * 5 + [-1] * 2
    assert network.degrees.tolist() == [4] * 15 + [0] * 2


def test_only_the_strongest_links_are_drawn_and_the_page_says_so() -> None:
    """Of very many links the strongest are kept, and the caption has both numbers."""
    graph = blocks(1, 80)
    network = network_of(graph)
    assert network.n_edges == 80 * 79 // 2
    assert len(network.weights) == MOST_EDGES
    every = np.sort(np.abs(graph.edge_columns["partial_correlation"]))[::-1]
    assert np.abs(network.weights) == pytest.approx(every[:MOST_EDGES])
    assert f"{MOST_EDGES:,} of the strongest, among 80 columns" in draw_network(network).caption


def test_every_column_is_drawn_within_the_figure() -> None:
    """Columns lie between -1 and 1, those without a link below the others, and many of these are left out."""
    data = network_data(network_of(blocks(2, 6, alone=100)), None)
    x, y = np.array(data["x"]), np.array(data["y"])
    assert np.abs([x, y]).max() <= 1.0
    assert data["hidden"] == list(range(72, 112))
    assert y[:12].min() > y[12:72].max()
    places = {(float(a), float(b)) for a, b in zip(x[:72], y[:72], strict=True)}
    assert len(places) == 72


def test_graph_without_links_has_no_group() -> None:
    """Without any link no column is in a group, and noise that is not known has no number."""
    network = network_of(blocks(0, 1, alone=3))
    assert network.communities == []
    assert network_data(network, {"x0": 0.1, "x1": 0.2, "x2": float("nan")})["noise"] == [0.1, 0.2, None]


def test_links_among_very_many_columns_are_drawn_between_some_of_them() -> None:
    """Of 600 linked columns 500 are drawn, and the others keep their number of links, and are not called unlinked."""
    network = network_of(blocks(120, 5))
    assert network.drawn.sum() == MOST_NODES
    assert network.degrees.tolist() == [4] * 600
    data = network_data(network, None)
    assert data["hidden"] == np.flatnonzero(~network.drawn).tolist()
    assert data["n_edges"] == 1200
    assert len(json.dumps(data)) < 200_000
