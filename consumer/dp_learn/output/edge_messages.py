"""The edges that a person is shown, those whose sign is sure, and how many are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle.base.quoting import quote_name
from dp_learn.pipeline.graph import GraphEstimate

_SHOWN = 10
_LEVELS = 3
NOISE = "none stands out from the noise"
PENALTY = "the penalty removes them all; give a smaller --alpha, or leave it out to have one chosen"
_LEVEL = 0.05  # of a test, where there is one and no interval
_ERRORS = 1.96  # of its standard error, what a 95 % interval without zero takes where there is no interval


def describe_edges(graph: GraphEstimate, *, shrunk: bool, why_none: str = NOISE) -> list[str]:
    """Return how many edges there are, the first ten whose sign is sure, and how many may have the other sign.

    Parameters
    ----------
    graph : GraphEstimate
        With or without intervals; its edges in the order of its table.
    shrunk : bool
        Whether a penalty has shrunk the weights.
    why_none : str
        Why there is no edge, if there is none.
    """
    edges, fdr = graph.edge_columns, graph.fdr
    n_edges, n_columns = len(edges["source"]), len(graph.columns)
    found = f"  {n_edges} of {n_columns * (n_columns - 1) // 2} possible edges"
    found += f" at a false discovery rate of {fdr:g}" if fdr else ""
    if not n_edges:
        return [f"{found}: {why_none}"]

    sure = np.flatnonzero(has_sure_sign(edges))
    unsure = f"may be absent or have the opposite sign, {_judged_by(edges)}"
    if not len(sure):
        return [f"{found}, {'which' if n_edges == 1 else 'all of which'} {unsure}"]

    ranked = f"partial correlations of the {'surest' if fdr or 'evidence' in edges else 'strongest'}"
    ranked += ", shrunk by the penalty" if shrunk else ""
    ranked += (
        ", where an end has several columns the largest one, without a sign" if graph.variables is not None else ""
    )
    no_intervals = ", ranked by evidence; there are no intervals" if "evidence" in edges else ""
    ranked += ", with desparsified estimates and 95 % intervals in brackets" if "ci_low" in edges else no_intervals
    shown = [{name: values[place] for name, values in edges.items()} for place in sure[:_SHOWN]]
    lines = [line for edge in shown for line in (_describe_edge(edge), *_describe_levels(graph, edge))]
    if any(_is_outside(edge) for edge in shown):
        penalty = ", and the penalty shrinks it" if shrunk else ""
        lines.append(
            "    a weight can lie outside its interval, as it assumes that pairs without an edge are unrelated"
            f"{penalty}; what is in brackets does not depend on that"
        )
    if len(sure) > _SHOWN:
        judged = " whose sign is sure" if {"ci_low", "evidence"} & set(edges) else ""
        lines.append(f"    {len(sure) - _SHOWN} more{judged}: see edges.csv")
    if len(sure) < n_edges:
        lines.append(f"    {n_edges - len(sure)} more {unsure}")
    return [f"{found}; {ranked}:", *lines]


def describe_number(value: float) -> str:
    """Return a signed number with three decimals, or with one digit where those would all be zero."""
    return f"{value:+.1g}" if 0.0 < abs(value) < 0.0005 else f"{value:+.3f}"


def has_sure_sign(edges: dict[str, Any]) -> npt.NDArray[np.bool_]:
    """Return a mask of the edges whose interval has the sign of their weight, or whose test or evidence is clear."""
    weight = np.asarray(edges["partial_correlation"])
    if "ci_low" in edges:
        return np.asarray(np.where(weight > 0.0, edges["ci_low"] > 0.0, edges["ci_high"] < 0.0))
    if "p_value" in edges:
        return np.asarray(edges["p_value"] < _LEVEL)
    if "evidence" in edges:
        return np.asarray(edges["evidence"] > _ERRORS)
    return np.ones(len(weight), dtype=bool)


def _judged_by(edges: dict[str, Any]) -> str:
    if "ci_low" in edges:
        return "judging by the 95 % intervals"
    return "judging by the tests" if "p_value" in edges else "as noise alone could account for the evidence"


def _is_outside(edge: dict[str, Any]) -> bool:
    """Return True if a weight lies outside the interval, which is about another estimate."""
    return "ci_low" in edge and not edge["ci_low"] <= edge["partial_correlation"] <= edge["ci_high"]


def _describe_levels(graph: GraphEstimate, edge: dict[str, Any]) -> list[str]:
    """Return a line on the levels of a category that go together most with the other end of its edge."""
    if graph.variables is None:
        return []
    strongest = graph.variables.strongest(edge["source"], edge["target"], _LEVELS)
    said = [f"{' with '.join(map(quote_name, filter(None, pair)))} {effect:+.2f}" for *pair, effect in strongest]
    return [f"             {', '.join(said)}"] if said else []


def _describe_edge(edge: dict[str, Any]) -> str:
    text = describe_number(edge["partial_correlation"])
    if edge.get("degrees_of_freedom", 1) > 1:
        text = f" {text.lstrip('+')}"
    if "ci_low" in edge:
        bracket = [describe_number(edge[name]) for name in ("desparsified", "ci_low", "ci_high")]
        text += f" ({bracket[0]}, {bracket[1]} to {bracket[2]})"
    return f"    {text}  {quote_name(edge['source'])} -- {quote_name(edge['target'])}"
