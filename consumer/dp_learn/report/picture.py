"""The graph as a picture: who is linked to whom, how strongly, and with which sign."""

from __future__ import annotations

import warnings
from pathlib import Path

import networkx as nx
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dp_learn.graph import GraphEstimate, to_networkx

__all__ = ["draw_graph"]

_POSITIVE, _NEGATIVE, _NODE = "#1f6fb4", "#c4452d", "#f2f2ee"
_MAX_DRAWN_EDGES = 400
_INCH_PER_LETTER = 0.065
_LONGEST_NAME = 36
_FULL_WIDTH = 0.2  # a partial correlation of this size is drawn at full width, if there is no stronger one


def draw_graph(estimate: GraphEstimate, path: Path, title: str) -> None:
    """Draw the estimate to a PNG file: width of a line for the size of a partial correlation, colour for its sign.

    Of more than 400 edges only the strongest 400 are drawn, and the caption says so.
    """
    graph = to_networkx(estimate)
    ranked = sorted(graph.edges(data=True), key=lambda edge: -edge[2]["weight"])
    drawn = ranked[:_MAX_DRAWN_EDGES]
    longest = max(len(_shortened(name)) for name in graph.nodes)
    side = float(np.clip(4 + 0.12 * graph.number_of_nodes() + 0.1 * longest, 7, 24))
    figure = Figure(figsize=(side, side), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    layout = nx.circular_layout(graph)
    strongest = max((edge[2]["weight"] for edge in ranked), default=1.0)
    for source, target, data in reversed(drawn):
        relative = data["weight"] / max(strongest, _FULL_WIDTH)
        colour = _POSITIVE if data["sign"] > 0 else _NEGATIVE
        ends = np.array([layout[source], layout[target]])
        axes.plot(*ends.T, color=colour, lw=0.4 + 4 * relative, alpha=0.25 + 0.7 * relative, zorder=1)
    for name, place in layout.items():
        _draw_node(axes, name, place, linked=graph.degree[name] > 0)
    axes.set_title(title, loc="left")
    shown = "" if len(drawn) == len(ranked) else f" (the strongest {len(drawn)} drawn)"
    widest = f"; the widest line is a partial correlation of {strongest:.2f} in size" if ranked else ""
    axes.set_xlabel(f"{len(ranked)} edge{'' if len(ranked) == 1 else 's'}{shown}{widest}")
    handles = [Line2D([], [], color=_POSITIVE, lw=2), Line2D([], [], color=_NEGATIVE, lw=2)]
    axes.legend(handles, ["positive", "negative"], loc="lower right", frameon=False)
    reach = 1.12 / (1 - 2 * _INCH_PER_LETTER * longest / side)  # room for the names
    axes.set(xticks=[], yticks=[], aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))
    for spine in axes.spines.values():
        spine.set_visible(False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # drawn as a box; the files have the name
        figure.savefig(path, dpi=130)


def _draw_node(axes, name: str, place, *, linked: bool) -> None:  # type: ignore[no-untyped-def]
    angle = float(np.degrees(np.arctan2(place[1], place[0])))
    turned = angle + 180 if abs(angle) > 90 else angle
    axes.plot(*place, "o", ms=7, mfc=_NODE, mec="#333333" if linked else "#aaaaaa", zorder=2)
    axes.annotate(
        _shortened(name),
        1.06 * np.asarray(place),
        rotation=turned,
        rotation_mode="anchor",
        ha="right" if abs(angle) > 90 else "left",
        va="center",
        color="#222222" if linked else "#999999",
        fontsize=8,
        annotation_clip=False,
    )


def _shortened(name: str) -> str:
    shown = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return shown.replace("$", r"\$")  # or matplotlib would read mathematics
