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
from typing import BinaryIO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.trust.signing import PublicKey, public_key_of

_KEY, _PREHASHED = b"Ed", b"ED"  # what minisign calls the algorithms
_NUMBER = 8  # bytes


class DigestWriter:
    """A binary file that takes the digest of what is written to it, and writes it to another, if one is given.

    Parameters
    ----------
    file : binary file, optional
        Where the bytes go.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self._file = file
        self._digest = hashlib.blake2b()

    def write(self, content: bytes) -> int:
        """Write bytes, and return their number."""
        self._digest.update(content)
        if self._file is not None:
            self._file.write(content)
        return len(content)

    def digest(self) -> bytes:
        """Return the BLAKE2b-512 digest of all bytes so far."""
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
    public, said = public_key_of(key), comment.encode()
    signature = key.sign(digest)
    lines = (
        b"untrusted comment: signature by the key %s" % _shown(public),
        base64.b64encode(_PREHASHED + public.raw[:_NUMBER] + signature),
        b"trusted comment: " + said,
        base64.b64encode(key.sign(signature + said)),
    )
    return b"\n".join(lines) + b"\n"


def _shown(key: PublicKey) -> bytes:
    """Return a key's number as minisign shows it: a little-endian number, in hexadecimal."""
    return key.raw[:_NUMBER][::-1].hex().upper().encode()
