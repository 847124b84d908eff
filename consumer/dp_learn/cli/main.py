"""dp-learn: from verified bundles to a sparse graph, or of several to where they differ, and to what changed.

A command imports what it runs when it runs, so that help, and a wrong option, are answered at once.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.machine import before_compiling
from dp_bundle.base.quoting import quote_path
from dp_bundle.cli.console import (
    ALWAYS,
    BundlePath,
    NewPath,
    Where,
    With,
    Without,
    already,
    announce_compiling,
    answer,
    engine_options,
    json_option,
    memory_option,
    option,
    quiet_option,
    run,
    step,
    tell,
    version_option,
)
from dp_bundle.files.places import RemotePath
from dp_bundle.files.tar import end_in_name
from dp_learn.matrices.choices import SOLVER_NAMES, RepairMethod, Rule, Weights

if TYPE_CHECKING:
    from dp_bundle import Bundle
    from dp_learn.output.folder import Result

_LEAST = 2  # bundles
_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
F = TypeVar("F", bound=Callable[..., object])


def common_options(out: str) -> Callable[[F], F]:
    """Return what gives a command the options that all have.

    Parameters
    ----------
    out : str
        The folder for the results by default, in the words of the help.
    """

    def decorate(command: F) -> F:
        for each in (
            quiet_option,
            json_option,
            memory_option,
            option(
                "--out",
                applies=ALWAYS,
                type=NewPath(folder=True),
                help=f"The folder for the results; {out} by default.",
            ),
            engine_options("verifies and reads rows"),
            option("--allow-older", applies=ALWAYS, is_flag=True, help="Accept a release older than one already seen."),
            option(
                "--report/--no-report",
                applies=ALWAYS,
                default=True,
                show_default=True,
                help="Write report.html too, or not.",
            ),
        ):
            command = each(command)
        return command

    return decorate


def share_option(name: str, default: float, text: str) -> Callable[[F], F]:
    """Return the option of a number between 0 and 1."""
    return option(name, applies=ALWAYS, type=_SHARE, default=default, show_default=True, help=text)


@dataclass(frozen=True)
class Common:
    """What was given for the options that all commands have."""

    report: bool
    allow_older: bool
    engine: str
    scheduler: str | None
    out: Path | None
    max_memory: int | None
    as_json: bool
    quiet: bool

    def show(self, doing: str) -> None:
        """Tell what is done now."""
        step(doing, quiet=self.quiet)

    def folder(self, files: Sequence[Path | RemotePath], ending: str) -> Path:
        """Return the folder for the results of these bundles, once it is known that they may be written there."""
        names = [(end_in_name(file) if isinstance(file, Path) else file).name for file in files]
        plain = "+".join(name.removesuffix(".tar").removesuffix(".bundle") for name in names)
        folder = self.out or Path(f"{plain}.{ending}")
        _require_result(folder)
        return folder

    def open_all(
        self, stack: contextlib.ExitStack, files: Sequence[Path | RemotePath], estimator: str
    ) -> tuple[list[Bundle], int]:
        """Verify bundles and open them until the stack ends, and tell what a reader should know before any estimate.

        Returns
        -------
        bundles : list of Bundle
            In the order of the files.
        needed : int
            The bytes that the estimate may need.

        Raises
        ------
        BundleError
            A bundle, or its signer, cannot be trusted.
        MemoryLimitError
            The estimate may need more memory than it may have.
        """
        from dp_bundle import open_bundles
        from dp_bundle.base.engine import Dask
        from dp_bundle.manifest.release import shape_of
        from dp_learn.pipeline.driver import describe_work, require_learnable

        stack.callback(step, "")  # however the work ends
        workers = stack.enter_context(Dask(self.scheduler)) if self.engine == "dask" else None
        here = workers.n_workers if workers is not None and self.scheduler is None else 0
        require = partial(
            require_learnable, limit=self.max_memory, estimator=estimator, n_bundles=len(files), n_workers=here
        )
        self.show("verifying")
        opened = open_bundles(files, allow_older=self.allow_older, engine=workers, require_shape=require)
        bundles = [stack.enter_context(bundle) for bundle in opened]
        needed = max(require(shape_of(bundle.release)) for bundle in bundles)
        notes = [note for bundle in bundles for note in (*bundle.notes, *bundle.describe_copies())]
        work = describe_work(needed, shape_of(bundles[0].release).n_columns, estimator)
        for note in (*(f"note: {note}" for note in notes), *work):
            tell(note, quiet=self.quiet)
        self.show("starting")
        return bundles, needed

    def finish(
        self,
        found: Result,
        describe: Callable[[Any, Path], str],
        folder: Path,
    ) -> None:
        """Write the files of a result, with its page if there is to be one, answer, and warn of what bundles show."""
        from dp_learn.output.folder import write_results
        from dp_learn.output.messages import describe_methods

        texts = {"methods.txt": describe_methods(found).text}
        if self.report:
            from dp_learn.output.page import make_page

            self.show("drawing the page")
            texts["report.html"] = make_page(found, spell_command())
        self.show("writing the results")
        write_results(found, folder, texts)
        with already(f"the results are in {quote_path(folder)}"):
            text = describe(found, folder)
        answer(text, found.summary, as_json=self.as_json, quiet=self.quiet)
        for sentence in found.warnings:
            tell(f"warning: {sentence}", quiet=self.quiet)


WITHOUT_EFFECT = {each.name for each in fields(Common)} - {"allow_older"}  # on what is found


def require_number(files: Sequence[object], what: str) -> None:
    """Refuse a single bundle where several are needed.

    Raises
    ------
    ParameterError
    """
    if len(files) < _LEAST:
        raise ParameterError("FILE", f"given at least twice: {what} at least two bundles")


def _require_result(folder: Path) -> None:
    """Refuse a folder for results where there is something else than an earlier one."""
    if not os.path.lexists(folder):
        return
    from dp_learn.output.folder import foreign_content

    if (why := foreign_content(folder)) is not None:
        raise ParameterError("--out", f"a new folder, or an earlier result of dp-learn (this {why})", str(folder))


def spell_command() -> str:
    """Return the command with what was typed of it that makes a difference to the result, and names without folders."""
    context = click.get_current_context()
    words = ["dp-learn", *([context.command.name or ""] if context.command.name in commands.commands else [])]
    for each in context.command.params:
        typed = context.get_parameter_source(each.name or "") is click.core.ParameterSource.COMMANDLINE
        if not typed or each.name in WITHOUT_EFFECT:
            continue
        value = context.params[each.name or ""]
        if isinstance(each, click.Argument):
            words += [shlex.quote(file.name) for file in (value if isinstance(value, tuple) else [value])]
        elif isinstance(value, bool):
            words.append(each.opts[0] if value or not each.secondary_opts else each.secondary_opts[0])
        else:
            words += [each.opts[0], shlex.quote(str(value))]
    return " ".join(words)


_GRAPHICAL_LASSO = With("estimator", ("graphical-lasso",))
_SPARSE = ("graphical-lasso", "neighborhood", "scio", "clime")  # the estimators with a sparse precision matrix
_PREDICTING = ("regression", "lda")
_WORTH_COLLECTING = 100_000  # new objects; looking for cycles after every 700 took an eighth of a small run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=BundlePath())
@option(
    "--estimator",
    applies=ALWAYS,
    type=click.Choice(
        ["graphical-lasso", "ridge", "thresholded-covariance", "neighborhood", "scio", "clime", "regression", "lda"]
    ),
    default="graphical-lasso",
    show_default=True,
    help="The estimator; regression and lda predict --target.",
)
@option(
    "--target",
    applies=[With("estimator", _PREDICTING)],
    help="The column to predict: any column for regression, a column of classes 0 and 1 for lda.",
)
@option(
    "--alpha",
    applies=ALWAYS,
    default="auto",
    show_default=True,
    help="The penalty, or auto to have --select choose it.",
)
@option(
    "--select",
    applies=[_GRAPHICAL_LASSO, With("alpha", ("auto",))],
    type=click.Choice([rule.value for rule in Rule]),
    default="auto",
    show_default=True,
    help="The rule that chooses alpha. EBIC has two stages where the noise is small (auto), or always one (ebic). "
    "Others are held-out likelihood (cv), held-out error of the covariance (mse), and stability over subsamples "
    "(stars).",
)
@option(
    "--fdr",
    applies=[_GRAPHICAL_LASSO],
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Test all pairs instead, and list the edges found at this false discovery rate, such as 0.05.",
)
@option(
    "--weights",
    applies=[_GRAPHICAL_LASSO],
    type=click.Choice([weights.value for weights in Weights]),
    default="auto",
    show_default=True,
    help="Penalise all pairs equally, or in proportion to their standard errors (noise). The default is noise for "
    "tables with categories, and equal for those of numbers, unless --select auto takes the evidence.",
)
@option(
    "--repair",
    applies=[_GRAPHICAL_LASSO],
    type=click.Choice([method.value for method in RepairMethod]),
    default="none",
    show_default=True,
    help="Make an indefinite matrix positive semidefinite before solving, by this method.",
)
@option(
    "--refit/--no-refit",
    applies=[
        With("estimator", _SPARSE),
        Without("fdr", because="edges that tests find have no penalised estimate", value=False),
    ],
    default=True,
    show_default=True,
    help="Fit the chosen graph again without the penalty, or report the penalised estimate, which is shrunk.",
)
@option(
    "--solver",
    applies=[_GRAPHICAL_LASSO, Where("no column of the table is a category")],
    type=click.Choice(["auto", *SOLVER_NAMES]),
    default="auto",
    show_default=True,
    help="Block coordinate descent (cd) or ADMM; auto picks the one that suits the problem.",
)
@option(
    "--scale",
    applies=[_GRAPHICAL_LASSO, Where("no column of the table is a category")],
    type=click.Choice(["correlation", "covariance"]),
    default="correlation",
    show_default=True,
    help="Penalise on the scale of correlations, or of the data units.",
)
@option(
    "--penalize-diagonal/--no-penalize-diagonal",
    applies=[_GRAPHICAL_LASSO],
    default=True,
    show_default=True,
    help="Penalise the diagonal of the precision matrix too, or not.",
)
@option(
    "--at-least",
    applies=[With("estimator", ("ridge", *_SPARSE))],
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    metavar="X",
    help="Show links whose partial correlation is at least this in size first, and weaker ones last, drawn thin. 0 "
    "shows all alike. The tables have the same links whatever it is.",
)
@option(
    "--stability",
    applies=[_GRAPHICAL_LASSO],
    type=click.IntRange(100, 10_000),
    metavar="DRAWS",
    help="Draw so many releases, such as 500, from the law of the graph and its noise, and learn from each. This says "
    "how often each edge is found, and how stable centralities are.",
)
@common_options("NAME.graph")
@version_option
def cli(
    files: tuple[Path | RemotePath, ...],
    estimator: str,
    target: str | None,
    alpha: str,
    fdr: float | None,
    at_least: float,
    stability: int | None,
    **settings: Any,
) -> None:
    """Verify a bundle FILE, subtract its noise, estimate the graph, and write a folder of results.

    Several bundles are pooled by the columns that all have: releases of the same rows, or of different ones. Whether
    those of different rows have the same network is for `dp-learn compare`, and one graph for each of them for
    `dp-learn joint`. What the columns of one hold is for `dp-learn describe`.

    \b
    Example:
      dp-learn wine.bundle.tar --alpha 0.1 --out wine.graph
      dp-learn north.bundle.tar south.bundle.tar --fdr 0.05
    """
    common = Common(**{each.name: settings.pop(each.name) for each in fields(Common)})
    penalty, folder = _parse("--alpha", alpha, positive=True), common.folder(files, "graph")
    with contextlib.ExitStack() as stack:
        bundles, needed = common.open_all(stack, files, estimator)
        from dp_bundle.base.engine import Processes
        from dp_learn.output.views import learn_graph  # its libraries import slower than a refusal
        from dp_learn.pipeline.driver import require_compilable

        show, max_memory = common.show, common.max_memory
        before_compiling(partial(_before_compiling, partial(require_compilable, needed, max_memory), common.quiet))

        if estimator == "graphical-lasso":
            if stability is not None:
                settings |= {"stability": stability, "engine": bundles[0].engine or Processes()}
            wanted: Any = {"alpha": penalty, "fdr": fdr, **settings}
            found = learn_graph(bundles, max_memory=max_memory, progress=show, **wanted).result(at_least)
        else:
            from dp_learn.output.estimator_results import learn_alternative

            show("estimating")
            refit = settings["refit"]
            found = learn_alternative(bundles, estimator, alpha=penalty, target=target, refit=refit, at_least=at_least)
        from dp_learn.output.messages import describe_result

        common.finish(found, describe_result, folder)


def _before_compiling(require: Callable[[], None], quiet: bool, kept: bool) -> None:
    """See that there is the memory, and say why this run takes longer than the next, or that the next will as well."""
    require()
    announce_compiling("five to ten seconds", kept, quiet=quiet)


@click.command("compare", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", metavar="FILE FILE...", nargs=-1, required=True, type=BundlePath())
@share_option("--fdr", 0.05, "The false discovery rate at which pairs count as different.")
@share_option("--confidence", 0.95, "The level of the intervals, and of the critical values of the tests of all pairs.")
@common_options("A+B.comparison")
def compare(
    files: tuple[Path | RemotePath, ...],
    fdr: float,
    confidence: float,
    **options: Any,
) -> None:
    """Verify two or more bundles of different rows, test whether they have the same network, and where they differ.

    The releases (of countries, years, arms of a study) are compared by the columns that all have, rows or second
    moments. Differences are those of partial correlations, the second release less the first. Errors are those of
    sampling and of the noise of each.

    \b
    Example:
      dp-learn compare 2025.bundle.tar 2026.bundle.tar
    """
    require_number(files, "a comparison needs")
    common = Common(**options)
    folder = common.folder(files, "comparison")
    with contextlib.ExitStack() as stack:
        bundles, _ = common.open_all(stack, files, "comparison")
        from dp_learn.output.several import ComparisonResult, describe_comparison
        from dp_learn.pipeline.compare import compare_networks  # their libraries import slower than a refusal

        found = compare_networks(
            bundles, fdr=fdr, confidence=confidence, progress=common.show, max_memory=common.max_memory
        )
        common.finish(ComparisonResult(bundles, found), describe_comparison, folder)


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
    **options: Any,
) -> None:
    """Learn one graph from each of 2 to 60 bundles of different rows, all of them together, and test what changed.

    The releases (of months, or of hospitals) are learned by the numbers that all have; rows and second moments may be
    mixed. What is the same is learned from all, and what is not from each. Changes are those of partial correlations,
    with errors of sampling and of the noise of each release.

    \b
    Example:
      dp-learn joint visits-2026-*.bundle.tar --out visits.joint
      dp-learn joint north.tar south.tar west.tar --order none
    """
    require_number(files, "joint graphs need")
    penalties = [_parse(name, text) for name, text in (("--alpha", alpha), ("--strength", strength))]
    common = Common(**options)
    folder = common.folder([files[0], files[-1]], "joint")
    with contextlib.ExitStack() as stack:
        bundles, _ = common.open_all(stack, files, "joint")
        from dp_learn.output.several import JointResult, describe_joint
        from dp_learn.pipeline.joint import learn_joint  # their libraries import slower than a refusal

        before_compiling(partial(announce_compiling, "half a minute", quiet=common.quiet))
        found = learn_joint(
            bundles,
            order=order,
            coupling=coupling,
            alpha=penalties[0],
            strength=penalties[1],
            fdr=fdr,
            confidence=confidence,
            progress=common.show,
            max_memory=common.max_memory,
        )
        common.finish(JointResult(bundles, found), describe_joint, folder)


@click.command("describe", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", metavar="BUNDLE", required=True, type=BundlePath())
@common_options("NAME.description")
def describe(file: Path | RemotePath, **options: Any) -> None:
    """Verify a BUNDLE, and say what its columns hold: means, deviations, shares, quantiles, cross-tabulations.

    All have 95 % intervals for sampling and noise, where the release states its errors. What a release cannot show is
    named.

    \b
    Example:
      dp-learn describe wine.bundle.tar
    """
    common = Common(**options)
    folder = common.folder([file], "description")
    with contextlib.ExitStack() as stack:
        bundles, _ = common.open_all(stack, [file], "thresholded-covariance")
        from dp_learn.output.description import describe_columns, describe_description

        common.finish(describe_columns(bundles[0]), describe_description, folder)


def _parse(name: str, text: str, *, positive: bool = False) -> float | None:
    """Return the number that was given for an option; None for "auto"."""
    if text == "auto":
        return None
    with contextlib.suppress(ValueError):
        number = float(text)
        if (number > 0 if positive else number >= 0) and number < float("inf"):
            return number
    raise ParameterError(name, "a positive number, or auto" if positive else "a number, or auto", text)


commands = click.Group("dp-learn", commands=[compare, joint, describe])  # those with a name; without one, it is `cli`


def main() -> None:
    """Run dp-learn, which makes no cycles worth collecting while it imports libraries and compiled kernels."""
    gc.set_threshold(_WORTH_COLLECTING)
    run(commands if sys.argv[1:2] and sys.argv[1] in commands.commands else cli)
