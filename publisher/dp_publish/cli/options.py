"""The options that several of the publisher's commands share, and how they write a new file."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from click.core import ParameterSource

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.cli.console import ALWAYS, BundlePath, Condition, Where, With, option
from dp_bundle.manifest.noise import Neighbours
from dp_bundle.trust.store import DEFAULT_KEY
from dp_publish.policy.choices import Mechanism, ReleaseKind, SoundMechanism

F = TypeVar("F", bound=Callable[..., Any])
_TEXT = Where("DATA is a text file")
_COVARIANCE = Where("second moments are released")
_ROWS = Where("rows are released")


class RunsByDefault(click.Group):
    """A group that runs one of its commands if the first word is none: `dp-publish data.parquet`."""

    def __init__(self, *args: Any, default: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's name in front where there is none."""
        own = {*self.commands, *(word for each in self.get_params(ctx) for word in each.opts)}
        if args[0] not in own if args else not self.no_args_is_help:
            args = [self._default, *args]
        return super().parse_args(ctx, args)


def key_option(command: F) -> F:
    """Add the option that names the key."""
    said = "The name of a signing key, or a key file."
    return option("--key", applies=ALWAYS, callback=_named, default=DEFAULT_KEY, show_default=True, help=said)(command)


def _named(context: click.Context, parameter: click.Parameter, key: str) -> str:
    """Refuse a key without a name."""
    del context, parameter
    if not key:
        raise ParameterError("--key", "the name of a signing key, or a key file", key)
    return key


def header_option(command: F) -> F:
    """Add the option that overrides the policy on the first line of a text file."""
    return option(
        "--header",
        applies=[_TEXT],
        type=click.Choice(["first", "none"]),
        help="Text files: the first line names the columns (first), or no line does (none).",
    )(command)


def dialect_options(command: F) -> F:
    """Add the options that describe the format of a text file."""
    said = "Text files: the"
    for name, help_text, choices in (
        ("--encoding", f"{said} encoding, such as utf-8, cp1252 or utf-16.", None),
        ("--decimal", f"{said} decimal mark.", click.Choice([".", ","])),
        ("--delimiter", f"{said} character between cells, such as ';' or tab.", None),
    ):
        command = option(name, applies=[_TEXT], type=choices, help=help_text)(command)
    return header_option(command)


policy_option = option(
    "--policy",
    "policy_file",
    applies=ALWAYS,
    type=click.Path(path_type=Path),
    help="The policy file; NAME.policy.toml beside DATA by default.",
)


def policy_options(command: F) -> F:
    """Add the option for the policy file, and those that override its release, strength and header entries."""
    for name, applies, help_text in (
        ("--sigma", [_ROWS], "Strength as the standard deviation of the noise, in data units."),
        ("--rho", ALWAYS, "Strength as rho of zero-concentrated differential privacy."),
        ("--delta", [Where("the strength is an epsilon")], "The delta that goes with --epsilon."),
        ("--epsilon", ALWAYS, "Strength as epsilon, with --delta (optional in a covariance release)."),
        ("--mu", ALWAYS, "Strength as mu of Gaussian differential privacy."),
    ):
        command = option(name, applies=applies, type=float, help=help_text)(command)
    said = "Strength at which links of this size are seen, by the forecast; mu = 3 at most, or that of --mu."
    command = option("--see", applies=ALWAYS, type=click.FloatRange(0, 1), help=said)(command)
    *names, last = get_args(SoundMechanism)
    return _with(
        [
            policy_option,
            option(
                "--like",
                applies=ALWAYS,
                type=BundlePath(),
                help="An earlier release, whose columns, kinds, levels, gaps, bounds, centers and scales hold, at no "
                "cost.",
            ),
            header_option,
            option(
                "--release",
                applies=ALWAYS,
                type=click.Choice(get_args(ReleaseKind)),
                help="Publish noisy rows, or second moments and histograms only.",
            ),
            option(
                "--scale",
                applies=ALWAYS,
                callback=_scale_of,
                metavar="NAME",
                help="Show links of values (raw), of normal scores (scores) or either by column (auto); or columns for "
                "scores, with commas between.",
            ),
            option(
                "--mechanism",
                applies=[_COVARIANCE],
                type=click.Choice(get_args(Mechanism)),
                metavar="NAME",
                help=f"Covariance release: auto, {', '.join(names)} or {last}.",
            ),
            option(
                "--neighbours",
                applies=[_COVARIANCE],
                type=click.Choice([each.value for each in Neighbours]),
                help="Covariance release: hide the content of a row, or also its presence and so the number of rows.",
            ),
            option(
                "--unit",
                applies=ALWAYS,
                metavar="UNIT",
                help="What is protected: one cell, one whole row, or all rows with the same value in a COLUMN.",
            ),
            option(
                "--max-rows",
                applies=[With("unit")],
                type=int,
                help="How many rows are published of one value of the unit's column, at most.",
            ),
        ],
        command,
    )


def _scale_of(context: click.Context, parameter: click.Parameter, value: str | None) -> str | list[str] | None:
    """Return a scale as a policy has it: a word, or the names of columns."""
    del context, parameter
    return value if value in (None, "auto", "raw", "scores") else value.split(",")


def plain_text(value: str) -> str:
    """Refuse bytes of a command line that are no text, which no ledger can keep."""
    if not value.isascii() and os.fsencode(value).decode("utf-8", "replace") != value:
        raise click.BadParameter("it has bytes that are no text in UTF-8: give another name")
    return value


def ledger_option(applies: Sequence[Condition] = ALWAYS) -> Callable[[F], F]:
    """Return a decorator that adds the option that names the ledger."""
    return option(
        "--ledger",
        "ledger_place",
        applies=applies,
        type=plain_text,
        metavar="PLACE",
        envvar="DPGRAPH_LEDGER",
        show_envvar=True,
        help="A ledger on shared storage: a folder (with a slash at the end), s3://BUCKET/PREFIX, gs:// or az://; "
        "this user's own by default.",
    )


def typed_options() -> dict[str, str]:
    """Return the options of this command as they were typed; flags are empty, and files have their name alone."""
    context = click.get_current_context()
    typed = {}
    for each in context.command.params:
        name = each.name or ""
        if isinstance(each, click.Option) and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = context.params[name]
            typed[each.opts[0]] = "" if each.is_flag else value.name if isinstance(value, Path) else str(value)
    return typed


def _with(options: Sequence[Callable[[F], F]], command: F) -> F:
    for each in reversed(options):
        command = each(command)
    return command


@contextlib.contextmanager
def writing_new(path: Path, what: str, instead: str) -> Iterator[None]:
    """Turn a failure to write a new file into one sentence."""
    try:
        yield
    except FileExistsError as error:
        raise DpGraphError(f"there is a {what} at {path} already: {instead}") from error
    except OSError as error:
        raise DpGraphError(f"the {what} {path} cannot be written: {error.strerror}") from error
