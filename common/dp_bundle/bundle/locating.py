"""The members of a bundle, wherever it lies.

Bundles in a folder, in either form.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, cast

from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.files.places import RemotePath
from dp_bundle.files.tar import FolderMembers, TarMembers
from dp_bundle.files.windows import Members


def find_bundles(folder: Path, beside: Path | None = None) -> list[Path]:
    """Return the tar files, and the folders with a manifest, in a folder and the folders in it, in order.

    Parameters
    ----------
    folder : Path
        It may be a bundle itself.
    beside : Path, optional
        A folder in it that is not looked into.
    """
    if _is_bundle(folder):
        return [folder]
    found = []
    for place, folders, files in os.walk(folder):
        inner = [Path(place, name) for name in folders]
        if beside is not None:
            inner = [path for path in inner if path.resolve() != beside.resolve()]
        found += [path for path in inner if _is_bundle(path)]
        folders[:] = sorted(path.name for path in inner if not _is_bundle(path))
        found += [path for name in files if name.endswith(".tar") and (path := Path(place, name)).is_file()]
    return sorted(found)


def _is_bundle(folder: Path) -> bool:
    return os.path.lexists(folder / MANIFEST_NAME)


def members_at(path: Path | RemotePath, signed: Mapping[str, str] | None = None, *, anew: bool = False) -> Members:
    """Open a folder, or else a tar; a pipe with nobody behind it is no reason to wait.

    Parameters
    ----------
    path : Path or RemotePath
        Where it lies.
    signed : mapping of str to str, optional
        Names and signed SHA-256 of what will be read, for whoever knows them and calls no `scan`.
    anew : bool
        Whether to read everything where it lies, and no copy of an earlier download.

    Raises
    ------
    OSError
        It cannot be opened.
    DpGraphError
        There is no such kind of place, or it cannot be read.
    """
    if isinstance(path, RemotePath):
        from dp_bundle.bundle.remote import open_members

        return open_members(path, signed, anew=anew)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        return FolderMembers(descriptor)
    return TarMembers(cast(BinaryIO, os.fdopen(descriptor, "rb", buffering=0)))
