"""The options that several of the publisher's commands share, and how they write a new file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from click.core import ParameterSource

from dp_bundle.base.errors import DpGraphError
from dp_bundle.cli.console import ALWAYS, Condition, NewPath, Where, option
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.policy.choices import Mechanism, ReleaseKind, SoundMechanism

F = TypeVar("F", bound=Callable[..., Any])
_TEXT = Where("DATA is a text file")
_COVARIANCE = Where("second moments are released")
_ROWS = Where("rows are released")


class PublishByDefault(click.Group):
    """A group that runs `publish` if the first word is not a command: `dp-publish data.parquet`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's name in front where there is none."""
        own = {"-h", "--help", "--version"}
        if args and args[0] not in self.commands and args[0] not in own:
            args = ["publish", *args]
        return super().parse_args(ctx, args)


class ShowByDefault(click.Group):
    """A group that runs `show` if the first word is not a command: `dp-publish ledger wine`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's name in front where there is none."""
        if not args or (args[0] not in self.commands and args[0] not in {"-h", "--help"}):
            args = ["show", *args]
        return super().parse_args(ctx, args)


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
    options = [
        header_option,
        option("--delimiter", applies=[_TEXT], help="Text files: the character between cells, such as ';' or tab."),
        option("--decimal", applies=[_TEXT], type=click.Choice([".", ","]), help="Text files: the decimal mark."),
        option("--encoding", applies=[_TEXT], help="Text files: the encoding, such as utf-8, cp1252 or utf-16."),
    ]
    return _with(options, command)


def policy_options(command: F) -> F:
    """Add the option for the policy file, and those that override its release, strength and header entries."""
    *names, last = get_args(SoundMechanism)

    options = [
        option(
            "--policy",
            "policy_file",
            applies=ALWAYS,
            type=click.Path(path_type=Path),
            help="The policy file; NAME.policy.toml beside DATA by default.",
        ),
        header_option,
        option(
            "--release",
            applies=ALWAYS,
            type=click.Choice(get_args(ReleaseKind)),
            help="Publish noisy rows, or second moments only.",
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
            type=click.Choice(["cell", "row"]),
            help="What is protected: one cell, or one whole row.",
        ),
        option("--mu", applies=ALWAYS, type=float, help="Strength as mu of Gaussian differential privacy."),
        option(
            "--epsilon",
            applies=ALWAYS,
            type=float,
            help="Strength as epsilon, with --delta (optional in a covariance release).",
        ),
        option(
            "--delta",
            applies=[Where("the strength is an epsilon")],
            type=float,
            help="The delta that goes with --epsilon.",
        ),
        option("--rho", applies=ALWAYS, type=float, help="Strength as rho of zero-concentrated differential privacy."),
        option(
            "--sigma",
            applies=[_ROWS],
            type=float,
            help="Strength as the standard deviation of the noise, in data units.",
        ),
        option(
            "--snr-db",
            applies=[_ROWS],
            type=float,
            help="Noise scaled to the data's own spread: for research, without a guarantee.",
        ),
    ]
    return _with(options, command)


def ledger_option(command: F) -> F:
    """Add the option that names the ledger."""
    return ledger_option_where(ALWAYS)(command)


def ledger_option_where(applies: Sequence[Condition]) -> Callable[[F], F]:
    """Return a decorator that adds the option that names the ledger, where a command asks it under conditions."""
    return option(
        "--ledger",
        "ledger_place",
        applies=applies,
        metavar="PLACE",
        envvar="DPGRAPH_LEDGER",
        show_envvar=True,
        help="A ledger on shared storage: a folder (with a slash at the end), s3://BUCKET/PREFIX, gs:// or az://; "
        "this user's own by default.",
    )


def log_option(command: F) -> F:
    """Add the option that names a log."""
    return option(
        "--log",
        applies=ALWAYS,
        type=NewPath(),
        help="Also append what happens, with the time, to this file; it holds no value of DATA.",
    )(command)


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
