"""The commands of dp-bundle about keys: make and export one's own, and trust those of others."""

import os
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import quote_name, quote_path
from dp_bundle.cli.console import (
    ALWAYS,
    NewPath,
    Where,
    Without,
    answer,
    answer_options,
    json_option,
    note,
    option,
)
from dp_bundle.files.new_files import write_whole
from dp_bundle.trust.judging import (
    MOST_OF_A_STATEMENT,
    Revocation,
    Rotation,
    Statement,
    TrustedKey,
    has_passed,
    sign_statement,
    today,
)
from dp_bundle.trust.signing import PublicKey, minisign_public_key, public_key_of
from dp_bundle.trust.store import (
    DEFAULT_KEY,
    TrustStore,
    accept_statement,
    derived_public_key,
    key_names,
    load_key,
    load_public_key,
    new_key_pair,
    passphrase_given,
    private_key_path,
    public_key_path,
)

_LOCKED = "locked: not compared with its private key, as DPGRAPH_PASSPHRASE does not open it"
DAY = click.DateTime(["%Y-%m-%d"])
_KEY = Where("KEY is no statement")


@click.group()
def keys() -> None:
    """Make, list and export this user's signing keys."""


@keys.command("new")
@click.argument("name", default=DEFAULT_KEY)
@option("--passphrase", applies=ALWAYS, is_flag=True, help="Ask for a passphrase that protects the key.")
@answer_options
def keys_new(name: str, passphrase: bool, as_json: bool, quiet: bool) -> None:
    """Make a key pair called NAME (publisher by default), readable by you alone.

    \b
    Example:
      dp-bundle keys new --passphrase
    """
    private_key_path(name)  # refuse a bad name before asking for a passphrase
    secret = passphrase_given()
    if passphrase:  # asked for twice, and not shown; without a terminal, which would show it, two lines are read
        secret = str(click.prompt("Passphrase", hide_input=_has_terminal(), confirmation_prompt=True))
    public = new_key_pair(name, secret)
    text = f"made {private_key_path(name)}\ngive researchers {public_key_path(name)}, or announce its fingerprint:\n"
    document = {"fingerprint": public.fingerprint, "public_key": str(public_key_path(name))}
    answer(text + f"  {public.fingerprint}", document, as_json=as_json, quiet=quiet)


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
    """List this user's key pairs and their fingerprints, each compared with the private key unless that is locked."""
    pairs = [(name, load_public_key(name).fingerprint, derived_public_key(name) is not None) for name in key_names()]
    text = (
        "\n".join(f"{name}  {fingerprint}" + ("" if known else f"  ({_LOCKED})") for name, fingerprint, known in pairs)
        or "no keys yet: make one with dp-bundle keys new"
    )
    document = [{"name": name, "fingerprint": fingerprint, "compared": known} for name, fingerprint, known in pairs]
    answer(text, document, as_json=as_json)


@keys.command("export")
@click.argument("key", default=DEFAULT_KEY)
@option("--format", "form", applies=ALWAYS, type=click.Choice(["pem", "minisign"]), default="pem", show_default=True)
def keys_export(key: str, form: str) -> None:
    """Print a public key: of your key pair KEY (publisher by default), a publisher's .pub file, or a fingerprint.

    \b
    Example:
      dp-bundle keys export --format minisign > minisign.pub
      minisign -V -p minisign.pub -m wine.bundle.tar
    """
    public = _own_or_given(key)
    content = minisign_public_key(public) if form == "minisign" else public.to_pem()
    answer(content.decode().rstrip("\n"))


@keys.command("rotate")
@click.argument("old")
@click.argument("new")
@option(
    "--dataset", "datasets", applies=ALWAYS, multiple=True, help="A dataset that the new key may sign; all by default."
)
@option(
    "--expires", applies=ALWAYS, type=DAY, help="The last day on which readers accept it, in UTC; in a year by default."
)
@option("--out", applies=ALWAYS, type=NewPath(), help="The file; NEW.rotation.json in this folder by default.")
@answer_options
def keys_rotate(
    old: str,
    new: str,
    datasets: tuple[str, ...],
    expires: datetime | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Name your key NEW as the successor of your key OLD, in a statement that both sign, for readers.

    \b
    Example:
      dp-bundle keys new office-2027
      dp-bundle keys rotate publisher office-2027
    """
    private = [load_key(old), load_key(new)]
    former, successor = (public_key_of(key).fingerprint for key in private)
    if former == successor:
        raise ParameterError("NEW", "another key than OLD: make one with dp-bundle keys new", new)
    last = _day(expires) or str(today() + timedelta(days=365))
    rotation = Rotation(former, successor, sorted(set(datasets)) or None, str(today()), last)
    target = out or Path(f"{Path(new).stem}.rotation.json")
    _issue(rotation, private, target, as_json=as_json, quiet=quiet)


@keys.command("revoke")
@click.argument("key")
@option("--by", applies=ALWAYS, help="Your key that signs it, a successor of KEY; KEY itself by default.")
@option("--since", applies=ALWAYS, type=DAY, help="The day on which the key got out of hand, in UTC; today by default.")
@option(
    "--from", "first", applies=ALWAYS, multiple=True, metavar="DATASET=N", help="The first release not to trust at all."
)
@option("--out", applies=ALWAYS, type=NewPath(), help="The file; KEY.revocation.json in this folder by default.")
@answer_options
def keys_revoke(
    key: str,
    by: str | None,
    since: datetime | None,
    first: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Take back KEY, one of yours or a fingerprint, in a statement for readers.

    Readers who accept it refuse what the key signed, but for releases that they verified before.

    \b
    Example:
      dp-bundle keys revoke publisher --by office-2027 --since 2026-11-01 --from wine=5
    """
    public = _own_or_given(key)
    if since is not None and since.date() > today():
        raise ParameterError("--since", "today or an earlier day, in UTC", _day(since))
    releases = {}
    for entry in first:
        dataset, _, number = entry.rpartition("=")
        if not dataset or not number.isascii() or not number.isdigit() or int(number) < 1:
            raise ParameterError("--from", "DATASET=N with the number of a release, such as wine=5", entry)
        releases[dataset] = int(number)
    revocation = Revocation(public.fingerprint, _day(since) or str(today()), str(today()), releases)
    target = out or Path(f"{Path(key).stem}.revocation.json")
    _issue(revocation, [load_key(by or key)], target, as_json=as_json, quiet=quiet)


def _own_or_given(key: str) -> PublicKey:
    """Return a public key, with a note if it is of an own pair whose private key is locked."""
    if key not in key_names():
        return _read_key(key, named="the name of a key of yours, ")
    public = load_public_key(key)
    if derived_public_key(key) is None:
        note([f"the key {key} is {_LOCKED}: {public.fingerprint} is what {public_key_path(key)} says"])
    return public


def _issue(
    statement: Statement, private: Sequence[Ed25519PrivateKey], path: Path, *, as_json: bool, quiet: bool
) -> None:
    """Sign a statement about a key, follow it here, and write it to a new file."""
    if os.path.lexists(path):  # refused before anything is decided here
        raise DpGraphError(f"{quote_path(path)} is there already: give another --out")
    if not path.parent.is_dir():
        raise DpGraphError(f"{quote_path(path)} cannot be written: there is no folder {quote_path(path.parent)}")
    content = sign_statement(statement, *private)
    said = accept_statement(TrustStore(), content)
    try:
        write_whole(path, content, replace=False)
    except OSError as error:
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror}") from error
    text = f"wrote {quote_path(path)}: readers accept it with dp-bundle trust {quote_path(path)}\nhere, {said}"
    answer(text, {"statement": str(path)}, as_json=as_json, quiet=quiet)


def _day(moment: datetime | None) -> str | None:
    return None if moment is None else str(moment.date())


@click.command()
@click.argument("key", required=False)
@option(
    "--name", applies=[Without("remove"), _KEY], help="Your name for this publisher; the key file's name by default."
)
@option("--remove", applies=[_KEY], is_flag=True, help="Stop trusting the key.")
@option("--until", applies=[Without("remove"), _KEY], type=DAY, help="The last day of this decision, in UTC.")
@answer_options
def trust(key: str | None, name: str | None, remove: bool, until: datetime | None, as_json: bool, quiet: bool) -> None:
    """Trust KEY, a publisher's .pub file or fingerprint, from now on; without KEY, list whom you trust.

    KEY may also be a statement that dp-bundle keys rotate or revoke wrote: it is checked, and followed. With --remove,
    KEY may also be your name for the publisher.

    \b
    Example:
      dp-bundle trust publisher.pub --name "Statistics office"
      dp-bundle trust office-2027.rotation.json
      dp-bundle trust "Statistics office" --remove
    """
    store, last = TrustStore(), _day(until)
    entries = store.keys()
    if has_passed(last):
        note([f"{last} is over, so that this decision has ended already"], quiet=quiet)
    document: Any
    is_plain = not (remove or name is not None or until is not None)
    if key is None:
        if not is_plain:
            raise ParameterError("KEY", "given with --name, --until and --remove")
        document = [{"fingerprint": entry.key.fingerprint, "name": entry.name} for entry in entries]
        answer("\n".join(_listed(store)) or "no publisher is trusted yet", document, as_json=as_json)
        return
    if (content := _statement_in(key)) is not None:
        if not is_plain:
            raise ParameterError("KEY", "a key with --name, --until and --remove: a statement has its own")
        answer(accept_statement(store, content), {"accepted": key}, as_json=as_json, quiet=quiet)
        return
    listed_name = "a name that dp-bundle trust lists, " if remove else ""
    public = (_trusted_as(key, entries) if remove else None) or _read_key(key, named=listed_name)
    if remove:
        text = "no longer trusted" if store.remove(public) else "was not trusted"
    else:
        before = next((entry for entry in entries if entry.key == public), None)
        chosen = name or (before.name if before else key if key == public.fingerprint else Path(key).stem)
        store.keep(TrustedKey(public, chosen, until=last, predecessors=before.predecessors if before else ()))
        from_now = "" if has_passed(last) else " from now on"
        text = f"is trusted{from_now}, as {quote_name(chosen)}" + (f", until {last}" if last else "")
    document = {"fingerprint": public.fingerprint, "trusted": not remove}
    answer(f"{public.fingerprint} {text}", document, as_json=as_json, quiet=quiet)


def _listed(store: TrustStore) -> Iterator[str]:
    """Yield a line for each key that is trusted, with what limits that."""
    for entry in store.keys():  # noqa: SIM118  no dict
        until = "" if entry.until is None else f"  until {entry.until}"
        scope = "" if entry.datasets is None else f"  only for {', '.join(map(quote_name, entry.datasets))}"
        revoked = store.revocation(entry.key)
        void = "" if revoked is None else f"  REVOKED, with effect since {revoked.since}"
        yield f"{entry.key.fingerprint}  {quote_name(entry.name)}{until}{scope}{void}"


def _statement_in(key: str) -> bytes | None:
    """Return the content of a file that is no key and begins like a signed envelope, up to a little over its limit."""
    if not Path(key).is_file():
        return None
    with Path(key).open("rb") as file:
        content = file.read(MOST_OF_A_STATEMENT + 1)
    return content if content.startswith(b"{") else None


def _trusted_as(name: str, entries: Sequence[TrustedKey]) -> PublicKey | None:
    """Return the key that is trusted under a name, or None.

    Raises
    ------
    ParameterError
        Several keys are trusted under that name.
    """
    named = [entry.key for entry in entries if entry.name == name]
    if len(named) > 1:
        listed = ", ".join(key.fingerprint for key in named)
        raise ParameterError("KEY", f"one of the fingerprints trusted as {quote_name(name)}: {listed}")
    return named[0] if named else None


def _read_key(key: str, *, named: str) -> PublicKey:
    if key.startswith("ed25519:"):
        return PublicKey.from_fingerprint(key)
    path = Path(key)
    if path.suffix == ".pub" and not path.exists():
        raise ParameterError("KEY", "a file that exists", key)
    if not path.is_file() or path.stat().st_size > 10_000:
        raise ParameterError("KEY", f"{named}a publisher's .pub file, or a fingerprint that begins with ed25519:", key)
    return PublicKey.from_pem(path.read_bytes())
