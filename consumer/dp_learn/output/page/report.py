"""The page of a result, put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dp_bundle.page.document import Page, render_page
from dp_bundle.page.tables import Table
from dp_learn.output.page.alpha_path import draw_paths, explain_alpha
from dp_learn.output.page.findings import Findings
from dp_learn.output.page.forest import draw_forest
from dp_learn.output.page.graph_figure import draw_network, network_data
from dp_learn.output.page.heat_maps import draw_heat_maps, find_heat_maps, heat_map_data
from dp_learn.output.page.network import find_network
from dp_learn.output.page.plain_words import key_figures, summarize_plainly
from dp_learn.output.page.provenance import (
    cite,
    describe_prediction,
    describe_promise,
    describe_release,
    settings,
    software,
)
from dp_learn.output.page.tables import columns_table, edges_table, frame_table, loadings_table
from dp_learn.output.page.visible_links import describe_visibility, draw_visibility, find_visibility, visibility_table

_TEMPLATES = Path(__file__).with_name("templates")
_CAPTIONS = {
    "edges.csv": "The pairs of columns whose correlation exceeds the threshold, surest first.",
    "coefficients.csv": "The coefficient of every column.",
    "means.csv": "The mean of every column in each class.",
}


def make_report(findings: Findings) -> str:
    """Return the page of a result as one HTML document that needs no network, the same for the same result."""
    network, maps, seen = find_network(findings), find_heat_maps(findings), find_visibility(findings)
    drawn_network = network if network is not None and network.n_edges else None
    figures = {
        "graph": [] if drawn_network is None else [draw_network(drawn_network)],
        "forest": [forest] if findings.graph is not None and (forest := draw_forest(findings.graph)) else [],
        "heat": [] if maps is None else draw_heat_maps(maps),
        "alpha": draw_paths(findings),
        "visible": [] if seen is None else [draw_visibility(seen)],
    }
    names = [bundle.release.dataset.title or bundle.release.dataset.name for bundle in findings.bundles]
    text, bibtex = cite(findings.bundles)
    values: dict[str, Any] = {
        "names": list(dict.fromkeys(names)),
        "summary": findings.summary,
        "sentences": summarize_plainly(findings, network),
        "key_figures": key_figures(findings, network),
        "network": network,
        "figures": figures,
        "tables": _tables(findings),
        "columns": columns_table(findings, network),
        "maps": maps,
        "alpha": explain_alpha(findings),
        "visible": [] if seen is None else describe_visibility(seen),
        "visible_table": None if seen is None else visibility_table(seen),
        "promises": [(bundle, describe_promise(bundle)) for bundle in findings.bundles],
        "releases": [(bundle, describe_release(bundle)) for bundle in findings.bundles],
        "prediction": describe_prediction(findings),
        "settings": settings(findings),
        "command": findings.command,
        "software": software(),
        "citation": text,
        "bibtex": bibtex,
    }
    shares = findings.summary["noise_share_of_variance"]
    data = {} if drawn_network is None else {"graph": network_data(drawn_network, shares)}
    data |= {} if maps is None else {"heat": heat_map_data(maps)}
    title = f"{', '.join(values['names'])}: {findings.summary['estimator']}"
    scripts = [
        *([] if drawn_network is None else ["graph.js"]),
        *(["forest.js"] if figures["forest"] else []),
        *([] if maps is None else ["heat_maps.js"]),
    ]
    drawn = [figure for group in figures.values() for figure in group]
    return render_page(Page(_TEMPLATES, "report.html", title, values, drawn, scripts, data))


def _tables(findings: Findings) -> list[Table]:
    if findings.graph is not None:
        tables = [edges_table(findings.graph)] if findings.graph.edge_columns["source"] else []
        return [*tables, *([loadings] if (loadings := loadings_table(findings.graph)) is not None else [])]
    return [
        frame_table(f"table-{place}", _CAPTIONS[file], frame, file)
        for place, (file, frame) in enumerate(findings.tables.items())
        if file in _CAPTIONS and len(frame)
    ]
