"""The two forms of a bundle, a tar and a folder, made from each other, and the signature that may stand beside it.

Whoever holds one form can make the other, without a key. Every byte is compared with what was verified as it is copied,
and the other form appears whole or not at all.

`bundle.tar.minisig` is what the stock minisign verifies. It is a by-product of the release. Whoever holds the key can
make it again from the bundle alone, and no reader of bundles needs it. It is carried with it.

Whoever passes a bundle on may put anything there. So only what belongs to this very bundle is carried: a signature of
its bytes by its signer.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import quote_name, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.writing import MANIFEST_NAME, errors_of_writing
from dp_bundle.describe.subject import PARQUET, SIGNATURE, TAR, PublishedFile
from dp_bundle.files.new_files import (
    HashedFile,
    new_file,
    new_folder,
    read_regular,
    require_folder,
    whole_file,
    write_whole,
)
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import AnyPath, RemotePath, Store
from dp_bundle.files.tar import write_archive
from dp_bundle.manifest.release import Release
from dp_bundle.trust.signing import DigestWriter, minisign_digest, public_key_of, verify_minisign

_UPLOADS = 4  # at once, each of which holds a part in memory
_LONGEST = 2**12  # bytes


def pack_bundle(bundle: Bundle, path: Path) -> None:
    """Write a verified bundle to a new tar, which is the only one that it has.

    Parameters
    ----------
    bundle : Bundle
        In either form.
    path : Path
        The new file. Nothing is ever replaced.

    Raises
    ------
    BundleFormatError
        The bundle was changed after it was verified.
    DpGraphError
        There is something of that name already, or it cannot be written.
    """
    with _writing(path), whole_file(path) as file:
        write_tar(bundle, file)


def unpack_bundle(bundle: Bundle, folder: Path | RemotePath) -> None:
    """Write a verified bundle to a new folder, with each member as a file, or to an address elsewhere.

    Elsewhere, members are put in place one by one, and the manifest last, before which there is no bundle. What is
    there already is compared: the same members stay, so that an interrupted call can be repeated, and others are an
    error. Errors are those of `pack_bundle`.
    """
    if isinstance(folder, RemotePath):
        _upload(bundle, folder)
        return
    with _writing(folder), new_folder(folder) as new:
        for name in bundle.members:
            target = new / name
            target.parent.mkdir(exist_ok=True)
            with bundle.open(name) as member, new_file(target) as file:
                shutil.copyfileobj(member, file)


def _upload(bundle: Bundle, place: RemotePath) -> None:
    """Create all members at an address: data, descriptions, the manifest."""
    store = open_store(place.uri)

    def create(name: str) -> None:
        with bundle.open(name) as member:
            content = member.read()
        if store.create(name, content) != content:
            raise DpGraphError(f"there is another {name} at {place} already: give another address with --out")

    _require_no_other(bundle, store)
    data = [name for name in bundle.members if name.startswith("data/")]
    create(data[0])  # what another bundle has there shows before any more is uploaded
    with ThreadPoolExecutor(_UPLOADS) as pool:
        for _ in pool.map(create, data[1:]):
            pass
    for name in bundle.members:
        if name not in (*data, MANIFEST_NAME):
            create(name)
    create(MANIFEST_NAME)


def _require_no_other(bundle: Bundle, store: Store) -> None:
    """Refuse a place with the manifest of another bundle."""
    try:
        found = store.read(MANIFEST_NAME, 0, bundle.members[MANIFEST_NAME].size + 1)
    except FileNotFoundError:
        return
    with bundle.open(MANIFEST_NAME) as manifest:
        if found != manifest.read():
            raise DpGraphError(f"there is another bundle at {store.uri} already: give another address with --out")


def write_tar(bundle: Bundle, file: BinaryIO) -> None:
    """Write a verified bundle as a tar, from the file's position on.

    Raises
    ------
    BundleFormatError
        The bundle was changed after it was verified.
    """
    write_archive(file, ((name, bundle.open(name)) for name in bundle.members))


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Refuse a path that is taken, and say in a sentence what keeps it from being written."""
    taken = f"there is something at {quote_path(path)} already: give another name with --out"
    if os.path.lexists(path):
        raise DpGraphError(taken)
    require_folder(path)
    with errors_of_writing(path, taken):
        yield


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
    whole = HashedFile()
    write_tar(bundle, cast(BinaryIO, whole))
    files = [PublishedFile(bundle.tar_path.name, whole.size, whole.sha256(), TAR)]
    for name, member in bundle.members.items():
        if name.startswith("data/"):
            path = name.removeprefix("data/") if flat else name
            files.append(PublishedFile(path, member.size, bundle.sha256(name), PARQUET))
    return files


def signature_file(bundle: Bundle, signature: bytes) -> PublishedFile:
    """Return the signature that stands beside the tar."""
    sha256 = hashlib.sha256(signature).hexdigest()
    return PublishedFile(f"{bundle.tar_path.name}.minisig", len(signature), sha256, SIGNATURE)
