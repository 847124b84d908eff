"""Ed25519 keys and the DSSE envelope: what was signed, by whom, as bytes.

The signed bytes are the DSSE pre-authentication encoding of the payload and its type; the payload is an in-toto
Statement (see `manifest`). A key's fingerprint is `ed25519:` and its 32 public bytes in hexadecimal, that is, the key
itself: whoever trusts the fingerprint needs nothing else to verify. An envelope has exactly one serialised form, and a
reader refuses every other, so no bit of it is free; by that form the signer is found at its end, before anything that a
stranger wrote is parsed.

References
----------
DSSE 1.0.2, protocol.md (secure-systems-lab); RFC 8032 (Ed25519).
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dp_bundle.base.errors import BadSignatureError, BundleFormatError, KeyStoreError, ParameterError
from dp_bundle.files.new_files import write_whole
from dp_bundle.files.ownership import read_own

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MOST_OF_A_KEY = 10_000  # bytes of its file
_PREFIX = "ed25519:"
_START = b'{"payload":"'
_BEFORE_KEY = b'","payloadType":"%s","signatures":[{"keyid":"' % PAYLOAD_TYPE.encode()
_BEFORE_SIGNATURE = b'","sig":"'
_LAST = b'"}]}\n'
_KEY_ID = slice(len(_BEFORE_KEY), len(_BEFORE_KEY) + len(_PREFIX) + 64)
_SIGNATURE = slice(_KEY_ID.stop + len(_BEFORE_SIGNATURE), _KEY_ID.stop + len(_BEFORE_SIGNATURE) + 88)
ENVELOPE_END = _SIGNATURE.stop + len(_LAST)  # bytes from which the signer can be told
_FIELD = 2**255 - 19
_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826  # y, and its negative
_SMALL_ORDER = {0, 1, _FIELD - 1, _OF_ORDER_8, _FIELD - _OF_ORDER_8}  # y of all points whose order divides 8


@dataclass(frozen=True)
class PublicKey:
    """An Ed25519 public key; its fingerprint is the key itself, in hexadecimal."""

    raw: bytes

    @property
    def fingerprint(self) -> str:
        """The name a person compares and trusts: `ed25519:` and 64 hexadecimal digits."""
        return _PREFIX + self.raw.hex()

    @property
    def is_sound(self) -> bool:
        """False for keys of small order, which accept signatures that nobody made (RFC 8032, 8.9)."""
        y = int.from_bytes(self.raw, "little") & (2**255 - 1)
        return y < _FIELD and y not in _SMALL_ORDER

    @classmethod
    def from_fingerprint(cls, fingerprint: str) -> PublicKey:
        """Read `ed25519:` and 64 lower-case hexadecimal digits; the inverse of `fingerprint`."""
        digits = fingerprint.removeprefix(_PREFIX)
        if fingerprint.startswith(_PREFIX) and len(digits) == 64 and set(digits) <= set("0123456789abcdef"):
            key = cls(bytes.fromhex(digits))
            if not key.is_sound:
                raise ParameterError("fingerprint", "that of a key with a private half", fingerprint)
            return key
        raise ParameterError("fingerprint", "ed25519: followed by 64 lower-case hexadecimal digits", fingerprint)

    def to_pem(self) -> bytes:
        """Return the key as PEM (SubjectPublicKeyInfo), which other tools read."""
        return Ed25519PublicKey.from_public_bytes(self.raw).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @classmethod
    def from_pem(cls, content: bytes) -> PublicKey:
        """Read a PEM public key; the inverse of `to_pem`."""
        if b"PRIVATE KEY-----" in content:
            allowed = "an Ed25519 public key in PEM, as in a .pub file; this is a private key: show it to nobody"
            raise ParameterError("public key", allowed)
        try:
            key = serialization.load_pem_public_key(content)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ParameterError("public key", "an Ed25519 public key in PEM, as in a .pub file") from error
        if not isinstance(key, Ed25519PublicKey):
            raise ParameterError("public key", "an Ed25519 public key in PEM", type(key).__name__)
        return cls.from_fingerprint(_PREFIX + key.public_bytes_raw().hex())


@dataclass(frozen=True)
class Envelope:
    """A DSSE envelope with one signature; not yet verified."""

    payload: bytes
    signer: PublicKey
    signature: bytes

    def to_bytes(self) -> bytes:
        """Return the envelope's one serialised form: JSON, keys sorted, no spaces, a final newline."""
        return _START + base64.b64encode(self.payload) + _end(self.signer, base64.b64encode(self.signature))

    @classmethod
    def from_bytes(cls, content: bytes) -> Envelope:
        """Read an envelope by its fixed form, without parsing; other bytes than `to_bytes` writes are refused.

        Raises
        ------
        BundleFormatError
            The bytes are not an envelope in its one serialised form.
        """
        signer = signer_of(content)
        try:
            payload = base64.b64decode(content[len(_START) : -ENVELOPE_END], validate=True)
            signature = base64.b64decode(content[-ENVELOPE_END:][_SIGNATURE], validate=True)
        except binascii.Error as error:
            raise _not_an_envelope() from error
        envelope = cls(payload, signer, signature)
        if envelope.to_bytes() != content:
            raise _not_an_envelope()
        return envelope


def signer_of(content: bytes) -> PublicKey:
    """Return the key that an envelope names, from its last ENVELOPE_END bytes or more; nothing of it is verified.

    Raises
    ------
    BundleFormatError
        The bytes are not the end of an envelope.
    """
    end = content[-ENVELOPE_END:]
    try:
        signer = PublicKey.from_fingerprint(end[_KEY_ID].decode("ascii"))
    except (ParameterError, UnicodeDecodeError) as error:
        raise _not_an_envelope() from error
    if end != _end(signer, end[_SIGNATURE]):
        raise _not_an_envelope()
    return signer


def _end(signer: PublicKey, signature: bytes) -> bytes:
    return _BEFORE_KEY + signer.fingerprint.encode() + _BEFORE_SIGNATURE + signature + _LAST


def _not_an_envelope() -> BundleFormatError:
    return BundleFormatError("the manifest is not a signed envelope in its one form: the file was damaged or altered")


def encode_pre_authentication(payload: bytes, payload_type: str | None = None) -> bytes:
    """Return the bytes that are signed: `DSSEv1 SP len(type) SP type SP len(payload) SP payload`."""
    kind = (payload_type or PAYLOAD_TYPE).encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign_envelope(payload: bytes, key: Ed25519PrivateKey) -> Envelope:
    """Sign a payload; Ed25519 is deterministic, so equal inputs give equal envelopes."""
    return Envelope(payload, public_key_of(key), key.sign(encode_pre_authentication(payload)))


def verify_envelope(envelope: Envelope) -> bytes:
    """Return the payload if its signature is that of the named signer; whom to trust is the caller's question.

    Raises
    ------
    BadSignatureError
        The signature does not belong to the payload and the signer.
    """
    if not envelope.signer.is_sound:
        raise BadSignatureError("the signer's key is one for which anybody can sign: do not use this bundle")
    try:
        Ed25519PublicKey.from_public_bytes(envelope.signer.raw).verify(
            envelope.signature, encode_pre_authentication(envelope.payload)
        )
    except (InvalidSignature, ValueError) as error:
        raise BadSignatureError(
            "the signature does not belong to this manifest: the bundle was altered, do not use it"
        ) from error
    return envelope.payload


def public_key_of(key: Ed25519PrivateKey) -> PublicKey:
    """Return the public half of a private key."""
    return PublicKey(key.public_key().public_bytes_raw())


def save_private_key(key: Ed25519PrivateKey, path: Path, passphrase: str | None = None) -> None:
    """Write a private key as PEM (PKCS #8), readable by its owner alone, encrypted if a passphrase is given.

    Raises
    ------
    KeyStoreError
        There is a key at `path` already, keys are never overwritten; or it cannot be written.
    """
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    try:
        if passphrase:
            protection = serialization.BestAvailableEncryption(passphrase.encode())
        content = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
    except ValueError as error:
        raise KeyStoreError("this passphrase cannot be used: choose one of at most 1023 bytes") from error
    try:
        write_whole(path, content, mode=0o600, replace=False)
    except OSError as error:
        if path.exists():
            raise KeyStoreError(
                f"there is a key at {path} already: choose another name, as keys are never replaced"
            ) from error
        raise KeyStoreError(
            f"the key {path} cannot be written ({error.strerror}): set DPGRAPH_HOME to a folder of yours"
        ) from error


def load_private_key(path: Path, passphrase: str | None = None) -> Ed25519PrivateKey:
    """Read a private key; the inverse of `save_private_key`.

    Raises
    ------
    KeyStoreError
        The file is missing, is no Ed25519 key, others may read or write it, or the passphrase is missing or wrong.
    """
    try:
        key = serialization.load_pem_private_key(
            read_own(path, MOST_OF_A_KEY, private=True), passphrase.encode() if passphrase else None
        )
    except OSError as error:
        raise KeyStoreError(
            f"the key {path} cannot be read ({error.strerror}): correct its name, or make a key with dp-bundle keys new"
        ) from error
    except TypeError as error:
        if passphrase:
            raise KeyStoreError(f"the key {path} does not have a passphrase: unset DPGRAPH_PASSPHRASE") from error
        raise KeyStoreError(f"the key {path} has a passphrase: set DPGRAPH_PASSPHRASE to it") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyStoreError(
            f"the key {path} cannot be opened: it is not a PEM key, or the passphrase is wrong"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyStoreError(f"the key {path} is not an Ed25519 key: make one with dp-bundle keys new")
    return key


def open_private_key(path: Path, passphrase: str | None) -> Ed25519PrivateKey | None:
    """Read a private key if it is not locked, or the passphrase opens it; None if it is locked.

    Raises
    ------
    KeyStoreError
        As `load_private_key`, but for passphrases.
    """
    try:
        is_locked = b"ENCRYPTED" in read_own(path, MOST_OF_A_KEY, private=True)
    except OSError:
        is_locked = False
    if not is_locked:
        return load_private_key(path)
    try:
        return load_private_key(path, passphrase)
    except KeyStoreError:
        return None
