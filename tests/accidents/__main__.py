"""Cause accidents: `python -m tests.accidents lines --count 1000`."""

import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click
from tests.accidents.crowd import run_crowd
from tests.accidents.kills import stop_learning, stop_publishing
from tests.accidents.lines import run_lines
from tests.accidents.power import lose_power, why_not


@click.group()
def cli() -> None:
    """Cause so many accidents, and say how they went."""


@cli.command()
@click.option("--count", default=1000)
@click.option("--seed", default=1)
def lines(count: int, seed: int) -> None:
    """Run odd command lines."""
    with tempfile.TemporaryDirectory() as folder:
        click.echo(f"exit codes {dict(run_lines(Path(folder), count, seed=seed))}")


@cli.command()
@click.option("--count", default=100)
@click.option("--seed", default=1)
@click.option("--interrupt", is_flag=True, help="By Ctrl-C, that is.")
def stops(count: int, seed: int, interrupt: bool) -> None:
    """Kill or interrupt releases of rows, of second moments, and commands that learn: so many of each."""
    by = signal.SIGINT if interrupt else signal.SIGKILL
    for release in ("rows", "covariance"):
        with tempfile.TemporaryDirectory() as folder:
            _show(release, stop_publishing(Path(folder), count, by, release=release, seed=seed))
    with tempfile.TemporaryDirectory() as folder:
        _show("learn", stop_learning(Path(folder), count, by, seed=seed))


@cli.command()
@click.option("--count", default=50)
@click.option("--seed", default=1)
def power(count: int, seed: int) -> None:
    """Lose power while releases are made and graphs learned."""
    if why := why_not():
        raise click.ClickException(why)
    with tempfile.TemporaryDirectory() as folder:
        _show("power", lose_power(Path(folder), count, seed=seed))


@cli.command()
@click.option("--count", default=20)
def crowds(count: int) -> None:
    """Let eight publish for the first time at once, then 24 verify, then 24 learn."""
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            run_crowd(Path(folder))
        click.echo(f"crowd {number + 1}: nothing lost")


def _show(what: str, seen: Counter[str]) -> None:
    click.echo("\n".join([what, *(f"  {number} {end}" for end, number in sorted(seen.items()))]))


if __name__ == "__main__":
    sys.exit(cli())
