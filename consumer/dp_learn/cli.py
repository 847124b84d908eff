"""dp-learn: from a verified bundle to a sparse graph."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

from dp_bundle import Bundle, open_bundle
from dp_bundle.console import answer, json_option, quiet_option, run, tell, version_option
from dp_bundle.descriptors import describe_guarantee
from dp_bundle.errors import DpGraphError, ParameterError
from dp_bundle.trust import TrustStore
from dp_learn.fitting import Rule
from dp_learn.graph import GraphEstimate, write_estimate
from dp_learn.learn import Learned, learn_graph, summarize
from dp_learn.repair import RepairMethod
from dp_learn.solvers import SOLVERS

_SHOWN_EDGES = 10
_OF_PRECISION = " (of precision.csv; the tests have their own)"
_ROUNDING = 1e-10  # of an eigenvalue of a correlation matrix
_ECHOED = ("weights", "scale", "penalize_diagonal")
_FILES = {
    "coefficients.csv",
    "covariance.csv",
    "edges.csv",
    "graph.graphml",
    "graph.png",
    "means.csv",
    "precision.csv",
    "summary.json",
    "thresholded.csv",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--estimator",
    type=click.Choice(
        ["graphical-lasso", "ridge", "thresholded-covariance", "neighborhood", "scio", "clime", "regression", "lda"]
    ),
    default="graphical-lasso",
    show_default=True,
    help="What to estimate; regression and lda predict --target.",
)
@click.option("--target", help="The column to predict: any for regression, one of classes 0 and 1 for lda.")
@click.option("--alpha", default="auto", show_default=True, help="The penalty, or auto: see --select.")
@click.option(
    "--select",
    type=click.Choice([rule.value for rule in Rule]),
    default="ebic",
    show_default=True,
    help="What chooses alpha: EBIC, held-out likelihood (cv) or error (mse), or stability (stars).",
)
@click.option(
    "--fdr",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="List the edges found at this false discovery rate instead, 0.05 say.",
)
@click.option(
    "--weights",
    type=click.Choice(["equal", "noise"]),
    default="equal",
    show_default=True,
    help="Penalise all pairs alike, or in proportion to their standard errors.",
)
@click.option(
    "--repair",
    type=click.Choice([method.value for method in RepairMethod]),
    default="none",
    show_default=True,
    help="What to do with an indefinite matrix before solving.",
)
@click.option(
    "--solver", type=click.Choice(["auto", *SOLVERS]), default="auto", show_default=True, help="How to solve."
)
@click.option(
    "--scale",
    type=click.Choice(["correlation", "covariance"]),
    default="correlation",
    show_default=True,
    help="The scale that the penalty works on.",
)
@click.option(
    "--penalize-diagonal/--no-penalize-diagonal",
    default=True,
    show_default=True,
    help="Whether the penalty includes the diagonal of the precision matrix.",
)
@click.option("--allow-older", is_flag=True, help="Accept a release older than one already seen.")
@click.option("--out", type=click.Path(path_type=Path), help="The folder for the results; NAME.graph by default.")
@json_option
@quiet_option
@version_option
def cli(
    files: tuple[Path, ...],
    estimator: str,
    target: str | None,
    alpha: str,
    fdr: float | None,
    allow_older: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Verify a bundle FILE, subtract its noise, estimate the graph, and write a folder of results.

    Several bundles with the same columns are pooled: releases of the same rows, or of different ones.

    \b
    Example:
      dp-learn wine.bundle.tar --alpha 0.1 --out wine.graph
      dp-learn north.bundle.tar south.bundle.tar --fdr 0.05
    """
    penalty = _parse_alpha(alpha)
    names = [file.name.removesuffix(".tar").removesuffix(".bundle") for file in files]
    folder = out or Path(f"{'+'.join(names)}.graph")
    if folder.exists() and not _is_result(folder):
        raise ParameterError("--out", "a new folder, or an earlier result of dp-learn", str(folder))
    with contextlib.ExitStack() as stack:
        bundles = [stack.enter_context(open_bundle(file, allow_older=True)) for file in files]
        if not allow_older:
            _require_newest(bundles)
        if estimator != "graphical-lasso":
            _refuse_unused(estimator)
            text, summary = _estimate_otherwise(bundles, estimator, penalty, target, folder)
            warnings = []
        else:
            learned = learn_graph(bundles, alpha=penalty, fdr=fdr, **settings)
            summary = {**summarize(learned, bundles), **{name: settings[name] for name in _ECHOED}}
            _write(learned.estimate, {}, summary, _title(learned, summary, bundles), folder)
            text, warnings = _describe(learned, summary, bundles, folder), learned.contradictions
        answer(text, summary, as_json=as_json, quiet=quiet)
    for sentence in warnings:
        tell(f"warning: {sentence}", quiet=quiet)


def _refuse_unused(estimator: str) -> None:
    """Refuse an option that only the graphical lasso understands, rather than ignore it."""
    context = click.get_current_context()
    for name in ("select", "fdr", "weights", "repair", "solver", "scale", "penalize_diagonal"):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise ParameterError(f"--{name.replace('_', '-')}", f"left out with --estimator {estimator}", "given")


def _estimate_otherwise(
    bundles: Sequence[Bundle], estimator: str, alpha: float | None, target: str | None, folder: Path
) -> tuple[str, dict[str, Any]]:
    """Estimate by another estimator, write its tables, and return what a person and a machine are told."""
    from dp_learn.alternatives import learn_alternative  # scikit-learn takes a second to import

    found = learn_alternative(bundles, estimator, alpha=alpha, target=target)
    releases = [
        {"dataset": bundle.release.dataset.name, "manifest_sha256": bundle.manifest_sha256} for bundle in bundles
    ]
    summary = {"bundles": releases, **found.summary}
    _write(found.graph, found.tables, summary, f"{bundles[0].release.dataset.name}, {estimator}", folder)
    lines = [line for bundle in bundles for line in _describe_bundle(bundle)]
    if summary["drowned_columns"]:
        lines.append(f"  left out, as the noise drowns them: {_listed(summary['drowned_columns'])}")
    if summary["alpha"] is not None:
        lines.append(f"  {estimator}, alpha = {summary['alpha']:.4g}")
    written = ", ".join(sorted(path.name for path in folder.iterdir()))
    return "\n".join([*lines, *found.lines, f"wrote {folder}/: {written}"]), summary


def _require_newest(bundles: Sequence[Bundle]) -> None:
    """Refuse a release older than one already seen, unless that one, or a newer, is given beside it."""
    newest: dict[tuple[str, str], Bundle] = {}
    for bundle in bundles:
        origin = (bundle.signer.key.fingerprint, bundle.release.series)
        newest[origin] = max(bundle, newest.get(origin, bundle), key=lambda each: each.release.lineage.number)
    for bundle in newest.values():
        TrustStore().require_newest(bundle.signer.key, bundle.release.series, bundle.release.lineage.number)


def _parse_alpha(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        alpha = float(text)
    except ValueError as error:
        raise ParameterError("--alpha", "a positive number, or auto", text) from error
    if not 0 < alpha < float("inf"):
        raise ParameterError("--alpha", "a positive number, or auto", text)
    return alpha


def _is_result(folder: Path) -> bool:
    """Return whether a folder may be replaced: it holds nothing but what dp-learn writes, and is not where we are."""
    here = folder.resolve() == Path.cwd().resolve()
    return folder.is_dir() and not here and {path.name for path in folder.iterdir()} <= _FILES


def _write(
    graph: GraphEstimate | None, tables: dict[str, pd.DataFrame], summary: dict[str, Any], title: str, target: Path
) -> None:
    """Write everything into a hidden folder beside the target, then put it in place of an earlier result."""
    from dp_learn.report import draw_graph  # matplotlib takes memory that the pass over the rows has use for

    target = target.resolve()
    partial, earlier = (target.with_name(f".{target.name}.{secrets.token_hex(8)}") for _ in range(2))
    try:
        partial.mkdir(parents=True)
        if graph is not None:
            write_estimate(graph, partial)
            draw_graph(graph, partial / "graph.png", title)
        for name, table in tables.items():
            table.to_csv(partial / name, index=not isinstance(table.index, pd.RangeIndex))
        text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
        (partial / "summary.json").write_text(text + "\n", encoding="utf-8")
        if target.exists():
            os.rename(target, earlier)  # noqa: PTH104
        os.rename(partial, target)  # noqa: PTH104
    except OSError as error:
        raise DpGraphError(f"the results cannot be written to {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(earlier, ignore_errors=True)


def _title(learned: Learned, summary: dict[str, Any], bundles: Sequence[Bundle]) -> str:
    names = " + ".join(
        f"{bundle.release.dataset.title or bundle.release.dataset.name}, release {bundle.release.lineage.number}"
        for bundle in bundles
    )
    drowned = summary["drowned_columns"]
    left_out = f"; {len(drowned)} column(s) drowned" if drowned else ""
    shown = f"edges at a false discovery rate of {summary['fdr']:g}" if summary["fdr"] else _alpha(summary)
    noise = "" if learned.noise_share is None else f", noise {np.median(learned.noise_share):.0%} of the variance"
    return f"{names}\n{shown}{noise}{left_out}".replace("$", "\\$")


def _alpha(summary: dict[str, Any]) -> str:
    return f"alpha {summary['alpha']:.3g}"


def _describe(learned: Learned, summary: dict[str, Any], bundles: Sequence[Bundle], target: Path) -> str:
    lines = [line for bundle in bundles for line in _describe_bundle(bundle)]
    if len(bundles) > 1:
        weights = ", ".join(f"{bundle['weight']:.3g}" for bundle in summary["bundles"])
        rows = "releases of the same rows" if summary["same_rows"] else "of different rows"
        lines.append(f"pooled for least variance as {rows}, with weights {weights}")
    estimated = any(
        bundle.release.guarantee is not None and bundle.release.guarantee.neighbours == "add-remove"
        for bundle in bundles
    )
    lines.append(f"  {'about ' if estimated else ''}{summary['n_rows']} rows{_describe_noise(learned)}")
    if summary["drowned_columns"]:
        lines.append(f"  left out, as the noise drowns them: {_listed(summary['drowned_columns'])}")
    lines += [f"  {sentence}" for sentence in (*_describe_definiteness(summary), *summary["notes"])]
    lines.append(
        f"  alpha = {summary['alpha']:.4g}, chosen by {summary['alpha_chosen_by']}; {summary['status']}, "
        f"duality gap {summary['duality_gap']:.1e}{_OF_PRECISION if summary['fdr'] else ''}"
    )
    lines += _describe_edges(learned)
    written = "edges.csv, precision.csv, covariance.csv, graph.graphml, graph.png, summary.json"
    return "\n".join([*lines, f"wrote {target}/: {written}"])


def _describe_noise(learned: Learned) -> str:
    text = ""
    if learned.noise_share is not None:
        share = 100 * learned.noise_share
        text = (
            f"; noise is {share.min():.0f} to {share.max():.0f} % of the published variances (median "
            f"{np.median(share):.0f} %), and was subtracted"
        )
    if learned.typical_errors is not None:
        noisy, clean = learned.typical_errors
        text += f"; a correlation has a standard error of {noisy:.2g}, {clean:.2g} without the noise"
    return text


def _describe_bundle(bundle: Bundle) -> list[str]:
    release = bundle.release
    return [
        f"{bundle.path}: release {release.lineage.number} of {release.dataset.name}, signed by {bundle.signer.name}, "
        "verified",
        f"  {describe_guarantee(release)[0]}",
    ]


def _describe_definiteness(summary: dict[str, Any]) -> list[str]:
    if summary["smallest_eigenvalue"] > -_ROUNDING:
        return []
    said = f"the debiased matrix is indefinite (smallest eigenvalue {summary['smallest_eigenvalue']:.3g})"
    if summary["repair"] != RepairMethod.NONE:
        return [
            f"{said}, repaired by {summary['repair']}: no entry moved by more than {summary['repair_distance']:.3g}"
        ]
    return [f"{said}, solved as it is; the smallest alpha with a solution is {summary['smallest_solvable_alpha']:.3g}"]


def _describe_edges(learned: Learned) -> list[str]:
    edges, fdr = learned.estimate.edges(), learned.estimate.fdr
    possible = len(learned.estimate.columns) * (len(learned.estimate.columns) - 1) // 2
    found = f"  {len(edges)} of {possible} possible edges" + (f" at a false discovery rate of {fdr:g}" if fdr else "")
    if not len(edges):
        return [f"{found}{': none stands out from the noise' if fdr else ''}"]
    if "ci_low" not in edges:
        ranked = "the strongest"
    elif fdr:
        ranked = "the surest, without the penalty's shrinkage, with 95 % intervals"
    else:
        ranked = "the strongest; in brackets without the penalty's shrinkage, with 95 % intervals"
    return [f"{found}; {ranked}:", *(_describe_edge(edge, fdr) for edge in edges.head(_SHOWN_EDGES).to_dict("records"))]


def _describe_edge(edge: dict[Any, Any], fdr: float | None) -> str:
    text = f"{edge['partial_correlation']:+.3f}"
    if "ci_low" in edge:
        low, high, estimate = edge["ci_low"], edge["ci_high"], edge["desparsified"]
        interval = f"{estimate:+.3f}, {low:+.3f} to {high:+.3f}" if high - low < 2.0 else "the noise hides how strong"
        text = f"({interval})" if fdr else f"{text} ({interval})"
    return f"    {text}  {_shown(edge['source'])} -- {_shown(edge['target'])}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(_shown(name) for name in names[:_SHOWN_EDGES])
    return shown if len(names) <= _SHOWN_EDGES else f"{shown} and {len(names) - _SHOWN_EDGES} more"


def _shown(name: str) -> str:
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)


def main() -> None:
    """Run dp-learn."""
    run(cli)
