"""Draw what the first page shows: the graph that dp-learn finds in the diabetes bundle of the tutorials.

The site's build calls `make_example`. It leaves pictures for light and for dark paper, and the result itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.patheffects import withStroke

from dp_learn.output.network import place_nodes

FILES = Path(__file__).with_name("tutorials") / "files"
MOST_INTERVALS = 12
# Paper as the theme has it, ink, faint ink, and Okabe and Ito's blue and vermilion for positive and negative
COLOURS = {
    "light": ("#ffffff", "#14181e", "#6b7280", "#0072b2", "#c04a00"),
    "dark": ("#14181e", "#e6e6e6", "#9ca3af", "#56b4e9", "#ff9a57"),
}
Colours = tuple[str, str, str, str, str]


def make_example(folder: Path) -> None:
    """Learn from the bundle, and write `site/example/` with the result, and pictures for both schemes of colours."""
    result = folder / "site" / "example"
    if result.exists():
        return
    result.parent.mkdir(parents=True)
    run("dp-bundle", "trust", FILES / "hospital.pub", "--name", "hospital")
    run("dp-learn", FILES / "diabetes.bundle.tar", "--out", result, "--quiet")

    edges = pd.read_csv(result / "edges.csv")
    for scheme, colours in COLOURS.items():
        draw(draw_graph, edges, colours, folder / f"graph-{scheme}.svg")
        draw(draw_intervals, edges, colours, folder / f"intervals-{scheme}.svg")


def run(program: str, *words: object) -> None:
    """Run one of the commands, as a reader would."""
    command = [Path(sys.executable).with_name(program), *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def draw(panel: Callable[..., None], edges: pd.DataFrame, colours: Colours, path: Path) -> None:
    """Draw one panel into a file."""
    _, ink, faint, *_ = colours
    style = {"text.color": ink, "axes.edgecolor": faint, "xtick.color": ink, "ytick.color": ink, "font.size": 11}
    with plt.rc_context({**style, "svg.hashsalt": "dpgraph", "axes.labelcolor": ink, "svg.fonttype": "path"}):
        figure, axes = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
        panel(axes, edges, colours)
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


def draw_graph(axes: plt.Axes, edges: pd.DataFrame, colours: Colours) -> None:
    """Draw columns as points and edges as lines, wider where they are stronger."""
    paper, ink, _, positive, negative = colours
    strength = edges["partial_correlation"].to_numpy()
    names = sorted({*edges["source"], *edges["target"]})
    ends = edges[["source", "target"]].map(names.index).to_numpy()
    places = place_nodes(len(names), ends, strength)

    for (start, end), value in zip(places[ends], strength, strict=True):
        colour = positive if value > 0 else negative
        axes.plot(
            *zip(start, end, strict=True), color=colour, lw=1 + 9 * abs(value), ls="-" if value > 0 else (0, (3, 1))
        )
    axes.scatter(*places.T, s=70, color=ink, zorder=3)
    for node, (name, place) in enumerate(zip(names, places, strict=True)):
        others = ends[(ends == node).any(axis=1)].ravel()
        side = 1 if place[1] >= places[others, 1].mean() else -1  # away from the edges
        align = {"ha": "center", "va": "bottom" if side > 0 else "top"}
        halo = [withStroke(linewidth=4, foreground=paper)]
        label = name.replace("_", " ")
        axes.annotate(label, place, (0, 8 * side), textcoords="offset points", path_effects=halo, zorder=4, **align)
    axes.set_axis_off()
    axes.margins(0.14, 0.14)
    axes.set_title("Which measurements are linked, given all others", fontsize=12)


def draw_intervals(axes: plt.Axes, edges: pd.DataFrame, colours: Colours) -> None:
    """Draw 95 % intervals of the surest edges."""
    _, _, faint, positive, negative = colours
    shown = edges.head(MOST_INTERVALS).iloc[::-1]
    for row, edge in enumerate(shown.itertuples()):
        colour = positive if edge.desparsified > 0 else negative
        axes.plot([edge.ci_low, edge.ci_high], [row, row], color=colour, lw=2.5)
        axes.plot(edge.desparsified, row, "o", color=colour, ms=6)
    pairs = [f"{edge.source} – {edge.target}".replace("_", " ") for edge in shown.itertuples()]
    axes.set_yticks(range(len(shown)), pairs)
    axes.axvline(0, color=faint, lw=1)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("partial correlation, with 95 % interval")
    axes.set_title("How strongly, and how surely", fontsize=12)
