"""A result in three sentences that need no statistics, and in a few numbers."""

import math
from statistics import median
from typing import Any

import numpy as np

from dp_bundle.base.quoting import counted, round_up
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.page.tables import figure_text, number
from dp_learn.output.messages import has_sure_sign, judged_by
from dp_learn.output.network import Network
from dp_learn.output.summary import GraphResult

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
