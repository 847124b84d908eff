"""dp-bundle: inspect and verify bundles, lay them out for portals, keep keys, decide whom to trust.

Each command imports its libraries when it runs, so help appears at once.
"""

import contextlib
import json
from dataclasses import asdict
from pathlib import Path

import click

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import counted, quote_name, quote_path
from dp_bundle.catalog.names import FORMS, PORTALS
from dp_bundle.cli.console import (
    ALWAYS,
    BundlePath,
    NewPath,
    answer,
    answer_options,
    json_option,
    note,
    opened,
    option,
    quiet_option,
    reader_options,
    run,
    step,
    version_option,
)
from dp_bundle.cli.keys import keys, trust
from dp_bundle.files.places import RemotePath
from dp_bundle.trust.store import DEFAULT_KEY, TrustStore, load_key, own_key_name

_MANY_ROWS = 10**8  # that are drawn for nobody who did not say how many

BUNDLE, LOCAL_BUNDLE = BundlePath(), BundlePath(remote=False)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=LOCAL_BUNDLE)
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
    from dp_bundle.catalog.staging import describe_as
    from dp_bundle.describe.subject import licence_gap
    from dp_bundle.files.new_files import whole_file

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
@click.argument("file", type=LOCAL_BUNDLE)
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
    from dp_bundle.catalog.staging import stage_bundle
    from dp_bundle.describe.subject import Subject

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
@option(
    "--check",
    applies=ALWAYS,
    is_flag=True,
    help="Check the finished site, too: links, checksums, feed, sitemap and catalog; exit 1 if anything is wrong.",
)
@answer_options
def catalog(
    folder: Path, out: Path, title: str, address: str, any_signer: bool, check: bool, as_json: bool, quiet: bool
) -> None:
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
    if summary.withdrawn:
        done = f"{counted(summary.withdrawn, 'release')} withdrawn; {done}"
    if summary.left_out:
        files = counted(summary.left_out, "file")
        note([f"{files} beside bundles left out: not the signature that the name promises"], quiet=quiet)
    if check:
        from dp_bundle.catalog.site import check_site

        step("checking the site", quiet=quiet)
        if faults := check_site(out, address):
            raise DpGraphError("; ".join([*faults[:10], *([f"and {len(faults) - 10} more"] if faults[10:] else [])]))
        done += "; links, checksums and lists are as they should be"
    text = f"{quote_path(out)}: {counted(summary.offered, 'release')} offered{refused}; {done}"
    answer(text, {"site": str(out), **asdict(summary)}, as_json=as_json, quiet=quiet)


@click.command()
@click.argument("file", type=LOCAL_BUNDLE)
@option("--why", applies=ALWAYS, required=True, help="The reason, in a sentence for the public.")
@answer_options
def withdraw(file: Path, why: str, as_json: bool, quiet: bool) -> None:
    """Say that a bundle is no longer offered: its page in a site then tells when and why, and what replaces it.

    A note is written beside the bundle. The bundle stays, and may be deleted; without the note, it is offered again.

    \b
    Example:
      dp-bundle withdraw bundles/wine.bundle.tar --why "The column ash was in the wrong unit."
    """
    from dp_bundle.catalog.making import withdraw as write_note
    from dp_bundle.catalog.site import LONGEST_REASON

    if not 0 < len(why.strip()) <= LONGEST_REASON:
        raise ParameterError("--why", f"a sentence that says why, of at most {LONGEST_REASON:,} characters")
    note_file = write_note(file, why.strip())
    text = f"wrote {quote_path(note_file)}: sites that dp-bundle catalog makes from now on no longer offer it"
    answer(text, {"note": str(note_file)}, as_json=as_json, quiet=quiet)


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


@click.group(
    commands=[catalog, describe, keys, serve, stage, trust, withdraw],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@version_option
def cli() -> None:
    """Inspect and verify bundles of noisy data, and decide whom to trust.

    A bundle is a tar, or the folder that dp-bundle unpack makes of it; commands take either. It may also be at https://
    s3://, gs:// or az://; what writes beside a bundle needs it here.

    \b
    Example:
      dp-bundle verify wine.bundle.tar
    """


@cli.command()
@click.argument("file", type=BUNDLE)
@option("--allow-older", applies=ALWAYS, is_flag=True, help="Accept a release older than one already seen.")
@option(
    "--any-signer",
    applies=ALWAYS,
    is_flag=True,
    help="Check only that every byte is as it was signed, whoever signed it.",
)
@option(
    "--chain",
    applies=ALWAYS,
    type=FOLDER,
    help="A folder with all releases of the dataset, none of which may be missing.",
)
@answer_options
def verify(
    file: Path | RemotePath, allow_older: bool, any_signer: bool, chain: Path | None, as_json: bool, quiet: bool
) -> None:
    """Verify the signer, the signature and every byte of a bundle; exit with 3 if it cannot be trusted.

    At an address, every byte is read there, and no copy of an earlier download.

    With --chain, all releases of its dataset in a folder are verified, too, and that each follows the one before it.

    \b
    Example:
      dp-bundle verify wine.bundle.tar
      dp-bundle verify wine.bundle.tar --chain all-releases
    """
    from dp_bundle.bundle.inspection import bundle_facts, check_chain
    from dp_bundle.describe.sentences import describe_several

    with opened(file, any_signer=any_signer, allow_older=allow_older, anew=True) as bundle:
        release, fingerprint = bundle.release, bundle.signer.key.fingerprint
        what = f"{quote_path(file)}: release {release.lineage.number} of {quote_name(release.dataset.name)}"
        text = f"{what}, signed by {quote_name(bundle.signer.name)} ({fingerprint}); every byte is as it was signed"
        if any_signer:
            text = f"{what}: every byte is as {fingerprint} signed it; whether you trust that signer was not checked"
        note([*bundle.notes, *describe_several(release.guarantee)], quiet=quiet)
        document = {"verified": True, "signer_checked": not any_signer, **bundle_facts(bundle)}
        if chain is not None:
            step("verifying the chain", quiet=quiet)
            found = check_chain(bundle, chain, TrustStore(), any_signer=any_signer)
            if found.others:
                note([f"{counted(found.others, 'file')} of other datasets left out"], quiet=quiet)
            lines = [f"  {link.number}  {link.manifest_sha256}  {quote_path(link.path)}" for link in found.releases]
            text = "\n".join([text, f"its chain is unbroken, {counted(len(lines), 'release')}:", *lines])
            document["chain"] = [
                {"number": link.number, "manifest_sha256": link.manifest_sha256, "file": str(link.path)}
                for link in found.releases
            ]
        answer(text, document, as_json=as_json, quiet=quiet)


@cli.command()
@click.argument("file", type=BUNDLE)
@json_option
def inspect(file: Path | RemotePath, as_json: bool) -> None:
    """Show what a bundle holds and promises, whoever signed it, if its bytes are as they were signed.

    \b
    Example:
      dp-bundle inspect wine.bundle.tar
    """
    from dp_bundle.bundle.inspection import bundle_facts, describe_bundle, describe_chain

    store = TrustStore()
    with opened(file) as bundle:
        note(bundle.describe_copies())
        entries = store.keys()
        name = next((entry.name for entry in entries if entry.key == bundle.signer.key), None)
        chain, facts = describe_chain(bundle, store)
        document = {
            "trusted": name is not None,
            **bundle_facts(bundle),
            "chain": facts,
            "release": bundle.release.model_dump(mode="json"),
        }
        answer(describe_bundle(bundle, name, chain), document, as_json=as_json)


@cli.command()
@click.argument("file", type=BUNDLE)
@option("--out", applies=ALWAYS, type=NewPath(), help="The CSV file; NAME.csv in this folder by default.")
@option(
    "--combined",
    applies=ALWAYS,
    is_flag=True,
    help="Write the correlations without the noise's part, and their errors, in place of the noisy numbers.",
)
@reader_options
@quiet_option
def export(
    file: Path | RemotePath, out: Path | None, combined: bool, allow_older: bool, any_signer: bool, quiet: bool
) -> None:
    """Write the noisy numbers of a verified bundle as CSV.

    With --combined, the two rounds of second moments, or the rows, become one matrix of correlations without the
    noise's part. It is in NAME-correlations.csv, with NAME-standard-errors.csv. NAME-combined.json has the number of
    rows that they are worth.

    Names that a spreadsheet would take for formulas, because they begin with = + - or @, get an apostrophe in front.

    \b
    Example:
      dp-bundle export wine.bundle.tar --out wine.csv
      dp-bundle export wine.bundle.tar --combined
    """
    from dp_bundle.catalog.staging import describe_worth, export_combined, export_csv
    from dp_bundle.describe.sentences import describe_size

    with opened(file, any_signer=any_signer, allow_older=allow_older) as bundle:
        target = out or Path(f"{bundle.tar_path.name.removesuffix('.tar').removesuffix('.bundle')}.csv")
        note([*bundle.notes, *bundle.describe_copies()], quiet=quiet)
        step("writing numbers", quiet=quiet)
        if combined:
            files, found = export_combined(bundle, target)
            said = f"without the noise's part: {describe_worth(found)}"
        else:
            files, said = export_csv(bundle, target), f"noise included: {describe_size(bundle.release)}"
        answer(f"wrote {', '.join(map(quote_path, files))}, {said}", quiet=quiet)


@cli.command()
@click.argument("file", type=BUNDLE)
@option("--rows", applies=ALWAYS, type=click.IntRange(1, 10**12), help="How many rows; as many as the release has.")
@option("--seed", applies=ALWAYS, type=click.IntRange(0), default=0, show_default=True, help="What they follow from.")
@option(
    "--out",
    applies=ALWAYS,
    type=NewPath(),
    help="The file, .parquet or .csv; NAME.synthetic.parquet in this folder by default.",
)
@reader_options
@answer_options
def synthesize(
    file: Path | RemotePath,
    rows: int | None,
    seed: int,
    out: Path | None,
    allow_older: bool,
    any_signer: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Draw synthetic rows from a verified bundle, at no further cost of privacy.

    Rows keep the distribution of each column and the correlations of all pairs, and nothing else: NAME.synthetic.json
    says how well, as measured on them. Most releases of second moments have histograms; from any other, numbers are
    taken for normal. The same seed gives the same rows, and is no secret.

    \b
    Example:
      dp-bundle synthesize wine.bundle.tar --rows 10000 --seed 1 --out wine.synthetic.csv
    """
    from dp_bundle.synthetic.files import describe_kept, side_path, write_synthetic

    with opened(file, any_signer=any_signer, allow_older=allow_older) as bundle:
        name = bundle.tar_path.name.removesuffix(".tar").removesuffix(".bundle")
        target = out or Path(f"{name}.synthetic.parquet")
        note([*bundle.notes, *bundle.describe_copies()], quiet=quiet)
        n_rows = rows or bundle.release.n_rows
        if rows is None and n_rows > _MANY_ROWS:
            raise ParameterError("--rows", f"given, as the release states {n_rows:,} rows")
        step("drawing rows", quiet=quiet)
        document = write_synthetic(bundle, target, n_rows, seed)
    said = f"wrote {quote_path(target)}, {counted(document['n_rows'], 'synthetic row')}: {describe_kept(document)}"
    answer(f"{said}; see {quote_path(side_path(target))}", document, as_json=as_json, quiet=quiet)


@cli.command()
@click.argument("folder", type=BundlePath(file_okay=False))
@option("--out", applies=ALWAYS, type=NewPath(), help="The new tar; FOLDER.tar in this folder by default.")
@answer_options
def pack(folder: Path | RemotePath, out: Path | None, as_json: bool, quiet: bool) -> None:
    """Pack the folder of a bundle into its one tar; every byte is verified first, and the signer is not.

    No key is needed: the signature is the same in both forms.

    \b
    Example:
      dp-bundle pack wine.bundle
    """
    _convert(folder, out, as_json=as_json, quiet=quiet, to_folder=False)


@cli.command()
@click.argument("file", type=BundlePath(dir_okay=False))
@option(
    "--out",
    applies=ALWAYS,
    type=NewPath(folder=True, remote=True),
    help="The new folder, or the URI of one; FILE without .tar in this folder by default.",
)
@answer_options
def unpack(file: Path | RemotePath, out: Path | RemotePath | None, as_json: bool, quiet: bool) -> None:
    """Unpack a bundle into a new folder; every byte is verified first, and the signer is not.

    The folder is a bundle itself, and dp-bundle pack makes the same tar of it again. At a URI, nothing is replaced,
    and the manifest comes last; what was interrupted goes on when it is repeated.

    \b
    Example:
      dp-bundle unpack wine.bundle.tar
      dp-bundle unpack wine.bundle.tar --out s3://open-data/wine
    """
    _convert(file, out, as_json=as_json, quiet=quiet, to_folder=True)


def _convert(
    source: Path | RemotePath, out: Path | RemotePath | None, *, as_json: bool, quiet: bool, to_folder: bool
) -> None:
    from dp_bundle.bundle.inspection import bundle_facts
    from dp_bundle.bundle.packing import pack_bundle, unpack_bundle

    with opened(source) as bundle:
        tar, facts = bundle.tar_path, bundle_facts(bundle)
        note(bundle.describe_copies(), quiet=quiet)
        target = out or Path(_folder_name(tar.name) if to_folder else tar.name)
        step("writing the bundle", quiet=quiet)
        if isinstance(target, RemotePath) or to_folder:
            unpack_bundle(bundle, target)
        else:
            pack_bundle(bundle, target)
    signed = f"every byte is as {facts['signer']} signed it; whether you trust that signer was not checked"
    document = {"written": str(target), "signer_checked": False, **facts}
    answer(f"wrote {quote_path(target)}: {signed}", document, as_json=as_json, quiet=quiet)


def _folder_name(tar: str) -> str:
    """Return the name of a tar's folder, which is never that of the tar itself."""
    return tar.removesuffix(".tar") if tar.removesuffix(".tar") not in ("", tar) else f"{tar}.folder"


@cli.command("minisign")
@click.argument("file", type=LOCAL_BUNDLE)
@option("--key", applies=ALWAYS, help="The key that signed the bundle, by name or file; one of yours by default.")
@answer_options
def minisign_command(file: Path, key: str | None, as_json: bool, quiet: bool) -> None:
    """Write FILE.minisig, by which the stock minisign verifies a bundle that you signed.

    dp-publish writes it with every release; this makes the same one again, for whoever holds the key.

    \b
    Example:
      dp-bundle minisign wine.bundle.tar
    """
    from dp_bundle.bundle.packing import minisig_path, minisign_bundle, write_minisig

    with opened(file) as bundle:
        chosen = load_key(key if key not in (None, DEFAULT_KEY) else own_key_name(bundle.signer.key))
        step("signing every byte", quiet=quiet)
        signed = minisign_bundle(bundle, chosen)
        target = minisig_path(bundle.local_tar_path())
    write_minisig(target, signed)
    answer(f"wrote {quote_path(target)}", {"minisig": str(target)}, as_json=as_json, quiet=quiet)


@cli.command()
def schema() -> None:
    """Print the JSON Schema of the signed manifest, for portals."""
    from dp_bundle.manifest.release import manifest_schema

    click.echo(json.dumps(manifest_schema(), indent=1))


def main() -> None:
    """Run dp-bundle."""
    run(cli)
