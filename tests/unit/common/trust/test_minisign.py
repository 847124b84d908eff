"""Signatures in minisign's form: what is in them, and that the stock minisign takes them."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.trust.signing import (
    DigestWriter,
    encode_pre_authentication,
    minisign_digest,
    minisign_public_key,
    public_key_of,
)

SECRET = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.mark.tools
def test_stock_minisign_verifies_a_file_and_shows_the_comment(tmp_path: Path) -> None:
    """The installed minisign accepts signature, key and a comment in any script, and refuses another file."""
    path, comment = tmp_path / "file", 'release 1 of "数据 é", manifest sha256:00'
    path.write_bytes(b"content")
    (tmp_path / "key.pub").write_bytes(minisign_public_key(public_key_of(SECRET)))
    signed = minisign_digest(hashlib.blake2b(b"content").digest(), comment, SECRET)
    (tmp_path / "file.minisig").write_bytes(signed)
    verify = ["minisign", "-V", "-p", tmp_path / "key.pub", "-m", path]
    accepted = subprocess.run(verify, capture_output=True, check=False)
    assert accepted.returncode == 0, accepted.stderr
    assert f"Trusted comment: {comment}".encode() in accepted.stdout

    path.write_bytes(b"Content")
    assert subprocess.run(verify, capture_output=True, check=False).returncode != 0
    path.write_bytes(b"content")
    (tmp_path / "file.minisig").write_bytes(signed.replace(b"release 1", b"release 2"))
    assert subprocess.run(verify, capture_output=True, check=False).returncode != 0


def test_key_is_numbered_by_its_first_bytes() -> None:
    """A public key has the algorithm, the number and the key; the comment shows the number as minisign does."""
    first, second = minisign_public_key(public_key_of(SECRET)).splitlines()
    raw = public_key_of(SECRET).raw
    assert base64.b64decode(second) == b"Ed" + raw[:8] + raw
    assert first == f"untrusted comment: minisign public key {int.from_bytes(raw[:8], 'little'):016X}".encode()


def test_digest_is_taken_of_what_is_written() -> None:
    """The digest is that of all bytes, which reach the file beneath."""
    file = io.BytesIO()
    whole, alone = DigestWriter(file), DigestWriter()
    for chunk in (b"a", b"", b"bc"):
        assert whole.write(chunk) == alone.write(chunk) == len(chunk)
    assert file.getvalue() == b"abc"
    assert whole.digest() == alone.digest() == hashlib.blake2b(b"abc").digest()


@pytest.mark.parametrize("payload", [b"", b"x" * 22, b"x" * 5000, bytes(range(256))])
def test_no_envelope_is_what_minisign_signs(payload: bytes) -> None:
    """What is signed of a manifest has no 64 bytes alone, and begins with no signature that Ed25519 accepts.

    The second half of a signature is a number below 2^252 + 2^125, its last byte at most 16, where an envelope's
    encoding has text: minisign's other message, a signature and a comment, is never one.
    """
    encoded = encode_pre_authentication(b'{"_type":"https://in-toto.io/Statement/v1"' + payload)
    assert len(encoded) > 64
    assert encoded[63] > 16
    with pytest.raises(InvalidSignature):
        SECRET.public_key().verify(encoded[:64], hashlib.blake2b(b"any file").digest())
