"""The links that a page draws: between which columns, how strong, how sure; and the communities that they make.

The graph as a figure for a browser; the script graph.js fills it, and answers to the reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from bokeh.models import CategoricalColorMapper, ColumnDataSource, PanTool, Range1d, TapTool

from dp_bundle.base.quoting import counted
from dp_bundle.page.colours import COMMUNITIES, shade
from dp_bundle.page.figures import FONT, Figure, by_sign, figure_text, hover, new_figure
from dp_learn.inference.networks import find_communities
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.layout import place_nodes
from dp_learn.output.summary import Result
from dp_learn.pipeline.graph import is_strong

MOST_EDGES, MOST_NODES = 1500, 500  # that are drawn
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
    numbers : ndarray of shape (n_features,) or None
        The community of every column, from 1 on, where it is known from all links rather than those that are drawn.
    at_least : float
        The strength of strong links, from which on lines are wide; see `is_strong`.
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

    @property
    def n_edges(self) -> int:
        """The number of all links."""
        return int(self.degrees.sum()) // 2

    @property
    def strong(self) -> npt.NDArray[np.bool_]:
        """A mask of the links that are drawn as strong ones."""
        return is_strong(self.weights, self.at_least)

    @cached_property
    def drawn(self) -> npt.NDArray[np.bool_]:
        """A mask of the columns at the ends of links that are drawn."""
        return np.bincount(np.concatenate([self.sources, self.targets]), minlength=len(self.columns)) > 0

    @cached_property
    def communities(self) -> list[list[int]]:
        """The columns that are linked among each other more than with others, largest group first."""
        if self.numbers is not None:
            places = np.where(self.drawn, self.numbers, np.nan)
            groups = [np.flatnonzero(places == number).tolist() for number in np.unique(places[self.drawn])]
            return sorted(groups, key=lambda group: (-len(group), group))
        return find_communities(self.sources.tolist(), self.targets.tolist(), np.abs(self.weights).tolist())


def find_network(found: Result) -> Network | None:
    """Return the links of a result, or None if it has none to speak of, as a regression."""
    edges: Any = found.tables.get("edges.csv")
    columns: Sequence[str] = found.summary.get("columns", ())
    measure, categories = "correlation", frozenset[str]()
    if (graph := found.graph) is not None:
        edges, columns, measure = graph.edge_columns, graph.columns, "partial_correlation"
        categories = graph.categories
    elif edges is None:
        return None

    weights = np.asarray(edges[measure], dtype=float)
    places = {name: place for place, name in enumerate(columns)}
    ends = np.array([[places[name] for name in edges[end]] for end in ("source", "target")], dtype=np.int64)
    kept = _few(np.argsort(-np.abs(weights), kind="stable"), *ends.reshape(2, -1).tolist())
    degrees = np.bincount(ends.ravel(), minlength=len(columns))
    tests = {name: np.asarray(edges[name])[kept] for name in _TESTS if name in edges}
    first, second = ends[:, kept]
    unsigned = np.any(np.isin(ends[:, kept], [places[name] for name in categories]), axis=0)
    measures = None if found.learned is None else found.learned.measures
    numbers = None if measures is None else np.asarray(measures.columns["community"])
    label, at_least = measure.replace("_", " "), found.summary.get("at_least", 0.0)
    return Network(tuple(columns), first, second, weights[kept], label, degrees, unsigned, tests, numbers, at_least)


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


_HEIGHT, _LOW, _FEW = 620, 320, 4  # pixels; the second for so few columns
_ASPECT = 1.5  # of the figure on a screen
_MOST_UNLINKED, _IN_ROW, _ROW = 60, 20, 0.1  # columns without a link that are drawn, in how many rows how far apart
_AT_FIRST = 250  # links that are shown before the reader asks for more
_LONGEST_NAME = 28


def draw_network(network: Network) -> Figure:
    """Return the empty figure that the page's script fills with `network_data`."""
    names = [str(place) for place in range(len(COMMUNITIES))]
    communities = CategoricalColorMapper(factors=names, palette=[each.light for each in COMMUNITIES])
    across, up = Range1d(start=-1.08, end=1.08), Range1d(start=-1.08, end=1.08)
    plot = new_figure(height=_LOW if len(network.columns) <= _FEW else _HEIGHT, x_range=across, y_range=up)
    plot.axis.visible = plot.grid.visible = False

    edges = empty_source("graph-edges", "x0 y0 x1 y1 sign width dash alpha")
    line = {"line_color": by_sign("sign"), "line_cap": "butt"}  # round ends would fill the gaps of wide dashed lines
    plot.segment("x0", "y0", "x1", "y1", source=edges, line_width="width", line_dash="dash", alpha="alpha", **line)
    middles = empty_source("graph-middles", "x0 y0 x1 y1 ends value interval q")
    touched = plot.segment("x0", "y0", "x1", "y1", source=middles, line_width=9, line_alpha=0.0)

    nodes = empty_source("graph-nodes", "x y name size community alpha ring width links noise")
    filled = {"fill_color": {"field": "community", "transform": communities}, "line_color": shade("ink").light}
    filled |= {"size": "size", "fill_alpha": "alpha", "line_alpha": "ring", "line_width": "width"}
    discs = plot.scatter("x", "y", source=nodes, **filled)
    discs.selection_glyph = discs.nonselection_glyph = touched.nonselection_glyph = None

    labels = empty_source("graph-labels", "x y text dx dy align")
    place = {"x_offset": "dx", "y_offset": "dy", "text_align": "align", "text_baseline": "middle"}
    write_names(plot, labels, **place)
    plot.add_tools(
        PanTool(),
        TapTool(renderers=[discs]),
        hover([("", "<b>@name</b>"), ("", "@links"), ("", "@noise")], renderers=[discs]),
        hover([("", "<b>@ends</b>"), ("", "@value"), ("", "@interval"), ("", "@q")], renderers=[touched]),
    )
    return Figure("graph", "Columns and the links between them", _caption(network), _alternative(network), plot)


def write_names(plot: Any, source: ColumnDataSource, **place: Any) -> None:
    """Write the texts of a source over paper, so that they can be read above lines."""
    for ink, halo in (("paper", 3.0), ("ink", 0.0)):  # Bokeh draws a text's outline over the text
        outline = {"text_outline_color": shade(ink).light if halo else None, "text_outline_width": halo}
        font = {"text_font": {"value": FONT}, "text_font_size": "12px", "text_color": shade(ink).light}
        plot.text("x", "y", text="text", source=source, **place, **font, **outline)


def empty_source(name: str, columns: str) -> ColumnDataSource:
    """Return a source without rows, for a script to fill."""
    return ColumnDataSource({column: [] for column in columns.split()}, name=name)


def network_data(network: Network, noise: dict[str, float] | None) -> dict[str, Any]:
    """Return what the script fills the figure with.

    Parameters
    ----------
    network : Network
        The links.
    noise : dict of str to float, optional
        The share of noise in each published variance, by the column's name.
    """
    places, hidden = _places(network)
    group = np.full(len(network.columns), -1)
    for number, members in enumerate(network.communities):
        group[members] = number % len(COMMUNITIES)
    edges = {"source": network.sources.tolist(), "target": network.targets.tolist(), "weight": _short(network.weights)}
    return {
        "names": [figure_text(name, 80) for name in network.columns],
        "labels": [figure_text(name, _LONGEST_NAME) for name in network.columns],
        "x": _short(places[:, 0]),
        "y": _short(places[:, 1]),
        "hidden": hidden,
        "community": group.tolist(),
        "noise": None if noise is None else _short(np.array([noise[name] for name in network.columns])),
        "degrees": network.degrees.tolist(),
        "unsigned": network.unsigned.tolist(),
        "strong": network.strong.tolist(),
        "edges": edges | {name: _short(values) for name, values in network.tests.items()},
        "measure": network.measure,
        "n_edges": network.n_edges,
        "at_first": _AT_FIRST,
    }


def _places(network: Network) -> tuple[FloatArray, list[int]]:
    """Return where the columns are drawn, from -1 to 1, and those that are not drawn.

    Columns without a link stand in rows at the bottom.
    """
    drawn = np.flatnonzero(network.degrees == 0)[:_MOST_UNLINKED]
    n_rows = -(-len(drawn) // _IN_ROW)
    bottom = -1.0 + _ROW * n_rows
    places = place_nodes(len(network.columns), np.column_stack([network.sources, network.targets]), aspect=_ASPECT)
    places[:, 1] = bottom + (1.0 - bottom) * (places[:, 1] + 1.0) / 2.0

    for index, place in enumerate(drawn.tolist()):
        row, column = divmod(index, _IN_ROW)
        in_row = min(_IN_ROW, len(drawn) - _IN_ROW * row)
        places[place] = 2.0 * (column + 0.5) / in_row - 1.0, bottom - _ROW * (row + 1.0)
    hidden = np.flatnonzero(np.isnan(places[:, 0]))
    return np.nan_to_num(places), hidden.tolist()


def _short(values: FloatArray) -> list[float | None]:
    """Return numbers with five digits, which is what a reader sees of them."""
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in values.tolist()]


def _caption(network: Network) -> str:
    n_drawn = len(network.weights)
    few = f" Only {n_drawn:,} of the strongest, among {int(network.drawn.sum())} columns, can be shown."
    strongest = f" At first the strongest {_AT_FIRST} are shown." if n_drawn > _AT_FIRST else ""
    strongest += "" if network.n_edges == n_drawn else few
    hidden = int(np.count_nonzero(network.degrees == 0)) - _MOST_UNLINKED
    if hidden > 0:
        more = counted(hidden, "more column")
        strongest += f" {more} without a link {'is' if hidden == 1 else 'are'} not drawn."
    return (
        f"Each disc is a column, larger with more links; each line is a {network.measure}, wider where it is stronger, "
        "and dashed where it is negative. Columns of one colour are linked among each other more than with others. "
        f"Places have no meaning but that linked columns are near each other.{strongest}"
    )


def _alternative(network: Network) -> str:
    most = int(np.argmax(network.degrees))
    if network.n_edges == 1:
        ends = " and ".join(f"“{figure_text(network.columns[each[0]])}”" for each in (network.sources, network.targets))
        return f"One link, between {ends}. All numbers are in the tables of links and of columns."
    n_groups = len(network.communities)
    return (
        f"{network.n_edges:,} links in {counted(n_groups, 'group')} of columns; "
        f"“{figure_text(network.columns[most])}” has the most, {network.degrees[most]}. "
        "All numbers are in the tables of links and of columns."
    )
