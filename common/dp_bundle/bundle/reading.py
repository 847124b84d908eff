"""A bundle as a whole, verified in one go; `writing` is the inverse.

`open_bundle` gives an object only after all of these hold, in this order, before a byte of data is parsed:

1. the file begins with a signed envelope of bounded size, in its one serialised form;
2. the signer is one whom the reader trusts: until here only the beginning and the end of the envelope were looked at;
3. the signature is the signer's;
4. the statement is a release of a known format version, in its one spelling, that does not contradict itself;
5. the archive is one that `archive.write_archive` makes, byte for byte outside the members' content;
6. its members are those of such a release, and the statement's subjects: all of them, no others, in their order;
7. the README and the other descriptions are those that the manifest gives (since format version 2);
8. every member's SHA-256 is the signed one;
9. no other release with its number, and no newer one of the dataset, or of its partition, by this signer has been seen.

Afterwards a byte that is no longer what was verified is refused when it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, cast

from dp_bundle.bundle.writing import MANIFEST_NAME, data_names, write_bundle
from dp_bundle.describe import DESCRIPTORS, DataMember
from dp_bundle.errors import BundleFormatError, ClosedBundleError, DigestMismatchError
from dp_bundle.files import CheckedReader, Digests, Member, MemberReader, digest_member, first_member, scan_archive
from dp_bundle.manifest import COVARIANCE_NAME, MAX_PAYLOAD, Release, Statement, Subject
from dp_bundle.quoting import quote_path
from dp_bundle.trust import (
    ENVELOPE_END,
    Envelope,
    PublicKey,
    Sighting,
    TrustedKey,
    TrustPolicy,
    TrustStore,
    UnsafeTrustAnyone,
    signer_of,
    verify_envelope,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = [
    "MANIFEST_NAME",
    "Bundle",
    "TrustPolicy",
    "UnsafeTrustAnyone",
    "open_bundle",
    "open_bundles",
    "verify_manifest",
    "write_bundle",
]

_MAX_MANIFEST_SIZE = MAX_PAYLOAD // 3 * 4 + 2**10


class Bundle:
    """A verified bundle, open for reading; a context manager.

    Attributes
    ----------
    path : Path
        The file.
    release : Release
        What its manifest says.
    signer : TrustedKey
        Who signed it.
    manifest_sha256 : str
        The digest of its manifest member, by which a later release refers to it.
    members : dict of str to Member
        All members, in order.
    notes : tuple of str
        What a reader should know of newer releases.
    """

    def __init__(
        self, path: Path, file: BinaryIO, release: Release, signer: TrustedKey, digest: str, members: list[Member]
    ) -> None:
        self.path = path
        self.release = release
        self.signer = signer
        self.manifest_sha256 = digest
        self.members = {member.name: member for member in members}
        self.notes: tuple[str, ...] = ()
        self._file = file
        self._digests: dict[str, Digests] = {}

    def open(self, name: str) -> BinaryIO:
        """Return a seekable window on a member; its bytes are those that were verified, or reading them fails."""
        self._descriptor()
        reader = CheckedReader(self._descriptor, self.members[name], self._digests[name])
        return cast(BinaryIO, io.BufferedReader(reader, 2**17))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the published rows as record batches of bounded size, straight from the archive.

        Raises
        ------
        BundleFormatError
            It is a covariance release, or its data are not what the manifest says.
        """
        from dp_bundle.data import read_parts  # only readers of data need pyarrow

        if self.release.kind != "rows":
            raise BundleFormatError("this bundle is a covariance release, which has no rows: read its second moments")
        parts = ((name, self.open(name)) for name in self.members if name.startswith("data/"))
        version_1 = self.release.format_version == "1"
        return read_parts(parts, self.release.columns, self.release.n_rows, version_1=version_1)

    def second_moments(self) -> NDArray[np.float64]:
        """Return the noisy matrix of a covariance release, straight from the archive.

        Returns
        -------
        ndarray of float64, shape (d, d)
            Symmetric: the sum over rows of (z, c)(z, c)^T plus noise, as `SecondMoments` describes it, in the order of
            the release's `labels`.

        Raises
        ------
        BundleFormatError
            It is a release of rows, or its data are not what the manifest says.
        """
        from dp_bundle.data import read_triangle

        if self.release.kind != "covariance":
            raise BundleFormatError("this bundle is a release of rows, not of second moments: read its batches")
        if [name for name in self.members if name.startswith("data/")] != [COVARIANCE_NAME]:
            raise BundleFormatError("the bundle is a covariance release whose data are not a single matrix")
        with self.open(COVARIANCE_NAME) as file:
            return read_triangle(file, self.release)

    def _descriptor(self) -> int:
        """Return the open file's number, which may be another file's once it is closed."""
        if self._file.closed:
            raise ClosedBundleError
        return self._file.fileno()

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        self._file.close()

    def __enter__(self) -> Bundle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_bundle(path: str | Path, trust: TrustPolicy | None = None, *, allow_older: bool = False) -> Bundle:
    """Verify a bundle whole and return it open for reading.

    Parameters
    ----------
    path : str or Path
        The file.
    trust : TrustPolicy, optional
        Whom to trust; the user's own store by default.
    allow_older : bool
        Whether to accept a release older than one already seen.

    Returns
    -------
    Bundle
        Open; close it, or use it in a `with` statement.

    Raises
    ------
    BundleError
        The file, its signer or its content is not to be trusted; nothing of it was parsed as data or written to disk.
    """
    (bundle,) = open_bundles([path], trust, allow_older=allow_older)
    return bundle


def open_bundles(
    paths: Sequence[str | Path], trust: TrustPolicy | None = None, *, allow_older: bool = False
) -> list[Bundle]:
    """Verify several bundles, each as `open_bundle` does; given beside a newer release, an older one is no surprise.

    Returns
    -------
    list of Bundle
        Open, in the order of the paths.

    Raises
    ------
    BundleError
        One of the files, its signer or its content is not to be trusted.
    """
    policy = trust if trust is not None else TrustStore()
    with contextlib.ExitStack() as opened:
        bundles = [opened.enter_context(_open(Path(path), policy)) for path in paths]
        newest: set[tuple[PublicKey, str]] = set()
        for bundle in sorted(bundles, key=lambda each: -each.release.lineage.number):
            origin = (bundle.signer.key, bundle.release.series)
            sighting, beside = _sighting(bundle), origin in newest
            bundle.notes = policy.admit(bundle.signer.key, sighting, allow_older=allow_older, beside_newer=beside)
            newest.add(origin)
        opened.pop_all()
    return bundles


def _open(path: Path, trust: TrustPolicy) -> Bundle:
    with contextlib.ExitStack() as opened:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            file = opened.enter_context(cast(BinaryIO, os.fdopen(descriptor, "rb", buffering=0)))
        except (OSError, ValueError) as error:  # a name with a zero byte is no name
            reason = getattr(error, "strerror", None) or error
            raise BundleFormatError(f"{quote_path(path)} cannot be opened: {reason}") from error
        try:
            bundle = _verify(path, file, trust)
        except OSError as error:
            raise BundleFormatError(f"{quote_path(path)} cannot be read: {error.strerror}") from error
        opened.pop_all()
    return bundle


def _sighting(bundle: Bundle) -> Sighting:
    release = bundle.release
    return Sighting(
        release.dataset.name,
        release.series,
        release.lineage.number,
        release.kind,
        bundle.manifest_sha256,
        release.lineage.previous,
    )


def verify_manifest(content: bytes, trust: TrustPolicy) -> tuple[Statement, TrustedKey]:
    """Verify the bytes of a manifest member: form, signer, signature, statement.

    Raises
    ------
    BundleError
        One of them does not hold.
    """
    envelope = Envelope.from_bytes(content)
    signer = trust.require(envelope.signer)
    return Statement.from_bytes(verify_envelope(envelope)), signer


def _verify(path: Path, file: BinaryIO, trust: TrustPolicy) -> Bundle:
    descriptor = file.fileno()
    content = _read_manifest(path, descriptor, trust)
    statement, signer = verify_manifest(content, trust)
    release = statement.predicate

    members = scan_archive(descriptor, 1 + len(statement.subject))
    if [member.name for member in members] != [MANIFEST_NAME, *(subject.name for subject in statement.subject)]:
        raise BundleFormatError("the bundle has members that were not signed, or lacks some that were: it was altered")
    _check_descriptors(release, members, statement.subject)
    bundle = Bundle(path, file, release, signer, hashlib.sha256(content).hexdigest(), members)
    for subject in statement.subject:
        found = digest_member(descriptor, bundle.members[subject.name])
        if found.whole != subject.digest["sha256"]:
            raise DigestMismatchError(subject.name)
        bundle._digests[subject.name] = found
    return bundle


def _read_manifest(path: Path, descriptor: int, trust: TrustPolicy) -> bytes:
    """Return the manifest member, unless its size or its signer is not to be trusted."""
    member = first_member(descriptor)
    if member.name != MANIFEST_NAME or member.size > _MAX_MANIFEST_SIZE:
        raise BundleFormatError(
            f"{quote_path(path)} is not a bundle: it does not begin with a manifest of sensible size"
        )
    reader = MemberReader(descriptor, member)
    reader.seek(-ENVELOPE_END, os.SEEK_END)
    trust.require(signer_of(reader.read()))
    reader.seek(0)
    return b"".join(reader.chunks())


def _check_descriptors(release: Release, members: list[Member], subjects: Sequence[Subject]) -> None:
    """Check that there are the members of such a release, and that its descriptions are what its manifest gives."""
    signed = {subject.name: subject.digest["sha256"] for subject in subjects}
    sizes = {member.name: member.size for member in members}
    names = [*DESCRIPTORS, *data_names(release, max(1, len(subjects) - len(DESCRIPTORS)))]
    if names != list(signed):
        raise BundleFormatError(f"the members of the bundle are not those of a release of kind {release.kind}")
    if release.format_version == "1":  # whose descriptions were worded by the version that made it
        return
    described = [DataMember(name, sizes[name], signed[name]) for name in names[len(DESCRIPTORS) :]]
    for name, make in DESCRIPTORS.items():
        if hashlib.sha256(make(release, described)).hexdigest() != signed[name]:
            raise BundleFormatError(f"{name} says something else than the manifest: do not use this bundle")
