"""The graph as a picture: who is linked to whom, how strongly, and with which sign."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dp_learn.graph import GraphEstimate, to_networkx
from dp_learn.linalg import FloatArray
from dp_learn.report.labels import drawable_labels, drawable_title

__all__ = ["draw_graph"]

_POSITIVE, _NEGATIVE = "#1f6fb4", "#c4452d"
_MAX_DRAWN_EDGES = 400
_CROWDED = 150  # names, from where on the picture is so large that fixed margins hold the title and the caption
_MAX_LABELS = 500  # around the largest picture
_INCH_PER_LETTER = 0.065
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
    graph = to_networkx(estimate)
    names = [*graph.nodes, *drowned]
    labels, families, numbered = drawable_labels(names, _LONGEST_NAME)
    labels, unnamed = _keep_strongest(labels, graph)
    longest = max(len(label) for label in labels)
    side = float(np.clip(4 + 0.12 * len(names) + 0.1 * longest, 7, 24))
    crowded = len(names) > _CROWDED
    figure = Figure(figsize=(side, side), layout=None if crowded else "constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.02, 0.05, 0.96, 0.9)) if crowded else figure.add_subplot()

    angles = 2.0 * np.pi * np.arange(len(names)) / len(names)
    places = dict(zip(names, np.column_stack([np.cos(angles), np.sin(angles)]), strict=True))
    caption = _draw_edges(axes, graph, places)
    kinds = [
        _DROWNED if index >= graph.number_of_nodes() else _LINKED if graph.degree[name] else _UNLINKED
        for index, name in enumerate(names)
    ]
    for kind in (_LINKED, _UNLINKED, _DROWNED):
        points = [place for place, own in zip(places.values(), kinds, strict=True) if own is kind]
        axes.plot(*np.reshape(points, (-1, 2)).T, ls="", **kind, zorder=2)
    for place, label, kind in zip(places.values(), labels, kinds, strict=True):
        if label:
            _write_label(axes, label, place, kind, families)

    said, title_families = drawable_title(title)
    axes.set_title(said, loc="left", fontfamily=title_families)
    numbers = "\nnames that no font here can write are numbered as in the files" if numbered else ""
    axes.set_xlabel(caption + unnamed + numbers)
    figure.legend(handles=_legend(kinds), loc="outside lower right", frameon=False)
    reach = 1.12 / (1 - 2 * _INCH_PER_LETTER * longest / side)  # room for the names
    axes.set(xticks=[], yticks=[], aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.savefig(path, dpi=130, pil_kwargs={"compress_level": 1})


def _keep_strongest(labels: list[str], graph: nx.Graph) -> tuple[list[str], str]:
    """Return the labels with only those left that there is room for, and what the caption says of it."""
    if len(labels) <= _MAX_LABELS:
        return labels, ""
    ends = dict.fromkeys(node for source, target, _ in _ranked(graph)[:_MAX_DRAWN_EDGES] for node in (source, target))
    kept = set(list(ends)[:_MAX_LABELS])
    shown = [label if node in kept else "" for node, label in zip_longest(graph, labels)]
    return shown, f"\nthe {len(kept)} columns at the ends of the strongest edges are named"


def _ranked(graph: nx.Graph) -> list[tuple[str, str, dict[str, float]]]:
    """Return the edges, strongest first."""
    return sorted(graph.edges(data=True), key=lambda edge: -edge[2]["weight"])


def _draw_edges(axes: Axes, graph: nx.Graph, places: dict[str, FloatArray]) -> str:
    """Draw the strongest edges, the weakest of them first, and return what the caption says of them."""
    ranked = _ranked(graph)
    drawn = ranked[:_MAX_DRAWN_EDGES]
    strongest = max((edge[2]["weight"] for edge in ranked), default=1.0)
    relative = np.array([data["weight"] for _, _, data in drawn[::-1]]) / max(strongest, _FULL_WIDTH)
    signs = [_POSITIVE if data["sign"] > 0 else _NEGATIVE for _, _, data in drawn[::-1]]
    colours = [to_rgba(sign, alpha) for sign, alpha in zip(signs, 0.25 + 0.7 * relative, strict=True)]
    ends = [(places[source], places[target]) for source, target, _ in drawn[::-1]]
    axes.add_collection(LineCollection(ends, colors=colours, linewidths=0.4 + 4 * relative, zorder=1))

    shown = "" if len(drawn) == len(ranked) else f" (the strongest {len(drawn)} drawn)"
    widest = f"; the widest line is a partial correlation of {strongest:.2f} in size" if ranked else ""
    return f"{len(ranked)} edge{'' if len(ranked) == 1 else 's'}{shown}{widest}"


def _write_label(axes: Axes, label: str, place: FloatArray, kind: dict[str, Any], families: list[str]) -> None:
    angle = float(np.degrees(np.arctan2(place[1], place[0])))
    turned = angle + 180 if abs(angle) > 90 else angle
    axes.text(
        1.06 * float(place[0]),
        1.06 * float(place[1]),
        label,
        rotation=turned,
        rotation_mode="anchor",
        ha="right" if abs(angle) > 90 else "left",
        va="center",
        color="#222222" if kind is _LINKED else kind["mec"],
        fontsize=8,
        fontfamily=families,
        clip_on=False,
    ).set_in_layout(False)  # there is room for it


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
