"""A bundle written in one go: data, what describes them, and the signed manifest over all."""

import contextlib
import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import quote_path
from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember
from dp_bundle.files.tar import write_archive
from dp_bundle.manifest.release import MAX_PAYLOAD, Release, Statement, Subject
from dp_bundle.trust.signing import sign_envelope

MAX_MANIFEST = MAX_PAYLOAD // 3 * 4 + 2**10  # bytes, in base64 with a signature
MANIFEST_NAME = "manifest.dsse.json"


def write_bundle(
    file: BinaryIO,
    release: Release,
    parts: list[BinaryIO],
    key: Ed25519PrivateKey,
    digests: Sequence[str] | None = None,
    *,
    close_parts: bool = False,
) -> str:
    """Write a signed bundle: the inverse of `open_bundle`.

    Parameters
    ----------
    file : binary file
        Where the archive goes, from its current position on.
    release : Release
        The manifest's predicate.
    parts : list of binary files
        The data members' content, seekable; of a covariance release, its `moment_names`.
    key : Ed25519PrivateKey
        The publisher's key.
    digests : sequence of str, optional
        The SHA-256 of every part, in hexadecimal digits, if it was taken when the part was written.
    close_parts : bool, optional
        Whether to close each part as soon as it is in the archive; a file without a name then gives its room back.

    Returns
    -------
    str
        The SHA-256 of the manifest member.
    """
    data = dict(zip(release.data_names(len(parts)), parts, strict=True))
    digests = digests if digests is not None else [sha256_of(part) for part in parts]
    described = [
        DataMember(name, part.seek(0, os.SEEK_END), digest)
        for (name, part), digest in zip(data.items(), digests, strict=True)
    ]
    documents = {name: io.BytesIO(make(release, described)) for name, make in DESCRIPTORS.items()}
    subjects = [Subject(name=name, digest={"sha256": sha256_of(file)}) for name, file in documents.items()]
    subjects += [Subject(name=member.name, digest={"sha256": member.sha256}) for member in described]
    payload = Statement.about(release, subjects).to_bytes()
    if len(payload) > MAX_PAYLOAD:
        raise ParameterError("the manifest", f"of at most {MAX_PAYLOAD} bytes, by shorter descriptions", len(payload))
    manifest = sign_envelope(payload, key).to_bytes()
    documented = [(MANIFEST_NAME, io.BytesIO(manifest)), *documents.items()]
    write_archive(file, chain(documented, _closed_behind(data) if close_parts else data.items()))
    return hashlib.sha256(manifest).hexdigest()


def _closed_behind(data: Mapping[str, BinaryIO]) -> Iterator[tuple[str, BinaryIO]]:
    """Yield members, each of which is closed when the next is asked for."""
    for name, part in data.items():
        with part:
            yield name, part


def sha256_of(file: BinaryIO) -> str:
    """Return the SHA-256 of a file's whole content, in hexadecimal digits."""
    file.seek(0)
    return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()


@contextlib.contextmanager
def errors_of_writing(path: Path, taken: str = "") -> Iterator[None]:
    """Say in a sentence what keeps a file or a folder from being written: `taken` if its name is not free."""
    try:
        yield
    except OSError as error:
        if taken and isinstance(error, FileExistsError):
            raise DpGraphError(taken) from error
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror or error}") from error
