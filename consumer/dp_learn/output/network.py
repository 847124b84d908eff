"""The links of a graph as every view shows them: between which columns, how strong, how sure, in which groups, where.

The page, the picture, `plot()` and a portal's page draw the same links at the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_learn.inference.networks import find_communities
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.layout import Places, place_nodes
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
