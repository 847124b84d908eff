"""The page of a comparison: the graph of each release in one layout, with the differences in colour, and tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import CategoricalColorMapper, ColumnDataSource, Range1d

from dp_bundle.base.document import (
    Figure,
    Page,
    PageTable,
    TableColumn,
    figure_text,
    hover,
    new_figure,
    render_page,
    shade,
)
from dp_bundle.base.document import (
    number as spell_number,
)
from dp_bundle.base.quoting import counted
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.comparison import ComparisonResult, describe_tests
from dp_learn.output.messages import fill_lines
from dp_learn.output.network import place_nodes
from dp_learn.output.page.links import Meaning, make_table
from dp_learn.output.page.report import TEMPLATES, origin, write_names

MOST_GRAPHS, MOST_LINKS = 6, 600
_HEIGHT, _EDGE = 430, 1.14
_LONGEST_NAME, _MOST_LABELS = 18, 60
KINDS = {1: "larger", -1: "smaller", 0: "same"}  # by the sign of a change
_SIDE = 0.6  # of the half width, beyond which a name stands inwards of its column
_NAMES: dict[str, Meaning] = {
    "source": ("Column", None, ""),
    "target": ("and column", None, ""),
    "node": ("Column", None, ""),
    "first": ("First release", None, ""),
    "second": ("Second release", None, ""),
}
_OF_DIFFERENCES: dict[str, Meaning] = {
    **_NAMES,
    "difference": ("Difference", "+.3f", "of the partial correlations given all other columns, {second} less {first}."),
    "ci_low": ("{level} from", "+.3f", ""),
    "ci_high": ("to", "+.3f", ""),
    "p_value": ("p-value", ".2g", "of no difference in this pair."),
    "q_value": ("q-value", ".2g", "the false discovery rate at which the pair would just be found."),
    "partial_correlation_first": ("{first}", "+.3f", ""),
    "partial_correlation_second": ("{second}", "+.3f", ""),
}
_OF_STRENGTHS: dict[str, Meaning] = {
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


def make_comparison_page(result: ComparisonResult, command: str) -> str:
    """Return the page of a comparison as one HTML document that needs no network, the same for the same result.

    Parameters
    ----------
    result : ComparisonResult
        What was found.
    command : str
        The command that gives the same result, with the names of files but not where they are.
    """
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
    return render_page(Page(TEMPLATES, "comparison.html", title, values, figures))


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


def _spell(result: ComparisonResult, meanings: dict[str, Meaning]) -> dict[str, Meaning]:
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
    for number, name in enumerate(result.names[:MOST_GRAPHS]):
        own, kind = values[number, drawn], kinds[number, drawn]
        order = np.argsort(kind != 0, kind="stable")  # links that differ are drawn last
        between = places[ends[order]]
        columns = {
            **dict(zip(("x0", "y0", "x1", "y1"), between.reshape(-1, 4).T, strict=True)),
            "kind": [KINDS[sign] for sign in kind[order].tolist()],
            "width": widths[number, order],
            "dash": ["9 6" if value < 0.0 else "solid" for value in own[order]],
            "ends": [" – ".join(figure_text(found.nodes[end], 80) for end in pair) for pair in ends[order]],
            "value": [f"partial correlation {spell_number(value, '+.3f')}" for value in own[order].tolist()],
        }
        plot = graph_plot(_HEIGHT)
        draw_links(plot, ColumnDataSource(columns), "faint")
        add_nodes(plot, found.nodes, places)
        told = f"{counted(len(drawn), 'link')} drawn, {np.count_nonzero(kind)} in colour."
        about = "All numbers are in the table of differences."
        figures.append(Figure(f"graph-{number}", figure_text(name, 60), told, about, plot))
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
