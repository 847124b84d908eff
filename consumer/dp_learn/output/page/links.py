"""The links of a result and its columns: in tables, and the surest links with their intervals in a figure.

The figure is drawn by the page itself, without a script.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dp_bundle.base.document import MINUS, PageTable, TableColumn, figure_text, number
from dp_bundle.base.quoting import counted
from dp_bundle.manifest.columns import NO_VALUE
from dp_learn.output.folder import Columns
from dp_learn.output.network import Network
from dp_learn.output.summary import GraphResult
from dp_learn.pipeline.graph import VALUE, GraphEstimate, take_rows

MOST_ROWS = 1000
_LEAST = 0.0001  # of p- and q-values that are told apart
Meaning = tuple[str, str | None, str]  # heading, form of numbers or None for words, and what it says
Meanings = dict[str, Meaning]  # by the names of columns
ENDS: Meanings = {"source": ("Column", None, ""), "target": ("linked to", None, "")}
INTERVAL: Meanings = {"ci_low": ("95 % from", "+.3f", ""), "ci_high": ("to", "+.3f", "")}
UNPENALISED: Meanings = {
    "unpenalised": ("Unpenalised", "+.3f", "what the intervals are about."),
    **INTERVAL,
}
EDGES: Meanings = {
    **ENDS,
    "partial_correlation": ("Partial correlation", "+.3f", "of the pair given all other columns, {weight}."),
    "evidence": ("Evidence", ".2f", "an estimate divided by its standard error; it ranks, and is not a test."),
    "degrees_of_freedom": ("Entries", ".0f", "of the test: for a category each level but one."),
    "desparsified": ("Desparsified", "+.3f", "an estimate that assumes no graph; intervals and tests are about it."),
    **INTERVAL,
    "q_value": ("q-value", ".2g", "the false discovery rate at which the pair would just be found."),
}
NODES: Meanings = {
    "node": ("Node", None, ""),
    "community": ("Group", ".0f", "columns linked among each other (Louvain)."),
    "community_probability": ("Sure", ".0%", "how probably another of its group is with it."),
    "predictability": ("Predictability", ".2f", "the share of its variance that others explain, less chance’s part."),
    "predictability_low": ("95 % from", ".2f", ""),
    "predictability_high": ("to", ".2f", ""),
    "strength": ("Strength", ".2f", "the sum of its links’ sizes."),
    "strength_low": ("95 % from", ".2f", ""),
    "strength_high": ("to", ".2f", ""),
    "expected_influence": ("Expected influence", "+.2f", "their sum with signs."),
    "expected_influence_low": ("95 % from", "+.2f", ""),
    "expected_influence_high": ("to", "+.2f", ""),
    "betweenness": ("Betweenness", ".0f", "the pairs of others whose shortest path passes through it."),
    "closeness": ("Closeness", ".3f", "the inverse of its mean distance to others."),
}


def make_table(name: str, caption: str, table: Columns, meanings: Meanings, file: str, headings: int = 1) -> PageTable:
    """Return the first rows of those columns of a table that have a meaning here, and a value in any row.

    Parameters
    ----------
    name, caption, headings
        As of `PageTable`.
    table : Columns
        Of the result.
    meanings : mapping of str to Meaning
        By the names of columns, in the order of the page.
    file : str
        Where all rows are.
    """
    columns = [
        TableColumn(
            heading,
            list(table[column][:MOST_ROWS]) if form is None else table[column][:MOST_ROWS].tolist(),
            form,
            about,
            _LEAST if column in {"p_value", "q_value"} else -math.inf,
        )
        for column, (heading, form, about) in meanings.items()
        if column in table and (form is None or not np.isnan(table[column]).all())
    ]
    n_rows = len(next(iter(table.values())))
    more = f"The first {MOST_ROWS:,} of {n_rows:,} rows; {file} has all of them." if n_rows > MOST_ROWS else ""
    return PageTable(name, caption, columns, more, headings)


COLUMNS: Meanings = {
    "column": ("Column", None, ""),
    "links": ("Links", ".0f", ""),
    "strongest": ("Strongest link", None, ""),
    "group": ("Group", ".0f", "columns linked among each other."),
    "noise": ("Noise, %", ".1f", "the share of the noise in the published variance."),
    "remark": ("Remark", None, ""),
}
_DROWNED = "left out: its variance cannot be distinguished from the noise"
_COLLINEAR = "others determine it: its links cannot be distinguished"
_MOST, _LONGEST_NAME = 30, 40
_MARGIN = 0.04  # on either side of all intervals, in parts of their range
_TICKS = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)


def edges_tables(graph: GraphEstimate, at_least: float) -> list[PageTable]:
    """Return a table of strong edges and one of weaker ones, as far as there are any, both in the order of edges."""
    label, form, about = EDGES["partial_correlation"]
    about = about.format(weight="on this graph" if graph.shrunk_weights is None else "shrunk for the noise")
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


def loadings_table(graph: GraphEstimate) -> list[PageTable]:
    """Return the table of how levels go together with the other ends of links, strongest first, where there are any."""
    if graph.variables is None or not len(graph.variables.loadings["effect"]):
        return []
    table = take_rows(graph.variables.loadings, graph.variables.order)
    effect = "in standard deviations of a number, or by how much more frequent a level is, all else being equal."
    if VALUE in table["level"]:
        effect += f" {VALUE} is a number that is one standard deviation larger, {NO_VALUE} where there is none."
    labels = {"source": "Column", "level": "where it is", "target": "changes", "target_level": "level"}
    words: Meanings = {name: (label, None, "") for name, label in labels.items()}
    caption = (
        f"How levels go together with linked columns, {'surest' if 'standard_error' in table else 'strongest'} first."
    )
    meanings = words | {"effect": ("by", "+.3f", effect)} | UNPENALISED
    return [make_table("loadings-table", caption, table, meanings, "loadings.csv")]


def columns_table(found: GraphResult, network: Network | None) -> PageTable:
    """Return the table of columns: their links, their group, their noise, and why some were left out."""
    summary = found.summary
    drowned, collinear = summary["drowned_columns"], set(summary.get("collinear_columns", ()))
    names = [*dict.fromkeys((*summary["columns"], *drowned))]
    table: dict[str, Any] = {"column": names}
    if network is not None:
        table |= _links_of(network, names)
    if (shares := summary["noise_share_of_variance"]) is not None:
        table["noise"] = np.array([100.0 * shares[name] for name in names])
    if drowned or collinear:
        table["remark"] = [_DROWNED if name in drowned else _COLLINEAR if name in collinear else "" for name in names]
    return make_table("columns-table", "The columns of the data.", table, COLUMNS, "summary.json")


def nodes_table(found: GraphResult) -> PageTable | None:
    """Return the table of the nodes' measures, the strongest first; None where there are none."""
    measures = None if found.learned is None else found.learned.measures
    if measures is None:
        return None
    table = take_rows(measures.columns, np.argsort(-measures.columns["strength"], kind="stable"))
    return make_table("nodes-table", "What nodes are like, the strongest first.", table, NODES, "nodes.csv")


def _links_of(network: Network, names: Sequence[str]) -> dict[str, Any]:
    """Return the number of links, the strongest link and the group of every column."""
    strongest: dict[str, str] = {}
    for ends, weight, unsigned in zip(network.ends, network.weights.tolist(), network.unsigned, strict=True):
        said, pair = number(weight, ".2f" if unsigned else "+.2f"), [network.columns[end] for end in ends]
        for name, other in (pair, reversed(pair)):
            strongest.setdefault(name, f"{other} ({said})")
    degrees = dict(zip(network.columns, network.degrees.tolist(), strict=True))
    groups = {network.columns[at]: place for place, group in enumerate(network.communities, start=1) for at in group}
    return {
        "links": np.array([degrees.get(name, math.nan) for name in names]),
        "strongest": [strongest.get(name, "") for name in names],
        "group": np.array([groups.get(name, math.nan) for name in names]),
    }


def plain_table(name: str, caption: str, table: Columns, file: str) -> PageTable:
    """Return any table of an estimator, in the order that it has."""
    headings = {column: f"{column[:1].upper()}{column[1:]}".replace("_", " ") or "Class" for column in table}
    headings |= {column: heading for column, (heading, _, _) in INTERVAL.items()}
    meanings: Meanings = {
        column: (headings[column], None if isinstance(values, list) else ".4g", "") for column, values in table.items()
    }
    return make_table(name, caption, table, meanings, file)


class Interval(NamedTuple):
    """One link of a forest: its ends, its numbers in words, and where these are, in percent of the width.

    An estimate that the table has no number for has no place either.
    """

    ends: str
    words: str
    on_graph: str
    q_value: str
    colour: str
    low: float
    high: float
    value: float | None
    fitted: float | None


@dataclass(frozen=True)
class Forest:
    """The first links of the tables with their intervals: how many exclude zero, and how many links there are."""

    rows: list[Interval]
    ticks: list[tuple[float, str]]
    n_sure: int
    n_edges: int


def find_forest(graph: GraphEstimate, at_least: float) -> Forest | None:
    """Return the first links of the tables, where there are links with intervals."""
    edges, _ = graph.strong_first(at_least)
    known = np.flatnonzero(~np.isnan(edges.get("ci_low", np.empty(0))))[:_MOST]
    if not len(known):
        return None
    names = ("ci_low", "ci_high", "desparsified", "partial_correlation")
    numbers = np.array([edges[name][known] for name in names])
    least, largest = min(float(np.nanmin(numbers)), 0.0), max(float(np.nanmax(numbers)), 0.0)
    margin = _MARGIN * (largest - least)

    def percent(value: float) -> Any:
        place = round(100.0 * (value - least + margin) / (largest - least + 2.0 * margin), 2)
        return None if math.isnan(place) else place

    rows = []
    for place, own in zip(known.tolist(), numbers.T.tolist(), strict=True):
        low, high, value, fitted = (number(each, "+.3f") for each in own)
        ends = " – ".join(figure_text(edges[end][place], _LONGEST_NAME) for end in ("source", "target"))
        colour, q_value = "positive" if own[2] > 0.0 else "negative", f"{edges['q_value'][place]:.2g}"
        words = f"({low} to {high})" if math.isnan(own[2]) else f"{value} ({low} to {high})"
        rows.append(Interval(ends, words, fitted, q_value, colour, *map(percent, own)))
    ticks = [(percent(tick), f"{tick:g}".replace("-", MINUS)) for tick in _TICKS if least <= tick <= largest]
    n_sure = int(np.count_nonzero((numbers[0] > 0.0) | (numbers[1] < 0.0)))
    return Forest(rows, ticks, n_sure, len(edges["source"]))
