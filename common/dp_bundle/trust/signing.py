"""Ed25519 keys and DSSE envelopes: what was signed, by whom, as bytes.

The signed bytes are the DSSE pre-authentication encoding of the payload and its type; a manifest's is an in-toto
Statement (see `manifest`), with one signature. Statements about keys have one or two.

A key's fingerprint is `ed25519:` and its 32 public bytes in hexadecimal, that is, the key itself. Whoever trusts the
fingerprint needs nothing else to verify. An envelope has exactly one serialised form, and a reader refuses every other,
so no bit of it is free. By that form the signer is found at its end, before anything that a stranger wrote is parsed.

Whole files are signed in the form of minisign, too, for whoever has that tool and not this one. Minisign signs the
BLAKE2b-512 digest of a file, and then that signature together with a comment. The key is the one that signs manifests;
no message of one kind can pass for one of another (docs/reference/proofs.md shows why). A key's number, by which
minisign tells keys apart, is its first eight bytes.

References
----------
DSSE 1.0.2, protocol.md and envelope.md (secure-systems-lab); RFC 8032 (Ed25519). Minisign,
https://jedisct1.github.io/minisign/, "Signature format" and "Public key format".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dp_bundle.base.errors import BadSignatureError, BundleFormatError, KeyStoreError, ParameterError
from dp_bundle.files.new_files import read_own, read_regular, write_whole

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MOST_OF_A_KEY = 10_000  # bytes of its file
_PREFIX = "ed25519:"
_PRIVATE = b"PRIVATE KEY-----"
_START = b'{"payload":"'
_MIDDLE = b'","payloadType":"%s","signatures":['
_ENTRY, _LAST = b'{"keyid":"%s","sig":"%s"}', b"]}\n"
_ENTRY_FORM = rb'\{"keyid":"(ed25519:[0-9a-f]{64})","sig":"([A-Za-z0-9+/]{86}==)"\}'
_ENTRIES_FORM = re.compile(rb"%s(?:,%s)?\]\}\n" % (_ENTRY_FORM, _ENTRY_FORM))
_END = _MIDDLE % PAYLOAD_TYPE.encode(), _ENTRY % (bytes(72), bytes(88)), _LAST  # of a manifest
_END_FORM = re.compile(rb'%s\{"keyid":"(ed25519:[0-9a-f]{64})","sig":".{88}"\}\]\}\n' % re.escape(_END[0]), re.DOTALL)
ENVELOPE_END = sum(map(len, _END))  # bytes from which the signer can be told
_KEY, _PREHASHED = b"Ed", b"ED"  # what minisign calls the algorithms
_NUMBER = 8  # bytes
_TRUSTED = b"trusted comment: "
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

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return True if a signature of a message is this key's, which is a sound one."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return self.is_sound

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


Signed = tuple[PublicKey, bytes]


@dataclass(frozen=True)
class Envelope:
    """A DSSE envelope with one signature, as manifests have; not yet verified."""

    payload: bytes
    signer: PublicKey
    signature: bytes

    def to_bytes(self) -> bytes:
        """Return the envelope's one serialised form: JSON, keys sorted, no spaces, a final newline."""
        return join_signatures(self.payload, PAYLOAD_TYPE, [(self.signer, self.signature)])

    @classmethod
    def from_bytes(cls, content: bytes) -> Envelope:
        """Read an envelope by its fixed form, without parsing; other bytes than `to_bytes` writes are refused.

        Raises
        ------
        BundleFormatError
            The bytes are not an envelope in its one serialised form.
        """
        signer_of(content)
        try:
            payload, ((signer, signature),) = split_signatures(content, PAYLOAD_TYPE)
        except (BundleFormatError, ValueError) as error:
            raise _not_a_manifest() from error
        return cls(payload, signer, signature)


def signer_of(content: bytes) -> PublicKey:
    """Return the key that a manifest names, from its last ENVELOPE_END bytes or more; nothing of it is verified.

    Raises
    ------
    BundleFormatError
        The bytes are not the end of an envelope with one signature.
    """
    found = _END_FORM.fullmatch(content[-ENVELOPE_END:])
    try:
        return PublicKey.from_fingerprint(found[1].decode() if found else "")
    except ParameterError as error:
        raise _not_a_manifest() from error


def join_signatures(payload: bytes, kind: str, signatures: Sequence[Signed]) -> bytes:
    """Return an envelope in its one form; `split_signatures` is the inverse."""
    entries = [_ENTRY % (key.fingerprint.encode(), base64.b64encode(signature)) for key, signature in signatures]
    return _START + base64.b64encode(payload) + _MIDDLE % kind.encode() + b",".join(entries) + _LAST


def split_signatures(content: bytes, kind: str) -> tuple[bytes, list[Signed]]:
    """Return the payload of an envelope of that payload type, and its signatures, none of which is verified.

    Raises
    ------
    BundleFormatError
        The bytes are not such an envelope in its one form, or have more than two signatures.
    """
    wrong = BundleFormatError(f"this is not a signed envelope of the type {kind} in its one form: fetch it again")
    head, _, tail = content.partition(_MIDDLE % kind.encode())
    if not _ENTRIES_FORM.fullmatch(tail):
        raise wrong
    try:
        payload = base64.b64decode(head.removeprefix(_START), validate=True)
        signatures = [
            (PublicKey.from_fingerprint(key.decode()), base64.b64decode(signature, validate=True))
            for key, signature in re.findall(_ENTRY_FORM, tail)
        ]
    except (binascii.Error, ParameterError) as error:
        raise wrong from error
    if join_signatures(payload, kind, signatures) != content:
        raise wrong
    return payload, signatures


def valid_signers(payload: bytes, kind: str, signatures: Sequence[Signed]) -> tuple[PublicKey, ...]:
    """Return the keys whose signatures belong to the payload, each once, in their order."""
    signed = encode_pre_authentication(payload, kind)
    return tuple(dict.fromkeys(key for key, signature in signatures if key.verifies(signature, signed)))


def _not_a_manifest() -> BundleFormatError:
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
    if not envelope.signer.verifies(envelope.signature, encode_pre_authentication(envelope.payload)):
        raise BadSignatureError("the signature does not belong to this manifest: the bundle was altered, do not use it")
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
        if _PRIVATE not in read_regular(path, MOST_OF_A_KEY):  # of another file, who may read it is no concern of ours
            raise KeyStoreError(f"{path} is not a PEM key: name one of your keys, or a file that holds one")
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
