"""The page of a result, put together.

What a result comes from: files, signers, digests, versions and settings, and how to cite it.
"""

from pathlib import Path
from typing import Any

from dp_bundle.describe import sentences
from dp_bundle.page.document import Page, render_page
from dp_bundle.page.tables import PageTable
from dp_bundle.portals.histograms import draw_margins
from dp_learn.output.description import Description
from dp_learn.output.folder import Result
from dp_learn.output.messages import describe_notes
from dp_learn.output.methods import SOFTWARE, describe_methods
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
from dp_learn.output.page.network import draw_network, network_data
from dp_learn.output.page.plain_words import key_figures, summarize_plainly
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
