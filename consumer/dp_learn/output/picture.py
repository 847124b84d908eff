"""The graph as a still picture: who is linked to whom, how strongly, and with which sign; for a screen or for a paper.

matplotlib draws it, as PNG, SVG, PDF or whatever else it writes. Texts are in its own font, which has Latin, Greek,
Cyrillic, Arabic and Hebrew. Other scripts need a font of the system's, and a column whose name no font can write is
called by its number in the files.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_bundle.base.quoting import and_more, counted, printable, quote_name
from dp_bundle.page.document import COMMUNITIES, shade
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.network import ASPECT, MOST_UNLINKED, Network, count_by_strength

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

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
        said += f", {count_by_strength(int(network.strong.sum()), network.n_edges, network.at_least)}"
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
