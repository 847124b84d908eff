"""The publisher's key pairs, by name, in the state folder."""

from __future__ import annotations

import re
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.errors import KeyStoreError, ParameterError
from dp_bundle.files import write_whole
from dp_bundle.home import home_folder
from dp_bundle.signing import PublicKey, public_key_of, save_private_key
from dp_bundle.trust import TrustStore

__all__ = ["DEFAULT_KEY", "key_names", "load_public_key", "new_key_pair", "private_key_path", "public_key_path"]

DEFAULT_KEY = "publisher"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def private_key_path(name: str = DEFAULT_KEY) -> Path:
    """Return where the private key of that name is kept."""
    if not _NAME.fullmatch(name):
        raise ParameterError("key name", "letters, digits, '.', '_' and '-', at most 64", name)
    return home_folder() / "keys" / f"{name}.key"


def public_key_path(name: str = DEFAULT_KEY) -> Path:
    """Return where the public key of that name is kept: the file to hand to researchers."""
    return private_key_path(name).with_suffix(".pub")


def key_names() -> list[str]:
    """Return the names of this user's key pairs."""
    return sorted(path.stem for path in (home_folder() / "keys").glob("*.key"))


def load_public_key(name: str = DEFAULT_KEY) -> PublicKey:
    """Return the public key of that name.

    Raises
    ------
    KeyStoreError
        Its file is missing or unreadable.
    """
    path = public_key_path(name)
    try:
        return PublicKey.from_pem(path.read_bytes())
    except OSError as error:
        raise KeyStoreError(f"the public key {path} cannot be read ({error.strerror}): restore it") from error


def new_key_pair(name: str = DEFAULT_KEY, passphrase: str | None = None) -> PublicKey:
    """Make a key pair, keep it, and trust it on this machine.

    Raises
    ------
    KeyStoreError
        There is a key of that name already.
    """
    key = Ed25519PrivateKey.generate()
    save_private_key(key, private_key_path(name), passphrase)
    public = public_key_of(key)
    write_whole(public_key_path(name), public.to_pem())
    TrustStore().add(public, f"{name} (own key)")
    return public
