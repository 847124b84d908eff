"""The members of a bundle, taken out and put together again in our form."""

import io
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest

from dp_bundle import Bundle, BundleError, open_bundle
from dp_bundle.files.tar import write_archive

__all__ = ["Members", "members_of", "read_all", "refuse_flipped_bits", "write"]

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


def read_all(bundle: Bundle) -> list[Any]:
    """Return all that a bundle holds: its batches, or its matrices and histograms in the order of the members."""
    release = bundle.release
    if release.kind == "rows":
        return list(bundle.batches())
    readers = [bundle.second_moments, *[bundle.first_round, bundle.transform][: len(release.matrix_names) - 1]]
    return [read() for read in (readers if release.margins is None else [*readers, bundle.margins])]


def refuse_flipped_bits(path: Path, altered: Path, *, flips: int, seed: int) -> None:
    """Check that a bundle with any one of so many bits flipped is refused."""
    content = bytearray(path.read_bytes())
    for position in random.Random(seed).sample(range(8 * len(content)), flips):
        content[position // 8] ^= 1 << position % 8
        altered.write_bytes(content)
        with pytest.raises(BundleError):
            open_bundle(altered)
        content[position // 8] ^= 1 << position % 8
