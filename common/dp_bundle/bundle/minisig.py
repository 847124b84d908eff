"""The signature beside a bundle, `bundle.tar.minisig`, which the stock minisign verifies.

It is a by-product of the release, not a part of it: no reader of bundles needs it or looks at it, and whoever holds the
key can make the same bytes again from the bundle alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import quote_name, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.packing import write_tar
from dp_bundle.files.new_files import write_whole
from dp_bundle.files.opening import open_store
from dp_bundle.files.ownership import read_regular
from dp_bundle.files.places import RemotePath
from dp_bundle.manifest.release import Release
from dp_bundle.trust.signing import DigestWriter, minisign_digest, public_key_of, verify_minisign

AnyPath = TypeVar("AnyPath", Path, RemotePath, Path | RemotePath)


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
    return minisign_release(_digest(bundle), bundle.release, bundle.manifest_sha256, key)


def is_minisig_of(content: bytes, bundle: Bundle) -> bool:
    """Return True if a signature file is of these very bytes, by the key that signed the bundle."""
    return verify_minisign(content, _digest(bundle), bundle.signer.key)


def _digest(bundle: Bundle) -> bytes:
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
    another = DpGraphError(f"there is another file at {quote_path(path)}: move it away and try again")
    if isinstance(path, RemotePath):
        if open_store(path.folder).create(path.name, content) != content:
            raise another
        return
    try:
        write_whole(path, content, replace=False)
    except FileExistsError as error:
        if not _holds(path, content):
            raise another from error
    except OSError as error:
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror}") from error


def _holds(path: Path, content: bytes) -> bool:
    """Return True if a file has this content."""
    try:
        return read_regular(path, len(content)) == content
    except OSError:
        return False
