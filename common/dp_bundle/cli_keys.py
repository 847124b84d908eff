"""The commands of dp-bundle about keys: make and export one's own, and trust those of others."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from dp_bundle.console import answer, json_option, quiet_option
from dp_bundle.errors import ParameterError
from dp_bundle.quoting import quote_name
from dp_bundle.trust import (
    DEFAULT_KEY,
    PublicKey,
    TrustStore,
    key_names,
    load_public_key,
    minisign_public_key,
    new_key_pair,
    passphrase_given,
    private_key_path,
    public_key_path,
)


@click.group()
def keys() -> None:
    """Make, list and export this user's signing keys."""


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
        secret = _ask_passphrase()
    public = new_key_pair(name, secret)
    text = f"made {private_key_path(name)}\ngive researchers {public_key_path(name)}, or announce its fingerprint:\n"
    document = {"fingerprint": public.fingerprint, "public_key": str(public_key_path(name))}
    answer(text + f"  {public.fingerprint}", document, as_json=as_json, quiet=quiet)


def _ask_passphrase() -> str:
    """Ask twice for a passphrase, which is not shown; without a terminal, which would show it, two lines are read."""
    return str(click.prompt("Passphrase", hide_input=_has_terminal(), confirmation_prompt=True))


def _has_terminal() -> bool:
    """Return whether `getpass` will find a terminal to ask on."""
    if sys.platform == "win32":
        return True
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return sys.stdin is not None and sys.stdin.isatty()
    return True


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


@keys.command("export")
@click.argument("key", default=DEFAULT_KEY)
@click.option("--format", "form", type=click.Choice(["pem", "minisign"]), default="pem", show_default=True)
def keys_export(key: str, form: str) -> None:
    """Print a public key: of your key pair KEY (publisher by default), a publisher's .pub file, or a fingerprint.

    \b
    Example:
      dp-bundle keys export --format minisign > minisign.pub
      minisign -V -p minisign.pub -m wine.bundle.tar
    """
    public = load_public_key(key) if key in key_names() else _read_key(key)
    content = minisign_public_key(public) if form == "minisign" else public.to_pem()
    answer(content.decode().rstrip("\n"), None, as_json=False)


@click.command()
@click.argument("key", required=False)
@click.option("--name", help="Your name for this publisher; the key file's name by default.")
@click.option("--remove", is_flag=True, help="Stop trusting the key.")
@json_option
@quiet_option
def trust(key: str | None, name: str | None, remove: bool, as_json: bool, quiet: bool) -> None:
    """Trust KEY, a publisher's .pub file or fingerprint, from now on; without KEY, list whom you trust.

    With --remove, KEY may also be your name for the publisher.

    \b
    Example:
      dp-bundle trust publisher.pub --name "Statistics office"
      dp-bundle trust "Statistics office" --remove
    """
    store = TrustStore()
    if key is None:
        entries = store.keys()
        listed = "\n".join(f"{entry.key.fingerprint}  {quote_name(entry.name)}" for entry in entries)
        text = listed or "no publisher is trusted yet"
        answer(text, [{"fingerprint": entry.key.fingerprint, "name": entry.name} for entry in entries], as_json=as_json)
        return
    public = (_trusted_as(key, store) if remove else None) or _read_key(key, remove=remove)
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


def _trusted_as(name: str, store: TrustStore) -> PublicKey | None:
    """Return the key that is trusted under a name, or None.

    Raises
    ------
    ParameterError
        Several keys are trusted under that name.
    """
    entries = store.keys()
    named = [entry.key for entry in entries if entry.name == name]
    if len(named) > 1:
        listed = ", ".join(key.fingerprint for key in named)
        raise ParameterError("KEY", f"one of the fingerprints trusted as {quote_name(name)}: {listed}")
    return named[0] if named else None


def _read_key(key: str, *, remove: bool = False) -> PublicKey:
    if key.startswith("ed25519:"):
        return PublicKey.from_fingerprint(key)
    path = Path(key)
    if path.suffix == ".pub" and not path.exists():
        raise ParameterError("KEY", "a file that exists", key)
    if not path.is_file() or path.stat().st_size > 10_000:
        named = "a name that dp-bundle trust lists, " if remove else ""
        raise ParameterError("KEY", f"{named}a publisher's .pub file, or a fingerprint that begins with ed25519:", key)
    return PublicKey.from_pem(path.read_bytes())
