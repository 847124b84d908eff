"""The file that may stand beside a bundle and is carried with it: the signature for minisign.

`bundle.tar.minisig` is what the stock minisign verifies: a by-product of the release, which whoever holds the key can
make again from the bundle alone, and which no reader of bundles needs.

Whoever passes a bundle on may put anything there. So only what belongs to this very bundle is carried: a signature of
its bytes by its signer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import quote_name, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.packing import write_tar
from dp_bundle.bundle.writing import errors_of_writing
from dp_bundle.describe.subject import PARQUET, SIGNATURES, TAR, PublishedFile
from dp_bundle.files.new_files import write_whole
from dp_bundle.files.opening import open_store
from dp_bundle.files.ownership import read_regular
from dp_bundle.files.places import RemotePath
from dp_bundle.manifest.release import Release
from dp_bundle.trust.signing import DigestWriter, minisign_digest, public_key_of, verify_minisign

_LONGEST = {"minisig": 2**12}  # bytes
AnyPath = TypeVar("AnyPath", Path, RemotePath, Path | RemotePath)


class Companion(NamedTuple):
    """A file beside a bundle.

    Attributes
    ----------
    kind : str
        "minisig": the end of its name, behind the bundle's.
    content : bytes
    """

    kind: str
    content: bytes


def minisig_path(path: AnyPath) -> AnyPath:
    """Return the path of the signature beside a file, where minisign looks for it."""
    return path.with_name(f"{path.name}.minisig")


def minisign_release(digest: bytes, release: Release, manifest_sha256: str, key: Ed25519PrivateKey) -> bytes:
    """Return the signature of a bundle's file; its trusted comment names release, dataset and manifest.

    Parameters
    ----------
    digest : bytes
        The BLAKE2b-512 digest of the whole file.
    release : Release
        What the bundle holds.
    manifest_sha256 : str
        The digest of its manifest.
    key : Ed25519PrivateKey
        The publisher's key.
    """
    number, name = release.lineage.number, quote_name(release.dataset.name)
    return minisign_digest(digest, f"release {number} of {name}, manifest sha256:{manifest_sha256}", key)


def minisign_bundle(bundle: Bundle, key: Ed25519PrivateKey) -> bytes:
    """Return the signature of a bundle that was verified, over the very bytes that were.

    Raises
    ------
    ParameterError
        The key is not the one that signed the bundle.
    BundleFormatError
        The file was changed after it was verified.
    """
    own, signer = public_key_of(key), bundle.signer.key
    if own != signer:
        raise ParameterError("--key", f"the key that signed this bundle, {signer.fingerprint}", own.fingerprint)
    return minisign_release(_blake2b(bundle), bundle.release, bundle.manifest_sha256, key)


def _blake2b(bundle: Bundle) -> bytes:
    """Return the digest of a verified bundle's file, made again from its members."""
    whole = DigestWriter()
    write_tar(bundle, cast(BinaryIO, whole))
    return whole.digest()


def write_minisig(path: Path | RemotePath, content: bytes) -> None:
    """Write a signature to a new file, here or elsewhere, whole; the same one may be there already.

    Raises
    ------
    DpGraphError
        There is another file, or it cannot be written.
    """
    another = f"there is another file at {quote_path(path)}: move it away and try again"
    if isinstance(path, RemotePath):
        if open_store(path.folder).create(path.name, content) != content:
            raise DpGraphError(another)
        return
    with errors_of_writing(path, another):
        try:
            write_whole(path, content, replace=False)
        except FileExistsError:
            if not _holds(path, content):
                raise


def _holds(path: Path, content: bytes) -> bool:
    """Return True if a file has this content."""
    try:
        return read_regular(path, len(content)) == content
    except OSError:
        return False


def read_beside(path: Path) -> tuple[list[Companion], list[str]]:
    """Return the files of sensible size that stand beside a tar, unchecked, and the kinds of those that are not."""
    found, unreadable = [], []
    for kind, longest in _LONGEST.items():
        try:
            found.append(Companion(kind, read_regular(path.with_name(f"{path.name}.{kind}"), longest)))
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(kind)
    return found, unreadable


def belongs(companion: Companion, bundle: Bundle) -> bool:
    """Return True if a file beside a verified bundle is a signature of its very bytes."""
    return verify_minisign(companion.content, _blake2b(bundle), bundle.signer.key)


def find_companions(bundle: Bundle) -> tuple[list[Companion], list[str]]:
    """Return what is carried with a verified bundle, and a sentence about each file beside it that is not."""
    found, unreadable = read_beside(bundle.local_tar_path())
    carried = [each for each in found if belongs(each, bundle)]
    left_out = [*unreadable, *(each.kind for each in found if each not in carried)]
    return carried, [
        f"{quote_path(bundle.tar_path)}.{kind} is no signature of this bundle and is left out" for kind in left_out
    ]


def published_files(bundle: Bundle, *, flat: bool = False) -> list[PublishedFile]:
    """Return the tar and the Parquet files that stand beside it, in `data` or, if flat, in the same folder."""
    whole = _Digest()
    write_tar(bundle, cast(BinaryIO, whole))
    files = [PublishedFile(bundle.tar_path.name, whole.size, whole.sha256.hexdigest(), TAR)]
    for name, member in bundle.members.items():
        if name.startswith("data/"):
            path = name.removeprefix("data/") if flat else name
            files.append(PublishedFile(path, member.size, bundle.sha256(name), PARQUET))
    return files


class _Digest:
    """A file that keeps the size and the SHA-256 of what is written to it."""

    def __init__(self) -> None:
        self.size, self.sha256 = 0, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.size += len(content)
        self.sha256.update(content)
        return len(content)


def signature_files(bundle: Bundle, beside: Sequence[Companion]) -> list[PublishedFile]:
    """Return the signatures that stand beside the tar."""
    files = []
    for kind, content in beside:
        name, sha256 = f"{bundle.tar_path.name}.{kind}", hashlib.sha256(content).hexdigest()
        files.append(PublishedFile(name, len(content), sha256, SIGNATURES[kind]))
    return files
