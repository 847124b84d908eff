"""The tables of the page: edges, columns, and whatever else an estimator gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dp_bundle.page import Column, Table
from dp_learn.graph import GraphEstimate

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 1000
_EDGES = {
    "partial_correlation": ("Partial correlation", "+.3f", "of the pair given all other columns, on this graph."),
    "evidence": ("Evidence", ".2f", "an estimate divided by its standard error; it ranks, and is not a test."),
    "desparsified": (
        "Without a graph",
        "+.3f",
        "the desparsified partial correlation, which assumes no graph, and which intervals and tests are about.",
    ),
    "ci_low": ("95 %, from", "+.3f", ""),
    "ci_high": ("to", "+.3f", ""),
    "p_value": ("p-value", ".2g", ""),
    "q_value": ("q-value", ".2g", "the false discovery rate at which the pair would just be found."),
}


def edges_table(graph: GraphEstimate) -> Table:
    """Return the table of edges, surest first."""
    edges = graph.edge_columns
    n_edges = len(edges["source"])
    shown = min(n_edges, MOST_ROWS)
    columns = [Column("Column", edges["source"][:shown]), Column("linked to", edges["target"][:shown])]
    columns += [
        Column(label, edges[name][:shown].tolist(), form, about)
        for name, (label, form, about) in _EDGES.items()
        if name in edges
    ]
    more = "" if shown == n_edges else f"The {shown} surest of {n_edges} edges; edges.csv has all of them."
    return Table("edges-table", "The edges of the graph, surest first.", columns, more, headings=2)


def frame_table(name: str, caption: str, frame: pd.DataFrame, file: str) -> Table:
    """Return any table of an estimator, in the order that it has."""
    import pandas as pd

    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(names="")
    shown = frame.head(MOST_ROWS)
    columns = [_column(str(label), shown[label].tolist()) for label in shown]
    more = "" if len(shown) == len(frame) else f"The first {len(shown)} of {len(frame)} rows; {file} has all of them."
    return Table(name, caption, columns, more)


def _column(label: str, values: list[Any]) -> Column:
    if not all(isinstance(value, int | float) for value in values):
        return Column(label.replace("_", " "), [str(value) for value in values])
    return Column(label.replace("_", " "), [float(value) for value in values], ".4g")
