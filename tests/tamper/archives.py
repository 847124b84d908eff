"""The members of a bundle, taken out and put together again in our form."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from dp_bundle.files.tar import write_archive

__all__ = ["Members", "members_of", "write"]

Members = dict[str, bytes]


def members_of(path: Path) -> Members:
    """Return the members of a bundle."""
    with tarfile.open(path) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}


def write(path: Path, members: Members) -> Path:
    """Write members as an archive in our form."""
    with path.open("wb") as file:
        write_archive(file, [(name, io.BytesIO(content)) for name, content in members.items()])
    return path
