"""The two forms of a bundle, a tar and a folder, made from each other: the same members, so the same signature.

Whoever holds one form can make the other, without a key. Every byte is compared with what was verified as it is copied,
and the other form appears whole or not at all.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.writing import MANIFEST_NAME, errors_of_writing
from dp_bundle.files.new_files import new_file, new_folder, require_folder, whole_file
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import RemotePath, Store
from dp_bundle.files.tar import write_archive

_UPLOADS = 4  # at once, each of which holds a part in memory


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
    error.

    Parameters
    ----------
    bundle : Bundle
        In either form.
    folder : Path or RemotePath
        The new folder. Nothing is ever replaced.

    Raises
    ------
    BundleFormatError
        The bundle was changed after it was verified.
    DpGraphError
        There is something of that name already, or it cannot be written.
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
