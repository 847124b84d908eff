"""The commands of dp-bundle that make a portal's site of a folder of bundles, and preview it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import counted, quote_path
from dp_bundle.cli.console import NewPath, answer, json_option, quiet_option, tell
from dp_bundle.cli.options import ALWAYS, option

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


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
@json_option
@quiet_option
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
    summary = make_catalog(folder, out, SiteSettings(title, address, any_signer))
    done = f"{counted(summary.written, 'file')} written, {counted(summary.removed, 'file')} removed"
    refused = f", {counted(summary.refused, 'file')} listed as not to be trusted" if summary.refused else ""
    if summary.left_out:
        files = counted(summary.left_out, "file")
        tell(f"note: {files} beside bundles left out: not the signature that the name promises", quiet=quiet)
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
    from dp_bundle.catalog.preview import serve_site

    with serve_site(site, port) as server:
        where = f"http://127.0.0.1:{server.server_port}/"
        answer(
            f"{quote_path(site)} is at {where} for this machine alone; Ctrl-C ends it", None, as_json=False, quiet=quiet
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
