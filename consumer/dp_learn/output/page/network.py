"""The links that a page draws: between which columns, how strong, how sure; and the communities that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx
import numpy as np
import numpy.typing as npt

from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.page.findings import Findings

MOST_EDGES, MOST_NODES = 1500, 500  # that are drawn
_SEED = 1  # of the search for communities
_TESTS = ("evidence", "desparsified", "ci_low", "ci_high", "q_value")
Places = npt.NDArray[np.int64]


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
    """

    columns: tuple[str, ...]
    sources: Places
    targets: Places
    weights: FloatArray
    measure: str
    degrees: Places
    unsigned: npt.NDArray[np.bool_]
    tests: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def n_edges(self) -> int:
        """The number of all links."""
        return int(self.degrees.sum()) // 2

    @cached_property
    def drawn(self) -> npt.NDArray[np.bool_]:
        """A mask of the columns at the ends of links that are drawn."""
        return np.bincount(np.concatenate([self.sources, self.targets]), minlength=len(self.columns)) > 0

    @cached_property
    def communities(self) -> list[list[int]]:
        """The columns that are linked among each other more than with others, largest group first.

        References
        ----------
        Blondel, Guillaume, Lambiotte & Lefebvre (2008), Fast unfolding of communities in large networks, Journal of
        Statistical Mechanics P10008.
        """
        graph = nx.Graph()
        ends = zip(self.sources.tolist(), self.targets.tolist(), np.abs(self.weights).tolist(), strict=True)
        graph.add_weighted_edges_from(ends)
        found = [sorted(group) for group in nx.community.louvain_communities(graph, seed=_SEED)]
        return sorted(found, key=lambda group: (-len(group), group))


def find_network(findings: Findings) -> Network | None:
    """Return the links of a result, or None if it has none to speak of, as a regression."""
    if findings.graph is not None:
        graph, edges = findings.graph, findings.graph.edge_columns
        categories = graph.categories
        return _strongest(graph.columns, edges["source"], edges["target"], edges, "partial_correlation", categories)
    if (frame := findings.tables.get("edges.csv")) is None:
        return None
    numbers = {"correlation": frame["correlation"].to_numpy(dtype=float)}
    return _strongest(findings.summary["columns"], list(frame["source"]), list(frame["target"]), numbers, "correlation")


def _strongest(
    columns: Sequence[str],
    sources: list[str],
    targets: list[str],
    numbers: dict[str, FloatArray],
    measure: str,
    categories: frozenset[str] = frozenset(),
) -> Network:
    weights = numbers[measure]
    places = {name: place for place, name in enumerate(columns)}
    ends = np.array([[places[name] for name in names] for names in (sources, targets)], dtype=np.int64).reshape(2, -1)
    kept = _few(np.argsort(-np.abs(weights), kind="stable"), *ends.tolist())
    degrees = np.bincount(ends.ravel(), minlength=len(columns))
    tests = {name: numbers[name][kept] for name in _TESTS if name in numbers}
    first, second = ends[:, kept]
    with_category = np.isin(ends[:, kept], [places[name] for name in categories])
    unsigned = with_category[0] | with_category[1]
    measured = measure.replace("_", " ")
    return Network(tuple(columns), first, second, weights[kept], measured, degrees, unsigned, tests)


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
