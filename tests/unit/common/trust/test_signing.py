"""Signatures against the published standards, the envelope's one form, and minisign's, which the stock tool takes."""

import contextlib
import dataclasses
import hashlib
import stat
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from dp_bundle.base.errors import BadSignatureError, KeyStoreError, ParameterError
from dp_bundle.trust import signing
from dp_bundle.trust.signing import (
    Envelope,
    PublicKey,
    encode_pre_authentication,
    load_private_key,
    public_key_of,
    save_private_key,
    sign_envelope,
    verify_envelope,
)

# RFC 8032, section 7.1: TEST 2 and TEST 3 as secret key, public key, message, signature
RFC_8032 = [
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302a"
        "eeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed2"
        "8dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("secret", "public", "message", "signature"), RFC_8032)
def test_keys_and_signatures_are_those_of_rfc_8032(secret: str, public: str, message: str, signature: str) -> None:
    """The library signs as published, and an envelope has its key, and its signature of DSSE's encoding."""
    key, content = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret)), bytes.fromhex(message)
    assert key.sign(content).hex() == signature
    envelope = sign_envelope(content, key)
    assert envelope.signer == PublicKey(bytes.fromhex(public))
    assert envelope.signer.verifies(bytes.fromhex(signature), content)
    encoded = b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(content), content)
    assert envelope.signature == key.sign(encoded) == key.sign(encode_pre_authentication(content))
    assert encode_pre_authentication(b"hello", "http://a") == b"DSSEv1 8 http://a 5 hello"


@given(st.binary(max_size=200), st.binary(min_size=32, max_size=32))
def test_envelopes_round_trip(payload: bytes, secret: bytes) -> None:
    """An envelope read back is the one written, and verifies to its payload."""
    envelope = sign_envelope(payload, Ed25519PrivateKey.from_private_bytes(secret))

    assert Envelope.from_bytes(envelope.to_bytes()) == envelope
    assert verify_envelope(envelope) == payload
    for changed in ({"payload": payload + b"x"}, {"signature": envelope.signature[:-1]}, {"signer": PublicKey(b"x")}):
        with pytest.raises(BadSignatureError):
            verify_envelope(dataclasses.replace(envelope, **changed))


@pytest.mark.parametrize(
    "text", ["", "ed25519:", "ed25519:" + "0" * 63, "ed25519:" + "A" * 64, "0" * 64, "rsa:" + "0" * 64]
)
def test_wrong_fingerprints_are_refused(text: str) -> None:
    """A fingerprint is the prefix and 64 lower-case digits."""
    with pytest.raises(ParameterError):
        PublicKey.from_fingerprint(text)


def test_other_public_keys_are_refused() -> None:
    """What is no Ed25519 public key in PEM is refused as a parameter, not with a foreign exception."""
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = curve.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    unknown = b"-----BEGIN PUBLIC KEY-----\nMBwwBwYFKwYBBAEDEQBAAAAAAAAAAAAAAAAAAAAA\n-----END PUBLIC KEY-----\n"
    for content in (pem, b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", unknown, b"\xff"):
        with pytest.raises(ParameterError, match="Ed25519"):
            PublicKey.from_pem(content)


@pytest.mark.parametrize("passphrase", [None, "correct horse", "pässwörd ☃"])
def test_private_keys_round_trip(passphrase: str | None, tmp_path: Path) -> None:
    """A key comes back from its file, which its owner alone may read."""
    key = Ed25519PrivateKey.generate()
    save_private_key(key, tmp_path / "a" / "k.key", passphrase)
    path = tmp_path / "a" / "k.key"

    public = public_key_of(load_private_key(path, passphrase))
    assert public == PublicKey.from_fingerprint(public.fingerprint) == PublicKey.from_pem(public.to_pem())
    assert public.raw == key.public_key().public_bytes_raw()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    assert (key.private_bytes_raw() in path.read_bytes()) is False
    assert (b"ENCRYPTED" in path.read_bytes()) == (passphrase is not None)


def test_wrong_missing_and_needless_passphrases_are_refused(tmp_path: Path) -> None:
    """Each mistake with a passphrase has its own sentence, as have no file, noise and another kind of key.

    Of what is no key, nobody is told to change the mode.
    """
    save_private_key(Ed25519PrivateKey.generate(), tmp_path / "locked", "right")
    save_private_key(Ed25519PrivateKey.generate(), tmp_path / "open")
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    other = ed448.Ed448PrivateKey.generate().private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    for name, content in (("other", other), ("noise", b"\0\xff")):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    for name, passphrase, message in [
        ("missing", None, "No such file"),
        ("other", None, "not an Ed25519 key"),
        ("noise", None, "not a PEM key"),
        ("locked", "wrong", "passphrase is wrong"),
        ("locked", None, "has a passphrase"),
        ("locked", "", "has a passphrase"),
        ("open", "needless", "does not have a passphrase"),
    ]:
        with pytest.raises(KeyStoreError, match=message):
            load_private_key(tmp_path / name, passphrase)
    for name, passphrase, message in (("new", "x" * 2000, "passphrase"), ("open/new", None, "cannot be written")):
        with pytest.raises(KeyStoreError, match=message):
            save_private_key(Ed25519PrivateKey.generate(), tmp_path / name, passphrase)


def test_keys_of_small_order_are_unsound_and_others_are_not() -> None:
    """Each refused y is of a key by which the library takes one signature for messages that nobody signed."""
    forged = bytes([1, *[0] * 63])

    def is_fooled(raw: bytes) -> bool:
        for message in range(100):
            with contextlib.suppress(InvalidSignature):
                Ed25519PublicKey.from_public_bytes(raw).verify(forged, b"%d" % message)
                return True
        return False

    for y in signing._SMALL_ORDER:
        key = PublicKey(y.to_bytes(32, "little"))
        assert not key.is_sound
        assert is_fooled(key.raw)
        with pytest.raises(ParameterError, match="private half"):
            PublicKey.from_fingerprint(key.fingerprint)
        with pytest.raises(ParameterError):
            PublicKey.from_pem(key.to_pem())
        with pytest.raises(BadSignatureError):
            verify_envelope(Envelope(b"{}", key, forged))
    for _ in range(5):
        key = public_key_of(Ed25519PrivateKey.generate())
        assert key.is_sound
        assert not is_fooled(key.raw)
    assert not any(PublicKey((y + 2**255 - 19).to_bytes(32, "little")).is_sound for y in range(19))


SECRET = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


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
