"""The bundles in a folder."""

from __future__ import annotations

import os
from pathlib import Path


def find_bundles(folder: Path, beside: Path | None = None) -> list[Path]:
    """Return the tar files in a folder and the folders in it, in order; links to folders are not followed.

    Parameters
    ----------
    folder : Path
        Where to look.
    beside : Path, optional
        A folder to leave out, such as a site that stands within.
    """
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            each for each in folders if beside is None or Path(place, each).resolve() != beside.resolve()
        )
        found += [Path(place, name) for name in files if name.endswith(".tar")]
    return sorted(path for path in found if path.is_file())
