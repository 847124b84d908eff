"""DSSE envelopes with several signatures: statements about keys, and a bundle's manifest with its co-signers'.

A signature that does not verify, and a second one by the same key, count for nothing; neither makes the others invalid.

References
----------
DSSE 1.0.2, protocol.md and envelope.md (secure-systems-lab).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dp_bundle.base.errors import BundleFormatError, ParameterError
from dp_bundle.trust.signing import PublicKey, encode_pre_authentication

MOST_SIGNATURES = 64
_START = b'{"payload":"'
_ENTRY = rb'\{"keyid":"(ed25519:[0-9a-f]{64})","sig":"([A-Za-z0-9+/]{86}==)"\}'
_ENTRIES = re.compile(rb"%s(?:,%s){0,%d}\]\}\n" % (_ENTRY, _ENTRY, MOST_SIGNATURES - 1))

Signed = tuple[PublicKey, bytes]


def join_signatures(payload: bytes, kind: str, signatures: Sequence[Signed]) -> bytes:
    """Return an envelope in its one form; `split_signatures` is the inverse."""
    entries = (
        b'{"keyid":"%s","sig":"%s"}' % (key.fingerprint.encode(), base64.b64encode(signature))
        for key, signature in signatures
    )
    return _START + base64.b64encode(payload) + _middle(kind) + b",".join(entries) + b"]}\n"


def split_signatures(content: bytes, kind: str) -> tuple[bytes, list[Signed]]:
    """Return the payload of an envelope of that payload type, and its signatures, none of which is verified.

    Raises
    ------
    BundleFormatError
        The bytes are not such an envelope in its one form, or have more than 64 signatures.
    """
    head, _, tail = content.partition(_middle(kind))
    try:
        if not _ENTRIES.fullmatch(tail):
            raise _not_an_envelope(kind)
        payload = base64.b64decode(head.removeprefix(_START), validate=True)
        signatures = [
            (PublicKey.from_fingerprint(key.decode()), base64.b64decode(signature, validate=True))
            for key, signature in re.findall(_ENTRY, tail)
        ]
    except (binascii.Error, ParameterError) as error:
        raise _not_an_envelope(kind) from error
    if join_signatures(payload, kind, signatures) != content:
        raise _not_an_envelope(kind)
    return payload, signatures


def valid_signers(payload: bytes, kind: str, signatures: Sequence[Signed]) -> tuple[PublicKey, ...]:
    """Return the keys whose signatures belong to the payload, each once, in their order."""
    signed = encode_pre_authentication(payload, kind)
    return tuple(dict.fromkeys(key for key, signature in signatures if _verifies(key, signature, signed)))


def _verifies(key: PublicKey, signature: bytes, signed: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key.raw).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return key.is_sound


def _middle(kind: str) -> bytes:
    return b'","payloadType":"%s","signatures":[' % kind.encode()


def _not_an_envelope(kind: str) -> BundleFormatError:
    return BundleFormatError(f"this is not a signed envelope of the type {kind} in its one form: fetch it again")
