"""dp-learn: from a verified bundle to a sparse graph."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import click
import numpy as np

from dp_bundle import Bundle, open_bundle
from dp_bundle.console import answer, json_option, quiet_option, run, version_option
from dp_bundle.descriptors import describe_guarantee
from dp_bundle.errors import DpGraphError, ParameterError
from dp_learn.graph import write_estimate
from dp_learn.learn import Learned, learn_graph, summarize
from dp_learn.report import draw_graph

_SHOWN_EDGES = 10


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--alpha", default="auto", show_default=True, help="The penalty, or auto: 5-fold cross-validation.")
@click.option("--solver", type=click.Choice(["cd", "admm"]), default="cd", show_default=True, help="How to solve.")
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
    file: Path,
    alpha: str,
    solver: str,
    scale: str,
    penalize_diagonal: bool,
    allow_older: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Verify a bundle FILE, subtract its noise, estimate the graph, and write a folder of results.

    \b
    Example:
      dp-learn wine.bundle.tar --alpha 0.1 --out wine.graph
    """
    penalty = _parse_alpha(alpha)
    target = out or Path(f"{file.name.removesuffix('.tar').removesuffix('.bundle')}.graph")
    if target.exists() and not _is_result(target):
        raise ParameterError("--out", "a new folder, or an earlier result of dp-learn", str(target))
    with open_bundle(file, allow_older=allow_older) as bundle:
        learned = learn_graph(
            bundle,
            alpha=penalty,
            solver=solver,
            standardize=scale == "correlation",
            penalize_diagonal=penalize_diagonal,
        )
        summary = {**summarize(learned, bundle), "scale": scale, "penalize_diagonal": penalize_diagonal}
        _write(learned, summary, bundle, target)
        answer(_describe(learned, summary, bundle, target), summary, as_json=as_json, quiet=quiet)


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
    return folder.is_dir() and (not any(folder.iterdir()) or (folder / "summary.json").is_file())


def _write(learned: Learned, summary: dict[str, Any], bundle: Bundle, target: Path) -> None:
    """Write everything into a hidden folder beside the target, then put it in place of an earlier result."""
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        partial.mkdir(parents=True)
        write_estimate(learned.estimate, summary, partial)
        draw_graph(learned.estimate, partial / "graph.png", _title(learned, summary, bundle))
        if target.exists():
            shutil.rmtree(target)
        os.rename(partial, target)  # noqa: PTH104
    except OSError as error:
        raise DpGraphError(f"the results cannot be written to {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _title(learned: Learned, summary: dict[str, Any], bundle: Bundle) -> str:
    release, drowned = bundle.release, summary["drowned_columns"]
    share = f"noise {np.median(learned.noise_share):.0%} of the variance"
    left_out = f"; {len(drowned)} column(s) drowned" if drowned else ""
    name = f"{release.dataset.title or release.dataset.name}, release {release.lineage.number}"
    return f"{name}\nalpha {summary['alpha']:.3g}, {share}{left_out}".replace("$", "\\$")


def _describe(learned: Learned, summary: dict[str, Any], bundle: Bundle, target: Path) -> str:
    release = bundle.release
    share = 100 * learned.noise_share
    name = f"release {release.lineage.number} of {release.dataset.name}"
    lines = [
        f"{bundle.path}: {name}, signed by {bundle.signer.name}, verified",
        f"  {describe_guarantee(release)[0]}",
        f"  {summary['n_rows']} rows; noise is {share.min():.0f} to {share.max():.0f} % of the published variances "
        f"(median {np.median(share):.0f} %), and was subtracted",
    ]
    if summary["drowned_columns"]:
        lines.append(f"  left out, as the noise drowns them: {', '.join(summary['drowned_columns'])}")
    if summary["smallest_eigenvalue"] <= 0:
        smallest = f"{summary['smallest_eigenvalue']:.3g}"
        lines.append(f"  the debiased matrix is indefinite (smallest eigenvalue {smallest}), solved as it is")
    lines.append(
        f"  alpha = {summary['alpha']:.4g}, chosen by {summary['alpha_chosen_by']}; {summary['status']}, "
        f"duality gap {summary['duality_gap']:.1e}"
    )
    edges = learned.estimate.edges()
    possible = len(learned.estimate.columns) * (len(learned.estimate.columns) - 1) // 2
    lines.append(
        f"  {len(edges)} of {possible} possible edges"
        + (
            "; the strongest:"
            if len(edges)
            else ": at this alpha no partial correlation stands out; a smaller --alpha shows more"
        )
    )
    for edge in edges.head(_SHOWN_EDGES).itertuples():
        lines.append(f"    {edge.partial_correlation:+.3f}  {edge.source} -- {edge.target}")
    return "\n".join(
        [*lines, f"wrote {target}/: edges.csv, precision.csv, covariance.csv, graph.graphml, graph.png, summary.json"]
    )


def main() -> None:
    """Run dp-learn."""
    run(cli)
