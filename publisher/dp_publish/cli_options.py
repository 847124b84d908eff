"""The options that several of the publisher's commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from dp_bundle.privacy import Neighbours
from dp_publish.policy import Mechanism, ReleaseKind

__all__ = [
    "PublishByDefault",
    "ShowByDefault",
    "dialect_options",
    "header_option",
    "policy_options",
]

F = TypeVar("F", bound=Callable[..., Any])


class PublishByDefault(click.Group):
    """Runs `publish` when the first word is no command: `dp-publish data.parquet`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's name in front where there is none."""
        own = {"-h", "--help", "--version"}
        if args and args[0] not in self.commands and args[0] not in own:
            args = ["publish", *args]
        return super().parse_args(ctx, args)


class ShowByDefault(click.Group):
    """Runs `show` when the first word is no command: `dp-publish ledger wine`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's name in front where there is none."""
        if not args or (args[0] not in self.commands and args[0] not in {"-h", "--help"}):
            args = ["show", *args]
        return super().parse_args(ctx, args)


def header_option(command: F) -> F:
    """Add what overrides the policy's word on the first line of a text file."""
    return click.option(
        "--header",
        type=click.Choice(["first", "none"]),
        help="Of a text file: whether its first line names the columns, or there is no such line.",
    )(command)


def dialect_options(command: F) -> F:
    """Add what says how a text file is written."""
    options = [
        header_option,
        click.option("--delimiter", help="Of a text file: what separates its cells, such as ';' or tab."),
        click.option("--decimal", type=click.Choice([".", ","]), help="Of a text file: the decimal mark."),
        click.option("--encoding", help="Of a text file: utf-8, cp1252, utf-16 or another."),
    ]
    return _with(options, command)


def policy_options(command: F) -> F:
    """Add the policy's file, and what overrides its kind of release, its strength and its word on the first line."""
    options = [
        click.option(
            "--policy",
            "policy_file",
            type=click.Path(path_type=Path),
            help="The policy; DATA's own .policy.toml by default.",
        ),
        header_option,
        click.option("--release", type=click.Choice(get_args(ReleaseKind)), help="Rows, or their second moments only."),
        click.option(
            "--mechanism",
            type=click.Choice(get_args(Mechanism)),
            metavar="NAME",
            help="Of a covariance release: auto, gaussian, laplace, wishart, eigenvectors, sulq or kapralov-talwar.",
        ),
        click.option(
            "--neighbours",
            type=click.Choice([each.value for each in Neighbours]),
            help="In a covariance release, whether rows change, or come and go, so that their number is private.",
        ),
        click.option("--unit", type=click.Choice(["cell", "row"]), help="What one person may change."),
        click.option("--mu", type=float, help="Strength as mu of Gaussian differential privacy."),
        click.option("--epsilon", type=float, help="Strength as epsilon, with --delta; a covariance can do without."),
        click.option("--delta", type=float, help="The delta that goes with --epsilon."),
        click.option("--rho", type=float, help="Strength as rho of zero-concentrated differential privacy."),
        click.option("--sigma", type=float, help="The noise's standard deviation itself, in data units."),
        click.option(
            "--snr-db", type=float, help="Noise from the data's own spread: for research, without a guarantee."
        ),
    ]
    return _with(options, command)


def _with(options: Sequence[Callable[[F], F]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command
