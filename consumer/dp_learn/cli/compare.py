"""dp-learn compare: whether releases of different rows have the same network, and where they differ."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path

import click

from dp_bundle.base.quoting import quote_path
from dp_bundle.cli.console import ALWAYS, BundlePath, already, answer, option, tell
from dp_bundle.cli.steps import step
from dp_bundle.files.places import RemotePath
from dp_learn.cli.shared import open_all, options_of_several, require_number, result_folder, spell_command

_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command("compare", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", metavar="FILE FILE...", nargs=-1, required=True, type=BundlePath())
@option(
    "--fdr",
    applies=ALWAYS,
    type=_SHARE,
    default=0.05,
    show_default=True,
    help="The false discovery rate at which pairs count as different.",
)
@option(
    "--confidence",
    applies=ALWAYS,
    type=_SHARE,
    default=0.95,
    show_default=True,
    help="The level of the intervals, and of the critical values of the tests of all pairs.",
)
@options_of_several("A+B.comparison")
def compare(
    files: tuple[Path | RemotePath, ...],
    fdr: float,
    confidence: float,
    report: bool,
    allow_older: bool,
    engine: str,
    scheduler: str | None,
    out: Path | None,
    max_memory: int | None,
    as_json: bool,
    quiet: bool,
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
        bundles, _, _ = open_all(
            stack,
            files,
            estimator="comparison",
            allow_older=allow_older,
            engine=engine,
            scheduler=scheduler,
            max_memory=max_memory,
            quiet=quiet,
        )
        step("starting", quiet=quiet)
        from dp_learn.output.comparison import ComparisonResult, describe_comparison, write_comparison
        from dp_learn.pipeline.compare import compare_networks  # their libraries import slower than a refusal

        show = partial(step, quiet=quiet)
        found = compare_networks(bundles, fdr=fdr, confidence=confidence, progress=show, max_memory=max_memory)
        result, page = ComparisonResult(bundles, found), None
        if report:
            from dp_learn.output.page.comparison import make_comparison_page

            show("drawing the page")
            page = make_comparison_page(result, spell_command("dp-learn compare"))
        show("writing the results")
        write_comparison(result, folder, report=page)
        with already(f"the results are in {quote_path(folder)}"):
            text = describe_comparison(result, folder, report=report)
        answer(text, result.summary(), as_json=as_json, quiet=quiet)

    for sentence in (*found.warnings, *found.contradictions):
        tell(f"warning: {sentence}", quiet=quiet)
