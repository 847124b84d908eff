"""What the commands of dp-learn share: bundles opened, the folder for results, and the command that gives the same."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dp_bundle.base.errors import ParameterError
from dp_bundle.cli.console import (
    ALWAYS,
    NewPath,
    engine_options,
    json_option,
    memory_option,
    option,
    quiet_option,
    tell,
)
from dp_bundle.cli.steps import step
from dp_bundle.files.places import RemotePath
from dp_bundle.files.tar import end_in_name

if TYPE_CHECKING:
    from dp_bundle import Bundle
    from dp_bundle.engines.dask import Dask

_LEAST = 2  # bundles
_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
F = TypeVar("F", bound=Callable[..., object])
WITHOUT_EFFECT = {"out", "report", "as_json", "quiet", "engine", "scheduler", "max_memory"}  # on what is found


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


def require_number(files: Sequence[object], what: str) -> None:
    """Refuse a single bundle where several are needed.

    Raises
    ------
    ParameterError
    """
    if len(files) < _LEAST:
        raise ParameterError("FILE", f"given at least twice: {what} at least two bundles")


def open_all(
    stack: contextlib.ExitStack,
    files: Sequence[Path | RemotePath],
    *,
    estimator: str,
    allow_older: bool,
    engine: str,
    scheduler: str | None,
    max_memory: int | None,
    quiet: bool,
) -> tuple[list[Bundle], Dask | None, int]:
    """Verify bundles and open them until the stack ends, and tell what a reader should know before anything is learned.

    Returns
    -------
    bundles : list of Bundle
        In the order of the files.
    workers : Dask or None
        Who reads them, with `--engine dask`.
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
    from dp_bundle.base.machine import describe_need
    from dp_bundle.bundle.inspection import describe_copies
    from dp_bundle.engines.dask import Dask
    from dp_bundle.manifest.statement import shape_of
    from dp_learn.pipeline.memory import require_learnable

    stack.callback(step, "")  # however the work ends
    workers = stack.enter_context(Dask(scheduler)) if engine == "dask" else None
    here = workers.n_workers if workers is not None and scheduler is None else 0
    require = partial(require_learnable, limit=max_memory, estimator=estimator, n_bundles=len(files), n_workers=here)
    step("verifying", quiet=quiet)
    opened = open_bundles(files, allow_older=allow_older, engine=workers, require_shape=require)
    bundles = [stack.enter_context(bundle) for bundle in opened]
    needed = max(require(shape_of(bundle.release)) for bundle in bundles)
    notes = [note for bundle in bundles for note in (*bundle.notes, *describe_copies(bundle))]
    for note in (*(f"note: {note}" for note in notes), *describe_need(needed)):
        tell(note, quiet=quiet)
    return bundles, workers, needed


def result_folder(files: Sequence[Path | RemotePath], out: Path | None, ending: str) -> Path:
    """Return the folder for the results of these bundles, once it is known that they may be written there."""
    names = [(end_in_name(file) if isinstance(file, Path) else file).name for file in files]
    plain = "+".join(name.removesuffix(".tar").removesuffix(".bundle") for name in names)
    folder = out or Path(f"{plain}.{ending}")
    _require_result(folder)
    return folder


def _require_result(folder: Path) -> None:
    """Refuse a folder for results where there is something else than an earlier one."""
    if not os.path.lexists(folder):
        return
    from dp_learn.output.folder import foreign_content

    if (why := foreign_content(folder)) is not None:
        raise ParameterError("--out", f"a new folder, or an earlier result of dp-learn (this {why})", str(folder))


def spell_command(name: str = "dp-learn") -> str:
    """Return the command with what was typed of it that makes a difference to the result, and names without folders."""
    context = click.get_current_context()
    words = [name]
    for each in context.command.params:
        typed = context.get_parameter_source(each.name or "") is click.core.ParameterSource.COMMANDLINE
        if not typed or each.name in WITHOUT_EFFECT:
            continue
        value = context.params[each.name or ""]
        if isinstance(each, click.Argument):
            words += [shlex.quote(file.name) for file in value]
        elif isinstance(value, bool):
            words.append(each.opts[0] if value or not each.secondary_opts else each.secondary_opts[0])
        else:
            words += [each.opts[0], shlex.quote(str(value))]
    return " ".join(words)
