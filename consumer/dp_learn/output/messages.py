"""The lines that dp-learn prints of a result.

Of the edges a person is shown those whose sign is sure, and is told how many are not.

The methods of a result as a paragraph for a paper, with references and BibTeX: one text for page, file and Python.

The templates have the sentences, each true of the result at hand.

A result in three sentences that need no statistics, and in a few numbers.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle import Bundle
from dp_bundle.base.quoting import and_more, counted, quote_name, quote_path, round_up
from dp_bundle.describe import sentences
from dp_bundle.describe.sentences import describe_guarantee, describe_scale, describe_several
from dp_bundle.manifest.dataset import WEB
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.page.document import figure_text, fill_template, number
from dp_learn.covariance.sources import counts_rows
from dp_learn.matrices.choices import RepairMethod
from dp_learn.output.folder import Result, Summary
from dp_learn.output.network import Network, count_by_strength
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


SOFTWARE = f"dpgraph {version('dpgraph')}"
TEXTS = Path(__file__).with_name("templates")
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
        "result": result,
        "kind": type(result).__name__,
        "summary": result.summary,
        "releases": [*zip(result.bundles, result.summary["bundles"], strict=True)],
        "cited": [_cite(bundle) for bundle in result.bundles],
        "say": sentences,
        "quote_name": quote_name,
        "tex": lambda text: _SPECIAL.sub(lambda found: _SPELLED.get(found[0], f"\\{found[0]}"), text),
        "software": SOFTWARE,
    }
    text, data, bibtex = (
        fill_template(TEXTS, name, values).strip() for name in ("methods.txt", "citation.txt", "citation.bib")
    )
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


_PREDICTED = {
    "regression": "“{target}” is predicted from the other columns of {names} by a weighted sum of their values.",
    "lda": "The two classes of “{target}” are distinguished by a weighted sum of the other columns of {names}.",
}
_LONGEST_TITLE, _LONGEST_NAME = 120, 60
_MOST_GUARANTEES = 3  # that are named among the numbers
_NO_LINK = (
    "No pair of columns stands out from noise and chance. That does not show that none is linked, as weak links cannot "
    "be seen in these data."
)


def summarize_plainly(found: GraphResult, network: Network | None) -> list[str]:
    """Return what was found, what the noise did, and how sure it is."""
    datasets = [bundle.release.dataset for bundle in found.bundles]
    titles = [figure_text(dataset.title or dataset.name, _LONGEST_TITLE) for dataset in datasets]
    names = " and ".join(dict.fromkeys(f"“{title}”" for title in titles))
    return [_found(found, network, names), _noise(found), _certainty(found, network)]


def _found(found: GraphResult, network: Network | None, names: str) -> str:
    if network is None:
        pattern = _PREDICTED[found.summary["estimator"]]
        scaled = any(bundle["transforms"] for bundle in found.summary["bundles"])
        on_scale = " Values count on the scale that the release has them on." if scaled else ""
        return pattern.format(target=found.summary["target"], names=names) + on_scale
    pairs = f"the {math.comb(len(network.columns), 2):,} pairs of columns in {names}"
    if not network.n_edges:
        return f"No link was found among {pairs}."
    linked = f"{network.n_edges:,} of {pairs} {'is' if network.n_edges == 1 else 'are'} linked"
    if network.measure == "correlation":
        return f"{linked}: when one of the two is high, the other tends to be high as well, or low."
    return f"{linked}: the two go together even among rows in which all other columns are the same."


def _noise(found: GraphResult) -> str:
    why = ", to protect those whom the data are about"
    shares = found.summary["noise_share_of_variance"]
    if shares is None:
        sums = "No rows were published, but sums over all rows with random noise on them"
        return f"{sums}{why}; the noise was accounted for."
    return (
        f"Random noise was added to every value before the data were published{why}. It makes up "
        f"{_percent(median(shares.values()))} of the variation of a typical column, and was subtracted from what is "
        "shown here."
    )


def _certainty(found: GraphResult, network: Network | None) -> str:
    summary = found.summary
    if network is None:
        r_squared = summary.get("r_squared")
        if isinstance(r_squared, float) and 0.0 <= r_squared <= 1.0:
            return f"The sum explains {_percent(r_squared)} of the variation of “{summary['target']}”."
        if summary["estimator"] == "regression":
            return "Under this much noise it cannot be said how well the sum predicts."
        return "Which class a row belongs to follows from the sign of the sum."
    if not network.n_edges:
        return _NO_LINK

    edges: Any = found.tables["edges.csv"] if found.graph is None else found.graph.strong_first(network.at_least)[0]
    sure = has_sure_sign(edges) if "partial_correlation" in edges else np.ones(network.n_edges, dtype=bool)
    place = int(np.argmax(sure))  # the first of these; if there is none, the first of all
    first = [str(edges[end][place]) for end in ("source", "target")]
    ends = " and ".join(f"“{figure_text(name, _LONGEST_NAME)}”" for name in first)
    categories = frozenset() if found.graph is None else found.graph.categories
    strength = number(
        float(edges[network.measure.replace(" ", "_")][place]), ".2f" if {*first} & categories else "+.2f"
    )
    surest = f"The surest link is between {ends} ({network.measure} {strength})"
    rate = summary.get("fdr")
    if isinstance(rate, float):
        return f"{surest}; of the links listed, {_percent(rate)} are expected to be false.{_not_listed(found)}"
    if found.graph is None:
        return f"{surest}."
    unsure = int(np.count_nonzero(~sure))
    if "ci_low" not in edges and "evidence" not in edges:
        return f"The strongest link is between {ends} ({network.measure} {strength}); how sure it is is not known."
    if not unsure:
        return f"{surest}, and all are sure, {judged_by(edges)}."
    others = f"{unsure:,} of the {network.n_edges:,} links" if network.n_edges > 1 else "it"
    return f"{surest}; {others} may be absent or have the opposite sign, {judged_by(edges)}."


def _not_listed(found: GraphResult) -> str:
    """Return a sentence on links of the fitted graph that the tests left out, if there are such."""
    if found.learned is None or found.graph is None:
        return ""
    fit = found.learned.fit
    n_fitted = int(np.count_nonzero(np.triu(fit.nodes.linked(fit.precision), 1)))
    n_listed = len(found.graph.edge_columns["source"])
    if n_fitted <= n_listed:
        return ""
    return f" The fitted graph has {counted(n_fitted, 'link')}; tests at this rate found {counted(n_listed, 'pair')}."


def _percent(share: float) -> str:
    if share < 0.005:
        return "less than 1 %"
    return f"about {100.0 * share:.0f} %" if share <= 0.995 else "nearly all"


def key_figures(found: GraphResult, network: Network | None) -> list[tuple[str, str]]:
    """Return the few numbers that a reader looks for first, by labels."""
    summary = found.summary
    n_columns = len(summary["columns"])
    n_drowned = len(summary["drowned_columns"])
    n_published = len({*summary["columns"], *summary["drowned_columns"], *summary.get("determined_columns", ())})
    analysed = ("Columns", f"{n_columns:,}")
    if n_published > n_columns:
        analysed = ("Columns analysed", f"{n_columns:,} of {n_published:,}")
    figures = [("Rows", f"{summary['n_rows']:,}"), analysed]
    if network is not None:
        figures.append(("Links", f"{network.n_edges:,}"))
        if network.at_least:
            figures.append((f"Links of at least {network.at_least:g}", f"{summary['n_strong_edges']:,}"))
            figures.append(("Weaker links", f"{summary['n_weaker_edges']:,}"))
    if n_drowned:
        figures.append(("Columns drowned by noise", f"{n_drowned:,} of {n_published:,}"))
    if (shares := summary["noise_share_of_variance"]) is not None:
        figures.append(("Noise in a typical column", f"{100.0 * median(shares.values()):.2g} %"))
    guarantees = list(dict.fromkeys(_strength(bundle.release.guarantee) for bundle in found.bundles))
    more = f" and {len(guarantees) - _MOST_GUARANTEES} more" if len(guarantees) > _MOST_GUARANTEES else ""
    figures.append(("Privacy guarantee", "; ".join(guarantees[:_MOST_GUARANTEES]) + more))
    return figures


def _strength(guarantee: Guarantee) -> str:
    strengths = (("ε", guarantee.epsilon), ("μ", guarantee.mu), ("ρ", guarantee.rho))
    return next(f"{symbol} = {round_up(value, 3)}" for symbol, value in strengths if value is not None)
