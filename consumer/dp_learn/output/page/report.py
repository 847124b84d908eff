"""The page of a result, put together.

What a result comes from: files, signers, digests, versions and settings, and how to cite it.

The graph as a figure for a browser; the script graph.js fills it, and answers to the reader.
"""

from pathlib import Path
from typing import Any

import numpy as np
from bokeh.models import CategoricalColorMapper, ColumnDataSource, PanTool, Range1d, TapTool

from dp_bundle.base.quoting import counted
from dp_bundle.describe import sentences
from dp_bundle.page.document import (
    COMMUNITIES,
    FONT,
    Figure,
    Page,
    PageTable,
    by_sign,
    figure_text,
    hover,
    new_figure,
    render_page,
    shade,
)
from dp_bundle.portals.histograms import draw_margins
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.description import Description
from dp_learn.output.folder import Result
from dp_learn.output.messages import SOFTWARE, describe_methods, describe_notes, key_figures, summarize_plainly
from dp_learn.output.network import MOST_UNLINKED, Network
from dp_learn.output.page import curves
from dp_learn.output.page.curves import draw_heat_maps, find_heat_maps, heat_map_data
from dp_learn.output.page.links import (
    columns_table,
    edges_tables,
    find_forest,
    loadings_table,
    nodes_table,
    plain_table,
)
from dp_learn.output.summary import GraphResult


def origin(result: Result, command: str) -> dict[str, Any]:
    """Return what every page says of its own origin: the command, the software, the methods, and the releases."""
    methods = describe_methods(result)
    return {"command": command, "software": SOFTWARE, "methods": methods, "bundles": result.bundles, "say": sentences}


TEMPLATES = Path(__file__).with_name("templates")
_SCRIPTS = {"graph": "graph.js", "heat": "heat_maps.js"}
_CAPTIONS = {
    "edges.csv": "The pairs of columns whose correlation exceeds the threshold, surest first.",
    "coefficients.csv": "The coefficient of every column; also without the penalty, with its 95 % interval, noise "
    "included, where errors are known.",
    "means.csv": "The mean of every column in each class.",
}


def make_report(found: GraphResult, command: str) -> str:
    """Return the page of a result as one HTML document that needs no network, the same for the same result.

    Parameters
    ----------
    found : GraphResult
        Of any estimator.
    command : str
        The command that gives the same result, with the names of files but not where they are.
    """
    network, maps, seen = found.network, find_heat_maps(found), curves.find_visibility(found)
    graph = network if network is not None and network.n_edges else None
    figures = {
        "graph": [] if graph is None else [draw_network(graph)],
        "heat": [] if maps is None else draw_heat_maps(maps),
        "alpha": curves.draw_paths(found),
        "visible": [] if seen is None else [curves.draw_visibility(seen)],
    }
    names = [bundle.release.dataset.title or bundle.release.dataset.name for bundle in found.bundles]
    values: dict[str, Any] = {
        "names": list(dict.fromkeys(names)),
        "summary": found.summary,
        "sentences": summarize_plainly(found, network),
        "notes": describe_notes(found),
        "key_figures": key_figures(found, network),
        "network": network,
        "figures": figures,
        "tables": _tables(found),
        "nodes": nodes_table(found),
        "columns": columns_table(found, network),
        "maps": maps,
        "learned": found.learned,
        "refit": "" if found.learned is None else curves.explain_refit(found.learned),
        "visible": [] if seen is None else curves.describe_visibility(seen),
        "visible_table": None if seen is None else curves.visibility_table(seen),
        "margins": draw_margins(found.histograms, found.bundles[0].release),
        "forest": None if found.graph is None else find_forest(found.graph, found.summary["at_least"]),
        **origin(found, command),
    }
    data = {} if graph is None else {"graph": network_data(graph, found.summary["noise_share_of_variance"])}
    data |= {} if maps is None else {"heat": heat_map_data(maps)}
    title = f"{', '.join(values['names'])}: {found.summary['estimator']}"
    scripts = [script for name, script in _SCRIPTS.items() if figures[name]]
    drawn = [figure for group in figures.values() for figure in group]
    return render_page(Page(TEMPLATES, "report.html", title, values, drawn, scripts, data))


def make_description_page(found: Description, command: str) -> str:
    """Return the page of what columns hold; see `make_report`."""
    values = {"found": found, **origin(found, command)}
    return render_page(Page(TEMPLATES, "description.html", "what columns hold", values))


def _tables(found: GraphResult) -> list[PageTable]:
    if found.graph is not None:
        return edges_tables(found.graph, found.summary["at_least"]) + loadings_table(found.graph)
    return [
        plain_table(f"table-{place}", _CAPTIONS[file], table, file)
        for place, (file, table) in enumerate(found.tables.items())
        if file in _CAPTIONS and len(next(iter(table.values())))
    ]


_HEIGHT, _LOW, _FEW = 620, 320, 4  # pixels; the second for so few columns
_AT_FIRST = 250  # links that are shown before the reader asks for more
_LONGEST_NAME = 28


def draw_network(network: Network) -> Figure:
    """Return the empty figure that the page's script fills with `network_data`."""
    names = [str(place) for place in range(len(COMMUNITIES))]
    communities = CategoricalColorMapper(factors=names, palette=[each.light for each in COMMUNITIES])
    across, up = Range1d(start=-1.08, end=1.08), Range1d(start=-1.08, end=1.08)
    plot = new_figure(height=_LOW if len(network.columns) <= _FEW else _HEIGHT, x_range=across, y_range=up)
    plot.axis.visible = plot.grid.visible = False

    edges = empty_source("graph-edges", "x0 y0 x1 y1 sign width dash alpha")
    line = {"line_color": by_sign("sign"), "line_cap": "butt"}  # round ends would fill the gaps of wide dashed lines
    plot.segment("x0", "y0", "x1", "y1", source=edges, line_width="width", line_dash="dash", alpha="alpha", **line)
    middles = empty_source("graph-middles", "x0 y0 x1 y1 ends value interval q")
    touched = plot.segment("x0", "y0", "x1", "y1", source=middles, line_width=9, line_alpha=0.0)

    nodes = empty_source("graph-nodes", "x y name size community alpha ring width links noise")
    filled = {"fill_color": {"field": "community", "transform": communities}, "line_color": shade("ink").light}
    filled |= {"size": "size", "fill_alpha": "alpha", "line_alpha": "ring", "line_width": "width"}
    discs = plot.scatter("x", "y", source=nodes, **filled)
    discs.selection_glyph = discs.nonselection_glyph = touched.nonselection_glyph = None

    labels = empty_source("graph-labels", "x y text dx dy align")
    place = {"x_offset": "dx", "y_offset": "dy", "text_align": "align", "text_baseline": "middle"}
    write_names(plot, labels, **place)
    plot.add_tools(
        PanTool(),
        TapTool(renderers=[discs]),
        hover([("", "<b>@name</b>"), ("", "@links"), ("", "@noise")], renderers=[discs]),
        hover([("", "<b>@ends</b>"), ("", "@value"), ("", "@interval"), ("", "@q")], renderers=[touched]),
    )
    return Figure("graph", "Columns and the links between them", _caption(network), _alternative(network), plot)


def write_names(plot: Any, source: ColumnDataSource, **place: Any) -> None:
    """Write the texts of a source over paper, so that they can be read above lines."""
    for ink, halo in (("paper", 3.0), ("ink", 0.0)):  # Bokeh draws a text's outline over the text
        outline = {"text_outline_color": shade(ink).light if halo else None, "text_outline_width": halo}
        font = {"text_font": {"value": FONT}, "text_font_size": "12px", "text_color": shade(ink).light}
        plot.text("x", "y", text="text", source=source, **place, **font, **outline)


def empty_source(name: str, columns: str) -> ColumnDataSource:
    """Return a source without rows, for a script to fill."""
    return ColumnDataSource({column: [] for column in columns.split()}, name=name)


def network_data(network: Network, noise: dict[str, float] | None) -> dict[str, Any]:
    """Return what the script fills the figure with.

    Parameters
    ----------
    network : Network
        The links.
    noise : dict of str to float, optional
        The share of noise in each published variance, by the column's name.
    """
    places = np.nan_to_num(network.places)
    group = np.full(len(network.columns), -1)
    for number, members in enumerate(network.communities):
        group[members] = number % len(COMMUNITIES)
    edges = {"source": network.sources.tolist(), "target": network.targets.tolist(), "weight": _short(network.weights)}
    return {
        "names": [figure_text(name, 80) for name in network.columns],
        "labels": [figure_text(name, _LONGEST_NAME) for name in network.columns],
        "x": _short(places[:, 0]),
        "y": _short(places[:, 1]),
        "hidden": np.flatnonzero(np.isnan(network.places[:, 0])).tolist(),
        "community": group.tolist(),
        "noise": None if noise is None else _short(np.array([noise[name] for name in network.columns])),
        "degrees": network.degrees.tolist(),
        "unsigned": network.unsigned.tolist(),
        "strong": network.strong.tolist(),
        "edges": edges | {name: _short(values) for name, values in network.tests.items()},
        "measure": network.measure,
        "n_edges": network.n_edges,
        "at_first": _AT_FIRST,
    }


def _short(values: FloatArray) -> list[float | None]:
    """Return numbers with five digits, which is what a reader sees of them."""
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in values.tolist()]


def _caption(network: Network) -> str:
    n_drawn = len(network.weights)
    few = f" Only {n_drawn:,} of the strongest, among {int(network.drawn.sum())} columns, can be shown."
    strongest = f" At first the strongest {_AT_FIRST} are shown." if n_drawn > _AT_FIRST else ""
    strongest += "" if network.n_edges == n_drawn else few
    hidden = int(np.count_nonzero(network.degrees == 0)) - MOST_UNLINKED
    if hidden > 0:
        more = counted(hidden, "more column")
        strongest += f" {more} without a link {'is' if hidden == 1 else 'are'} not drawn."
    return (
        f"Each disc is a column, larger with more links; each line is a {network.measure}, wider where it is stronger, "
        "and dashed where it is negative. Columns of one colour are linked among each other more than with others. "
        f"Places have no meaning but that linked columns are near each other.{strongest}"
    )


def _alternative(network: Network) -> str:
    most = int(np.argmax(network.degrees))
    if network.n_edges == 1:
        ends = " and ".join(f"“{figure_text(network.columns[each[0]])}”" for each in (network.sources, network.targets))
        return f"One link, between {ends}. All numbers are in the tables of links and of columns."
    n_groups = len(network.communities)
    return (
        f"{network.n_edges:,} links in {counted(n_groups, 'group')} of columns; "
        f"“{figure_text(network.columns[most])}” has the most, {network.degrees[most]}. "
        "All numbers are in the tables of links and of columns."
    )
