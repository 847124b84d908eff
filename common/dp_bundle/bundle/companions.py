"""The file that may stand beside a bundle and is carried with it: the signature for minisign.

`bundle.tar.minisig` is what the stock minisign verifies: a by-product of the release, which whoever holds the key can
make again from the bundle alone, and which no reader of bundles needs.

Whoever passes a bundle on may put anything there. So only what belongs to this very bundle is carried: a signature of
its bytes by its signer.
"""

import hashlib
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import quote_name, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.packing import write_tar
from dp_bundle.bundle.writing import errors_of_writing
from dp_bundle.describe.subject import PARQUET, SIGNATURE, TAR, PublishedFile
from dp_bundle.files.new_files import write_whole
from dp_bundle.files.opening import open_store
from dp_bundle.files.ownership import read_regular
from dp_bundle.files.places import RemotePath
from dp_bundle.manifest.release import Release
from dp_bundle.trust.signing import DigestWriter, minisign_digest, public_key_of, verify_minisign

_LONGEST = 2**12  # bytes
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


def read_minisig(tar: Path) -> bytes | None:
    """Return what stands beside a tar under its signature's name, unchecked; nothing of what is no file of such a size.

    Without such a name there, it is None.
    """
    try:
        return read_regular(minisig_path(tar), _LONGEST)
    except FileNotFoundError:
        return None
    except OSError:
        return b""


def belongs(signature: bytes, bundle: Bundle) -> bool:
    """Return True if this is a signature of the very bytes of a verified bundle."""
    return verify_minisign(signature, _blake2b(bundle), bundle.signer.key)


def find_minisig(bundle: Bundle) -> tuple[bytes | None, list[str]]:
    """Return the signature that is carried with a verified bundle, and a sentence about one that is not."""
    found = read_minisig(bundle.local_tar_path())
    if found is None or belongs(found, bundle):
        return found, []
    return None, [f"{quote_path(bundle.tar_path)}.minisig is no signature of this bundle and is left out"]


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


def signature_file(bundle: Bundle, signature: bytes) -> PublishedFile:
    """Return the signature that stands beside the tar."""
    sha256 = hashlib.sha256(signature).hexdigest()
    return PublishedFile(f"{bundle.tar_path.name}.minisig", len(signature), sha256, SIGNATURE)
