"""The tables of the page: edges, columns, and whatever else an estimator gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_bundle.manifest.sources import NO_VALUE
from dp_bundle.page.tables import PageTable, TableColumn, number
from dp_learn.output.page.network import Network
from dp_learn.output.summary import Result
from dp_learn.pipeline.graph import VALUE, GraphEstimate

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 1000
_LEAST = 0.0001  # of q-values that are told apart
_DROWNED = "left out: its variance cannot be told from the noise"
_COLLINEAR = "others determine it: its links cannot be told apart"
_EDGES = {
    "partial_correlation": ("Partial correlation", "+.3f", "of the pair given all other columns, on this graph."),
    "evidence": ("Evidence", ".2f", "an estimate divided by its standard error; it ranks, and is not a test."),
    "degrees_of_freedom": ("Entries", ".0f", "of the test: for a category each level but one."),
    "desparsified": (
        "Desparsified",
        "+.3f",
        "an estimate that assumes no graph; intervals and tests are about it.",
    ),
    "ci_low": ("95 % from", "+.3f", ""),
    "ci_high": ("to", "+.3f", ""),
    "q_value": ("q-value", ".2g", "the false discovery rate at which the pair would just be found."),
}


def edges_table(graph: GraphEstimate) -> PageTable:
    """Return the table of edges, surest first."""
    edges = graph.edge_columns
    n_edges = len(edges["source"])
    shown = min(n_edges, MOST_ROWS)
    columns = [TableColumn("Column", edges["source"][:shown]), TableColumn("linked to", edges["target"][:shown])]
    described = dict(_EDGES)
    if graph.categories:
        label, _, about = described["partial_correlation"]
        without = f"{about[:-1]}; of a category, or a number with gaps, the largest of its columns, without a sign."
        described["partial_correlation"] = label, ".3f", without
    columns += [
        TableColumn(label, edges[name][:shown].tolist(), form, about, _LEAST if name == "q_value" else -math.inf)
        for name, (label, form, about) in described.items()
        if name in edges
    ]
    more = "" if shown == n_edges else f"The {shown} surest of {n_edges:,} links; edges.csv has all of them."
    return PageTable("edges-table", "The links of the graph, surest first.", columns, more, headings=2)


def loadings_table(graph: GraphEstimate) -> PageTable | None:
    """Return the table of how levels go together with the other ends of links, strongest first; None without any."""
    if graph.variables is None or not len(loadings := graph.variables.loadings["effect"]):
        return None
    order = np.argsort(-np.abs(loadings), kind="stable")[:MOST_ROWS]
    table = graph.variables.loadings
    effect = "in standard deviations of a number, or by how much more frequent a level is, all else being equal."
    if VALUE in table["level"]:
        effect += f" {VALUE} is a number that is one standard deviation larger, {NO_VALUE} where there is none."
    columns = [
        TableColumn("Column", [table["source"][row] for row in order]),
        TableColumn("where it is", [table["level"][row] for row in order]),
        TableColumn("changes", [table["target"][row] for row in order]),
        TableColumn("level", [table["target_level"][row] for row in order]),
        TableColumn("by", [float(loadings[row]) for row in order], "+.3f", effect),
    ]
    more = "" if len(order) == len(loadings) else f"The {len(order)} strongest of {len(loadings):,}; see loadings.csv."
    return PageTable("loadings-table", "How levels go together with linked columns, strongest first.", columns, more)


def columns_table(found: Result, network: Network | None) -> PageTable:
    """Return the table of columns: their links, their group, their noise, and why some were left out."""
    summary = found.summary
    drowned, collinear = summary["drowned_columns"], set(summary.get("collinear_columns", ()))
    names = [*summary["columns"], *(name for name in drowned if name not in summary["columns"])][:MOST_ROWS]
    columns = [TableColumn("Column", names)]
    if network is not None:
        columns += _link_columns(network, names)
    if (shares := summary["noise_share_of_variance"]) is not None:
        percent = [100.0 * shares[name] for name in names]
        columns.append(TableColumn("Noise, %", percent, ".1f", "the share of the noise in the published variance."))
    if drowned or collinear:
        said = [_DROWNED if name in drowned else _COLLINEAR if name in collinear else "" for name in names]
        columns.append(TableColumn("Remark", said))
    n_columns = len(set(summary["columns"]) | set(drowned))
    cut = f"The first {len(names)} of {n_columns} columns; summary.json has all of them."
    more = "" if len(names) == n_columns else cut
    return PageTable("columns-table", "The columns of the data.", columns, more)


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
    return [
        TableColumn("Links", n_links, ".0f"),
        TableColumn("Strongest link", [strongest.get(place, "") for place in places]),
        TableColumn(
            "Group", [groups.get(place, math.nan) for place in places], ".0f", "columns linked among each other."
        ),
    ]


def frame_table(name: str, caption: str, frame: pd.DataFrame, file: str) -> PageTable:
    """Return any table of an estimator, in the order that it has."""
    import pandas as pd

    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(names="Class")
    shown = frame.head(MOST_ROWS)
    columns = [_column(str(label), shown[label].tolist()) for label in shown]
    more = "" if len(shown) == len(frame) else f"The first {len(shown)} of {len(frame)} rows; {file} has all of them."
    return PageTable(name, caption, columns, more)


def _column(label: str, values: list[Any]) -> TableColumn:
    label = label[:1].upper() + label[1:].replace("_", " ")
    if not all(isinstance(value, int | float) for value in values):
        return TableColumn(label, [str(value) for value in values])
    return TableColumn(label, [float(value) for value in values], ".4g")
