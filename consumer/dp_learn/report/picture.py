"""The graph as a picture: who is linked to whom, how strongly, and with which sign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dp_learn.graph import GraphEstimate
from dp_learn.linalg import FloatArray
from dp_learn.report.labels import drawable_labels, drawable_title

__all__ = ["draw_graph"]

_POSITIVE, _NEGATIVE = "#1f6fb4", "#c4452d"
_MAX_DRAWN_EDGES = 400
_MAX_LABELS = 500  # around the largest picture
_INCH_PER_LETTER = 0.065
_INCH_PER_POINT = 1 / 72
_LINE_SPACING = 1.5  # of letters' heights
_MARGIN = 0.12  # inches
_IN_A_ROW = 2  # entries of the legend
_LONGEST_NAME = 36
_FULL_WIDTH = 0.2  # a partial correlation of this size is drawn at full width, if there is no stronger one
_LINKED: dict[str, Any] = {"marker": "o", "ms": 7, "mfc": "#f2f2ee", "mec": "#333333"}
_UNLINKED: dict[str, Any] = {"marker": "o", "ms": 7, "mfc": "#f2f2ee", "mec": "#aaaaaa"}
_DROWNED: dict[str, Any] = {"marker": "X", "ms": 8, "mfc": "#ffffff", "mec": "#8a6d1a"}


def draw_graph(estimate: GraphEstimate, path: Path, title: str, drowned: Sequence[str] = ()) -> None:
    """Draw the estimate to a PNG file: width of a line for the size of a partial correlation, colour for its sign.

    Columns without an edge are drawn in grey, and those that the noise drowned, which no estimate is about, as crosses
    after them; the legend says so. Of more than 400 edges only the strongest 400 are drawn, and the caption says so.
    """
    edges = _ranked_edges(estimate)
    names = [*estimate.columns, *drowned]
    labels, families, numbered = drawable_labels(names, _LONGEST_NAME)
    labels, unnamed = _keep_strongest(labels, estimate, edges)
    longest = max(len(label) for label in labels)
    side = float(np.clip(4 + 0.12 * len(names) + 0.1 * longest, 7, 24))
    figure = Figure(figsize=(side, side))
    FigureCanvasAgg(figure)

    said, title_families = drawable_title(title)
    numbers = "\nnames that no font here can write are numbered as in the files" if numbered else ""
    places = np.exp(2j * np.pi * np.arange(len(names)) / len(names)).view(np.float64).reshape(-1, 2)
    caption = _caption(edges) + unnamed + numbers
    kinds = _kinds(estimate, edges, drowned)
    legend = _legend(kinds)
    axes = figure.add_axes(_room(side, said, caption, len(legend)))
    _draw_edges(axes, edges, dict(zip(estimate.columns, places, strict=False)))
    _draw_nodes(axes, labels, places, kinds, families)

    axes.set_title(said, loc="left", fontfamily=title_families)
    axes.set_xlabel(caption)
    figure.legend(handles=legend, loc="lower right", ncols=_IN_A_ROW, frameon=False)
    reach = 1.12 / (1 - 2 * _INCH_PER_LETTER * longest / side)  # room for the names
    axes.set(xticks=[], yticks=[], aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.savefig(path, dpi=130, pil_kwargs={"compress_level": 1})


def _ranked_edges(estimate: GraphEstimate) -> list[tuple[str, str, float]]:
    """Return the ends and the partial correlation of every edge, strongest first."""
    edges = estimate.edge_columns
    rows = zip(edges["source"], edges["target"], edges["partial_correlation"].tolist(), strict=True)
    return sorted(rows, key=lambda edge: -abs(edge[2]))


def _keep_strongest(
    labels: list[str], estimate: GraphEstimate, edges: Sequence[tuple[str, str, float]]
) -> tuple[list[str], str]:
    """Return the labels with only those left that there is room for, and what the caption says of it."""
    if len(labels) <= _MAX_LABELS:
        return labels, ""
    ends = dict.fromkeys(node for source, target, _ in edges[:_MAX_DRAWN_EDGES] for node in (source, target))
    kept = set(list(ends)[:_MAX_LABELS])
    shown = [label if node in kept else "" for node, label in zip_longest(estimate.columns, labels)]
    return shown, f"\nthe {len(kept)} columns at the ends of the strongest edges are named"


def _caption(edges: Sequence[tuple[str, str, float]]) -> str:
    shown = "" if len(edges) <= _MAX_DRAWN_EDGES else f" (the strongest {_MAX_DRAWN_EDGES} drawn)"
    widest = f"; the widest line is a partial correlation of {abs(edges[0][2]):.2f} in size" if edges else ""
    return f"{len(edges)} edge{'' if len(edges) == 1 else 's'}{shown}{widest}"


def _room(side: float, title: str, caption: str, n_entries: int) -> tuple[float, float, float, float]:
    """Return the rectangle of the axes, below the title and above the caption, under which the legend is."""
    line = _INCH_PER_POINT * _LINE_SPACING * rcParams["font.size"]
    above = _MARGIN + 1.2 * line * (title.count("\n") + 1)
    below = 2 * _MARGIN + line * (caption.count("\n") + 1 + math.ceil(n_entries / _IN_A_ROW))
    return _MARGIN / side, below / side, 1 - 2 * _MARGIN / side, 1 - (above + below) / side


def _draw_edges(axes: Axes, edges: Sequence[tuple[str, str, float]], places: dict[str, FloatArray]) -> None:
    """Draw the strongest edges, the weakest of them first."""
    drawn = edges[:_MAX_DRAWN_EDGES][::-1]
    strongest = max((abs(weight) for _, _, weight in drawn), default=1.0)
    relative = np.array([abs(weight) for _, _, weight in drawn]) / max(strongest, _FULL_WIDTH)
    signs = [_POSITIVE if weight > 0 else _NEGATIVE for _, _, weight in drawn]
    colours = [to_rgba(sign, alpha) for sign, alpha in zip(signs, 0.25 + 0.7 * relative, strict=True)]
    ends = [(places[source], places[target]) for source, target, _ in drawn]
    axes.add_collection(LineCollection(ends, colors=colours, linewidths=0.4 + 4 * relative, zorder=1), autolim=False)


def _kinds(
    estimate: GraphEstimate, edges: Sequence[tuple[str, str, float]], drowned: Sequence[str]
) -> list[dict[str, Any]]:
    linked = {end for source, target, _ in edges for end in (source, target)}
    return [*(_LINKED if name in linked else _UNLINKED for name in estimate.columns), *(_DROWNED for _ in drowned)]


def _draw_nodes(
    axes: Axes, labels: Sequence[str], places: FloatArray, kinds: Sequence[dict[str, Any]], families: list[str]
) -> None:
    """Draw the nodes, those of one kind at once, and write their labels outside the circle."""
    for kind in (_LINKED, _UNLINKED, _DROWNED):
        axes.plot(*places[[each is kind for each in kinds]].T, ls="", **kind, zorder=2)
    for label, place, kind in zip(labels, places, kinds, strict=True):
        if label:
            _write_label(axes, label, place, "#222222" if kind is _LINKED else kind["mec"], families)


def _write_label(axes: Axes, label: str, place: FloatArray, color: str, families: list[str]) -> None:
    angle = float(np.degrees(np.arctan2(place[1], place[0])))
    axes.text(
        1.06 * float(place[0]),
        1.06 * float(place[1]),
        label,
        rotation=angle + 180 if abs(angle) > 90 else angle,
        rotation_mode="anchor",
        ha="right" if abs(angle) > 90 else "left",
        va="center",
        color=color,
        fontsize=8,
        fontfamily=families,
        clip_on=False,
    )


def _legend(kinds: Sequence[dict[str, Any]]) -> list[Line2D]:
    """Return an entry for both signs, and for every kind of node that needs a word."""
    entries = [Line2D([], [], color=_POSITIVE, lw=2, label="positive")]
    entries += [Line2D([], [], color=_NEGATIVE, lw=2, label="negative")]
    for kind, label in ((_UNLINKED, "without an edge"), (_DROWNED, "drowned by the noise")):
        count = sum(each is kind for each in kinds)
        if count:
            columns = f"{count} column{'' if count == 1 else 's'}"
            entries.append(Line2D([], [], ls="", label=f"{columns} {label}", **kind))
    return entries
