"""Signatures of whole files, and public keys, in the form of minisign, for whoever has that tool and not this one.

Minisign signs the BLAKE2b-512 digest of a file, and then that signature together with a comment. The key is the one
that signs manifests; no message of one kind can pass for one of another (docs/adr/0025-minisign.md shows why). A key's
number, by which minisign tells keys apart, is its first eight bytes.

References
----------
Minisign, https://jedisct1.github.io/minisign/, "Signature format" and "Public key format".
"""

from __future__ import annotations

import base64
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.trust.signing import PublicKey, public_key_of

_KEY, _PREHASHED = b"Ed", b"ED"  # what minisign calls the algorithms
_NUMBER = 8  # bytes
_TRUSTED = b"trusted comment: "


class DigestWriter:
    """A binary file that takes the digest of what is written to it, and writes it to another, if one is given.

    A thread takes the digest of one piece while the file gets it.

    Parameters
    ----------
    file : binary file, optional
        Where the bytes go.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self._file = file
        self._digest = hashlib.blake2b()
        self._hasher = ThreadPoolExecutor(max_workers=1)
        self._taken = self._hasher.submit(self._digest.update, b"")

    def write(self, content: bytes) -> int:
        """Write bytes, and return their number."""
        self._taken.result()
        self._taken = self._hasher.submit(self._digest.update, content)
        if self._file is not None:
            self._file.write(content)
        return len(content)

    def digest(self) -> bytes:
        """Return the BLAKE2b-512 digest of all bytes so far."""
        self._taken.result()
        return self._digest.digest()


def minisign_public_key(key: PublicKey) -> bytes:
    """Return the content of a public key file for `minisign -V -p`."""
    content = base64.b64encode(_KEY + key.raw[:_NUMBER] + key.raw)
    return b"untrusted comment: minisign public key %s\n%s\n" % (_shown(key), content)


def minisign_digest(digest: bytes, comment: str, key: Ed25519PrivateKey) -> bytes:
    """Return the content of a signature file for `minisign -V`; the same for the same arguments.

    Parameters
    ----------
    digest : bytes
        The BLAKE2b-512 digest of the signed file, 64 bytes.
    comment : str
        The trusted comment: one line, which is signed too. Minisign takes up to 8 kB.
    key : Ed25519PrivateKey
        The signing key.
    """
    said = comment.encode()
    signature = key.sign(digest)
    return _spell(public_key_of(key), signature, said, key.sign(signature + said))


def verify_minisign(content: bytes, digest: bytes, key: PublicKey) -> bool:
    """Return True if a signature file is one that `minisign_digest` makes: of that digest, by that key.

    Parameters
    ----------
    content : bytes
        The signature file, from whomever.
    digest : bytes
        The BLAKE2b-512 digest of the signed file, 64 bytes.
    key : PublicKey
        The key that must have signed.
    """
    lines = content.split(b"\n")
    if len(lines) != 5:
        return False
    said = lines[2].removeprefix(_TRUSTED)
    try:
        signature = base64.b64decode(lines[1], validate=True)[len(_PREHASHED) + _NUMBER :]
        whole = base64.b64decode(lines[3], validate=True)
    except ValueError:
        return False
    verified = key.verifies(signature, digest) and key.verifies(whole, signature + said)
    return verified and _spell(key, signature, said, whole) == content


def _spell(key: PublicKey, signature: bytes, said: bytes, whole: bytes) -> bytes:
    """Return a signature file of a signature, its trusted comment, and the signature of both."""
    lines = (
        b"untrusted comment: signature by the key %s" % _shown(key),
        base64.b64encode(_PREHASHED + key.raw[:_NUMBER] + signature),
        _TRUSTED + said,
        base64.b64encode(whole),
    )
    return b"\n".join(lines) + b"\n"


def _shown(key: PublicKey) -> bytes:
    """Return a key's number as minisign shows it: a little-endian number, in hexadecimal."""
    return key.raw[:_NUMBER][::-1].hex().upper().encode()
