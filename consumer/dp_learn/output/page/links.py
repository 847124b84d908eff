"""The links of a result and its columns: in tables, and the surest links with their intervals in a figure.

In the figure names are at the left, or above each interval where the screen is narrow. The script forest.js chooses
between the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, Range1d
from bokeh.models.annotations import Span

from dp_bundle.base.quoting import counted
from dp_bundle.manifest.sources import NO_VALUE
from dp_bundle.page.colours import shade
from dp_bundle.page.figures import FONT, Figure, by_sign, figure_text, hover, new_figure
from dp_bundle.page.tables import PageTable, TableColumn, number
from dp_learn.output.network import Network
from dp_learn.output.page.tables import EDGES, INTERVAL, MOST_ROWS, NODES, UNPENALISED, Meaning, make_table
from dp_learn.output.result import Columns
from dp_learn.output.summary import GraphResult
from dp_learn.pipeline.graph import VALUE, GraphEstimate, take_rows

_DROWNED = "left out: its variance cannot be told from the noise"
_GROUP = "columns linked among each other."
_COLLINEAR = "others determine it: its links cannot be told apart"
_SHORT = {False: "on this graph", True: "shrunk for the noise"}  # of the weights of links
_CROSS = {
    False: "Each cross is the estimate on this graph, which supposes that all other links are absent.",
    True: "Each cross is the weight of the link, shrunk for the noise: the estimate on this graph as far as it lies "
    "between the disc’s and this shrunk.",
}
_MOST = 30
_LINE = 36  # pixels, a name and its interval
_ABOVE = 13  # pixels
_LONGEST_NAME = 24


def edges_tables(graph: GraphEstimate, at_least: float) -> list[PageTable]:
    """Return a table of strong edges and one of weaker ones, as far as there are any, both in the order of edges."""
    label, form, about = EDGES["partial_correlation"]
    about = about.format(weight=_SHORT[_is_shrunk(graph)])
    if graph.categories:
        form = ".3f"
        about = f"{about[:-1]}; of a category, or a number with gaps, the largest of its columns, without a sign."
    meanings = EDGES | {"partial_correlation": (label, form, about)}
    order = f"surest first by the {'evidence' if graph.fdr is None else 'tests'}"
    if graph.fdr is None and graph.evidence is None:
        order = "strongest first"

    edges, n_strong = graph.strong_first(at_least)
    strong = f" of at least {at_least:g} in size" if at_least else ""
    tables = []
    for name, which, said, rows in (
        ("edges-table", "link", strong, slice(n_strong)),
        ("weaker-edges-table", "weaker link", "", slice(n_strong, None)),
    ):
        part = {column: values[rows] for column, values in edges.items()}
        if n_edges := len(part["source"]):
            caption = f"{counted(n_edges, which)}{said}, {order}."
            tables.append(make_table(name, caption, part, meanings, "edges.csv", headings=2))
    return tables


def _is_shrunk(graph: GraphEstimate) -> bool:
    return graph.shrunk_weights is not None


def loadings_table(graph: GraphEstimate) -> list[PageTable]:
    """Return the table of how levels go together with the other ends of links, strongest first, where there are any."""
    if graph.variables is None or not len(graph.variables.loadings["effect"]):
        return []
    table = take_rows(graph.variables.loadings, graph.variables.order)
    effect = "in standard deviations of a number, or by how much more frequent a level is, all else being equal."
    if VALUE in table["level"]:
        effect += f" {VALUE} is a number that is one standard deviation larger, {NO_VALUE} where there is none."
    labels = {"source": "Column", "level": "where it is", "target": "changes", "target_level": "level"}
    words: dict[str, Meaning] = {name: (label, None, "") for name, label in labels.items()}
    caption = (
        f"How levels go together with linked columns, {'surest' if 'standard_error' in table else 'strongest'} first."
    )
    meanings = words | {"effect": ("by", "+.3f", effect)} | UNPENALISED
    return [make_table("loadings-table", caption, table, meanings, "loadings.csv")]


def columns_table(found: GraphResult, network: Network | None) -> PageTable:
    """Return the table of columns: their links, their group, their noise, and why some were left out."""
    summary = found.summary
    drowned, collinear = summary["drowned_columns"], set(summary.get("collinear_columns", ()))
    every = [*dict.fromkeys((*summary["columns"], *drowned))]
    names = every[:MOST_ROWS]
    columns = [TableColumn("Column", names)]
    if network is not None:
        columns += _link_columns(network, names)
    if (shares := summary["noise_share_of_variance"]) is not None:
        percent = [100.0 * shares[name] for name in names]
        columns.append(TableColumn("Noise, %", percent, ".1f", "the share of the noise in the published variance."))
    if drowned or collinear:
        said = [_DROWNED if name in drowned else _COLLINEAR if name in collinear else "" for name in names]
        columns.append(TableColumn("Remark", said))
    more = f"The first {MOST_ROWS} of {len(every)} columns; summary.json has all." if every[MOST_ROWS:] else ""
    return PageTable("columns-table", "The columns of the data.", columns, more)


def nodes_table(found: GraphResult) -> PageTable | None:
    """Return the table of the nodes' measures, the strongest first; None where there are none."""
    measures = None if found.learned is None else found.learned.measures
    if measures is None:
        return None
    table = take_rows(measures.columns, np.argsort(-measures.columns["strength"], kind="stable"))
    return make_table("nodes-table", "What nodes are like, the strongest first.", table, NODES, "nodes.csv")


def _link_columns(network: Network, names: Sequence[str]) -> list[TableColumn]:
    """Return the number of links, the strongest link and the group of every column."""
    known = {name: place for place, name in enumerate(network.columns)}
    groups = {place: number for number, group in enumerate(network.communities, start=1) for place in group}
    strongest: dict[int, str] = {}
    links = zip(network.sources.tolist(), network.targets.tolist(), network.weights, network.unsigned, strict=True)
    for source, target, weight, unsigned in links:
        said = number(float(weight), ".2f" if unsigned else "+.2f")
        for place, other in ((source, target), (target, source)):
            strongest.setdefault(place, f"{network.columns[other]} ({said})")
    places = [known.get(name, -1) for name in names]
    n_links = [float(network.degrees[place]) if place >= 0 else math.nan for place in places]
    group = TableColumn("Group", [groups.get(place, math.nan) for place in places], ".0f", _GROUP)
    surest = TableColumn("Strongest link", [strongest.get(place, "") for place in places])
    return [TableColumn("Links", n_links, ".0f"), surest, group]


def plain_table(name: str, caption: str, table: Columns, file: str) -> PageTable:
    """Return any table of an estimator, in the order that it has."""
    headings = {column: f"{column[:1].upper()}{column[1:]}".replace("_", " ") or "Class" for column in table}
    headings |= {column: heading for column, (heading, _, _) in INTERVAL.items()}
    meanings: dict[str, Meaning] = {
        column: (headings[column], None if isinstance(values, list) else ".4g", "") for column, values in table.items()
    }
    return make_table(name, caption, table, meanings, file)


def draw_forest(graph: GraphEstimate, at_least: float) -> list[Figure]:
    """Return the figure of the first links of the tables, where there are links with intervals."""
    edges, _ = graph.strong_first(at_least)
    known = np.flatnonzero(~np.isnan(edges.get("ci_low", np.empty(0))))[:_MOST]
    if not len(known):
        return []

    shown, numbers = len(known), ("desparsified", "ci_low", "ci_high", "partial_correlation", "q_value")
    value, low, high, fitted, q_value = (edges[name][known] for name in numbers)
    pairs = [(edges["source"][place], edges["target"][place]) for place in known]
    ends, long_ends = (
        [" – ".join(figure_text(name, longest) for name in pair) for pair in pairs] for longest in (_LONGEST_NAME, 80)
    )
    spelled = [[number(float(each), "+.3f") for each in values] for values in (value, low, high)]
    source = ColumnDataSource(
        {
            "row": -np.arange(shown),
            "pair": ends,
            "ends": long_ends,
            "value": value,
            "low": low,
            "high": high,
            "fitted": fitted,
            "sign": ["+" if each > 0.0 else "-" for each in value],
            "words": [f"{middle} ({least} to {most})" for middle, least, most in zip(*spelled, strict=True)],
            "graph": [number(each, "+.3f") for each in fitted],
            "q": [f"{each:.2g}" for each in q_value],
        }
    )
    largest = min(1.02, 1.06 * float(np.nanmax(np.abs([low, high, fitted, value]))))
    least = -largest if np.nanmin(low) < 0.0 else -0.02
    ranges = {"x_range": Range1d(start=least, end=largest), "y_range": Range1d(start=0.5 - shown, end=0.7)}
    plot = new_figure(height=70 + _LINE * shown, x_axis_label="partial correlation", **ranges)
    rows, axis = plot.ygrid[0], plot.yaxis[0]
    rows.name, axis.name = "forest-rows", "forest-axis"
    rows.visible = axis.visible = False
    rows.ticker = axis.ticker = FixedTicker(ticks=[-place for place in range(shown)], minor_ticks=[])
    axis.major_label_overrides = {float(-place): pair for place, pair in enumerate(ends)}
    axis.axis_line_color = axis.major_tick_line_color = None
    plot.add_layout(Span(location=0.0, dimension="height", line_color=shade("control").light, line_width=1))
    font = {"text_font": {"value": FONT}, "text_font_size": "12px", "text_color": shade("ink").light}
    above = plot.text(least, "row", "pair", source=source, x_offset=4, y_offset=-_ABOVE, text_baseline="middle", **font)
    above.name = "forest-names"
    colour = by_sign("sign")
    plot.segment("low", "row", "high", "row", source=source, line_width=2.5, line_color=colour, line_cap="round")
    discs = plot.scatter("value", "row", source=source, size=9, fill_color=colour, line_color=shade("paper").light)
    cross = {"marker": "x", "size": 11, "line_color": shade("ink").light, "fill_color": None, "line_width": 1.5}
    plot.scatter("fitted", "row", source=source, **cross)
    lines = [
        ("", "<b>@ends</b>"),
        ("without a graph, 95 %", "@words"),
        (_SHORT[_is_shrunk(graph)], "@graph"),
        ("q-value", "@q"),
    ]
    plot.add_tools(hover(lines, renderers=[discs]))

    penalised = " The links were chosen by the sparse estimate, not by tests: an interval may hold zero."
    caption = (
        "Each disc is an estimate that assumes no graph, with its 95 % interval, which accounts for the noise; blue is "
        f"positive and orange negative. {_CROSS[_is_shrunk(graph)]}{'' if graph.fdr is not None else penalised} An "
        "interval holds for one pair at a time, not for all of them at once."
    )
    sure = int(np.count_nonzero((low > 0.0) | (high < 0.0)))
    whole = f"{sure} of these {shown} intervals exclude"
    if shown == 1:
        whole = f"The interval {'excludes' if sure else 'includes'}"
    first, second = map(figure_text, pairs[0])
    told = (
        f"{whole} zero; the first link is between “{first}” and “{second}”, {spelled[0][0]}, from {spelled[1][0]} to "
        f"{spelled[2][0]}. All numbers are in the table of links."
    )
    title = f"The first {shown} links" if shown < len(edges["source"]) else f"{shown} link{'' if shown == 1 else 's'}"
    return [Figure("forest", f"{title}, with intervals", caption, told, plot)]
