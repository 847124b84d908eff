"""The methods of a result as a paragraph for a paper, with references and BibTeX: one text for page, file and Python.

A reference is listed if the paragraph cites it, by the words that the list begins with.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.quoting import quote_name
from dp_bundle.describe.sentences import describe_gaps, describe_guess, describe_promise, describe_scale, describe_size
from dp_bundle.manifest.release import Release
from dp_bundle.page.figures import figure_text
from dp_learn.inference.differences import N_DRAWS
from dp_learn.output.comparison import ComparisonResult
from dp_learn.output.folder import Result
from dp_learn.output.joint import COUPLINGS, JointResult
from dp_learn.output.summary import GraphResult

SOFTWARE = f"dpgraph {version('dpgraph')}"
_LONGEST, _LONGEST_CITATION = 200, 600  # letters
_SPECIAL = re.compile(r"([\\{}$&#^_%~])")
_SPELLED = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_ESTIMATORS = {
    "graphical-lasso": "A sparse inverse covariance matrix of {n} columns was estimated by the graphical lasso "
    "(Friedman et al., 2008), with a penalty on {scale}s.",
    "ridge": "The inverse covariance matrix of {n} columns was estimated with a ridge penalty (Witten & Tibshirani, "
    "2009).",
    "thresholded-covariance": "Correlations of {n} columns count as links where they exceed {alpha:.3g} of their own "
    "standard errors (Cai & Liu, 2011).",
    "neighborhood": "A sparse inverse covariance matrix of {n} columns was estimated by neighbourhood selection "
    "(Meinshausen & Bühlmann, 2006).",
    "scio": "A sparse inverse covariance matrix of {n} columns was estimated column by column (SCIO; Liu & Luo, 2015).",
    "clime": "A sparse inverse covariance matrix of {n} columns was estimated by CLIME (Cai et al., 2011).",
    "regression": "{target} was regressed linearly on the other columns, with a ridge penalty.",
    "lda": "The classes of {target} were told apart by linear discriminant analysis, with a ridge penalty on the "
    "covariance (Witten & Tibshirani, 2009).",
}
_RULES = {"extended Bayesian": " (Foygel & Drton, 2010)", "stability of the graph": " (Liu et al., 2010)"}
_PENALTIES = {
    "noise": "The penalty of each pair was in proportion to its standard error.",
    "evidence": "The penalty of each pair was in inverse proportion to the evidence for it in a first stage, as in the "
    "adaptive lasso (Zou, 2006).",
    "a matrix": "The analyst gave the weights of the penalty.",
}
_WEIGHTS = {
    "shrunk": "Weights of edges lie between the fit on the chosen graph and desparsified estimates that are shrunk for "
    "the noise.",
    "refitted": "Weights of edges were fitted again on the chosen graph, {kept} the penalty.",
    "penalised": "Weights of edges are those of the penalised estimate.",
}
_ERRORS = "standard errors are those of sampling and of the noise that was added"
_REFERENCES = """
Benjamini & Hochberg, 1995. Controlling the false discovery rate. JRSS B, 57(1). doi:10.1111/j.2517-6161.1995.tb02031.x
Blondel et al., 2008. Fast unfolding of communities in large networks. J. Stat. Mech. doi:10.1088/1742-5468/2008/10/P10008
Bun & Steinke, 2016. Concentrated differential privacy. TCC 2016-B. doi:10.1007/978-3-662-53641-4_24
Cai & Liu, 2011. Adaptive thresholding for sparse covariance matrix estimation. JASA, 106(494). doi:10.1198/jasa.2011.tm10560
Cai et al., 2011. A constrained l1 minimization approach to sparse precision matrix estimation. JASA, 106(494). doi:10.1198/jasa.2011.tm10155
Danaher et al., 2014. The joint graphical lasso for inverse covariance estimation. JRSS B, 76(2). doi:10.1111/rssb.12033
Dong et al., 2022. Gaussian differential privacy. JRSS B, 84(1). doi:10.1111/rssb.12454
Epskamp et al., 2018. Estimating psychological networks and their accuracy. Behavior Research Methods, 50. doi:10.3758/s13428-017-0862-1
Foygel & Drton, 2010. Extended Bayesian information criteria for Gaussian graphical models. NIPS 23. doi:10.48550/arXiv.1011.6640
Friedman et al., 2008. Sparse inverse covariance estimation with the graphical lasso. Biostatistics, 9(3). doi:10.1093/biostatistics/kxm045
Fuller, 1987. Measurement Error Models. Wiley. doi:10.1002/9780470316665
Janková & van de Geer, 2015. Confidence intervals for high-dimensional inverse covariance estimation. EJS, 9. doi:10.1214/15-EJS1031
Liu & Luo, 2015. Fast and adaptive sparse precision matrix estimation. J. Multivariate Analysis, 135. doi:10.1016/j.jmva.2014.11.005
Liu et al., 2010. Stability approach to regularization selection. NIPS 23. doi:10.48550/arXiv.1006.3316
Meinshausen & Bühlmann, 2006. High-dimensional graphs and variable selection with the lasso. Annals of Statistics, 34(3). doi:10.1214/009053606000000281
van Borkulo et al., 2023. Comparing network structures on three aspects. Psychological Methods, 28(6). doi:10.1037/met0000476
Warner, 1965. Randomized response. JASA, 60(309). doi:10.1080/01621459.1965.10480775
Witten & Tibshirani, 2009. Covariance-regularized regression and classification. JRSS B, 71(3). doi:10.1111/j.1467-9868.2009.00699.x
Zou, 2006. The adaptive lasso and its oracle properties. JASA, 101(476). doi:10.1198/016214506000000735
""".strip().splitlines()  # noqa: E501


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
    said = _describe_data(result)
    if isinstance(result, GraphResult):
        said += _describe_estimate(result)
    elif isinstance(result, JointResult):
        said += _describe_joint(result)
    elif isinstance(result, ComparisonResult):
        said += _describe_comparison(result)
    said.append(f"All was computed by {SOFTWARE}, which verified the signature of every release.")

    text = " ".join(said)
    cited = [each for each in _REFERENCES if each.partition(". ")[0] in text]
    return Methods(said, cited, *cite(result.bundles))


def _describe_data(result: Result) -> list[str]:
    """Return sentences on what was published, how it is protected, and how the noise was accounted for."""
    said = []
    for bundle, entry in zip(result.bundles, result.summary["bundles"], strict=True):
        release = bundle.release
        said += [
            f"Release {release.lineage.number} of {quote_name(release.dataset.name)} holds {describe_size(release)}.",
            describe_guess(release.guarantee, release.columns).replace("In words: s", "S"),
            *describe_promise(release),
            *entry.get("gaps", describe_gaps(release)),
            *_describe_correction(release),
        ]
        if rows := entry.get("effective_rows"):
            said.append(f"Its correlations are as precise as those of {rows:.0f} Gaussian rows without noise.")

    said.append("Here mu is as in Dong et al., 2022, and rho as in Bun & Steinke, 2016.")
    if rows := result.summary.get("effective_rows"):
        said.append(f"For a correlation that is zero, this is worth {rows:.0f} Gaussian rows without noise.")
    return [*dict.fromkeys(said)]


def _describe_correction(release: Release) -> list[str]:
    """Return sentences on how the noise of a release was accounted for."""
    moments, responses = release.second_moments, [column.response is not None for column in release.columns]
    if moments is None:
        subtracted = (
            "The stated variance of the noise on each number was subtracted from the diagonal of the covariance matrix "
            "(Fuller, 1987)."
        )
        replaced = "Levels had been replaced at random; what that adds was subtracted as well (Warner, 1965)."
        return [subtracted] * (not all(responses)) + [replaced] * any(responses)
    added = "what the noise on sums adds to the covariance matrix on average was subtracted."
    if moments.first_round is None:
        return [added.capitalize()]
    return [
        f"Two rounds of noisy sums were combined by weights of least variance, and {added}",
        *describe_scale(release.columns),
    ]


def _describe_estimate(result: GraphResult) -> list[str]:
    """Return sentences on one estimate: how it was found, and what its intervals are."""
    summary, graph = result.summary, result.graph
    target = quote_name(summary.get("target", ""))
    scale, alpha, n = summary.get("scale", ""), summary["alpha"], len(summary["columns"])
    said = [_ESTIMATORS[summary["estimator"]].format(n=n, scale=scale, target=target, alpha=alpha)]
    if result.learned is not None and not result.learned.fit.nodes.are_numbers:
        said.append("Categories, and numbers with published gaps, are blocks of columns, of which norms are penalised.")
    chosen = summary.get("alpha_chosen_by", "")
    if chosen:
        cited = "".join(reference for word, reference in _RULES.items() if word in chosen)
        said.append(f"The penalty, alpha = {alpha:.4g}, was chosen by {chosen}{cited}.")
    elif alpha is not None and summary["estimator"] != "thresholded-covariance":
        said.append(f"The penalty was alpha = {alpha:.4g}.")
    said += [_PENALTIES[each] for each in [summary.get("weights")] if each in _PENALTIES]
    if summary["repair"] != "none":
        said.append(f"An indefinite matrix was repaired ({summary['repair']}).")
    if summary.get("fdr"):
        said.append(f"Edges are pairs that tests find at a false discovery rate of {summary['fdr']:g}.")
    if weights := summary.get("edge_weights"):
        share = summary["penalty_share"]
        said.append(_WEIGHTS[weights].format(kept=f"with {share:.0%} of" if share else "without"))

    coefficients = result.tables.get("coefficients.csv")
    if coefficients is not None:
        said.append(
            f"Intervals (95 %) are of the coefficients without the penalty; {_ERRORS}."
            if "ci_low" in coefficients
            else "Coefficients have no intervals."
        )
    if graph is None:
        return said
    if graph.inference is None and graph.tests is None:
        said.append("Edges have no intervals.")
    else:
        single = "" if graph.tests is None else "; intervals are of pairs of single columns"
        said.append(
            "Tests and intervals (95 %) are of desparsified estimates, which suppose no graph (Janková & van de Geer, "
            f"2015){single}; {_ERRORS}. q-values are those of Benjamini & Hochberg, 1995."
        )
    if result.learned is not None and (measures := result.learned.measures) is not None:
        said.append("Communities are those of the Louvain method (Blondel et al., 2008).")
        if np.isfinite([measures.columns[f"{name}_low"] for name in ("predictability", "strength")]).any():
            said.append("Intervals of nodes' measures (95 %) are from draws of the errors of sampling and noise.")
    if result.stability is not None:
        said.append(f"Stability was measured after Epskamp et al., 2018: {result.stability.sentence}.")
    return said


def _describe_comparison(result: ComparisonResult) -> list[str]:
    found = result.found
    return [
        f"Networks of {len(found.nodes)} columns were compared by desparsified partial correlations on one graph "
        f"(Janková & van de Geer, 2015), with intervals of {100 * found.confidence:g} %; {_ERRORS} to each release.",
        f"Pairs differ at a false discovery rate of {found.fdr:g} (Benjamini & Hochberg, 1995).",
        f"That networks are the same was tested by the largest difference and by the sum of squares of all, against "
        f"{N_DRAWS:,} draws of the errors; the questions are those of van Borkulo et al., 2023.",
    ]


def _describe_joint(result: JointResult) -> list[str]:
    found = result.found
    chosen = "chosen by the extended Bayesian information criterion (Foygel & Drton, 2010)"
    return [
        f"{len(found.graphs)} graphs of {len(found.nodes)} columns were estimated together by the joint graphical "
        f"lasso (Danaher et al., 2014), as if {COUPLINGS[found.kind]}.",
        f"Its penalties, {found.alpha:.4g} on entries and {found.coupling:.4g} on differences, were "
        f"{chosen if found.scores else 'set by the analyst'}.",
        f"Changes were tested at a level of {1.0 - found.confidence:.2g} for all together, and pairs at a false "
        f"discovery rate of {found.fdr:g} (Benjamini & Hochberg, 1995), by desparsified estimates (Janková & van de "
        f"Geer, 2015); {_ERRORS} to each release.",
    ]


def cite(bundles: Sequence[Bundle]) -> tuple[str, str]:
    """Return how to cite a result, as text and as BibTeX: the data, which releases of it, and the software."""
    texts, entries = [], []
    for bundle in bundles:
        release, dataset = bundle.release, bundle.release.dataset
        title = figure_text(dataset.title or dataset.name, _LONGEST)
        year = release.lineage.created[:4]
        creator = figure_text(dataset.creator or f"Signer {bundle.signer.key.fingerprint[:24]}", _LONGEST)
        digest = bundle.manifest_sha256
        about = f"Release {release.lineage.number}, manifest sha256:{digest}"
        own = f" {figure_text(dataset.citation, _LONGEST_CITATION).rstrip('.')}." if dataset.citation else ""
        texts.append(f"{creator} ({year}). {title}. {about}.{f' {dataset.url}' if dataset.url else ''}{own}")
        fields = {"author": f"{{{_tex(creator)}}}", "title": f"{{{_tex(title)}}}", "year": year, "note": _tex(about)}
        fields |= {"url": dataset.url} if dataset.url else {}
        entries.append(_entry("misc", f"dpgraph-{digest[:12]}", fields))
    made_from = "these releases" if len(bundles) > 1 else "it"
    texts.append(f"This result was made from {made_from} with {SOFTWARE}.")
    software = {"author": "{The dpgraph developers}", "title": "{dpgraph}", "version": SOFTWARE.split()[1]}
    entries.append(_entry("software", "dpgraph", software))
    return "\n".join(texts), "\n\n".join(entries)


def _entry(kind: str, key: str, fields: dict[str, str]) -> str:
    inner = ",\n".join(f"  {name:<7} = {{{value}}}" for name, value in fields.items())
    return f"@{kind}{{{key},\n{inner}\n}}"


def _tex(text: str) -> str:
    return _SPECIAL.sub(lambda found: _SPELLED.get(found[0], f"\\{found[0]}"), text)
