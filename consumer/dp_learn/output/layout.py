"""Where the nodes of a graph are drawn: linked ones near each other, the same places for the same graph."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dp_learn.matrices import FloatArray

SEED = 1
_BY_DISTANCES = 120  # nodes of a part up to which every distance is fitted, which is clearer and soon takes longer
_STEPS = 60  # of the forces on larger parts,
_STEPS_OF_MANY = 30  # and from _MANY nodes on, where networkx takes another method, whose steps take twice as long
_MANY = 500
_MARGIN = 0.5  # around a part, in lengths of an edge
_APART = 0.35  # lengths of an edge between any two nodes, at least
_ROUNDS = 50


def place_nodes(n_nodes: int, ends: npt.NDArray[np.int64], *, aspect: float = 1.0) -> FloatArray:
    """Return the places of linked nodes, from -1 to 1 both ways.

    Each connected part is laid out by itself, by its distances (Kamada and Kawai) or by forces (Fruchterman and
    Reingold), at the same mean length of an edge, and the parts are put beside each other.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    ends : ndarray of int, shape (n_edges, 2)
        The positions of both ends of each edge, strongest edge first.
    aspect : float
        Width over height of the area that the places will be stretched to.

    Returns
    -------
    ndarray of shape (n_nodes, 2)
        NaN for nodes without an edge.

    References
    ----------
    Kamada & Kawai (1989), An algorithm for drawing general undirected graphs, Information Processing Letters 31.
    Fruchterman & Reingold (1991), Graph drawing by force-directed placement, Software: Practice and Experience 21.
    """
    import networkx as nx  # takes as long to import as a small graph takes to learn
    import scipy.optimize  # noqa: F401  and so does this; it brings a BLAS of its own, and threads that would wait
    from threadpoolctl import threadpool_limits

    places = np.full((n_nodes, 2), np.nan)
    graph = nx.Graph()
    graph.add_nodes_from(sorted(set(ends.ravel().tolist())))  # in an order that does not depend on the edges
    graph.add_edges_from(map(tuple, np.sort(ends, axis=1).tolist()))
    if not len(graph):
        return places

    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=lambda part: (-len(part), part))
    with threadpool_limits(1, user_api="blas"):
        drawn = [_lay_out_part(graph.subgraph(part), part) for part in parts]
    for part, corner, xy in zip(parts, _pack([xy.max(axis=0) for xy in drawn], aspect), drawn, strict=True):
        places[part] = corner + xy

    low, high = np.nanmin(places, axis=0), np.nanmax(places, axis=0)
    unit = (places - low) / np.where(high > low, high - low, 1.0)
    return np.asarray(2.0 * unit - np.where(high > low, 1.0, 0.0))


def _lay_out_part(graph: nx.Graph, nodes: list[int]) -> FloatArray:  # type: ignore[name-defined]  # noqa: F821
    """Return the places of the nodes of a connected part, from zero, its longest way across; an edge is 1 long."""
    import networkx as nx

    ordered = nx.Graph()
    ordered.add_nodes_from(nodes)
    ordered.add_edges_from(sorted(tuple(sorted(edge)) for edge in graph.edges))
    if len(nodes) <= _BY_DISTANCES:
        found = nx.kamada_kawai_layout(ordered)
    else:
        found = nx.spring_layout(ordered, seed=SEED, iterations=_STEPS if len(nodes) < _MANY else _STEPS_OF_MANY)
    xy = np.array([found[node] for node in nodes])

    axes = np.linalg.eigh(np.cov(xy.T))[1][:, ::-1]
    xy = xy @ (axes * np.where(axes[np.argmax(np.abs(axes), axis=0), [0, 1]] > 0.0, 1.0, -1.0))
    place = {node: row for row, node in enumerate(nodes)}
    first, second = np.array([(place[one], place[other]) for one, other in ordered.edges]).T
    xy = _separate(xy / np.hypot(*(xy[first] - xy[second]).T).mean())
    return np.asarray(xy - xy.min(axis=0))


def _separate(xy: FloatArray) -> FloatArray:
    """Return places of which no two are nearer than the least distance, by pushing apart those that are."""
    from scipy.spatial import KDTree

    xy = xy.copy()
    for _ in range(_ROUNDS):
        pairs = KDTree(xy).query_pairs(0.99 * _APART, output_type="ndarray")
        if not len(pairs):
            break
        pairs = pairs[np.lexsort(pairs.T)]
        between = xy[pairs[:, 1]] - xy[pairs[:, 0]]
        far = np.hypot(*between.T)[:, None]
        between = np.where(far > 0.0, between / np.where(far > 0.0, far, 1.0), [1.0, 0.0])
        for end, sign in ((0, -0.5), (1, 0.5)):
            np.add.at(xy, pairs[:, end], sign * (_APART - far) * between)
    return xy


def _pack(sizes: list[FloatArray], aspect: float) -> list[FloatArray]:
    """Return the lower left corner of every part: on shelves, the widest about as wide as the area allows."""
    boxes = np.array(sizes) + 2.0 * _MARGIN
    width = max(boxes[:, 0].max(), float(np.sqrt(1.15 * aspect * boxes.prod(axis=1).sum())))
    corners, x, shelf, height = [np.zeros(2)] * len(boxes), 0.0, 0.0, 0.0
    for number in np.argsort(-boxes[:, 1], kind="stable").tolist():
        if x and x + boxes[number, 0] > width:
            x, shelf, height = 0.0, shelf + height, 0.0
        corners[number] = np.array([x + _MARGIN, shelf + _MARGIN])
        x, height = x + boxes[number, 0], max(height, boxes[number, 1])
    return corners
