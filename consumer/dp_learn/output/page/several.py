"""The pages of several releases: of a comparison, and of joint graphs.

A comparison has the graph of each release in one layout, with the differences in colour, and tables. Joint graphs have
one graph with a slider over the periods, a small chart for every link, and what changed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from bokeh.models import CategoricalColorMapper, ColumnDataSource, FactorRange, Range1d

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
from dp_bundle.base.quoting import counted
from dp_learn.inference.edges import Pairs
from dp_learn.matrices.linalg import FloatArray, Places
from dp_learn.output.messages import fill_lines
from dp_learn.output.network import place_nodes
from dp_learn.output.page.links import Meanings, make_table
from dp_learn.output.page.report import TEMPLATES, empty_source, origin, write_names
from dp_learn.output.several import ComparisonResult, JointResult, describe_tests, spell_p

MOST_GRAPHS, MOST_LINKS = 6, 600
_HEIGHT, _EDGE = 430, 1.14
_LONGEST_NAME, _MOST_LABELS = 18, 60
KINDS = {1: "larger", -1: "smaller", 0: "same"}  # by the sign of a change
_SIDE = 0.6  # of the half width, beyond which a name stands inwards of its column
_NAMES: Meanings = {
    "source": ("Column", None, ""),
    "target": ("and column", None, ""),
    "node": ("Column", None, ""),
    "first": ("First release", None, ""),
    "second": ("Second release", None, ""),
}
_OF_DIFFERENCES: Meanings = {
    **_NAMES,
    "difference": ("Difference", "+.3f", "of the partial correlations given all other columns, {second} less {first}."),
    "ci_low": ("{level} from", "+.3f", ""),
    "ci_high": ("to", "+.3f", ""),
    "p_value": ("p-value", ".2g", "of no difference in this pair."),
    "q_value": ("q-value", ".2g", "the false discovery rate at which the pair would just be found."),
    "partial_correlation_first": ("{first}", "+.3f", ""),
    "partial_correlation_second": ("{second}", "+.3f", ""),
}
_OF_STRENGTHS: Meanings = {
    **_NAMES,
    "difference": (
        "Difference",
        "+.3f",
        "of the sums of a column’s links, each with the sign that the weighted mean of the releases has.",
    ),
    **{name: _OF_DIFFERENCES[name] for name in ("ci_low", "ci_high")},
    "p_value": ("p-value", ".2g", "of no difference of this column."),
    "q_value": ("q-value", ".2g", "the false discovery rate at which the column would just be found."),
    "strength_first": ("{first}", ".3f", ""),
    "strength_second": ("{second}", ".3f", ""),
}


def make_page_of_several(result: ComparisonResult | JointResult, command: str) -> str:
    """Return the page of a comparison or of joint graphs; see `dp_learn.output.page.make_page`."""
    if isinstance(result, JointResult):
        return render_page(_joint_page(result, command))
    return render_page(_comparison_page(result, command))


def _comparison_page(result: ComparisonResult, command: str) -> Page:
    figures = _draw_graphs(result)
    found = result.found
    values: dict[str, Any] = {
        "names": result.names,
        "sentences": summarize_comparison(result),
        "warnings": result.warnings,
        "notes": result.notes,
        "figures": figures,
        "against": result.names[0] if len(result.bundles) > 2 else "",
        "tests": _tests_table(result),
        "tables": [_differences_table(result), _strengths_table(result)],
        "rows": [(name, f"{rows:,.0f}") for name, rows in zip(result.names, found.effective_rows, strict=True)],
        **origin(result, command),
    }
    title = f"{' and '.join(result.names)}: comparison"
    return Page(TEMPLATES, "comparison.html", title, values, figures)


def summarize_comparison(result: ComparisonResult) -> list[str]:
    """Return what was found, in sentences that need little statistics."""
    return fill_lines("networks.txt", result, describe_tests=describe_tests)


def _tests_table(result: ComparisonResult) -> PageTable:
    """Return the table of the tests of all pairs, one line for every two releases, and for all if there are more."""
    rows = result.summary["comparisons"]
    if len(rows) > 1:
        rows = [*rows, result.summary["overall"]]
    names = [f"{row['second']} less {row['first']}" if "second" in row else "all releases" for row in rows]
    counts = [float(row["n_different"]) for row in rows]
    columns = [TableColumn("Comparison", names), TableColumn("Pairs that differ", counts, ".0f")]
    percent = f"{100 * result.found.confidence:g} %"
    largest = f"in standard errors; with equal networks {percent} of all are below the limit beside it."
    for label, test, form, about in (
        ("Largest difference", "largest_difference", ".2f", largest),
        ("Sum of squares", "sum_of_squares", ".1f", ""),
    ):
        columns.append(TableColumn(label, [row[test]["statistic"] for row in rows], form, about))
        columns.append(TableColumn("limit", [row[test]["critical_value"] for row in rows], form))
        columns.append(TableColumn("p-value", [row[test]["p_value"] for row in rows], ".2g", "", 0.001))
    return PageTable("tests-table", "Tests of all pairs at once.", columns)


def _differences_table(result: ComparisonResult) -> PageTable:
    meanings, caption = _spell(result, _OF_DIFFERENCES), "Pairs of columns, surest difference first."
    return make_table("differences-table", caption, result.differences(), meanings, "differences.csv", headings=2)


def _strengths_table(result: ComparisonResult) -> PageTable:
    caption = "Strengths of columns, over the links that the releases show together, surest difference first."
    meanings = _spell(result, _OF_STRENGTHS)
    return make_table("strengths-table", caption, result.strengths(), meanings, "strengths.csv")


def _spell(result: ComparisonResult, meanings: Meanings) -> Meanings:
    """Return headings and meanings with the names of the releases, where there are two."""
    two = len(result.bundles) == 2
    first, second = result.names if two else ("in the first", "in the second")
    words = {"first": first, "second": second, "level": f"{100 * result.found.confidence:g} %"}
    about = words if two else words | {"first": "the first", "second": "the second release"}
    return {
        name: (heading.format(**words), form, said.format(**about)) for name, (heading, form, said) in meanings.items()
    }


def _draw_graphs(result: ComparisonResult) -> list[Figure]:
    """Return the graph of each release, at most six, with links coloured by how they differ from the other.

    With more than two releases that is the first one, whose own links have no colour.
    """
    found, each = result.found, result.found.differences
    values, differs = np.array([one.value for one in each.estimates]), np.array(each.q_values) <= found.fdr
    kinds = np.zeros(values.shape, dtype=int)
    for one, is_found in zip(each.each, differs, strict=True):
        if one.first == 0:
            kinds[one.second] = np.sign(values[one.second] - values[0]) * is_found
    if len(values) == 2:
        kinds[0] = -kinds[1]

    size, any_differs = np.abs(values).max(axis=0), differs.any(axis=0)
    drawn = np.flatnonzero(each.is_link | any_differs)
    drawn = drawn[np.argsort(-(size + 2.0 * any_differs)[drawn], kind="stable")][:MOST_LINKS]
    if not len(drawn):
        return []
    ends = np.column_stack(each.pairs)[drawn]
    places = place_nodes(len(found.nodes), ends, size[drawn])
    widths = 0.6 + 7.0 * np.abs(values[:, drawn]) / size[drawn].max()
    figures = []
    for place, name in enumerate(result.names[:MOST_GRAPHS]):
        own, kind = values[place, drawn], kinds[place, drawn]
        order = np.argsort(kind != 0, kind="stable")  # links that differ are drawn last
        between = places[ends[order]]
        columns = {
            **dict(zip(("x0", "y0", "x1", "y1"), between.reshape(-1, 4).T, strict=True)),
            "kind": [KINDS[sign] for sign in kind[order].tolist()],
            "width": widths[place, order],
            "dash": ["9 6" if value < 0.0 else "solid" for value in own[order]],
            "ends": [" – ".join(figure_text(found.nodes[end], 80) for end in pair) for pair in ends[order]],
            "value": [f"partial correlation {number(value, '+.3f')}" for value in own[order].tolist()],
        }
        plot = graph_plot(_HEIGHT)
        draw_links(plot, ColumnDataSource(columns), "faint")
        add_nodes(plot, found.nodes, places)
        told = f"{counted(len(drawn), 'link')} drawn, {np.count_nonzero(kind)} in colour."
        about = "All numbers are in the table of differences."
        figures.append(Figure(f"graph-{place}", figure_text(name, 60), told, about, plot))
    return figures


def graph_plot(height: int) -> Any:
    """Return an empty figure for a graph whose places are from -1 to 1."""
    reach = Range1d(start=-_EDGE, end=_EDGE), Range1d(start=-_EDGE, end=_EDGE)
    plot = new_figure(height=height, x_range=reach[0], y_range=reach[1])
    plot.axis.visible = plot.grid.visible = False
    return plot


def draw_links(plot: Any, source: ColumnDataSource, same: str) -> None:
    """Draw links that are larger, smaller, or in a colour for the same, and what the pointer tells of them."""
    palette = [shade(name).light for name in ("positive", "negative", same)]
    colour = {
        "field": "kind",
        "transform": CategoricalColorMapper(factors=[KINDS[sign] for sign in (1, -1, 0)], palette=palette),
    }
    width = {"line_width": "width", "line_dash": "dash", "line_cap": "butt"}
    links = plot.segment("x0", "y0", "x1", "y1", source=source, line_color=colour, **width)
    plot.add_tools(hover([("", "<b>@ends</b>"), ("", "@value")], renderers=[links]))


def add_nodes(plot: Any, nodes: Sequence[str], places: FloatArray) -> None:
    """Draw the columns of the table that have a link, with names where there are few."""
    linked = np.flatnonzero(~np.isnan(places[:, 0]))
    names = [nodes[place] for place in linked.tolist()]
    x = places[linked, 0]
    source = ColumnDataSource(
        {
            "x": x,
            "y": places[linked, 1],
            "text": [figure_text(name, _LONGEST_NAME) if len(names) <= _MOST_LABELS else "" for name in names],
            "align": ["left" if each < -_SIDE else "right" if each > _SIDE else "center" for each in x],
            "name": [figure_text(name, 80) for name in names],
        }
    )
    filled = {"fill_color": shade("node").light, "line_color": shade("paper").light}
    discs = plot.scatter("x", "y", source=source, size=9, **filled)
    write_names(plot, source, y_offset=-8, text_align="align")
    plot.add_tools(hover([("", "<b>@name</b>")], renderers=[discs]))


MOST_CHARTS = 300
_JOINT_HEIGHT, _LOW_HEIGHT = 560, 230
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


def _joint_page(result: JointResult, command: str) -> Page:
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
    return Page(TEMPLATES, "joint.html", title, values, figures, ["joint.js"] if drawn else [], data)


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
    plot = graph_plot(_JOINT_HEIGHT)
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
    meanings: Meanings = {name: (label, None, "") for name, label in labels.items()} | {
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
