"""Bundles in a folder, in either form."""

from __future__ import annotations

import os
from pathlib import Path

from dp_bundle.bundle.writing import MANIFEST_NAME


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
