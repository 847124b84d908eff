"""dp-bundle: inspect and verify bundles, keep keys, decide whom to trust.

Each command imports its libraries when it runs, so help appears at once.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import counted, quote_name, quote_path
from dp_bundle.cli.catalog import catalog, serve
from dp_bundle.cli.console import BundlePath, NewPath, answer, json_option, quiet_option, run, tell, version_option
from dp_bundle.cli.forms import pack, unpack
from dp_bundle.cli.keys import keys, trust
from dp_bundle.cli.options import ALWAYS, option
from dp_bundle.cli.portals import describe, stage
from dp_bundle.files.places import RemotePath
from dp_bundle.trust.keys import DEFAULT_KEY, load_key, own_key_name
from dp_bundle.trust.signing import public_key_of
from dp_bundle.trust.store import TrustStore

BUNDLE, LOCAL_BUNDLE = BundlePath(), BundlePath(remote=False)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group(
    commands=[catalog, describe, keys, pack, serve, stage, trust, unpack],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@version_option
def cli() -> None:
    """Inspect and verify bundles of noisy data, and decide whom to trust.

    A bundle is a tar, or the folder that dp-bundle unpack makes of it; commands take either. It may also be at https://
    or, with obstore, at s3://, gs:// or az://; what writes beside a bundle needs it here.

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
@json_option
@quiet_option
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
    from dp_bundle.bundle.chain import check_chain
    from dp_bundle.bundle.inspection import bundle_facts
    from dp_bundle.bundle.reading import open_bundle
    from dp_bundle.describe.sentences import describe_several
    from dp_bundle.trust.judging import UnsafeTrustAnyone

    with open_bundle(file, UnsafeTrustAnyone() if any_signer else None, allow_older=allow_older, anew=True) as bundle:
        release, fingerprint = bundle.release, bundle.signer.key.fingerprint
        what = f"{quote_path(file)}: release {release.lineage.number} of {quote_name(release.dataset.name)}"
        text = f"{what}, signed by {quote_name(bundle.signer.name)} ({fingerprint}); every byte is as it was signed"
        if any_signer:
            text = f"{what}: every byte is as {fingerprint} signed it; whether you trust that signer was not checked"
        for note in bundle.notes:
            tell(f"note: {note}", quiet=quiet)
        for sentence in describe_several(release.guarantee):
            tell(f"note: {sentence}", quiet=quiet)
        document = {"verified": True, "signer_checked": not any_signer, **bundle_facts(bundle)}
        if chain is not None:
            found = check_chain(bundle, chain, TrustStore(), any_signer=any_signer)
            if found.others:
                tell(f"note: {counted(found.others, 'file')} of other datasets left out", quiet=quiet)
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
    from dp_bundle.bundle.chain import describe_chain
    from dp_bundle.bundle.inspection import bundle_facts, describe_bundle, describe_copies
    from dp_bundle.bundle.reading import open_bundle
    from dp_bundle.trust.judging import UnsafeTrustAnyone

    store = TrustStore()
    with open_bundle(file, UnsafeTrustAnyone()) as bundle:
        for sentence in describe_copies(bundle):
            tell(f"note: {sentence}")
        entries = store.keys()
        chain, facts = describe_chain(bundle, store)
        trusted = {entry.key: entry.name for entry in entries}
        name = trusted.get(bundle.signer.key)
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
@option("--allow-older", applies=ALWAYS, is_flag=True, help="Accept a release older than one already seen.")
@option("--any-signer", applies=ALWAYS, is_flag=True, help="Accept any signer; every byte must be as it was signed.")
@quiet_option
def export(file: Path | RemotePath, out: Path | None, allow_older: bool, any_signer: bool, quiet: bool) -> None:
    """Write the noisy numbers of a verified bundle as CSV.

    Names that a spreadsheet would take for formulas, because they begin with = + - or @, get an apostrophe in front.

    \b
    Example:
      dp-bundle export wine.bundle.tar --out wine.csv
    """
    from dp_bundle.bundle.inspection import describe_copies
    from dp_bundle.bundle.reading import open_bundle
    from dp_bundle.describe.sentences import describe_size
    from dp_bundle.portals.export import export_csv
    from dp_bundle.trust.judging import UnsafeTrustAnyone

    with open_bundle(file, UnsafeTrustAnyone() if any_signer else None, allow_older=allow_older) as bundle:
        target = out or Path(f"{bundle.tar_path.name.removesuffix('.tar').removesuffix('.bundle')}.csv")
        for note in (*bundle.notes, *describe_copies(bundle)):
            tell(f"note: {note}", quiet=quiet)
        written = ", ".join(map(quote_path, export_csv(bundle, target)))
        answer(
            f"wrote {written}, noise included: {describe_size(bundle.release)}",
            None,
            as_json=False,
            quiet=quiet,
        )


@cli.command("minisign")
@click.argument("file", type=LOCAL_BUNDLE)
@option("--key", applies=ALWAYS, help="The key that signed the bundle, by name or file; one of yours by default.")
@json_option
@quiet_option
def minisign_command(file: Path, key: str | None, as_json: bool, quiet: bool) -> None:
    """Write FILE.minisig, by which the stock minisign verifies a bundle that you signed.

    dp-publish writes it with every release; this makes the same one again, for whoever holds the key.

    \b
    Example:
      dp-bundle minisign wine.bundle.tar
    """
    from dp_bundle.bundle.companions import minisig_path, minisign_bundle, write_minisig
    from dp_bundle.bundle.reading import open_bundle
    from dp_bundle.trust.judging import UnsafeTrustAnyone

    with open_bundle(file, UnsafeTrustAnyone()) as bundle:
        chosen = key if key not in (None, DEFAULT_KEY) else own_key_name(bundle.signer.key)
        signed = minisign_bundle(bundle, load_key(chosen))
        target = minisig_path(bundle.local_tar_path())
    write_minisig(target, signed)
    answer(f"wrote {quote_path(target)}", {"minisig": str(target)}, as_json=as_json, quiet=quiet)


@cli.command("cosign")
@click.argument("file", type=LOCAL_BUNDLE)
@option("--key", applies=ALWAYS, default=DEFAULT_KEY, show_default=True, help="Your key, by name or file.")
@json_option
@quiet_option
def cosign_command(file: Path, key: str, as_json: bool, quiet: bool) -> None:
    """Add your signature to a bundle of a signer whom you trust, in FILE.dsse.json; the bundle stays as it is.

    \b
    Example:
      dp-bundle cosign wine.bundle.tar --key office
    """
    from dp_bundle.bundle.companions import cosign
    from dp_bundle.bundle.reading import open_bundle
    from dp_bundle.trust.judging import UnsafeTrustAnyone

    store, private = TrustStore(), load_key(key)
    store.require_unrevoked(public_key_of(private))
    with open_bundle(file, UnsafeTrustAnyone()) as bundle:
        store.require(bundle.signer.key)
        if public_key_of(private) == bundle.signer.key:
            raise ParameterError("--key", "another key than the one that signed the bundle", key)
        target = cosign(bundle, private)
    answer(f"wrote {quote_path(target)}", {"signatures": str(target)}, as_json=as_json, quiet=quiet)


@cli.command()
def schema() -> None:
    """Print the JSON Schema of the signed manifest, for portals."""
    from dp_bundle.manifest.schema import manifest_schema

    click.echo(json.dumps(manifest_schema(), indent=1))


def main() -> None:
    """Run dp-bundle."""
    run(cli)
