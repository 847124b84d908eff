"""dp-bundle: inspect and verify bundles, keep keys, decide whom to trust.

Each command imports its libraries when it runs, so help appears at once.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from dp_bundle.console import NewPath, answer, json_option, quiet_option, run, tell, version_option
from dp_bundle.errors import ParameterError
from dp_bundle.quoting import quote_name, quote_path
from dp_bundle.trust import (
    DEFAULT_KEY,
    PublicKey,
    TrustStore,
    key_names,
    load_public_key,
    new_key_pair,
    passphrase_given,
    private_key_path,
    public_key_path,
)

BUNDLE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def cli() -> None:
    """Inspect and verify bundles of noisy data, and decide whom to trust.

    \b
    Example:
      dp-bundle verify wine.bundle.tar
    """


@cli.command()
@click.argument("file", type=BUNDLE)
@click.option("--allow-older", is_flag=True, help="Accept a release older than one already seen.")
@click.option("--any-signer", is_flag=True, help="Check only that every byte is as it was signed, whoever signed it.")
@json_option
@quiet_option
def verify(file: Path, allow_older: bool, any_signer: bool, as_json: bool, quiet: bool) -> None:
    """Verify the signer, the signature and every byte of a bundle; exit with 3 if it cannot be trusted.

    \b
    Example:
      dp-bundle verify wine.bundle.tar
    """
    from dp_bundle.bundle import bundle_facts, open_bundle
    from dp_bundle.trust import UnsafeTrustAnyone

    with open_bundle(file, UnsafeTrustAnyone() if any_signer else None, allow_older=allow_older) as bundle:
        release, fingerprint = bundle.release, bundle.signer.key.fingerprint
        what = f"{quote_path(file)}: release {release.lineage.number} of {quote_name(release.dataset.name)}"
        text = f"{what}, signed by {quote_name(bundle.signer.name)} ({fingerprint}); every byte is as it was signed"
        if any_signer:
            text = f"{what}: every byte is as {fingerprint} signed it; whether you trust that signer was not checked"
        for note in bundle.notes:
            tell(f"note: {note}", quiet=quiet)
        document = {"verified": True, "signer_checked": not any_signer, **bundle_facts(bundle)}
        answer(text, document, as_json=as_json, quiet=quiet)


@cli.command()
@click.argument("file", type=BUNDLE)
@json_option
def inspect(file: Path, as_json: bool) -> None:
    """Show what a bundle holds and promises, whoever signed it, if its bytes are as they were signed.

    \b
    Example:
      dp-bundle inspect wine.bundle.tar
    """
    from dp_bundle.bundle import bundle_facts, describe_bundle, open_bundle
    from dp_bundle.trust import UnsafeTrustAnyone

    with open_bundle(file, UnsafeTrustAnyone()) as bundle:
        entries = TrustStore().keys()
        trusted = {entry.key: entry.name for entry in entries}
        name = trusted.get(bundle.signer.key)
        document = {
            "trusted": name is not None,
            **bundle_facts(bundle),
            "release": bundle.release.model_dump(mode="json"),
        }
        answer(describe_bundle(bundle, name), document, as_json=as_json)


@cli.command()
@click.argument("file", type=BUNDLE)
@click.option("--out", type=NewPath(), help="The CSV file; NAME.csv in this folder by default.")
@click.option("--allow-older", is_flag=True, help="Accept a release older than one already seen.")
@click.option("--any-signer", is_flag=True, help="Accept any signer; every byte must be as it was signed.")
@quiet_option
def export(file: Path, out: Path | None, allow_older: bool, any_signer: bool, quiet: bool) -> None:
    """Write the noisy numbers of a verified bundle as CSV.

    Names that a spreadsheet would take for formulas, because they begin with = + - or @, get an apostrophe in front.

    \b
    Example:
      dp-bundle export wine.bundle.tar --out wine.csv
    """
    from dp_bundle.bundle import export_csv, open_bundle
    from dp_bundle.describe import describe_size
    from dp_bundle.trust import UnsafeTrustAnyone

    target = out or Path(f"{file.name.removesuffix('.tar').removesuffix('.bundle')}.csv")
    with open_bundle(file, UnsafeTrustAnyone() if any_signer else None, allow_older=allow_older) as bundle:
        for note in bundle.notes:
            tell(f"note: {note}", quiet=quiet)
        written = ", ".join(map(quote_path, export_csv(bundle, target)))
        answer(
            f"wrote {written}, noise included: {describe_size(bundle.release)}",
            None,
            as_json=False,
            quiet=quiet,
        )


@cli.group()
def keys() -> None:
    """Make and list this user's signing keys."""


@keys.command("new")
@click.argument("name", default=DEFAULT_KEY)
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase that protects the key.")
@json_option
@quiet_option
def keys_new(name: str, passphrase: bool, as_json: bool, quiet: bool) -> None:
    """Make a key pair called NAME (publisher by default), readable by you alone.

    \b
    Example:
      dp-bundle keys new --passphrase
    """
    private_key_path(name)  # refuse a bad name before asking for a passphrase
    secret = passphrase_given()
    if passphrase:
        secret = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True)
    public = new_key_pair(name, secret)
    text = f"made {private_key_path(name)}\ngive researchers {public_key_path(name)}, or announce its fingerprint:\n"
    document = {"fingerprint": public.fingerprint, "public_key": str(public_key_path(name))}
    answer(text + f"  {public.fingerprint}", document, as_json=as_json, quiet=quiet)


@keys.command("list")
@json_option
def keys_list(as_json: bool) -> None:
    """List this user's key pairs and their fingerprints."""
    pairs = [(name, load_public_key(name).fingerprint) for name in key_names()]
    text = (
        "\n".join(f"{name}  {fingerprint}" for name, fingerprint in pairs)
        or "no keys yet: make one with dp-bundle keys new"
    )
    answer(text, [{"name": name, "fingerprint": fingerprint} for name, fingerprint in pairs], as_json=as_json)


@cli.command()
@click.argument("key", required=False)
@click.option("--name", help="Your name for this publisher; the key file's name by default.")
@click.option("--remove", is_flag=True, help="Stop trusting the key.")
@json_option
@quiet_option
def trust(key: str | None, name: str | None, remove: bool, as_json: bool, quiet: bool) -> None:
    """Trust KEY, a publisher's .pub file or fingerprint, from now on; without KEY, list whom you trust.

    \b
    Example:
      dp-bundle trust publisher.pub --name "Statistics office"
    """
    store = TrustStore()
    if key is None:
        entries = store.keys()
        listed = "\n".join(f"{entry.key.fingerprint}  {quote_name(entry.name)}" for entry in entries)
        text = listed or "no publisher is trusted yet"
        answer(text, [{"fingerprint": entry.key.fingerprint, "name": entry.name} for entry in entries], as_json=as_json)
        return
    public = _read_key(key)
    document = {"fingerprint": public.fingerprint, "trusted": not remove}
    if remove:
        text = "no longer trusted" if store.remove(public) else "was not trusted"
    else:
        entries = store.keys()
        known = next((entry.name for entry in entries if entry.key == public), None)
        chosen = name or known or (key if key == public.fingerprint else Path(key).stem)
        store.add(public, chosen)
        text = f"is trusted from now on, as {quote_name(chosen)}"
    answer(f"{public.fingerprint} {text}", document, as_json=as_json, quiet=quiet)


@cli.command()
def schema() -> None:
    """Print the JSON Schema of the signed manifest, for portals."""
    from dp_bundle.manifest import Statement

    click.echo(json.dumps(Statement.model_json_schema(by_alias=True), indent=1))


def _read_key(key: str) -> PublicKey:
    if key.startswith("ed25519:"):
        return PublicKey.from_fingerprint(key)
    path = Path(key)
    if not path.is_file() or path.stat().st_size > 10_000:
        raise ParameterError("KEY", "a publisher's .pub file, or a fingerprint that begins with ed25519:", key)
    return PublicKey.from_pem(path.read_bytes())


def main() -> None:
    """Run dp-bundle."""
    run(cli)
