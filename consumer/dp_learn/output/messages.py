"""The lines that dp-learn prints of an estimate, and the title of its picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.quoting import quote, quote_name, quote_path
from dp_bundle.describe.sentences import describe_guarantee, describe_several
from dp_learn.covariance.sources import counts_rows
from dp_learn.matrices.repair_methods import RepairMethod
from dp_learn.output.edge_messages import NOISE, PENALTY, describe_edges
from dp_learn.output.summary import GraphSummary, Summary
from dp_learn.pipeline.learn import Learned

if TYPE_CHECKING:
    from dp_learn.output.estimator_results import Alternative  # scikit-learn takes a second to import

_NAMED = 10
_TWO_ROUNDS = (
    "  both rounds are combined; values far out were clipped: variances are low, and correlations of columns with long "
    "tails may be off"
)
_TAILS = 1.02  # a factor of variances that is worth a line
_ROUNDING = 1e-10  # of an eigenvalue of a correlation matrix


def title_of(summary: GraphSummary, bundles: Sequence[Bundle]) -> str:
    """Return the title of the picture."""
    names = " + ".join(f"{_called(bundle)}, release {bundle.release.lineage.number}" for bundle in bundles)
    shown = (
        f"edges at a false discovery rate of {summary['fdr']:g}" if summary["fdr"] else f"alpha {summary['alpha']:.3g}"
    )
    shares = summary["noise_share_of_variance"]
    noise = "" if shares is None else f", noise {median(shares.values()):.0%} of the variance"
    return f"{names}\n{shown}{noise}"


def _called(bundle: Bundle) -> str:
    dataset = bundle.release.dataset
    return quote(dataset.title) if dataset.title else quote_name(dataset.name)


def describe_learned(learned: Learned, summary: GraphSummary, bundles: Sequence[Bundle], target: Path) -> str:
    """Return the lines that dp-learn prints of a graph."""
    lines = _describe_origin(summary, bundles)
    indefinite = _describe_definiteness(summary)
    lines += [f"  {indefinite}{_describe_cost(summary)}"] if indefinite else []
    lines += [f"  {sentence}" for sentence in summary["notes"]]

    tests = " (the edges below are found by tests, which do not use alpha)" if summary["fdr"] else ""
    lines.append(
        f"  alpha = {summary['alpha']:.4g}, chosen by {summary['alpha_chosen_by']}; {summary['status']}, "
        f"duality gap {summary['duality_gap']:.1e}{tests}"
    )
    lines += describe_edges(learned.estimate, shrunk=learned.penalty_share > 0.0, why_none=_why_none(summary))

    ranking = "ranking.csv, " if (target / "ranking.csv").exists() else ""
    ranking += "loadings.csv, " if learned.estimate.variables is not None else ""
    report = "report.html, " if (target / "report.html").exists() else ""
    written = f"edges.csv, {ranking}precision.csv, covariance.csv, graph.graphml, graph.png, {report}summary.json"
    return "\n".join([*lines, f"wrote {target}/: {written}"])


def _why_none(summary: GraphSummary) -> str:
    """Return why there would be no edge."""
    if summary["fdr"] and summary["collinear_columns"]:
        return f"edges of the collinear columns cannot be told apart, and of the others {NOISE}"
    if summary["fdr"]:
        return NOISE
    return PENALTY if summary["alpha_chosen_by"] == "the user" else NOISE


def describe_alternative(found: Alternative, estimator: str, bundles: Sequence[Bundle], target: Path) -> str:
    """Return the lines that dp-learn prints of another estimator's result."""
    lines = _describe_origin(found.summary, bundles)
    indefinite = _describe_definiteness(found.summary)
    lines += [f"  {sentence}" for sentence in (indefinite, *found.summary["notes"]) if sentence]
    if found.summary["alpha"] is not None:
        lines.append(f"  {estimator}, alpha = {found.summary['alpha']:.4g}")
    written = ", ".join(sorted(path.name for path in target.iterdir() if not path.name.startswith(".")))
    return "\n".join([*lines, *found.lines, f"wrote {target}/: {written}"])


def _describe_origin(summary: Summary, bundles: Sequence[Bundle]) -> list[str]:
    """Return the lines on the bundles, their rows and noise, the error that these leave, and the columns left out."""
    guarantees = [describe_guarantee(bundle.release)[0] for bundle in bundles]
    alike = len(set(guarantees)) == 1
    lines = []
    for bundle, guarantee in zip(bundles, guarantees, strict=True):
        lines.append(_describe_bundle(bundle))
        if not alike or bundle is bundles[-1]:
            lines += [f"  {sentence}" for sentence in (guarantee, *describe_several(bundle.release.guarantee))]
    gaps = dict.fromkeys(gap for bundle in summary["bundles"] for gap in bundle["gaps"])
    lines += [f"  {gap}" for gap in gaps]

    if len(bundles) > 1:
        weights = ", ".join(f"{bundle['weight']:.3g}" for bundle in summary["bundles"])
        rows = "releases of the same rows" if summary["same_rows"] else "releases of different rows"
        lines.append(f"pooled as {rows}, with the weights of least variance: {weights}")

    about = "" if all(map(counts_rows, bundles)) else "about "
    counted = f"  {about}{summary['n_rows']} rows{_describe_noise(summary)}"
    errors = summary["correlation_standard_error"]
    if errors is not None:
        estimated = summary["errors_are_estimates"]
        error = (
            "error of a correlation, estimated by the publisher," if estimated else "standard error of a correlation"
        )
        counted += f"; the typical {error} is {errors['with_noise']:.2g} ({errors['without']:.2g} without the noise)"
    lines.append(counted)
    if summary["kurtosis_factor"] > _TAILS:
        times = math.sqrt(summary["kurtosis_factor"])
        lines.append(f"  sampling errors count as {times:.3g} times those of Gaussian rows, for the rows' tails")
    if any(_is_two_rounds(bundle) for bundle in bundles):
        lines.append(_TWO_ROUNDS)

    if summary["drowned_columns"]:
        lines.append(f"  drowned by the noise, and left out: {_listed(summary['drowned_columns'])}")
    return lines


def _is_two_rounds(bundle: Bundle) -> bool:
    moments = bundle.release.second_moments
    return moments is not None and moments.first_round is not None


def _describe_bundle(bundle: Bundle) -> str:
    release = bundle.release
    return (
        f"{quote_path(bundle.path)}: release {release.lineage.number} of {quote_name(release.dataset.name)}, signed by "
        f"{quote_name(bundle.signer.name)}, verified"
    )


def _describe_noise(summary: Summary) -> str:
    if summary["noise_share_of_variance"] is None:
        return ""
    share = 100 * np.array(list(summary["noise_share_of_variance"].values()))
    return (
        f"; noise makes up {share.min():.0f} to {share.max():.0f} % of the published variances (median "
        f"{median(share.tolist()):.0f} %) and was subtracted"
    )


def _describe_definiteness(summary: Summary) -> str:
    """Return a sentence on how an indefinite matrix was treated, or nothing where it is definite."""
    eigenvalue, repair = summary["smallest_eigenvalue"], summary["repair"]
    if eigenvalue is None or eigenvalue > -_ROUNDING:
        return ""
    done = "solved as it is" if repair == RepairMethod.NONE else f"repaired by {repair}"
    return f"the debiased matrix is indefinite (smallest eigenvalue {eigenvalue:.3g}) and was {done}"


def _describe_cost(summary: GraphSummary) -> str:
    """Return the price of an indefinite matrix: the distance of its repair, or the smallest alpha with a solution."""
    if summary["repair"] != RepairMethod.NONE:
        return f": no entry moved by more than {summary['repair_distance']:.3g}"
    return f"; the smallest alpha with a solution is {summary['smallest_solvable_alpha']:.3g}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(quote_name(name) for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
