"""dp-publish: from a private table to a signed bundle of noisy data."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.console import answer, json_option, quiet_option, run, tell, version_option
from dp_bundle.descriptors import describe_guarantee, round_up
from dp_bundle.errors import DpGraphError
from dp_bundle.files import write_whole
from dp_bundle.keys import DEFAULT_KEY, new_key_pair, private_key_path, public_key_path
from dp_bundle.signing import load_private_key
from dp_publish.calibration import choose_columns
from dp_publish.ledger import Entry, Ledger
from dp_publish.policy import Policy, load_policy, policy_path, policy_template
from dp_publish.release import Receipt, publish
from dp_publish.table import open_table

DATA = click.Path(path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])


class _PublishByDefault(click.Group):
    """Runs `publish` when the first word is no command: `dp-publish data.parquet`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {"-h", "--help", "--version"}
        if args and args[0] not in self.commands and args[0] not in own:
            args = ["publish", *args]
        return super().parse_args(ctx, args)


def _strength_options(command: F) -> F:
    """Add what overrides the policy's privacy section."""
    options = [
        click.option("--unit", type=click.Choice(["cell", "row"]), help="What one person may change."),
        click.option("--mu", type=float, help="Strength as mu of Gaussian differential privacy."),
        click.option("--epsilon", type=float, help="Strength as epsilon, with --delta."),
        click.option("--delta", type=float, help="The delta that goes with --epsilon."),
        click.option("--rho", type=float, help="Strength as rho of zero-concentrated differential privacy."),
        click.option("--sigma", type=float, help="The noise's standard deviation itself, in data units."),
        click.option(
            "--snr-db", type=float, help="Noise from the data's own spread: for research, without a guarantee."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=_PublishByDefault, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def cli() -> None:
    """Add calibrated noise to a private table and write one signed bundle that anyone may learn from.

    \b
    Example:
      dp-publish policy wine.parquet      write wine.policy.toml; fill in the bounds
      dp-publish wine.parquet             write wine.bundle.tar
    """


@cli.command("publish")
@click.argument("data", type=DATA)
@click.option("--policy", "policy_file", type=DATA, help="The policy; DATA's own .policy.toml by default.")
@_strength_options
@click.option("--key", default=DEFAULT_KEY, show_default=True, help="The signing key's name, or a key file.")
@click.option("--out", type=DATA, help="Where the bundle goes; NAME.bundle.tar in this folder by default.")
@json_option
@quiet_option
def publish_command(
    data: Path, policy_file: Path | None, key: str, out: Path | None, as_json: bool, quiet: bool, **privacy: Any
) -> None:
    """Publish DATA: a .parquet, .arrow, .feather or .csv file, or a folder of Parquet files.

    \b
    Example:
      dp-publish wine.parquet --unit cell --mu 1
    """
    own = policy_path(data)
    policy = load_policy(policy_file or (own if own.is_file() else None), _plain_name(data), privacy)
    choose_columns(open_table(data), policy)  # refuses what cannot be published before a key is made for it
    signing_key = _signing_key(key, quiet=quiet)
    target = out or Path(f"{_plain_name(data)}.bundle.tar")
    show = _show_progress if sys.stderr.isatty() and not quiet else None
    receipt = publish(data, policy, out=target, key=signing_key, progress=show)
    if show:
        tell("")
    answer(_describe(receipt, policy), _document(receipt), as_json=as_json, quiet=quiet)


@cli.command("policy")
@click.argument("data", type=DATA)
@click.option("--out", type=DATA, help="Where the policy goes; beside DATA by default.")
@quiet_option
def policy_command(data: Path, out: Path | None, quiet: bool) -> None:
    """Write a commented policy for DATA from its column names and types alone; no value is looked at.

    \b
    Example:
      dp-publish policy wine.parquet
    """
    types = open_table(data).types
    target = out or policy_path(data)
    try:
        write_whole(target, policy_template(data.name, _plain_name(data), types).encode(), replace=False)
    except FileExistsError as error:
        raise DpGraphError(f"there is a policy at {target} already: edit it, or give another --out") from error
    except OSError as error:
        raise DpGraphError(f"the policy {target} cannot be written: {error.strerror}") from error
    answer(f"wrote {target}: fill in the bounds, then run dp-publish {data}", None, as_json=False, quiet=quiet)


@cli.command("ledger")
@click.argument("dataset", required=False)
@json_option
def ledger_command(dataset: str | None, as_json: bool) -> None:
    """Show what has been spent on which dataset, or on DATASET alone.

    \b
    Example:
      dp-publish ledger wine
    """
    entries = Ledger().entries(dataset)
    lines = [_ledger_line("dataset", "release", "created", "unit", "mu", "state")]
    lines += [_ledger_line(*_ledger_cells(entry)) for entry in entries]
    document = [
        {
            "dataset": entry.dataset,
            "release": entry.number,
            "created": entry.created,
            "unit": entry.cost.unit,
            "mu_cell": entry.cost.mu_cell,
            "mu_row": entry.cost.mu_row,
            "state": entry.state,
            "manifest_sha256": entry.manifest_sha256,
            "file": entry.file,
        }
        for entry in entries
    ]
    answer("\n".join(lines) if entries else "nothing has been published yet", document, as_json=as_json)


def _signing_key(key: str, *, quiet: bool) -> Ed25519PrivateKey:
    path = Path(key) if "/" in key else private_key_path(key)
    if key == DEFAULT_KEY and not path.exists():
        public = new_key_pair()
        tell(f"made a signing key: announce its fingerprint, {public.fingerprint},", quiet=quiet)
        tell(f"or hand researchers {public_key_path()}", quiet=quiet)
    return load_private_key(path, os.environ.get("DPGRAPH_PASSPHRASE"))


def _plain_name(data: Path) -> str:
    return (data.stem if data.suffix else data.name) or data.resolve().name


def _show_progress(rows: int) -> None:
    click.echo(f"\r{rows:,} rows", nl=False, err=True)


def _describe(receipt: Receipt, policy: Policy) -> str:
    release, report = receipt.release, receipt.report
    lines = [
        f"wrote {receipt.path}: release {release.lineage.number} of {release.dataset.name}, "
        f"{release.n_rows} rows, {len(release.columns)} columns"
    ]
    lines += [f"  {sentence}" for sentence in describe_guarantee(release)]
    if receipt.left_out:
        dropped = {name for name, entry in policy.columns.items() if entry.drop}
        lines += [
            f"  left out: {name} ({'dropped' if name in dropped else 'not numeric'})" for name in receipt.left_out
        ]
    if report.clipped or report.filled or report.n_dropped:
        lines.append("for your eyes only, as it tells of the raw values:")
        lines += [
            f"  {number} cells of {name} were outside its bounds and clipped" for name, number in report.clipped.items()
        ]
        lines += [
            f"  {number} cells of {name} had no value and took the midpoint" for name, number in report.filled.items()
        ]
        lines += [f"  {report.n_dropped} rows without a value were left out"] if report.n_dropped else []
    return "\n".join([*lines, f"to learn from it: dp-learn {receipt.path}"])


def _document(receipt: Receipt) -> dict[str, Any]:
    report = receipt.report
    return {
        "path": str(receipt.path),
        "manifest_sha256": receipt.manifest_sha256,
        "left_out": list(receipt.left_out),
        "release": receipt.release.model_dump(mode="json"),
        "for_the_publisher_only": {
            "clipped": report.clipped,
            "filled": report.filled,
            "rows_dropped": report.n_dropped,
        },
    }


def _ledger_cells(entry: Entry) -> tuple[str, ...]:
    mu = entry.cost.mu_cell if entry.cost.unit == "cell" else entry.cost.mu_row
    strength = "no guarantee" if mu is None else round_up(mu)
    return entry.dataset, str(entry.number), entry.created, entry.cost.unit, strength, entry.state


def _ledger_line(*cells: str) -> str:
    return f"{cells[0]:<20} {cells[1]:>7}  {cells[2]:<20}  {cells[3]:<5} {cells[4]:>12}  {cells[5]}"


def main() -> None:
    """Run dp-publish."""
    run(cli)
