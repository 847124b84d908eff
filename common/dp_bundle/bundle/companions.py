"""The files that may stand beside a bundle and are carried with it: the signature for minisign, and co-signatures.

Whoever passes a bundle on may put anything there. So only what belongs to this very bundle is carried: a signature of
its bytes by its signer, and an envelope with its payload and at least one valid signature.

The file of signatures beside a bundle, `bundle.tar.dsse.json`: its envelope again, with those of co-signers.

The bundle stays as it is, and so does the digest of its manifest, by which later releases and readers know it. Whatever
stands beside a bundle can only add valid signatures, so a damaged or foreign file there is as good as none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import BundleFormatError, DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.minisig import is_minisig_of, minisig_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.files.new_files import write_whole
from dp_bundle.files.ownership import read_regular
from dp_bundle.files.places import RemotePath
from dp_bundle.manifest.statement import MAX_PAYLOAD
from dp_bundle.trust.signing import (
    MOST_SIGNATURES,
    PAYLOAD_TYPE,
    PublicKey,
    encode_pre_authentication,
    join_signatures,
    public_key_of,
    split_signatures,
    valid_signers,
)

_ENTRY = 200  # bytes of a signature, at most


AnyPath = TypeVar("AnyPath", Path, RemotePath, Path | RemotePath)


def signatures_path(path: AnyPath) -> AnyPath:
    """Return the path of the file of signatures beside a bundle."""
    return path.with_name(f"{path.name}.dsse.json")


def cosigners(bundle: Bundle) -> tuple[PublicKey, ...]:
    """Return whose valid signatures of this bundle's payload stand beside it, each once; whom to trust is open."""
    payload, signatures = _beside(bundle)
    return valid_signers(payload, PAYLOAD_TYPE, signatures)


def cosign(bundle: Bundle, key: Ed25519PrivateKey) -> Path:
    """Add a signature to the file beside a verified bundle, and return that file's path.

    Raises
    ------
    DpGraphError
        It cannot be written, or has 64 signatures already.
    """
    payload, found = _beside(bundle)
    valid = valid_signers(payload, PAYLOAD_TYPE, found)
    signature = key.sign(encode_pre_authentication(payload))
    kept = [(signer, each) for signer, each in found if signer in valid and signer != public_key_of(key)]
    path = signatures_path(bundle.local_tar_path())
    if len(kept) >= MOST_SIGNATURES:
        raise DpGraphError(f"{quote_path(path)} has {MOST_SIGNATURES} signatures already: take some out")
    try:
        write_whole(
            path, join_signatures(payload, PAYLOAD_TYPE, [*kept, (public_key_of(key), signature)]), replace=True
        )
    except OSError as error:
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror}") from error
    return path


def are_signatures_of(content: bytes, bundle: Bundle) -> bool:
    """Return True if the content of a file of signatures holds a valid one of this bundle's payload."""
    try:
        payload, found = split_signatures(content, PAYLOAD_TYPE)
    except BundleFormatError:
        return False
    return payload == _own(bundle)[0] and bool(valid_signers(payload, PAYLOAD_TYPE, found))


def _beside(bundle: Bundle) -> tuple[bytes, list[tuple[PublicKey, bytes]]]:
    """Return the bundle's payload, and the signatures beside it, or its own if there are none of this payload."""
    own = _own(bundle)
    most = bundle.members[MANIFEST_NAME].size + MOST_SIGNATURES * _ENTRY
    try:
        payload, found = split_signatures(bundle.read_beside(signatures_path(bundle.tar_path), most), PAYLOAD_TYPE)
    except (OSError, BundleFormatError):
        return own
    return (payload, found) if payload == own[0] else own


def _own(bundle: Bundle) -> tuple[bytes, list[tuple[PublicKey, bytes]]]:
    with bundle.open(MANIFEST_NAME) as file:
        return split_signatures(file.read(), PAYLOAD_TYPE)


_LONGEST = {"minisig": 2**12, "dsse.json": MAX_PAYLOAD // 3 * 4 + 2**14}  # bytes


@dataclass(frozen=True)
class Companion:
    """A file beside a bundle.

    Attributes
    ----------
    kind : str
        "minisig" or "dsse.json": the end of its name, behind the bundle's.
    content : bytes
    """

    kind: str
    content: bytes


def read_beside(path: Path) -> tuple[list[Companion], list[str]]:
    """Return the files of sensible size that stand beside a tar, unchecked, and the kinds of those that are not."""
    found, unreadable = [], []
    for kind, beside in (("minisig", minisig_path(path)), ("dsse.json", signatures_path(path))):
        try:
            found.append(Companion(kind, read_regular(beside, _LONGEST[kind])))
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(kind)
    return found, unreadable


def belongs(companion: Companion, bundle: Bundle) -> bool:
    """Return True if a file beside a verified bundle is a signature of it."""
    check = is_minisig_of if companion.kind == "minisig" else are_signatures_of
    return check(companion.content, bundle)


def find_companions(bundle: Bundle) -> tuple[list[Companion], list[str]]:
    """Return what is carried with a verified bundle, and a sentence about each file beside it that is not."""
    found, unreadable = read_beside(bundle.local_tar_path())
    carried = [each for each in found if belongs(each, bundle)]
    left_out = [*unreadable, *(each.kind for each in found if each not in carried)]
    return carried, [
        f"{quote_path(bundle.tar_path)}.{kind} is no signature of this bundle and is left out" for kind in left_out
    ]
