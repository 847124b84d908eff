"""The members of a bundle, taken out and put together again in our form."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import BundleError, open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.files.tar import write_archive
from dp_bundle.trust.signing import Envelope, sign_envelope
from dp_publish import Receipt

__all__ = ["Members", "members_of", "refuse_flipped_bits", "signed_statement", "write"]

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


def refuse_flipped_bits(path: Path, altered: Path, *, flips: int, seed: int) -> None:
    """Check that a bundle with any one of so many bits flipped is refused."""
    content = bytearray(path.read_bytes())
    for position in random.Random(seed).sample(range(8 * len(content)), flips):
        content[position // 8] ^= 1 << position % 8
        altered.write_bytes(content)
        with pytest.raises(BundleError):
            open_bundle(altered)
        content[position // 8] ^= 1 << position % 8


def signed_statement(bundle: Receipt, key: Ed25519PrivateKey, change: Callable[[dict[str, object]], None]) -> bytes:
    """Return the manifest of a bundle with a changed statement, soundly signed."""
    statement = json.loads(Envelope.from_bytes(members_of(bundle.path)[MANIFEST_NAME]).payload)
    change(statement)
    return sign_envelope(json.dumps(statement, sort_keys=True, separators=(",", ":")).encode(), key).to_bytes()
