"""The places of a graph's nodes: linked ones near each other, the same places for the same graph."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dp_learn.matrices.linalg import FloatArray

SEED = 1
_BY_DISTANCES = 120  # nodes of a part up to which every distance is fitted, which is clearer and soon takes longer
_STEPS = 60  # of the forces on larger parts,
_STEPS_OF_MANY = 30  # and from _MANY nodes on, where networkx takes another method, whose steps take twice as long
_MANY = 500
_MARGIN = 0.4  # around a part, in lengths of an edge
_APART = 0.35  # lengths of an edge between any two nodes, at least
_ROUNDS = 50
_FEW = 8  # parts, of which small ones may stand upright; names are clearer beside parts that lie
_LEAST_CELL, _CELLS = 0.2, 80  # lengths of an edge, and how many of the squares that tell what is free in a side
Places = npt.NDArray[np.int64]
Squares = npt.NDArray[np.bool_]


def place_nodes(n_nodes: int, ends: npt.NDArray[np.int64], *, aspect: float = 1.0) -> FloatArray:
    """Return the places of linked nodes, from -1 to 1 both ways.

    Each connected part is laid out by itself, by its distances (Kamada and Kawai) or by forces (Fruchterman and
    Reingold), at the same mean length of an edge, and the parts are put beside each other, small ones into corners.

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
    Freivalds, Dogrusoz & Kikusts (2001), Disconnected graph layout and the polyomino packing approach, Graph Drawing.
    Fruchterman & Reingold (1991), Graph drawing by force-directed placement, Software: Practice and Experience 21.
    """
    places = np.full((n_nodes, 2), np.nan)
    if not len(ends):
        return places
    parts, drawn, links = _lay_out_parts(tuple(sorted(map(tuple, np.sort(ends, axis=1).tolist()))))
    for part, xy in zip(parts, _pack(drawn, links, aspect), strict=True):
        places[part] = xy

    low, high = np.nanmin(places, axis=0), np.nanmax(places, axis=0)
    unit = (places - low) / np.where(high > low, high - low, 1.0)
    return np.asarray(2.0 * unit - np.where(high > low, 1.0, 0.0))


@lru_cache(maxsize=1)
def _lay_out_parts(pairs: tuple[tuple[int, int], ...]) -> tuple[list[list[int]], list[FloatArray], list[Places]]:
    """Return the nodes of every connected part, its own places, and its links by places; kept for one graph.

    The page and the picture draw the same graph on areas of different shapes, unless it has so many edges that the
    picture draws fewer of them. It is then laid out by these alone, as others would pull its nodes to places that
    nothing in it explains.
    """
    import networkx as nx  # takes as long to import as a small graph takes to learn
    import scipy.optimize  # noqa: F401  and so does this; it brings a BLAS of its own, and threads that would wait
    from threadpoolctl import threadpool_limits

    graph = nx.Graph()
    graph.add_nodes_from(sorted({node for pair in pairs for node in pair}))  # in an order that does not depend on edges
    graph.add_edges_from(pairs)
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=lambda part: (-len(part), part))
    with threadpool_limits(1, user_api="blas"):
        drawn, links = zip(*(_lay_out_part(graph.subgraph(part), part) for part in parts), strict=True)
    return parts, list(drawn), list(links)


def _lay_out_part(graph: nx.Graph, nodes: list[int]) -> tuple[FloatArray, Places]:  # type: ignore[name-defined]  # noqa: F821
    """Return the places of the nodes of a connected part, from zero, its longest way across, and its links.

    An edge is 1 long.
    """
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
    links = np.array([(place[one], place[other]) for one, other in ordered.edges])
    xy = _separate(xy / np.hypot(*(xy[links[:, 0]] - xy[links[:, 1]]).T).mean())
    return np.asarray(xy - xy.min(axis=0)), links


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


def _pack(drawn: list[FloatArray], links: list[Places], aspect: float) -> list[FloatArray]:
    """Return all parts beside each other: the largest first, each where it makes the area grow least.

    What a part fills is told by squares, so that small parts go into the corners that large ones leave (Freivalds et
    al. 2001).
    """
    cell = max(_LEAST_CELL, math.sqrt(sum(np.prod(xy.max(axis=0) + 1.0) for xy in drawn)) / _CELLS)
    margin = math.ceil(_MARGIN / cell)
    taken, placed = _filled(drawn[0] / cell, links[0], margin), drawn[:1]
    for xy, ends in zip(drawn[1:], links[1:], strict=True):
        squares = _filled(xy / cell, ends, margin)
        grown, corner = _best_corner(taken, squares, aspect)
        upright = _best_corner(taken, squares.T, aspect) if len(drawn) <= _FEW else None
        if upright is not None and upright[0] < grown:
            squares, xy, corner = squares.T, xy[:, ::-1], upright[1]

        # the area's new lower left corner is that of all parts
        low = np.minimum(corner, 0)
        size = np.maximum(np.array(taken.shape), np.array(corner) + squares.shape) - low
        larger = np.zeros(size, dtype=bool)
        for each, first in ((taken, -low), (squares, corner - low)):
            larger[first[0] : first[0] + each.shape[0], first[1] : first[1] + each.shape[1]] |= each
        taken, placed = larger, [*(each - cell * low for each in placed), xy + cell * (corner - low)]
    return placed


def _filled(xy: FloatArray, ends: Places, margin: int) -> Squares:
    """Return which squares of length one the links of a part, what they enclose, and a margin around it fill."""
    from scipy.ndimage import binary_dilation, binary_fill_holes

    steps = np.linspace(0.0, 1.0, 2 + 2 * math.ceil(np.abs(xy[ends[:, 0]] - xy[ends[:, 1]]).max()))[:, None, None]
    along = np.rint((1.0 - steps) * xy[ends[:, 0]] + steps * xy[ends[:, 1]]).astype(int).reshape(-1, 2)
    squares = np.zeros(along.max(axis=0) + 1 + 2 * margin, dtype=bool)
    squares[tuple(along.T + margin)] = True
    return np.asarray(binary_fill_holes(binary_dilation(squares, np.ones((3, 3), dtype=bool), iterations=margin)))


def _best_corner(taken: Squares, squares: Squares, aspect: float) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return by how much the area grows, and its sides, and where a part that overlaps no other makes it grow least."""
    inside, room = np.array(squares.shape), np.pad(taken, [(side, side) for side in squares.shape])
    products = np.fft.rfft2(room.astype(float)) * np.conj(np.fft.rfft2(squares.astype(float), room.shape))
    overlap = np.fft.irfft2(products, room.shape)[: room.shape[0] - inside[0] + 1, : room.shape[1] - inside[1] + 1]

    corners = np.argwhere(overlap < 0.5) - inside
    sides = np.maximum(taken.shape, corners + inside) - np.minimum(0, corners)
    grown, total = np.maximum(sides[:, 0] / aspect, sides[:, 1]), sides.sum(axis=1)
    off = np.abs(corners + 0.5 * inside - 0.5 * np.array(taken.shape)).sum(axis=1)
    best = int(np.lexsort((off, total, grown))[0])
    return (float(grown[best]), int(total[best])), tuple(corners[best].tolist())
