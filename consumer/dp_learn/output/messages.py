"""The lines that dp-learn prints of a result.

Of the edges a person is shown those whose sign is sure, and is told how many are not.
"""

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle import Bundle
from dp_bundle.base.quoting import and_more, quote_name, quote_path
from dp_bundle.describe.sentences import describe_guarantee, describe_scale, describe_several
from dp_learn.covariance.sources import counts_rows
from dp_learn.matrices.repair_methods import RepairMethod
from dp_learn.output.folder import Summary
from dp_learn.output.network import count_by_strength
from dp_learn.output.summary import GraphResult
from dp_learn.pipeline.graph import AT_LEAST, GraphEstimate

NOISE = "none stands out from the noise"
RULE = "the rule that chose alpha keeps none; --fdr 0.05 lists what tests of all pairs find"
PENALTY = "the penalty removes them all; give a smaller --alpha, or leave it out to have one chosen"
_NAMED = 10
_SHOWN = 10
_LEVELS = 3
_LEVEL = 0.05  # the false discovery rate at which an edge counts as sure
_ERRORS = 1.96  # of its standard error, what a 95 % interval without zero takes where there is no interval
HARDLY = 5e-4  # of the rows, pulled in to ends of their column
_CLOSE = 3.0  # standard deviations from a center, where clipping is worth a line
_TAILS = 1.02  # a factor of variances that is worth a line
_ROUNDING = 1e-10  # of an eigenvalue of a correlation matrix
_MEASURES = {"strength": "most central by strength", "predictability": "best predicted by all others"}
_TABLES = (  # in order
    *("edges", "coefficients", "means", "ranking", "pairs", "nodes", "stability", "loadings", "precision"),
    *(
        "covariance",
        "thresholded",
        "margins",
        "quantiles",
        "differences",
        "strengths",
        "changes",
        "description",
        "crosstabs",
    ),
)
_FILES = (
    *("periods/", *(f"{name}.csv" for name in _TABLES)),
    *("graph.graphml", "graph.png", "methods.txt", "report.html", "summary.json"),
)


def describe_result(found: GraphResult, folder: Path) -> str:
    """Return the lines that dp-learn prints of a result in a folder."""
    summary, learned = found.summary, found.learned
    lines = [*_describe_bundles(found.bundles), *_describe_pooling(summary)]
    lines += [f"  {sentence}" for sentence in _describe_reading(found)]
    if learned is not None:
        tests = " (the edges below are found by tests, which do not use alpha)" if summary["fdr"] else ""
        lines.append(
            f"  alpha = {summary['alpha']:.4g}, chosen by {summary['alpha_chosen_by']}; {summary['status']}, "
            f"duality gap {summary['duality_gap']:.1e}{tests}"
        )
        shrunk, at_least = learned.penalty_share > 0.0, summary["at_least"]
        lines += describe_edges(learned.estimate, shrunk=shrunk, why_none=_why_none(summary), at_least=at_least)
        lines += describe_nodes({} if learned.measures is None else learned.measures.columns)
    elif summary["alpha"] is not None:
        lines.append(f"  {summary['estimator']}, alpha = {summary['alpha']:.4g}")

    return "\n".join([*lines, *found.lines, describe_files(folder)])


def describe_files(folder: Path) -> str:
    """Return the line on what was written into the folder of a result."""
    return f"wrote {folder}/: {', '.join(name for name in _FILES if (folder / name).exists())}"


def _why_none(summary: Summary) -> str:
    """Return why there would be no edge."""
    if summary["fdr"] and summary["collinear_columns"]:
        return f"edges of the collinear columns cannot be distinguished, and of the others {NOISE}"
    if summary["fdr"]:
        return NOISE
    return PENALTY if summary["alpha_chosen_by"] == "the user" else RULE


def describe_notes(found: GraphResult) -> list[str]:
    """Return what a page says of how a result is to be read: the sentences of the terminal, each as a whole one."""
    said = [*_describe_pooling(found.summary), *_describe_reading(found)]
    return [f"{each[0].upper()}{each[1:].removesuffix('.')}." for each in said]


def _describe_bundles(bundles: Sequence[Bundle]) -> list[str]:
    guarantees = [describe_guarantee(bundle.release)[0] for bundle in bundles]
    alike = len(set(guarantees)) == 1
    lines = []
    for bundle, guarantee in zip(bundles, guarantees, strict=True):
        lines.append(describe_bundle(bundle))
        if not alike or bundle is bundles[-1]:
            lines += [f"  {sentence}" for sentence in (guarantee, *describe_several(bundle.release.guarantee))]
    return lines


def describe_bundle(bundle: Bundle) -> str:
    """Return which release a bundle holds, and that it is verified."""
    release = bundle.release
    return (
        f"{quote_path(bundle.path)}: release {release.lineage.number} of {quote_name(release.dataset.name)}, signed by "
        f"{quote_name(bundle.signer.name)}, verified"
    )


def _describe_pooling(summary: Summary) -> list[str]:
    if len(summary["bundles"]) == 1:
        return []
    weights = ", ".join(f"{bundle['weight']:.3g}" for bundle in summary["bundles"])
    rows = "releases of the same rows" if summary["same_rows"] else "releases of different rows"
    return [f"pooled as {rows}, with the weights of least variance: {weights}"]


def _describe_reading(found: GraphResult) -> list[str]:
    """Return sentences on gaps and scales, rows and noise, the error that these leave, columns left out, and more."""
    summary, bundles = found.summary, found.bundles
    gaps = dict.fromkeys(gap for bundle in summary["bundles"] for gap in bundle["gaps"])
    lines = [*gaps, *describe_scale(bundles[0].release.columns)]

    about = "" if all(map(counts_rows, bundles)) else "about "
    counted = f"{about}{summary['n_rows']} rows"
    if (shares := summary["noise_share_of_variance"]) is not None:
        percents = [100.0 * share for share in shares.values()]
        least, middle, most = min(percents), median(percents), max(percents)
        counted += f"; noise makes up {least:.0f} to {most:.0f} % of the published variances (median {middle:.0f} %)"
        counted += " and was subtracted"
    if (errors := summary["correlation_standard_error"]) is not None:
        error = "standard error of a correlation"
        if summary["errors_are_estimates"]:
            error = "error of a correlation, estimated by the publisher,"
        counted += f"; the typical {error} is {errors['with_noise']:.2g} ({errors['without']:.2g} without the noise)"
    lines.append(counted)
    if summary["kurtosis_factor"] > _TAILS:
        times = math.sqrt(summary["kurtosis_factor"])
        lines.append(f"sampling errors count as {times:.3g} times those of Gaussian rows, for the rows' tails")
    moments = [bundle.release.second_moments for bundle in bundles]
    if any(each is not None and each.first_round is not None for each in moments):
        lines += [_describe_clips(summary), *_describe_pulled_in(summary)]
    if summary["drowned_columns"]:
        lines.append(
            f"drowned by the noise, and left out: {and_more([*map(quote_name, summary['drowned_columns'])], _NAMED)}"
        )
    return [*lines, *_describe_definiteness(summary, with_cost=found.learned is not None), *summary["notes"]]


def _describe_clips(summary: Summary) -> str:
    """Return what clipping did to the columns of releases in two rounds."""
    nearest: dict[str, float] = {}
    for bundle in summary["bundles"]:
        for name, away in bundle["clipped_at"].items():
            nearest[name] = min(away, nearest.get(name, math.inf))
    close = sorted((away, name) for name, away in nearest.items() if away < _CLOSE)
    shown = and_more([f"{away:.2g} (in {quote_name(name)})" for away, name in close], _LEVELS) or f"{_CLOSE:g} or more"
    return (
        f"both rounds are combined; values were clipped where they lie further from the center than {shown} "
        "standard deviations, as estimated afterwards. Rows beyond the radius were shortened: variances may be low"
    )


def _describe_pulled_in(summary: Summary) -> list[str]:
    """Return a sentence on the numbers that were pulled in to ends within their histograms, if there are any."""
    shares = [(*found, name) for bundle in summary["bundles"] for name, found in bundle["clipped_shares"].items()]
    each = [
        f"{quote_name(name)} below {low:.4g} or above {high:.4g} (about {100.0 * share:.2g} % of the rows)"
        for low, high, share, name in sorted(shares, key=itemgetter(2), reverse=True)
        if share > HARDLY
    ]
    named = and_more(each, _LEVELS)
    return [f"pulled in to these ends: {named}; links are those of the pulled-in values"] if each else []


def _describe_definiteness(summary: Summary, *, with_cost: bool) -> list[str]:
    """Return a sentence on how an indefinite matrix was treated, none where it is definite.

    Its price is the distance of the repair, or the smallest alpha with a solution.
    """
    eigenvalue, repair = summary["smallest_eigenvalue"], summary["repair"]
    if eigenvalue is None or eigenvalue > -_ROUNDING:
        return []
    done, cost = f"repaired by {repair}", ": no entry moved by more than {repair_distance:.3g}"
    if repair == RepairMethod.NONE:
        done, cost = "solved as it is", "; the smallest alpha with a solution is {smallest_solvable_alpha:.3g}"
    said = f"the debiased matrix is indefinite (smallest eigenvalue {eigenvalue:.3g}) and was {done}"
    return [said + cost.format(**summary) if with_cost else said]


def describe_edges(
    graph: GraphEstimate, *, shrunk: bool, why_none: str = NOISE, at_least: float = AT_LEAST
) -> list[str]:
    """Return how many edges there are, the first ten whose sign is sure, and how many may have the other sign.

    Strong edges come before weaker ones.

    Parameters
    ----------
    graph : GraphEstimate
        With or without intervals; its edges in the order of its table.
    shrunk : bool
        Whether a penalty has shrunk the weights.
    why_none : str
        Why there is no edge, if there is none.
    at_least : float
        The strength of strong edges; see `is_strong`.
    """
    (edges, n_strong), fdr = graph.strong_first(at_least), graph.fdr
    n_edges, n_columns = len(edges["source"]), len(graph.columns)
    found = f"  {n_edges} of {n_columns * (n_columns - 1) // 2} possible edges"
    found += f" at a false discovery rate of {fdr:g}" if fdr else ""
    if not n_edges:
        return [f"{found}: {why_none}"]

    sure = np.flatnonzero(has_sure_sign(edges))
    unsure = f"may be absent or have the opposite sign, {judged_by(edges)}"
    if not len(sure):
        return [f"{found}, {'which' if n_edges == 1 else 'all of which'} {unsure}"]
    found += f", {count_by_strength(n_strong, n_edges, at_least)}" if at_least else ""

    with_evidence, with_intervals = "evidence" in edges, "ci_low" in edges
    several = ", where an end has several columns the largest one, without a sign"
    ranked = f"partial correlations of the {'surest' if fdr or with_evidence else 'strongest'}"
    ranked += ", weaker ones last" if n_strong < n_edges else ""
    for_noise = graph.shrunk_weights is not None
    ranked += ", shrunk for the noise" if for_noise else ", shrunk by the penalty" if shrunk else ""
    ranked += several if graph.variables is not None else ""
    if with_intervals:
        ranked += ", with desparsified estimates and 95 % intervals in brackets"
    elif with_evidence:
        ranked += f", ranked by {'the tests' if fdr else 'evidence'}; there are no intervals"
    shown = [{name: values[place] for name, values in edges.items()} for place in sure[:_SHOWN]]
    lines = [line for edge in shown for line in (describe_edge(edge), *_describe_levels(graph, edge))]
    weights = [(edge["partial_correlation"], edge["ci_low"], edge["ci_high"]) for edge in shown if with_intervals]
    if any(weight < low or weight > high for weight, low, high in weights):
        penalty = ", and the penalty shrinks it" if shrunk else ""
        why = f"it assumes that pairs without an edge are unrelated{penalty}"
        why = "it is shrunk for the noise" if for_noise else why
        lines.append(
            f"    a weight can lie outside its interval, as {why}; what is in brackets does not depend on that"
        )
    if len(sure) > _SHOWN:
        judged = f", {judged_by(edges)}" if with_intervals or "q_value" in edges else ""
        lines.append(f"    {len(sure) - _SHOWN} more{judged}: see edges.csv")
    if len(sure) < n_edges:
        lines.append(f"    {n_edges - len(sure)} more {unsure}")
    return [f"{found}; {ranked}:", *lines]


def describe_nodes(nodes: Mapping[str, Any]) -> list[str]:
    """Return a line on the two nodes of the largest strength, and one on the best predicted, where intervals are known.

    Parameters
    ----------
    nodes : mapping of str to list, or to ndarray
        The table of nodes, or nothing.
    """
    lines = []
    for measure, said in _MEASURES.items() if nodes else ():
        values, low, high = (np.asarray(nodes[f"{measure}{end}"]) for end in ("", "_low", "_high"))
        known = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
        first = known[np.argsort(-values[known], kind="stable")][:2].tolist()
        if len(first) <= 1 or np.nanmax(values) > values[first[0]]:
            continue
        shown = [f"{quote_name(nodes['node'][at])} {values[at]:.2f} ({low[at]:.2f} to {high[at]:.2f})" for at in first]
        unsure = "" if low[first[0]] > high[first[1]] else "; their intervals overlap: do not take their order for sure"
        lines.append(f"  {said}, with 95 % intervals: {', then '.join(shown)}{unsure}")
    return lines


def describe_number(value: float) -> str:
    """Return a signed number with three decimals, or with one digit where those would all be zero."""
    return f"{value:+.1g}" if 0.0 < abs(value) < 0.0005 else f"{value:+.3f}"


def has_sure_sign(edges: dict[str, Any]) -> npt.NDArray[np.bool_]:
    """Return a mask of the edges that tests of all pairs find, and whose interval has their sign; else by evidence."""
    weight = np.asarray(edges["partial_correlation"])
    sure = np.ones(len(weight), dtype=bool)
    if "ci_low" in edges:
        sure &= ~np.where(weight > 0.0, edges["ci_low"] <= 0.0, edges["ci_high"] >= 0.0)  # where there is one
    if "q_value" in edges:
        sure &= edges["q_value"] <= _LEVEL
    elif "evidence" in edges and "ci_low" not in edges:
        sure &= edges["evidence"] > _ERRORS
    return sure


def judged_by(edges: dict[str, Any]) -> str:
    """Return what `has_sure_sign` goes by."""
    if "q_value" in edges:
        return f"judging by the tests of all pairs at a false discovery rate of {_LEVEL:g}"
    return "judging by the 95 % intervals" if "ci_low" in edges else "judging by the evidence"


def _describe_levels(graph: GraphEstimate, edge: dict[str, Any]) -> list[str]:
    """Return a line on the levels of a category that surely go together with the other end of its edge, or not."""
    if graph.variables is None:
        return []
    table, ends, said = graph.variables.loadings, {edge["source"], edge["target"]}, []
    rows = [row for row in graph.variables.order if {table["source"][row], table["target"][row]} == ends]
    for row in rows[:_LEVELS]:
        pair = " with ".join(map(quote_name, filter(None, (table["level"][row], table["target_level"][row]))))
        bars = [f"{table[name][row]:+.2f}" for name in ("unpenalised", "ci_low", "ci_high") if name in table]
        said.append(f"{pair} {table['effect'][row]:+.2f}" + (f" ({bars[0]}, {bars[1]} to {bars[2]})" if bars else ""))
    return [f"             {', '.join(said)}"] if said else []


def describe_edge(edge: dict[str, Any], measure: str = "partial_correlation") -> str:
    """Return the line on an edge: its weight, what is known of its interval, and its ends."""
    text = describe_number(edge[measure])
    if edge.get("degrees_of_freedom", 1) > 1:
        text = f" {text.lstrip('+')}"
    if not math.isnan(edge.get("ci_low", math.nan)):
        bracket = [describe_number(edge[name]) for name in ("desparsified", "ci_low", "ci_high")]
        text += f" ({bracket[0]}, {bracket[1]} to {bracket[2]})"
    return f"    {text}  {quote_name(edge['source'])} -- {quote_name(edge['target'])}"
