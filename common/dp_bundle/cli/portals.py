"""The commands of dp-bundle for portals: a bundle in their words, laid out for one, and a site of many."""

import contextlib
from dataclasses import asdict
from pathlib import Path

import click

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import counted, quote_path
from dp_bundle.cli.console import (
    ALWAYS,
    BundlePath,
    NewPath,
    answer,
    answer_options,
    note,
    opened,
    option,
    quiet_option,
    reader_options,
)
from dp_bundle.cli.steps import step
from dp_bundle.portals.names import FORMS, PORTALS

_BUNDLE = BundlePath(remote=False)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=_BUNDLE)
@option("--as", "form", applies=ALWAYS, type=click.Choice(FORMS), required=True, help="The vocabulary.")
@option("--out", applies=ALWAYS, type=NewPath(), help="A new file; otherwise it is printed.")
@reader_options
@quiet_option
def describe(file: Path, form: str, out: Path | None, allow_older: bool, any_signer: bool, quiet: bool) -> None:
    """Describe a verified bundle in a vocabulary that portals read: DCAT-AP, DataCite, Croissant and others.

    Everything follows from the manifest. Paths are those of the folder that `dp-bundle stage --for static` makes.

    \b
    Example:
      dp-bundle describe wine.bundle.tar --as dcat
    """
    from dp_bundle.bundle.writing import errors_of_writing
    from dp_bundle.describe.subject import licence_gap
    from dp_bundle.files.new_files import whole_file
    from dp_bundle.portals.staging import describe_as

    with opened(file, any_signer=any_signer, allow_older=allow_older) as bundle:
        step("describing the bundle", quiet=quiet)
        content, notes = describe_as(bundle, form), [*bundle.notes, licence_gap(bundle.release.dataset)]
    note(filter(None, notes), quiet=quiet)
    step("")
    if out is None:
        click.echo(content.decode(), nl=False)
        return
    with errors_of_writing(out, f"{quote_path(out)} is there already: give another name"), whole_file(out) as target:
        target.write(content)
    answer(f"wrote {quote_path(out)}", quiet=quiet)


@click.command()
@click.argument("file", type=_BUNDLE)
@click.argument("folder", metavar="DIR", type=NewPath(folder=True))
@option("--for", "portal", applies=ALWAYS, type=click.Choice(PORTALS), required=True, help="The portal.")
@reader_options
@answer_options
def stage(
    file: Path, folder: Path, portal: str, allow_older: bool, any_signer: bool, as_json: bool, quiet: bool
) -> None:
    """Lay out a verified bundle in a new folder for a portal: the tar, Parquet beside it, and the portal's metadata.

    \b
    Example:
      dp-bundle stage wine.bundle.tar --for zenodo wine-zenodo
    """
    from dp_bundle.describe.subject import Subject
    from dp_bundle.portals.staging import stage_bundle

    with opened(file, any_signer=any_signer, allow_older=allow_older) as bundle:
        step("writing the folder", quiet=quiet)
        (written, left_out), gaps = stage_bundle(bundle, portal, folder), Subject(bundle.release).gaps(portal)
        note([*bundle.notes, *left_out, *gaps], quiet=quiet)
    lines = [f"wrote {quote_path(folder)}, {len(written)} files:", *(f"  {quote_path(path)}" for path in written)]
    document = {"folder": str(folder), "files": [str(path) for path in written], "gaps": gaps}
    answer("\n".join(lines), document, as_json=as_json, quiet=quiet)


@click.command()
@click.argument("folder", type=FOLDER)
@option("--out", applies=ALWAYS, type=NewPath(folder=True), required=True, help="The folder of the site.")
@option(
    "--title", applies=ALWAYS, default="Data with differential privacy", show_default=True, help="The portal's name."
)
@option(
    "--address",
    applies=ALWAYS,
    default="",
    help="Where the site will stand, for its sitemap, feed and catalog: https://...",
)
@option(
    "--any-signer", applies=ALWAYS, is_flag=True, help="Offer bundles of signers that you do not trust, and say so."
)
@answer_options
def catalog(folder: Path, out: Path, title: str, address: str, any_signer: bool, as_json: bool, quiet: bool) -> None:
    """Write a static site about all bundles in a folder: a list, and a page with a privacy label for each.

    Bundles that do not verify are listed as such, and not offered. A second run writes only what changed.

    \b
    Example:
      dp-bundle catalog bundles --out site --address https://data.example.org/
    """
    from dp_bundle.catalog.making import SiteSettings, make_catalog
    from dp_bundle.manifest.dataset import WEB

    if address and not WEB.fullmatch(address):
        raise ParameterError("--address", "the site's address, such as https://data.example.org/", address)
    address = f"{address.rstrip('/')}/" if address else ""
    step("reading the bundles, and writing their pages", quiet=quiet)
    summary = make_catalog(folder, out, SiteSettings(title, address, any_signer))
    done = f"{counted(summary.written, 'file')} written, {counted(summary.removed, 'file')} removed"
    refused = f", {counted(summary.refused, 'file')} listed as not to be trusted" if summary.refused else ""
    if summary.left_out:
        files = counted(summary.left_out, "file")
        note([f"{files} beside bundles left out: not the signature that the name promises"], quiet=quiet)
    text = f"{quote_path(out)}: {counted(summary.offered, 'release')} offered{refused}; {done}"
    answer(text, {"site": str(out), **asdict(summary)}, as_json=as_json, quiet=quiet)


@click.command()
@click.argument("site", type=FOLDER)
@option(
    "--port",
    applies=ALWAYS,
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="0 for any that is free.",
)
@quiet_option
def serve(site: Path, port: int, quiet: bool) -> None:
    """Preview a site in a browser on this machine, and on no other, until Ctrl-C.

    \b
    Example:
      dp-bundle serve site
    """
    from dp_bundle.catalog.site import serve_site

    with serve_site(site, port) as server:
        where = f"http://127.0.0.1:{server.server_port}/"
        answer(f"{quote_path(site)} is at {where} for this machine alone; Ctrl-C ends it", quiet=quiet)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
