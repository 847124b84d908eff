"""dp-learn compare: whether releases of different rows have the same network, and where they differ."""

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import click

from dp_bundle.base.quoting import quote_path
from dp_bundle.cli.console import BundlePath, already, answer, tell
from dp_bundle.cli.steps import step
from dp_bundle.files.places import RemotePath
from dp_learn.cli.shared import common_options, open_all, require_number, result_folder, share_option, spell_command


@click.command("compare", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", metavar="FILE FILE...", nargs=-1, required=True, type=BundlePath())
@share_option("--fdr", 0.05, "The false discovery rate at which pairs count as different.")
@share_option("--confidence", 0.95, "The level of the intervals, and of the critical values of the tests of all pairs.")
@common_options("A+B.comparison")
def compare(
    files: tuple[Path | RemotePath, ...],
    fdr: float,
    confidence: float,
    report: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **opening: Any,
) -> None:
    """Verify two or more bundles of different rows, test whether they have the same network, and where they differ.

    The releases (of countries, years, arms of a study) have the same columns; rows and second moments may be compared.
    Differences are those of partial correlations, the second release less the first. Errors are those of sampling and
    of the noise of each.

    \b
    Example:
      dp-learn compare 2025.bundle.tar 2026.bundle.tar
    """
    require_number(files, "a comparison needs")
    folder = result_folder(files, out, "comparison")
    with contextlib.ExitStack() as stack:
        bundles, _, _ = open_all(stack, files, estimator="comparison", quiet=quiet, **opening)
        step("starting", quiet=quiet)
        from dp_learn.output.comparison import ComparisonResult, describe_comparison, write_comparison
        from dp_learn.pipeline.compare import compare_networks  # their libraries import slower than a refusal

        show = partial(step, quiet=quiet)
        found = compare_networks(
            bundles, fdr=fdr, confidence=confidence, progress=show, max_memory=opening["max_memory"]
        )
        result, page = ComparisonResult(bundles, found), None
        if report:
            from dp_learn.output.page.comparison import make_comparison_page

            show("drawing the page")
            page = make_comparison_page(result, spell_command("dp-learn compare"))
        show("writing the results")
        write_comparison(result, folder, report=page)
        with already(f"the results are in {quote_path(folder)}"):
            text = describe_comparison(result, folder)
        answer(text, result.summary(), as_json=as_json, quiet=quiet)

    for sentence in (*found.warnings, *found.contradictions):
        tell(f"warning: {sentence}", quiet=quiet)
