"""The publisher's key pairs, by name, in the state folder.

The public half is written last, after the key is trusted on this machine. If it is missing, a process was killed
halfway, and the rest is made from the private half. One process at a time makes keys.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import KeyStoreError, ParameterError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.new_files import home_folder, locked, read_own, write_whole
from dp_bundle.trust.signing import (
    MOST_OF_A_KEY,
    PublicKey,
    load_private_key,
    open_private_key,
    public_key_of,
    save_private_key,
)
from dp_bundle.trust.store import TrustStore

DEFAULT_KEY = "publisher"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def private_key_path(name: str = DEFAULT_KEY) -> Path:
    """Return the path of the private key of that name."""
    if not _NAME.fullmatch(name):
        raise ParameterError("key name", "letters, digits, '.', '_' and '-', at most 64", name)
    return home_folder() / "keys" / f"{name}.key"


def public_key_path(name: str = DEFAULT_KEY) -> Path:
    """Return the path of the public key of that name: the file to hand to researchers."""
    return private_key_path(name).with_suffix(".pub")


def key_names() -> list[str]:
    """Return the names of this user's key pairs."""
    return sorted(path.stem for path in (home_folder() / "keys").glob("*.key"))


def own_key_name(public: PublicKey) -> str:
    """Return the name of this user's key pair with that public half.

    Raises
    ------
    KeyStoreError
        None of them has it.
    """
    for name in key_names():
        if load_public_key(name) == public:
            return name
    raise KeyStoreError(f"none of your keys is {public.fingerprint}, which signed it: give that key's file with --key")


def passphrase_given() -> str | None:
    """Return the passphrase in `DPGRAPH_PASSPHRASE`, which locks and opens keys, or None."""
    return os.environ.get("DPGRAPH_PASSPHRASE") or None


def load_public_key(name: str = DEFAULT_KEY) -> PublicKey:
    """Return the public key of that name; where only the private one is there, its public half is written first.

    Raises
    ------
    KeyStoreError
        Its file is unreadable, or missing and the private key is, too, or is locked; or it is not the public half of
        the private key, as far as that can be opened.
    """
    if not public_key_path(name).exists() and private_key_path(name).exists():
        with _alone():
            _complete(name, load_private_key(private_key_path(name), passphrase_given()))
    public = _read_public_key(name)
    _require_pair(name, public, derived_public_key(name))
    return public


def derived_public_key(name: str) -> PublicKey | None:
    """Return the public half of the private key of that name; None if that is not there, or cannot be opened here.

    Raises
    ------
    KeyStoreError
        Others may read or write the private key, or it is none.
    """
    path = private_key_path(name)
    if not path.exists():
        return None
    key = open_private_key(path, passphrase_given())
    return None if key is None else public_key_of(key)


def _read_public_key(name: str) -> PublicKey:
    """Return what the file of a public key says."""
    path = public_key_path(name)
    try:
        return PublicKey.from_pem(read_own(path, MOST_OF_A_KEY))
    except OSError as error:
        raise KeyStoreError(f"the public key {path} cannot be read ({error.strerror}): restore it") from error


def _require_pair(name: str, public: PublicKey, derived: PublicKey | None) -> None:
    """Refuse a public key that is not that of the private key beside it."""
    if derived is not None and derived != public:
        path = public_key_path(name)
        raise KeyStoreError(
            f"{quote_path(path)} ({public.fingerprint}) is not the public half of {quote_path(private_key_path(name))} "
            f"({derived.fingerprint}), so one of them was replaced: put back your key from a backup, or, if the second "
            f"fingerprint is the one that you announced, have the first file made anew: rm {shlex.quote(str(path))}"
        )


def new_key_pair(name: str = DEFAULT_KEY, passphrase: str | None = None) -> PublicKey:
    """Make a key pair, keep it, and trust it on this machine.

    Raises
    ------
    KeyStoreError
        There is a key of that name already.
    """
    with _alone():
        return _make(name, passphrase)


def load_key(key: str | Path = DEFAULT_KEY, passphrase: str | None = None) -> Ed25519PrivateKey:
    """Return a private key, to publish with.

    Parameters
    ----------
    key : str or Path
        The name of one of this user's keys, or the path of a file, with a slash in it. By default the key that
        `dp-publish` signs with, which is made if there is none.
    passphrase : str, optional
        The passphrase of a locked key; by default that in `DPGRAPH_PASSPHRASE`.

    Raises
    ------
    KeyStoreError
        The key cannot be read, opened or made.
    """
    if key == DEFAULT_KEY and passphrase is None:
        return signing_key()[0]
    secret = passphrase or passphrase_given()
    if "/" in str(key):
        path = Path(key)
        is_named = os.path.realpath(path.parent) == os.path.realpath(home_folder() / "keys") and path.suffix == ".key"
        return _load_pair(path.stem, secret) if is_named else load_private_key(path, secret)
    if not (path := private_key_path(str(key))).exists():
        known = ", ".join(key_names())
        others = f", or name one of these: {known}" if known else ""
        raise KeyStoreError(f"there is no key called {key}: make it with dp-bundle keys new {key}{others}")
    return _load_pair(str(key), secret)


def signing_key(name: str = DEFAULT_KEY) -> tuple[Ed25519PrivateKey, bool]:
    """Return the private key of that name, and True if it is new; what a killed process left is completed.

    A new key, and one that is locked, has the passphrase in the environment.

    Raises
    ------
    KeyStoreError
        The key cannot be read, opened or written.
    """
    path = private_key_path(name)
    with _alone():
        is_new = not path.exists()
        if is_new:
            _make(name, passphrase_given())
        key = _load_pair(name, passphrase_given())
        if not public_key_path(name).exists():
            _complete(name, key)
    return key, is_new


def _load_pair(name: str, passphrase: str | None) -> Ed25519PrivateKey:
    """Return the private key of that name, after comparing it with its public half, if that is there."""
    key = load_private_key(private_key_path(name), passphrase)
    if public_key_path(name).exists():
        _require_pair(name, _read_public_key(name), public_key_of(key))
    return key


def _make(name: str, passphrase: str | None) -> PublicKey:
    key = Ed25519PrivateKey.generate()
    save_private_key(key, private_key_path(name), passphrase)
    return _complete(name, key)


def _complete(name: str, key: Ed25519PrivateKey) -> PublicKey:
    """Trust a key on this machine, and write its public half."""
    public = public_key_of(key)
    TrustStore().add(public, f"{name} (own key)")
    write_whole(public_key_path(name), public.to_pem(), replace=True)
    return public


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep other processes from making keys at the same time, and say where they cannot be written."""
    folder = home_folder() / "keys"
    try:
        with locked(folder / "keys.lock"):
            yield
    except OSError as error:
        raise KeyStoreError(
            f"the folder of keys {folder} cannot be written ({error.strerror}): set DPGRAPH_HOME to a folder of yours"
        ) from error
