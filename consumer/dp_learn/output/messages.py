"""The lines that dp-learn prints of a result.

Of the edges a person is shown those whose sign is sure, and is told how many are not.

The methods of a result as a paragraph for a paper, with references and BibTeX: one text for page, file and Python.

The templates have the sentences, each true of the result at hand.

A result in three sentences that need no statistics, and in a few numbers.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.document import figure_text, fill_template, number
from dp_bundle.base.quoting import and_more, counted, name_columns, quote_name, quote_path
from dp_bundle.describe import sentences
from dp_bundle.manifest.dataset import WEB
from dp_learn.covariance.sources import counts_rows
from dp_learn.matrices.linalg import Mask
from dp_learn.output.folder import TEXTS, Result, Summary, rows_of
from dp_learn.output.network import Network, count_by_strength
from dp_learn.output.summary import GraphResult
from dp_learn.pipeline.graph import AT_LEAST, GraphEstimate

NOISE = "none stands out from the noise"
RULE = "the rule that chose alpha keeps none; --fdr 0.05 lists what tests of all pairs find"
PENALTY = "the penalty removes them all; give a smaller --alpha, or leave it out to have one chosen"
_SHOWN = 10
_LEVELS = 3
_LEVEL = 0.05  # the false discovery rate at which an edge counts as sure
_ERRORS = 1.96  # of its standard error, what a 95 % interval without zero takes where there is no interval
HARDLY = 5e-4  # of the rows, pulled in to ends of their column
_CLOSE = 3.0  # standard deviations from a center, where clipping is worth a line
_MEASURES = {"strength": "most central by strength", "predictability": "best predicted by all others"}


def fill_lines(template: str, result: Result | None, **values: Any) -> list[str]:
    """Return the lines of a template of ours, filled in; see `_fill`."""
    return [*filter(None, _fill(template, result, values).splitlines())]


def _fill(template: str, result: Result | None, values: dict[str, Any]) -> str:
    """Return a template of ours, filled in with a result, and with the words that all templates use."""
    words = {
        "result": result,
        "summary": {} if result is None else result.summary,
        "say": sentences,
        "spell": describe_number,
        "is_about": lambda bundle: not counts_rows(bundle),
        **{each.__name__: each for each in (counted, median, name_columns, quote_name, quote_path)},
    }
    return fill_template(TEXTS, template, words | values).strip("\n")


def describe_result(found: GraphResult, folder: Path) -> str:
    """Return the lines that dp-learn prints of a result in a folder."""
    summary, graph = found.summary, found.graph
    if graph is None:
        table = found.tables.get("coefficients.csv") or found.tables["edges.csv"]
        lines = fill_lines("estimated.txt", found, rows=rows_of(table)[:_SHOWN], spell_edge=describe_edge)
    else:
        shrunk, why_none = summary["penalty_share"] > 0.0, found.why_none or _why_none(summary)
        lines = describe_edges(graph, shrunk=shrunk, why_none=why_none, at_least=summary["at_least"])
    if found.learned is not None and found.learned.measures is not None:
        lines += describe_nodes(found.learned.measures.columns)
    return spell_lines("learned.txt", found, folder, reading=_describe_reading(found), lines=lines)


def spell_lines(template: str, result: Result, folder: Path, **values: Any) -> str:
    """Return what a command prints by a template of ours, which ends with what was written into the folder."""
    return "\n".join(fill_lines(template, result, folder=folder, **values))


def _why_none(summary: Summary) -> str:
    """Return why there would be no edge."""
    if summary["fdr"] and summary["collinear_columns"]:
        return f"edges of the collinear columns cannot be distinguished, and of the others {NOISE}"
    if summary["fdr"]:
        return NOISE
    return PENALTY if summary["alpha_chosen_by"] == "the user" else RULE


def describe_notes(found: GraphResult) -> list[str]:
    """Return what a page says of how a result is to be read: the sentences of the terminal, each as a whole one."""
    return [f"{each[0].upper()}{each[1:].removesuffix('.')}." for each in _describe_reading(found)]


def _describe_reading(found: GraphResult) -> list[str]:
    """Return sentences on gaps and scales, rows and noise, the error that these leave, columns left out, and more."""
    entries, shares = found.summary["bundles"], found.summary["noise_share_of_variance"]
    moments = [bundle.release.second_moments for bundle in found.bundles]
    nearest: dict[str, float] = {}
    for name, away in (clipped for entry in entries for clipped in entry["clipped_at"].items()):
        nearest[name] = min(away, nearest.get(name, math.inf))
    close = sorted((away, name) for name, away in nearest.items() if away < _CLOSE)

    pulled = [(*ends, name) for entry in entries for name, ends in entry["clipped_shares"].items() if ends[2] > HARDLY]
    pulled_in = [
        f"{quote_name(name)} below {low:.4g} or above {high:.4g} (about {100.0 * share:.2g} % of the rows)"
        for low, high, share, name in sorted(pulled, key=itemgetter(2), reverse=True)
    ]
    return fill_lines(
        "reading.txt",
        found,
        weights=[f"{entry['weight']:.3g}" for entry in entries],
        gaps=dict.fromkeys(gap for entry in entries for gap in entry["gaps"]),
        counts=all(map(counts_rows, found.bundles)),
        shares=None if shares is None else [100.0 * share for share in shares.values()],
        has_two_rounds=any(each is not None and each.first_round is not None for each in moments),
        close=and_more([f"{away:.2g} (in {quote_name(name)})" for away, name in close], _LEVELS),
        pulled_in=and_more(pulled_in, _LEVELS),
    )


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
    edges, n_strong = graph.strong_first(at_least)
    n_edges, sure = len(edges["source"]), np.flatnonzero(has_sure_sign(edges))
    shown = [{name: values[place] for name, values in edges.items()} for place in sure[:_SHOWN]]
    ranges = [
        [edge[name] for name in ("ci_low", "partial_correlation", "ci_high")] for edge in shown if "ci_low" in edge
    ]
    return fill_lines(
        "edges.txt",
        None,
        graph=graph,
        edges=edges,
        n_edges=n_edges,
        n_pairs=math.comb(len(graph.columns), 2),
        n_strong=n_strong,
        n_sure=len(sure),
        strengths=count_by_strength(n_strong, n_edges, at_least) if at_least else "",
        shown=[(edge, _describe_levels(graph, edge)) for edge in shown],
        lies_outside=any(weight < low or weight > high for low, weight, high in ranges),
        judged=judged_by(edges),
        shrunk=shrunk,
        why_none=why_none,
        spell_edge=describe_edge,
    )


def describe_nodes(nodes: Mapping[str, Any]) -> list[str]:
    """Return a line on the two nodes of the largest strength, and one on the best predicted, where intervals are known.

    Parameters
    ----------
    nodes : mapping of str to list, or to ndarray
        The table of nodes.
    """
    lines = []
    for measure, said in _MEASURES.items():
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


def has_sure_sign(edges: dict[str, Any]) -> Mask:
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
    """Return what levels of a category surely go together with the other end of its edge, or surely not."""
    if graph.variables is None:
        return []
    table, ends, said = graph.variables.loadings, {edge["source"], edge["target"]}, []
    rows = [row for row in graph.variables.order if {table["source"][row], table["target"][row]} == ends]
    for row in rows[:_LEVELS]:
        pair = " with ".join(map(quote_name, filter(None, (table["level"][row], table["target_level"][row]))))
        bars = [f"{table[name][row]:+.2f}" for name in ("unpenalised", "ci_low", "ci_high") if name in table]
        said.append(f"{pair} {table['effect'][row]:+.2f}" + (f" ({bars[0]}, {bars[1]} to {bars[2]})" if bars else ""))
    return said


def describe_edge(edge: dict[str, Any], measure: str = "partial_correlation") -> str:
    """Return an edge in a line: its weight, what is known of its interval, and its ends."""
    text = describe_number(edge[measure])
    if edge.get("degrees_of_freedom", 1) > 1:
        text = f" {text.lstrip('+')}"
    if not math.isnan(edge.get("ci_low", math.nan)):
        bracket = [describe_number(edge[name]) for name in ("desparsified", "ci_low", "ci_high")]
        text += f" ({bracket[0]}, {bracket[1]} to {bracket[2]})"
    return f"{text}  {quote_name(edge['source'])} -- {quote_name(edge['target'])}"


SOFTWARE = f"dpgraph {version('dpgraph')}"
_LONGEST, _LONGEST_CITATION = 200, 600  # letters
_SPECIAL = re.compile(r"([\\{}$&#^_%~])")
_SPELLED = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


@dataclass(frozen=True)
class Methods:
    """The methods of a result.

    Attributes
    ----------
    sentences : list of str
        In order.
    references : list of str
        What they cite, with DOIs.
    data : str
        How the data and the software are cited.
    bibtex : str
        The same as BibTeX.
    """

    sentences: list[str]
    references: list[str]
    data: str
    bibtex: str

    @property
    def text(self) -> str:
        """The paragraph, what it cites, and BibTeX, one below the other."""
        return "\n\n".join([" ".join(self.sentences), "\n".join(self.references), self.data, self.bibtex]) + "\n"


def describe_methods(result: Result) -> Methods:
    """Return the methods of a result: the data and their guarantee, the estimate, its rule, intervals, and software."""
    values = {
        "kind": type(result).__name__,
        "releases": [*zip(result.bundles, result.summary["bundles"], strict=True)],
        "cited": [_cite(bundle) for bundle in result.bundles],
        "tex": lambda text: _SPECIAL.sub(lambda found: _SPELLED.get(found[0], f"\\{found[0]}"), text),
        "software": SOFTWARE,
    }
    text, data, bibtex = (_fill(name, result, values) for name in ("methods.txt", "citation.txt", "citation.bib"))
    references = (TEXTS / "references.txt").read_text(encoding="utf-8").splitlines()
    cited = [each for each in references if each.partition(". ")[0] in text]
    return Methods([*filter(None, dict.fromkeys(text.splitlines()))], cited, data, bibtex)


def _cite(bundle: Bundle) -> dict[str, str]:
    """Return what a citation of a release has."""
    release, dataset, digest = bundle.release, bundle.release.dataset, bundle.manifest_sha256
    return {
        "title": figure_text(dataset.title or dataset.name, _LONGEST),
        "year": release.lineage.created[:4],
        "creator": figure_text(dataset.creator or f"Signer {bundle.signer.key.fingerprint[:24]}", _LONGEST),
        "digest": digest,
        "about": f"Release {release.lineage.number}, manifest sha256:{digest}",
        "url": dataset.url if WEB.fullmatch(dataset.url) else "",  # no brace ends a field of BibTeX
        "own": figure_text(dataset.citation, _LONGEST_CITATION).rstrip("."),
    }


_LONGEST_TITLE, _LONGEST_NAME = 120, 60


def summarize_plainly(found: GraphResult, network: Network | None) -> list[str]:
    """Return what was found, what the noise did, and how sure it is."""
    datasets, shares = [bundle.release.dataset for bundle in found.bundles], found.summary["noise_share_of_variance"]
    titles = [figure_text(dataset.title or dataset.name, _LONGEST_TITLE) for dataset in datasets]
    values = {
        "network": network,
        "names": " and ".join(dict.fromkeys(f"“{title}”" for title in titles)),
        "target": figure_text(found.summary.get("target", ""), _LONGEST_NAME),
        "noise": None if shares is None else median(shares.values()),
        "percent": _percent,
    }
    if network is not None:
        values["pairs"] = f"the {counted(math.comb(len(network.columns), 2), 'pair')} of columns in {values['names']}"
        values |= _find_surest(found, network) if network.n_edges else {}
    return fill_lines("plain.txt", found, **values)


def _find_surest(found: GraphResult, network: Network) -> dict[str, Any]:
    """Return the first link whose sign is sure, or the first of all, and how many are not sure or not listed."""
    edges: Any = found.tables["edges.csv"] if found.graph is None else found.graph.strong_first(network.at_least)[0]
    sure = has_sure_sign(edges) if "partial_correlation" in edges else np.ones(network.n_edges, dtype=bool)
    place = int(np.argmax(sure))
    first = [str(edges[end][place]) for end in ("source", "target")]
    has_sign = found.graph is None or found.graph.categories.isdisjoint(first)
    fit = None if found.learned is None else found.learned.fit
    return {
        "edges": edges,
        "ends": " and ".join(f"“{figure_text(name, _LONGEST_NAME)}”" for name in first),
        "strength": number(float(edges[network.measure.replace(" ", "_")][place]), "+.2f" if has_sign else ".2f"),
        "n_unsure": int(np.count_nonzero(~sure)),
        "n_fitted": 0 if fit is None else int(np.count_nonzero(np.triu(fit.nodes.linked(fit.precision), 1))),
        "judged": judged_by(edges),
    }


def _percent(share: float) -> str:
    if share < 0.005:
        return "less than 1 %"
    return f"about {100.0 * share:.0f} %" if share <= 0.995 else "nearly all"
