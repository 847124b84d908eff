"""The links of a graph as every view shows them: between which columns, how strong, how sure, in which groups, where.

The page, the picture, `plot()` and a portal's page draw the same links at the same places.

The places of a graph's nodes: strongly linked ones near each other, the same places for the same graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_learn.inference.networks import find_communities
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.graph import GraphEstimate, is_strong
from dp_learn.pipeline.measures import NodeMeasures

MOST_EDGES, MOST_NODES = 1500, 500  # that are drawn
MOST_UNLINKED = 60  # columns without a link that are drawn
_IN_ROW, _ROW = 12, 0.1  # of these, and from one row to the next
_TESTS = ("evidence", "desparsified", "ci_low", "ci_high", "q_value")


@dataclass(frozen=True, eq=False)
class Network:
    """The strongest links of a result.

    Attributes
    ----------
    columns : tuple of str
        The columns that the estimate is about.
    sources, targets : ndarray of int, shape (n_edges,)
        The positions of the ends of every link that is drawn, strongest first.
    weights : ndarray of shape (n_edges,)
        Their strengths, with signs.
    measure : str
        What these are: "partial correlation" or "correlation".
    degrees : ndarray of int, shape (n_features,)
        The number of all links of every column.
    unsigned : ndarray of bool, shape (n_edges,)
        Whether the strength of a link has no sign, as an end of it is a category.
    tests : dict of str to ndarray
        Evidence, interval and q-value of the links that are drawn, by their names in edges.csv.
    numbers : ndarray of shape (n_features,) or None
        The community of every column, from 1 on, where it is known from all links rather than those that are drawn.
    at_least : float
        The strength of strong links, from which on lines are wide; see `is_strong`.
    given : ndarray of shape (n_features, 2) or None
        Where the columns are, if other links than these place them, too.
    """

    columns: tuple[str, ...]
    sources: Places
    targets: Places
    weights: FloatArray
    measure: str
    degrees: Places
    unsigned: npt.NDArray[np.bool_]
    tests: dict[str, FloatArray] = field(default_factory=dict)
    numbers: FloatArray | None = None
    at_least: float = 0.0
    given: FloatArray | None = None

    @property
    def n_edges(self) -> int:
        """The number of all links."""
        return int(self.degrees.sum()) // 2

    @property
    def strong(self) -> npt.NDArray[np.bool_]:
        """A mask of the links that are drawn as strong ones."""
        return is_strong(self.weights, self.at_least)

    @property
    def ends(self) -> Places:
        """The ends of the links that are drawn, shape (n_edges, 2)."""
        return np.column_stack([self.sources, self.targets])

    @cached_property
    def drawn(self) -> npt.NDArray[np.bool_]:
        """A mask of the columns at the ends of links that are drawn."""
        return np.bincount(self.ends.ravel(), minlength=len(self.columns)) > 0

    @cached_property
    def communities(self) -> list[list[int]]:
        """The columns that are linked among each other more than with others, largest group first."""
        if self.numbers is not None:
            places = np.where(self.drawn, self.numbers, np.nan)
            groups = [np.flatnonzero(places == number).tolist() for number in np.unique(places[self.drawn])]
            return sorted(groups, key=lambda group: (-len(group), group))
        return find_communities(self.sources.tolist(), self.targets.tolist(), np.abs(self.weights).tolist())

    @cached_property
    def places(self) -> FloatArray:
        """Where the columns are drawn, from -1 to 1 both ways; NaN for those that are not."""
        return place_all(self.ends, self.weights, self.degrees == 0) if self.given is None else self.given


def place_all(ends: Places, weights: FloatArray, alone: npt.NDArray[np.bool_]) -> FloatArray:
    """Return the places of linked nodes as of `place_nodes`, above rows of the first nodes that are alone."""
    shown = np.flatnonzero(alone)[:MOST_UNLINKED]
    n_rows = -(-len(shown) // _IN_ROW)
    bottom = _ROW * (n_rows + 0.5) - 1.0 if n_rows else -1.0
    places = place_nodes(len(alone), ends, weights)
    places[:, 1] = bottom + (1.0 - bottom) * (places[:, 1] + 1.0) / 2.0
    rows, columns = np.divmod(np.arange(len(shown)), _IN_ROW)
    in_row = np.minimum(_IN_ROW, len(shown) - _IN_ROW * rows)
    places[shown] = np.column_stack([2.0 * (columns + 0.5) / in_row - 1.0, _ROW * (n_rows - rows - 1.0) - 1.0])
    return places


def network_of(graph: GraphEstimate, measures: NodeMeasures | None, **known: Any) -> Network:
    """Return the links of a graph, in the communities of its nodes where they are known; `known` are more fields."""
    known["numbers"] = None if measures is None else np.asarray(measures.columns["community"])
    edges = graph.edge_columns
    return make_network(edges, graph.columns, "partial_correlation", unsigned=graph.categories, **known)


def make_network(
    edges: Any, columns: Sequence[str], measure: str, *, unsigned: frozenset[str] = frozenset(), **known: Any
) -> Network:
    """Return the links of a table of edges; `unsigned` are the columns whose links have no sign."""
    weights = np.asarray(edges[measure], dtype=float)
    places = {name: place for place, name in enumerate(columns)}
    ends = np.array([[places[name] for name in edges[end]] for end in ("source", "target")], dtype=np.int64)
    kept = _few(np.argsort(-np.abs(weights), kind="stable"), *ends.reshape(2, -1).tolist())
    first, second = ends[:, kept]
    return Network(
        tuple(columns),
        first,
        second,
        weights[kept],
        measure.replace("_", " "),
        np.bincount(ends.ravel(), minlength=len(columns)),
        np.any(np.isin(ends[:, kept], [places[name] for name in unsigned]), axis=0),
        {name: np.asarray(edges[name])[kept] for name in _TESTS if name in edges},
        **known,
    )


def count_by_strength(n_strong: int, n_edges: int, at_least: float) -> str:
    """Return how many edges are strong, and how many are not."""
    weaker = n_edges - n_strong
    return f"{n_strong or 'none'} of at least {at_least:g} and {weaker or 'no'} weaker one{'s' * (weaker != 1)}"


def _few(order: Places, sources: Sequence[int], targets: Sequence[int]) -> Places:
    """Return the first links of an order that are between few enough columns."""
    seen: set[int] = set()
    kept = []
    for link in order.tolist():
        more = {sources[link], targets[link]} - seen
        if len(seen) + len(more) <= MOST_NODES:
            seen |= more
            kept.append(link)
            if len(kept) == MOST_EDGES:
                break
    return np.array(kept, dtype=np.int64)


ASPECT = 1.5  # width over height of the area that graphs are drawn on
_SEED = 1  # of the steps off a start in which nodes may be at one place
_LONGEST = 3.0  # times as long as the strongest link is the weakest one to be
_STRESS_OF_LINKS = 4.0  # times as much as a pair without a link at the same distance counts
_MOST_STEPS, _RTOL = 100, 1e-4
_LEAST, _MOST_PUSHES = 0.35, 50  # between two nodes, in lengths of the strongest link
_APART = 1.0  # between two parts, in lengths of the strongest link
Places = npt.NDArray[np.int64]


def place_nodes(n_nodes: int, ends: Places, weights: FloatArray) -> FloatArray:
    r"""Return the places of linked nodes on an area of `ASPECT`, from -1 to 1 both ways.

    Each connected part has the places of least stress,

    .. math:: \sum_{i<j} c_{ij} (|x_i - x_j| - d_{ij})^2 / d_{ij}^2

    where d is the length of the shortest path, and a link is the longer, the weaker it is; links count more than other
    pairs. Parts stand in rows, the largest first.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    ends : ndarray of int, shape (n_edges, 2)
        The positions of both ends of each edge.
    weights : ndarray of shape (n_edges,)
        Their strengths, with signs or without.

    Returns
    -------
    ndarray of shape (n_nodes, 2)
        NaN for nodes without an edge.

    References
    ----------
    Kamada & Kawai (1989), An algorithm for drawing general undirected graphs, Information Processing Letters 31 (the
    stress). Gansner, Koren & North (2004), Graph drawing by stress majorization, Graph Drawing (its minimisation).
    """
    places = np.full((n_nodes, 2), np.nan)
    if not len(ends):
        return places
    sizes = np.abs(weights)
    ranks = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable") / max(len(sizes) - 1, 1)
    linked = np.unique(ends)
    rows = np.searchsorted(linked, ends)
    distances = np.where(np.eye(len(linked), dtype=bool), 0.0, math.inf)
    distances[rows[:, 0], rows[:, 1]] = distances[rows[:, 1], rows[:, 0]] = 1.0 + (_LONGEST - 1.0) * ranks
    lengths = distances.copy()
    for node in range(len(linked)):  # Floyd and Warshall: shortest paths by way of this node
        np.minimum(distances, distances[:, node, None] + distances[node], out=distances)

    firsts = np.argmax(np.isfinite(distances), axis=1)  # the first node of each one's part
    parts = [np.flatnonzero(firsts == first) for first in np.unique(firsts)]
    parts.sort(key=lambda part: -len(part))
    blocks = [np.ix_(part, part) for part in parts]
    drawn = [_least_stress(distances[block], lengths[block]) for block in blocks]
    for part, xy in zip(parts, _in_rows(drawn), strict=True):
        places[linked[part]] = xy

    low, high = np.nanmin(places, axis=0), np.nanmax(places, axis=0)
    half = max(high[0] - low[0], ASPECT * (high[1] - low[1])) / 2.0
    return np.asarray((places - (low + high) / 2.0) / [half, half / ASPECT])


def _least_stress(distances: FloatArray, lengths: FloatArray) -> FloatArray:
    """Return places with nearly these distances, from zero, their longest way across; see `place_nodes`.

    The lengths of links are finite, and infinite where there is none.
    """
    n_nodes = len(distances)
    off = ~np.eye(n_nodes, dtype=bool)
    d = np.where(off, distances, 1.0)
    stress = np.where(np.isfinite(lengths), _STRESS_OF_LINKS, 1.0) * off / d**2
    inverse = np.linalg.pinv(np.diag(stress.sum(axis=1)) - stress, hermitian=True)

    # classical scaling, a step off it
    centred = -0.5 * (distances**2 - (distances**2).mean(axis=0))
    values, vectors = np.linalg.eigh(centred - centred.mean(axis=1, keepdims=True))
    xy = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    xy = xy + 0.05 * np.random.default_rng(_SEED).standard_normal((n_nodes, 2))
    for _ in range(_MOST_STEPS):
        pull = stress * d / _far_apart(xy)
        moved = inverse @ (pull.sum(axis=1)[:, None] * xy - pull @ xy)
        step, xy = np.abs(moved - xy).max(), moved
        if step <= _RTOL * np.ptp(xy):
            break

    for _ in range(_MOST_PUSHES):
        far = _far_apart(xy)
        lacking = np.where(off, np.maximum(_LEAST - far, 0.0), 0.0)
        if lacking.max() < 0.01 * _LEAST:
            break
        push = 0.5 * lacking / far
        xy = xy + push.sum(axis=1)[:, None] * xy - push @ xy

    axes = np.linalg.eigh(np.cov(xy.T))[1][:, ::-1]
    xy = xy @ (axes * np.where(axes[np.argmax(np.abs(axes), axis=0), [0, 1]] > 0.0, 1.0, -1.0))
    return np.asarray(xy - xy.min(axis=0))


def _in_rows(drawn: list[FloatArray]) -> list[FloatArray]:
    """Return all parts beside each other, in rows that are about as wide as the area."""
    sizes = np.array([xy.max(axis=0) + _APART for xy in drawn])
    widest = max(sizes[:, 0].max(), math.sqrt(ASPECT * sizes.prod(axis=1).sum()))
    x = y = high = 0.0
    placed = []
    for xy, (width, height) in zip(drawn, sizes.tolist(), strict=True):
        if x + width > widest:
            x, y, high = 0.0, y - high, 0.0
        placed.append(xy + np.array([x, y - height]))
        x, high = x + width, max(high, height)
    return placed


def _far_apart(xy: FloatArray) -> FloatArray:
    """Return the distances of all places, and one of each from itself."""
    far: FloatArray = np.hypot(*(side[:, None] - side for side in xy.T)) + np.eye(len(xy))
    return far
