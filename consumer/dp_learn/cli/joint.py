"""dp-learn joint: one graph a period from releases of different rows, learned together, and what changed."""

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import click

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.kernels import before_compiling
from dp_bundle.base.quoting import quote_path
from dp_bundle.cli.console import ALWAYS, BundlePath, already, answer, option, tell
from dp_bundle.cli.steps import announce_compiling, step
from dp_bundle.files.places import RemotePath
from dp_learn.cli.shared import common_options, open_all, require_number, result_folder, share_option, spell_command


@click.command("joint", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", metavar="FILE FILE...", nargs=-1, required=True, type=BundlePath())
@option(
    "--order",
    applies=ALWAYS,
    type=click.Choice(["time", "none"]),
    default="time",
    show_default=True,
    help="Files in the order of time, each like its neighbours; or in none, each like all others.",
)
@option(
    "--coupling",
    applies=ALWAYS,
    type=click.Choice(["fused", "smooth", "group"]),
    default="fused",
    show_default=True,
    help="Values stay the same until they jump; or drift, in time; or only links are in the same places.",
)
@option("--alpha", applies=ALWAYS, default="auto", show_default=True, help="The penalty on entries: a number, or auto.")
@option(
    "--strength",
    applies=ALWAYS,
    default="auto",
    show_default=True,
    help="The penalty on differences: a number from 0 where --alpha is one too, or auto.",
)
@share_option("--fdr", 0.05, "The false discovery rate at which pairs count as changed.")
@share_option("--confidence", 0.95, "The level of intervals, and at which chance makes no change point at all.")
@common_options("FIRST+LAST.joint")
def joint(
    files: tuple[Path | RemotePath, ...],
    order: str,
    coupling: str,
    alpha: str,
    strength: str,
    fdr: float,
    confidence: float,
    report: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **opening: Any,
) -> None:
    """Learn one graph from each of 2 to 60 bundles of different rows, all of them together, and test what changed.

    The releases (of months, or of hospitals) have the same columns; rows and second moments may be mixed. What is the
    same is learned from all, and what is not from each. Changes are those of partial correlations, with errors of
    sampling and of the noise of each release.

    \b
    Example:
      dp-learn joint visits-2026-*.bundle.tar --out visits.joint
      dp-learn joint north.tar south.tar west.tar --order none
    """
    require_number(files, "joint graphs need")
    penalties = [_parse(name, text) for name, text in (("--alpha", alpha), ("--strength", strength))]
    folder = result_folder([files[0], files[-1]], out, "joint")
    with contextlib.ExitStack() as stack:
        bundles, _, _ = open_all(stack, files, estimator="joint", quiet=quiet, **opening)
        step("starting", quiet=quiet)
        from dp_learn.output.joint import JointResult, describe_joint, write_joint
        from dp_learn.pipeline.joint import learn_joint  # their libraries import slower than a refusal

        show = partial(step, quiet=quiet)
        before_compiling(partial(announce_compiling, "half a minute", quiet=quiet))
        found = learn_joint(
            bundles,
            order=order,
            coupling=coupling,
            alpha=penalties[0],
            strength=penalties[1],
            fdr=fdr,
            confidence=confidence,
            progress=show,
            max_memory=opening["max_memory"],
        )
        result, page = JointResult(bundles, found), None
        if report:
            from dp_learn.output.page.joint import make_joint_page

            show("drawing the page")
            page = make_joint_page(result, spell_command("dp-learn joint"))
        show("writing the results")
        write_joint(result, folder, report=page)
        with already(f"the results are in {quote_path(folder)}"):
            text = describe_joint(result, folder)
        answer(text, result.summary(), as_json=as_json, quiet=quiet)

    for sentence in (*found.warnings, *found.contradictions):
        tell(f"warning: {sentence}", quiet=quiet)


def _parse(name: str, text: str) -> float | None:
    if text == "auto":
        return None
    with contextlib.suppress(ValueError):
        if 0 <= (number := float(text)) < float("inf"):
            return number
    raise ParameterError(name, "a number, or auto", text)
