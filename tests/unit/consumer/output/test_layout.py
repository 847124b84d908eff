"""Where the nodes of a graph are drawn."""

from itertools import permutations

import numpy as np
import pytest
from scipy.spatial import Delaunay
from scipy.spatial.distance import pdist

from dp_learn.output.layout import place_nodes


def _ring(n_nodes: int, first: int = 0) -> list[tuple[int, int]]:
    return [(first + node, first + (node + 1) % n_nodes) for node in range(n_nodes)]


def _random_edges(n_nodes: int, n_edges: int) -> np.ndarray:
    rng = np.random.default_rng(n_nodes)
    return np.array([rng.choice(n_nodes, 2, replace=False) for _ in range(n_edges)])


@pytest.mark.parametrize("n_nodes", [30, 600])
def test_nodes_have_places_of_their_own(n_nodes: int) -> None:
    """Linked nodes are inside the area, no two of them at one place; a node without an edge has no place."""
    ends = _random_edges(n_nodes - 1, 2 * n_nodes)
    linked = np.unique(ends)
    places = place_nodes(n_nodes, ends)

    assert np.abs(places[linked]).max() == pytest.approx(1.0)
    assert pdist(places[linked]).min() > 0.2 / np.sqrt(n_nodes)
    assert np.isnan(places[np.setdiff1d(np.arange(n_nodes), linked)]).all()


def test_parts_do_not_overlap() -> None:
    """Of three rings without an edge between them, none has a node among the nodes of another."""
    ends = _ring(30) + _ring(20, first=30) + _ring(5, first=50)
    for aspect in (1.0, 1.5):
        places = place_nodes(55, np.array(ends), aspect=aspect)
        rings = places[:30], places[30:50], places[50:]
        for one, other in permutations(rings, 2):
            assert (Delaunay(one).find_simplex(other) < 0).all()
