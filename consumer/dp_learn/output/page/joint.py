"""The page of joint graphs: a graph with a slider over the periods, a small chart for every link, and what changed."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FactorRange

from dp_bundle.base.document import (
    Figure,
    Page,
    PageTable,
    TableColumn,
    figure_text,
    hover,
    new_figure,
    number,
    render_page,
    shade,
)
from dp_learn.inference.edges import Pairs
from dp_learn.matrices.linalg import FloatArray, Places
from dp_learn.output.joint import JointResult
from dp_learn.output.page.comparison import add_nodes, draw_links, graph_plot
from dp_learn.output.page.links import Meaning, make_table
from dp_learn.output.page.report import TEMPLATES, empty_source, origin
from dp_learn.output.several import spell_p

MOST_LINKS, MOST_CHARTS = 600, 300
_HEIGHT, _LOW_HEIGHT = 560, 230
_Z = 1.96
_WIDTH, _TALL, _MARGIN = 150.0, 46.0, 4.0  # of a small chart


@dataclass(frozen=True)
class Chart:
    """A small chart of one link: its ends, what became of it, and the points of its line and of its band."""

    ends: str
    told: str
    line: str
    band: str
    zero: float
    changed: bool


@dataclass(frozen=True, eq=False)
class _Links:
    """The links that are drawn, and their numbers in every period."""

    result: JointResult

    @cached_property
    def pairs(self) -> Pairs:
        """The ends of the links that are drawn, those of pairs that changed first."""
        first, second = self.result.links
        return first[:MOST_LINKS], second[:MOST_LINKS]

    @cached_property
    def kinds(self) -> Places:
        """The sign of what changed into each period, shape (K, n_links)."""
        first, second = self.pairs
        return self.result.changes_of_pairs[:, first, second]

    @cached_property
    def weights(self) -> FloatArray:
        """The partial correlations of the joint graphs, shape (K, n_links)."""
        return np.array([graph.weights[self.pairs] for graph in self.result.found.graphs])

    @cached_property
    def estimates(self) -> tuple[FloatArray, FloatArray] | None:
        """Each period's own estimates and their standard errors, where there are any."""
        graphs = self.result.found.graphs
        own = [graph.inference for graph in graphs if graph.inference is not None]
        if len(own) < len(graphs):
            return None
        return np.array([one.partial_correlation[self.pairs] for one in own]), np.array(
            [one.partial_error[self.pairs] for one in own]
        )

    def ends(self, link: int) -> str:
        """Return the names of the ends of a link."""
        names = self.result.found.nodes
        return " – ".join(figure_text(names[int(side[link])], 60) for side in self.pairs)


def make_joint_page(result: JointResult, command: str) -> str:
    """Return the page of joint graphs as one HTML document that needs no network, the same for the same result.

    Parameters
    ----------
    result : JointResult
        What was found.
    command : str
        The command that gives the same result, with the names of files but not where they are.
    """
    found, links = result.found, _Links(result)
    drawn = len(links.pairs[0])
    figures = [_draw_graph(result)] if drawn else []
    if found.changes is not None:
        figures.append(_draw_evidence(result))
    values: dict[str, Any] = {
        "names": result.names,
        "in_time": result.in_time,
        "result": result,
        "warnings": result.warnings,
        "notes": result.notes,
        "figures": {each.name: each for each in figures},
        "n_links": drawn,
        "charts": [_chart(result, links, link) for link in range(min(drawn, MOST_CHARTS))],
        "size": (_WIDTH, _TALL),
        "changed": _changes_table(result),
        "periods": _periods_table(result),
        **origin(result, command),
    }
    title = f"{result.names[0]} to {result.names[-1]}: joint graphs"
    data = {"joint": _data(result, links)} if drawn else {}
    return render_page(Page(TEMPLATES, "joint.html", title, values, figures, ["joint.js"] if drawn else [], data))


def _data(result: JointResult, links: _Links) -> dict[str, Any]:
    """Return what the page's script draws from."""
    places = np.nan_to_num(result.places)
    first, second = links.pairs
    ends = {"x0": places[first, 0], "y0": places[first, 1], "x1": places[second, 0], "y1": places[second, 1]}
    return {
        "names": [figure_text(name, 60) for name in result.names],
        "ends": [links.ends(link) for link in range(len(first))],
        **{name: _rounded(values) for name, values in ends.items()},
        "weights": _rounded(links.weights),
        "kinds": links.kinds.tolist(),
    }


def _rounded(values: Any) -> Any:
    return np.round(np.nan_to_num(np.asarray(values, dtype=float)), 4).tolist()


def _draw_graph(result: JointResult) -> Figure:
    """Return the figure that the slider changes, which begins with the first period."""
    plot = graph_plot(_HEIGHT)
    source = empty_source("joint-links", "x0 y0 x1 y1 kind width dash ends value")
    draw_links(plot, source, "node")
    add_nodes(plot, result.found.nodes, result.places)
    since = "since the last change point" if result.in_time else "than in the others"
    caption = (
        "Each line is a link of the joint graph, wider where it is stronger and dashed where it is negative. Blue ones "
        f"are found to be larger {since}, orange ones smaller; a thin dotted one is gone. Columns stay in their places."
    )
    told = f"{result.count_edges('link')} in a period. All numbers are in the folders of the periods."
    return Figure("graph", "The graph of a period", caption, told, plot)


def _draw_evidence(result: JointResult) -> Figure:
    """Return the figure of the p-value at every place between periods, or of every period."""
    found, names = result.found, _short_names(result)
    evidence = np.ones(0) if found.changes is None else found.changes.evidence
    in_time = result.in_time
    labels = names[1:] if in_time else names
    plot = new_figure(height=_LOW_HEIGHT, x_range=FactorRange(factors=labels), y_axis_label="-log10 p-value")
    plot.xaxis.major_label_orientation = 0.9
    heights = -np.log10(evidence)
    source = ColumnDataSource({"x": labels, "y": heights, "p": [f"p {spell_p(value)}" for value in evidence]})
    bars = plot.vbar(x="x", top="y", source=source, width=0.7, fill_color=shade("positive").light, line_color=None)
    limit = -math.log10(1.0 - found.confidence)
    plot.line(
        [labels[0], labels[-1]], [limit, limit], line_color=shade("warning").light, line_dash="dashed", line_width=2
    )
    plot.y_range.start = 0
    plot.add_tools(hover([("", "<b>@x</b>"), ("", "@p")], renderers=[bars]))
    what = "between a period and the one before it" if in_time else "from all others to a period"
    caption = (
        f"How surely the network changed {what}, by the clearest span that reaches across no other change point, "
        f"corrected for all places and spans. Bars above the dashed line are clear at a level of "
        f"{1.0 - found.confidence:.2g}."
    )
    clear = [
        f"{label}: p {spell_p(p)}" for label, p in zip(labels, evidence, strict=True) if p <= 1.0 - found.confidence
    ]
    told = f"Clear are {'; '.join(clear)}." if clear else "None is clear."
    return Figure("evidence", "When the network changed" if in_time else "Which networks differ", caption, told, plot)


def _short_names(result: JointResult) -> list[str]:
    """Return names of periods for an axis, all different."""
    short = [figure_text(name, 14) for name in result.names]
    return short if len(set(short)) == len(short) else [f"{place} {name}" for place, name in enumerate(short, start=1)]


def _chart(result: JointResult, links: _Links, link: int) -> Chart:
    """Return the small chart of a link: a line of the joint graph over the band of the periods' own intervals."""
    weights = links.weights[:, link]
    low = high = weights
    if links.estimates is not None:
        middle, error = (np.nan_to_num(each[:, link]) for each in links.estimates)
        low, high = np.maximum(middle - _Z * error, -1.0), np.minimum(middle + _Z * error, 1.0)
    bottom, top = min(low.min(), weights.min(), 0.0), max(high.max(), weights.max(), 0.0)
    scale = (_TALL - 2.0 * _MARGIN) / max(top - bottom, 1e-6)
    x = _MARGIN + np.arange(len(weights)) * (_WIDTH - 2.0 * _MARGIN) / (len(weights) - 1)

    def points(values: FloatArray, at: FloatArray) -> str:
        heights = _TALL - _MARGIN - (values - bottom) * scale
        return " ".join(f"{a:.1f},{height:.1f}" for a, height in zip(at, heights, strict=True))

    band = f"{points(high, x)} {points(low[::-1], x[::-1])}"
    zero, changed = float(_TALL - _MARGIN + bottom * scale), bool(links.kinds[:, link].any())
    told = _tell(result, links, link)
    return Chart(links.ends(link), told, points(weights, x), band, round(zero, 1), changed)


def _tell(result: JointResult, links: _Links, link: int) -> str:
    """Return what became of a link, in words."""
    changes, found = result.found.changes, []
    if changes is not None:
        ends = tuple(int(side[link]) for side in links.pairs)
        pair = int(np.flatnonzero((changes.pairs[0] == ends[0]) & (changes.pairs[1] == ends[1]))[0])
        for one in result.found.claimed:
            if pair in result.found.changed(one):
                found.append(f"{result.kind_of_change(one, pair)} in {result.sides(one)[1]}")
    weights = links.weights[:, link]
    at_ends = f"{number(weights[0], '+.2f')} at first, {number(weights[-1], '+.2f')} at last"
    return f"{'; '.join(found) or 'no change found'}; {at_ends}"


def _changes_table(result: JointResult) -> PageTable:
    labels = {"source": "Column", "target": "and column", "from": "From", "to": "To"}
    meanings: dict[str, Meaning] = {name: (label, None, "") for name, label in labels.items()} | {
        "before": ("Before", "+.3f", "the partial correlation given all other columns, of all periods before, pooled."),
        "after": ("After", "+.3f", ""),
        "difference": ("Difference", "+.3f", ""),
        "standard_error": ("Standard error", ".3f", "of the difference."),
        "q_value": (
            "q-value",
            ".2g",
            "the false discovery rate over all pairs and places at which it would just be found.",
        ),
    }
    caption = "Pairs of columns that changed."
    return make_table("changes-table", caption, result.changes(), meanings, "changes.csv", headings=2)


def _periods_table(result: JointResult) -> PageTable:
    found = result.found
    columns = [
        TableColumn("Period", result.names),
        TableColumn("Rows", [float(bundle.release.n_rows) for bundle in result.bundles], ",.0f"),
        TableColumn(
            "Effective rows",
            found.effective_rows,
            ",.0f",
            "the correlations are as precise as those of so many Gaussian rows without noise.",
        ),
        TableColumn("Links", [float(count) for count in result.summary["n_edges"]], ".0f"),
        TableColumn("Signer", [bundle.signer.name for bundle in result.bundles]),
        TableColumn("Manifest", [bundle.manifest_sha256[:12] for bundle in result.bundles]),
    ]
    return PageTable("periods-table", "The periods, in the order given.", columns)
