"""Where the nodes of a graph are drawn."""

import os
import subprocess
import sys
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


@pytest.mark.parametrize("n_nodes", [30, 200, 600])
def test_nodes_have_places_of_their_own(n_nodes: int) -> None:
    """Linked nodes are inside the area, no two of them at one place; a node without an edge has no place."""
    ends = _random_edges(n_nodes - 1, 2 * n_nodes)
    linked = np.unique(ends)
    places = place_nodes(n_nodes, ends)

    assert np.abs(places[linked]).max() == pytest.approx(1.0)
    assert pdist(places[linked]).min() > 0.2 / np.sqrt(n_nodes)
    assert np.isnan(places[np.setdiff1d(np.arange(n_nodes), linked)]).all()


def test_linked_nodes_are_near_each_other() -> None:
    """The ends of edges are nearer than nodes are on average, in one part as among parts."""
    ends = np.array(_ring(40) + _ring(20, first=40))
    places = place_nodes(60, ends)
    lengths = np.hypot(*(places[ends[:, 0]] - places[ends[:, 1]]).T)

    assert lengths.mean() < 0.3 * pdist(places).mean()


def test_parts_do_not_overlap() -> None:
    """Of three rings without an edge between them, none has a node among the nodes of another."""
    ends = _ring(30) + _ring(20, first=30) + _ring(5, first=50)
    for aspect in (1.0, 1.5):
        places = place_nodes(55, np.array(ends), aspect=aspect)
        rings = places[:30], places[30:50], places[50:]
        for one, other in permutations(rings, 2):
            assert (Delaunay(one).find_simplex(other) < 0).all()


def test_small_parts_go_where_the_large_one_leaves_room() -> None:
    """Pairs and short chains around a large part leave it more than half of the picture, which shelves would not."""
    large = [(node, other) for node in range(40) for other in (node + 1, node + 5) if other < 40]
    chains = [(40 + node, 41 + node) for node in range(18) if node not in {4, 8, 11, 13, 15}]
    places = place_nodes(59, np.array(large + chains), aspect=1.5)
    assert (places[:40].max(axis=0) - places[:40].min(axis=0)).prod() > 0.5 * 4.0


@pytest.mark.slow
def test_places_do_not_depend_on_the_process() -> None:
    """Another process, with another seed of Python's hashes, has the same places to the bit."""
    line = (
        "import numpy as np; from dp_learn.output.layout import place_nodes;"
        "ends = np.array([(i, (i * 7 + 1) % 150) for i in range(150)] + [(160, 161)]);"
        "print(place_nodes(170, ends).tobytes().hex())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", line], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]

    assert runs[0] == runs[1]
    assert len(runs[0]) > 170 * 16
