"""The commands of dp-publish about the ledger: show, back up and restore it."""

from __future__ import annotations

from pathlib import Path

import click

from dp_bundle.cli.console import NewPath, answer, json_option, quiet_option, tell
from dp_bundle.cli.steps import step
from dp_publish.cli.options import RunsByDefault, ledger_option, writing_new


@click.group("ledger", cls=RunsByDefault, default="show", no_args_is_help=False)
def ledger_group() -> None:
    """Show what the releases of each dataset have cost, or those of DATASET; back up or restore the ledger.

    \b
    Example:
      dp-publish ledger
      dp-publish ledger wine
      dp-publish ledger backup /media/safe/ledger-2026-11.sqlite
      dp-publish ledger restore published/
    """


@ledger_group.command("show")
@click.argument("dataset", required=False)
@ledger_option()
@json_option
def ledger_show(dataset: str | None, ledger_place: str | None, as_json: bool) -> None:
    """Show what the releases of each dataset have cost, or those of DATASET; `show` may be left out."""
    from dp_publish.cli.messages.ledger import describe_ledger, ledger_document, require_known
    from dp_publish.ledger.ledger import open_ledger

    ledger = open_ledger(ledger_place)
    books = ledger.books()
    require_known(books, dataset)
    answer(describe_ledger(books, ledger.place, dataset), ledger_document(books, dataset), as_json=as_json)


@ledger_group.command("backup")
@click.argument("file", type=NewPath())
@ledger_option()
@quiet_option
def ledger_backup(file: Path, ledger_place: str | None, quiet: bool) -> None:
    """Copy the ledger to FILE, which must not exist yet.

    If you ever put the copy back, the ledger lacks all later releases: run `ledger restore` then.
    """
    from dp_publish.ledger.ledger import open_ledger

    with writing_new(file, "file", "name another one"):
        open_ledger(ledger_place).backup(file)
    answer(f"wrote {file}", None, as_json=False, quiet=quiet)


@ledger_group.command("restore")
@click.argument("places", metavar="[BUNDLE_OR_FOLDER]...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@ledger_option()
@json_option
@quiet_option
def ledger_restore(places: tuple[Path, ...], ledger_place: str | None, as_json: bool, quiet: bool) -> None:
    """Complete the ledger after it was lost, damaged, altered or replaced by a backup.

    What is missing is taken from the copy beside the signing key and from your own bundles, which state what they cost.
    Give all bundles at once: a cost that is in a bundle's total but belongs to no known release is booked as lost, and
    stays spent.

    \b
    Example:
      dp-publish ledger restore published/ wine.bundle.tar
    """
    from dp_publish.cli.messages.ledger import describe_restoration, describe_surprises, restoration_document
    from dp_publish.ledger.ledger import open_ledger
    from dp_publish.ledger.restoring import restore

    step("reading the bundles", quiet=quiet)
    done = restore(open_ledger(ledger_place), places)
    for sentence in describe_surprises(done):
        tell(f"note: {sentence}", quiet=quiet)
    answer(describe_restoration(done), restoration_document(done), as_json=as_json, quiet=quiet)
