"""Where the nodes of a graph are drawn."""

from itertools import permutations

import numpy as np
import pytest
from scipy.spatial import Delaunay
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from dp_learn.output.network import ASPECT, place_nodes


def _ring(n_nodes: int, first: int = 0) -> list[tuple[int, int]]:
    return [(first + node, first + (node + 1) % n_nodes) for node in range(n_nodes)]


def _random_edges(n_nodes: int, n_edges: int) -> np.ndarray:
    rng = np.random.default_rng(n_nodes)
    return np.unique([np.sort(rng.choice(n_nodes, 2, replace=False)) for _ in range(n_edges)], axis=0)


@pytest.mark.parametrize("n_nodes", [30, 600])
def test_nodes_have_places_of_their_own(n_nodes: int) -> None:
    """Linked nodes are inside the area, no two of them at one place; a node without an edge has no place.

    The stronger an edge, the shorter it is.
    """
    ends = _random_edges(n_nodes - 1, 2 * n_nodes)
    linked, weights = np.unique(ends), np.random.default_rng(1).normal(size=len(ends))
    places = place_nodes(n_nodes, ends, weights)

    assert np.abs(places[linked]).max() == pytest.approx(1.0)
    assert pdist(places[linked]).min() > 0.2 / np.sqrt(n_nodes)
    assert np.isnan(places[np.setdiff1d(np.arange(n_nodes), linked)]).all()
    lengths = np.hypot(*((places[ends[:, 0]] - places[ends[:, 1]]) * [ASPECT, 1.0]).T)
    assert spearmanr(np.abs(weights), lengths).statistic < -0.5


def test_parts_do_not_overlap() -> None:
    """Of three rings without an edge between them, none has a node among the nodes of another."""
    ends = np.array(_ring(30) + _ring(20, first=30) + _ring(5, first=50))
    places = place_nodes(55, ends, np.ones(len(ends)))
    rings = places[:30], places[30:50], places[50:]
    for one, other in permutations(rings, 2):
        assert (Delaunay(one).find_simplex(other) < 0).all()
