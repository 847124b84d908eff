"""The links of a graph as every view shows them: between which columns, how strong, how sure, in which groups, where.

The page, the picture, `plot()` and a portal's page draw the same links at the same places.

The places of a graph's nodes: strongly linked ones near each other, the same places for the same graph.

The graph as a still picture: who is linked to whom, how strongly, and with which sign; for a screen or for a paper.

matplotlib draws it, as PNG, SVG, PDF or whatever else it writes. Texts are in its own font, which has Latin, Greek,
Cyrillic, Arabic and Hebrew. Other scripts need a font of the system's, and a column whose name no font can write is
called by its number in the files.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_bundle.base.document import COMMUNITIES, shade
from dp_bundle.base.quoting import and_more, counted, printable, quote_name
from dp_learn.matrices.linalg import FloatArray, Mask, Places
from dp_learn.pipeline.graph import GraphEstimate, is_strong
from dp_learn.pipeline.measures import NodeMeasures, find_communities, shorten_paths

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

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
    determined : sequence of str
        Columns that others determine: links between two of them cannot be distinguished.
    given : ndarray of shape (n_features, 2) or None
        Where the columns are, if other links than these place them, too.
    """

    columns: tuple[str, ...]
    sources: Places
    targets: Places
    weights: FloatArray
    measure: str
    degrees: Places
    unsigned: Mask
    tests: dict[str, FloatArray] = field(default_factory=dict)
    numbers: FloatArray | None = None
    at_least: float = 0.0
    determined: Sequence[str] = ()
    given: FloatArray | None = None

    @property
    def n_edges(self) -> int:
        """The number of all links."""
        return int(self.degrees.sum()) // 2

    @property
    def strong(self) -> Mask:
        """A mask of the links that are drawn as strong ones, which those between determined columns are not."""
        determined = np.isin(self.columns, self.determined)[self.ends].all(axis=1)
        return is_strong(self.weights, self.at_least) & ~determined

    @property
    def ends(self) -> Places:
        """The ends of the links that are drawn, shape (n_edges, 2)."""
        return np.column_stack([self.sources, self.targets])

    @cached_property
    def drawn(self) -> Mask:
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


def place_all(ends: Places, weights: FloatArray, alone: Mask) -> FloatArray:
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
    kept = _few(np.argsort(-np.abs(weights), kind="stable"), ends.reshape(2, -1))
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


def _few(order: Places, ends: Places) -> Places:
    """Return the first links of an order that are between the few columns that it begins with."""
    met, firsts = np.unique(ends[:, order].T, return_index=True)
    known = met[np.argsort(firsts)][:MOST_NODES]
    return order[np.isin(ends[:, order], known).all(axis=0)][:MOST_EDGES]


ASPECT = 1.5  # width over height of the area that graphs are drawn on
_SEED = 1  # of the steps off a start in which nodes may be at one place
_LONGEST = 3.0  # times as long as the strongest link is the weakest one to be
_STRESS_OF_LINKS = 4.0  # times as much as a pair without a link at the same distance counts
_MOST_STEPS, _RTOL = 100, 1e-4
_LEAST, _MOST_PUSHES = 0.35, 50  # between two nodes, in lengths of the strongest link
_APART = 1.0  # between two parts, in lengths of the strongest link


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
    shorten_paths(distances)

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


_LONGEST_NAME, _NAMED = 28, 10
_SMALLEST, _LARGEST = 7.0, 20.0  # inches across
_LINE, _MARGIN, _LEGEND = 0.22, 0.1, 3  # inches, and lines of the legend
_DOTS = 130  # to an inch
_TITLE, _CAPTION, _NAME = 12, 9, 8  # points
_DISC, _AWAY = 4.5, 6.0  # points: half of a disc, and from its middle to its name
_THIN, _WIDEST = 0.5, 4.5  # points
_PALEST = 0.35  # opacity
_FULL = 0.2  # a partial correlation of this size is drawn at full width, if there is no stronger one
_CLEAR = 40.0  # degrees between a name and a link of its column, where this can be had
_AROUND = (0.0, 180.0, 90.0, 270.0, 45.0, 135.0, 225.0, 315.0)  # degrees: where a name is tried, from its column
_REACH = 1.04, 1.06  # across and up, where places are from -1 to 1
_OWN, _BOXES = "DejaVu Sans", "Last Resort"  # which has every letter, as a box with the script's name


def new_sheet(network: Network, title: str, *, pyplot: bool = False) -> tuple[Figure, Axes]:
    """Return a figure as large as a graph needs, and its axes, with room for a title, a caption and a legend."""
    make: Callable[..., Figure]
    if pyplot:
        from matplotlib.pyplot import figure as make
    else:
        from matplotlib.figure import Figure as make  # noqa: N813
    width = min(_SMALLEST + 0.5 * max(math.sqrt(len(network.columns)) - 3.0, 0.0), _LARGEST)
    above, below = _MARGIN + (title.count("\n") + 1) * 1.3 * _LINE, _MARGIN + (_LEGEND + 2.2) * _LINE
    graph = (width - 2.0 * _MARGIN) / ASPECT
    height = above + graph + below
    sheet = make(figsize=(width, height), dpi=_DOTS, layout="none")  # whatever a style says
    axes = sheet.add_axes((_MARGIN / width, below / height, 1.0 - 2.0 * _MARGIN / width, graph / height))
    return sheet, axes


def draw_intervals(table: pd.DataFrame, label: str, ax: Axes | None) -> Axes:
    """Draw numbers with their intervals, a line each, the first at the top.

    Parameters
    ----------
    table : DataFrame
        By the names of the lines: the number, and both ends of its interval.
    label : str
        What they are.
    ax : matplotlib Axes or None
        Where to draw; None for a new figure, as high as it needs to be.
    """
    from matplotlib.pyplot import subplots

    places = np.arange(len(table), 0, -1)
    axes = subplots(figsize=(_SMALLEST, 1.0 + _LINE * len(table)), layout="constrained")[1] if ax is None else ax
    values, low, high = table.to_numpy().T
    axes.hlines(places, low, high, color=shade("control").light)
    axes.plot(values, places, "o", color=shade("positive").light)
    axes.axvline(0.0, color=shade("faint").light, linestyle=":")
    axes.set_yticks(places, [*map(str, table.index)], parse_math=False)
    axes.set_xlabel(label)
    return axes


def save_picture(network: Network, target: Any, title: str, drowned: Sequence[str] = ()) -> None:
    """Draw a graph into a new file, a PNG one by default; see `draw_network`."""
    sheet, axes = new_sheet(network, title)
    draw_network(network, axes, title, drowned)
    sheet.savefig(target)


def draw_network(network: Network, axes: Axes, title: str, drowned: Sequence[str] = ()) -> None:
    """Draw a graph: width of a line for the size of a link, colour and dashes for its sign, discs for columns.

    Columns have the colours of their groups. Links weaker than `network.at_least` are all as thin and as pale. The
    caption counts links, and names the columns that the noise drowned, which no estimate is about.

    Parameters
    ----------
    network : Network
    axes : matplotlib Axes
        Where to draw.
    title : str
        One or two lines.
    drowned : sequence of str
        Names of columns.
    """
    families, missing = _find_fonts("".join((title, *network.columns, *drowned)))
    labels = [
        f"column {place}" if missing.intersection(name) else _cut(name)
        for place, name in enumerate(network.columns, start=1)
    ]
    text: dict[str, Any] = {"family": families, "parse_math": False, "color": shade("ink").light}
    axes.set(xlim=(-_REACH[0], _REACH[0]), ylim=(-_REACH[1], _REACH[1]), xticks=[], yticks=[], frame_on=False)
    said = "".join("\ufffd" if letter in missing else letter for letter in title)
    axes.set_title(said, loc="left", fontsize=_TITLE, **text)
    if not network.n_edges:
        axes.text(0.5, 0.6, "no link is found", ha="center", transform=axes.transAxes)

    _draw_links(network, axes)
    _draw_columns(network, axes)
    n_unnamed = _write_names(network, axes, labels, text)
    notes = [_caption(network)]
    if drowned:
        notes.append(f"drowned by the noise, and left out: {and_more([*map(quote_name, drowned)], _NAMED)}")
    if n_unnamed:
        notes.append(f"{counted(n_unnamed, 'name')} without room {'is' if n_unnamed == 1 else 'are'} left out")
    if any(map(missing.intersection, network.columns)):
        notes.append("names that no font here can write are numbered as in the files")
    axes.set_xlabel("\n".join(("; ".join(notes[:1]), "; ".join(notes[1:]))), loc="left", fontsize=_CAPTION, **text)
    below = -2.1 * _LINE / (axes.bbox.height / axes.figure.dpi)
    legend: dict[str, Any] = {"ncols": 4, "frameon": False, "fontsize": _CAPTION, "borderaxespad": 0.0}
    legend |= {"columnspacing": 1.0, "handlelength": 1.5, "handletextpad": 0.4}  # four columns fit
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, below), **legend)


def _draw_links(network: Network, axes: Axes) -> None:
    """Draw all links, the strongest above the others."""
    from matplotlib.collections import LineCollection

    strongest = max(float(np.abs(network.weights).max(initial=0.0)), _FULL)
    relative = np.where(network.strong, np.abs(network.weights) / strongest, 0.0)[::-1]
    negative, ends = network.weights[::-1] < 0.0, network.places[network.ends[::-1]]
    for is_negative, name, style in ((False, "positive", "-"), (True, "negative", (0.0, (4.0, 2.0)))):
        own = negative == is_negative
        width, colour = _THIN + (_WIDEST - _THIN) * relative[own], shade(name).light
        colours = [(colour, opacity) for opacity in _PALEST + (1.0 - _PALEST) * relative[own]]
        lines = LineCollection(ends[own], linewidths=width, colors=colours, linestyles=[style])
        axes.add_collection(lines)
        label = "positive, or without a sign" if network.unsigned.any() and not is_negative else name
        axes.plot([], [], linestyle=style, linewidth=2.0, color=colour, label=label)


def _draw_columns(network: Network, axes: Axes) -> None:
    """Draw a disc for every column, in the colour of its group."""
    look: dict[str, Any] = {"s": (2.0 * _DISC) ** 2, "edgecolors": shade("paper").light, "zorder": 2}
    n_groups = len(network.communities)
    for number, group in enumerate(network.communities):
        label = f"group {number + 1}, {counted(len(group), 'column')}" if n_groups <= len(COMMUNITIES) else None
        colour = COMMUNITIES[number % len(COMMUNITIES)].light
        axes.scatter(*network.places[group].T, color=colour, label=label, **look)
    others = np.flatnonzero(~network.drawn)
    if n_unlinked := int(np.count_nonzero(network.degrees == 0)):
        label = f"{n_unlinked} without a link"
        axes.scatter(*network.places[others].T, color=shade("faint").light, label=label, **look)


def _caption(network: Network) -> str:
    """Return how many links there are, and how large the largest is."""
    if not network.n_edges:
        return ""
    said = counted(network.n_edges, "link")
    if network.at_least and network.n_edges == len(network.weights):
        strong = is_strong(network.weights, network.at_least).tolist()
        said += f", {count_by_strength(sum(strong), network.n_edges, network.at_least)}"
    if network.determined:
        said += "; links between columns that others determine are thin"
    if len(network.weights) < network.n_edges:
        said += f" (the strongest {len(network.weights):,} drawn)"
    more = int(np.count_nonzero(network.degrees == 0)) - MOST_UNLINKED
    hidden = f"; {counted(more, 'more column')} without a link {'is' if more == 1 else 'are'} not drawn"
    largest = f"; the largest {network.measure} is {float(np.abs(network.weights).max()):.2f} in size"
    return said + largest + (hidden if more > 0 else "")


def _cut(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def _write_names(network: Network, axes: Axes, labels: Sequence[str], text: dict[str, Any]) -> int:
    """Write the names that have room beside their columns, over no other one; return how many have none."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.patheffects import AbstractPathEffect, withStroke
    from matplotlib.transforms import Bbox

    make: Any = RendererAgg
    renderer = make(1, 1, axes.figure.dpi)  # measures texts; without one, a whole one is made for each of them
    point = axes.figure.dpi / 72.0
    halo: list[AbstractPathEffect] = [withStroke(linewidth=2.0, foreground=shade("paper").light)]
    shown = np.flatnonzero(np.isfinite(network.places[:, 0]))
    at = axes.transData.transform(network.places)
    boxes = {node: Bbox(at[node] + point * _DISC * np.array([[-1.0], [1.0]])) for node in shown.tolist()}
    taken, n_unnamed = list(boxes.values()), 0
    for node in sorted(boxes, key=lambda each: (-network.degrees[each], each)):
        name = axes.annotate(
            labels[node], network.places[node], (0, 0), textcoords="offset points", size=_NAME, va="center", **text
        )
        name.set_path_effects(halo)
        extent = name.get_window_extent(renderer)
        others = [box for box in taken if box is not boxes[node]]
        for degrees in _directions(network, at, node):
            box = _put_beside(name, at[node], degrees, extent, point)
            inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
            if inside and axes.bbox.y0 <= box.y0 and box.y1 <= axes.bbox.y1 and not box.count_overlaps(others):
                taken.append(box)
                break
        else:
            name.remove()
            n_unnamed += 1
    return n_unnamed


def _put_beside(name: Annotation, at: FloatArray, degrees: float, extent: Any, point: float) -> Any:
    """Put a name in this direction from its column, and return the box that it fills there."""
    from matplotlib.transforms import Bbox

    across, up = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    offset = _AWAY * across, (_AWAY + 0.3 * _NAME * abs(up)) * up
    name.xyann = offset
    side = 0.5 if abs(across) < 1e-9 else 0.0 if across > 0.0 else 1.0
    name.set_horizontalalignment("center" if side == 0.5 else "right" if side else "left")
    left, middle = at[0] + point * offset[0] - side * extent.width, at[1] + point * offset[1]
    return Bbox.from_bounds(left, middle - extent.height / 2.0, extent.width, extent.height)


def _directions(network: Network, at: FloatArray, node: int) -> list[float]:
    """Return the directions in which a name is tried, those first that are away from all links of its column."""
    others = at[np.concatenate([network.targets[network.sources == node], network.sources[network.targets == node]])]
    links = np.degrees(np.arctan2(others[:, 1] - at[node, 1], others[:, 0] - at[node, 0]))
    away = {each: np.abs((each - links + 180.0) % 360.0 - 180.0).min(initial=180.0) for each in _AROUND}
    return sorted(_AROUND, key=lambda each: away[each] < _CLEAR)


def _find_fonts(text: str) -> tuple[list[str], set[str]]:
    """Return the families of fonts for a text, the own one first, and the letters that no font of this machine has."""
    from matplotlib import font_manager

    families, missing = [_OWN], {letter for letter in text if letter.isprintable() and not letter.isascii()}
    if missing:
        missing -= _letters(font_manager.findfont(_OWN))
    for font in font_manager.fontManager.ttflist if missing else ():
        if font.name != _OWN and not font.name.startswith(_BOXES) and (found := missing & _letters(font.fname)):
            families.append(font.name)
            missing -= found
    return families, missing


def _letters(file: str) -> set[str]:
    """Return every letter that a font has."""
    from matplotlib.font_manager import get_font

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fonts of the system's that are not quite in order
        try:
            return {chr(code) for code in get_font(file).get_charmap()}
        except (OSError, RuntimeError):
            return set()
