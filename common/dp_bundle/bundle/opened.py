"""A verified bundle, open for reading: its release, and its data straight from the tar or folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, cast

from dp_bundle.base.errors import BundleFormatError, DpGraphError
from dp_bundle.bundle.part_tasks import PartTask, part_tasks
from dp_bundle.engines.engine import Engine
from dp_bundle.files.ownership import read_regular
from dp_bundle.files.places import RemotePath
from dp_bundle.files.tar import FolderMembers, packed_path
from dp_bundle.files.windows import (
    MOST_IN_MEMORY,
    CheckedReader,
    Digests,
    Member,
    Members,
    changed,
    digest_member,
    read_unchanged,
)
from dp_bundle.manifest.release import COVARIANCE_NAME, FIRST_ROUND_NAME, TRANSFORM_NAME, Release
from dp_bundle.trust.judging import TrustedKey

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dp_bundle.data.row_reader import RowGroup


def tar_beside(folder: Path | RemotePath) -> Path | RemotePath:
    """Return the path of the tar that a folder packs to, beside it; signatures are beside that."""
    return packed_path(folder) if isinstance(folder, Path) else folder.with_name(f"{folder.name}.tar")


class Bundle:
    """A verified bundle, open for reading; a context manager.

    A byte that is no longer what was verified is refused when it is read.

    Attributes
    ----------
    path : Path or RemotePath
        The tar or the folder.
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
    engine : Engine or None
        What reads the rows elsewhere, by `part_tasks`.
    copies : tuple of str
        The members that were verified in copies of earlier downloads: nobody looked at what is at the address now.
    """

    def __init__(
        self,
        path: Path | RemotePath,
        source: Members,
        release: Release,
        signer: TrustedKey,
        manifest_sha256: str,
        members: list[Member],
        digests: Mapping[str, Digests],
        engine: Engine | None = None,
        copies: Collection[str] = (),
    ) -> None:
        self.path = path
        self.engine = engine
        self.release = release
        self.signer = signer
        self.manifest_sha256 = manifest_sha256
        self.members = {member.name: member for member in members}
        self.notes: tuple[str, ...] = ()
        self.copies = tuple(name for name in self.members if name in copies)
        self._source = source
        self._is_folder = isinstance(source, FolderMembers)
        self._digests = dict(digests)

    @property
    def tar_path(self) -> Path | RemotePath:
        """The path of the tar, or of the one that the folder packs to; signatures beside it are beside both."""
        is_tar = self.path.name.endswith(".tar") if isinstance(self.path, RemotePath) else not self._is_folder
        return self.path if is_tar else tar_beside(self.path)

    def read_beside(self, path: Path | RemotePath, most: int) -> bytes:
        """Return a small file that stands beside the bundle, in the pace of the bundle's own transfers.

        Raises
        ------
        OSError
            It is not there, cannot be read, or has more than so many bytes.
        """
        from dp_bundle.bundle.remote import Remote

        if isinstance(path, RemotePath) and isinstance(self._source, Remote):
            return self._source.read_beside(path, most)
        return read_regular(Path(path), most)

    def local_tar_path(self) -> Path:
        """Return `tar_path`, beside which files can be written.

        Raises
        ------
        DpGraphError
            The bundle lies elsewhere.
        """
        if isinstance(self.tar_path, RemotePath):
            raise DpGraphError(f"{self.path} is not on this machine: dp-bundle unpack it first, and give the folder")
        return self.tar_path

    def open(self, name: str) -> BinaryIO:
        """Return a seekable window on a member; its bytes are those that were verified, or reading them fails."""
        self._source.require_open()
        member, digests = self.members[name], self._digests[name]
        if not digests.blocks:
            digests = digest_member(self._source, member, by_blocks=True)
            if digests.whole != self.sha256(name):
                raise changed(name)
            self._digests[name] = digests
        reader = CheckedReader(self._source, member, digests)
        return cast(BinaryIO, io.BufferedReader(reader, 2**17))

    def sha256(self, name: str) -> str:
        """Return the digest of a member's content, in hexadecimal digits."""
        return self._digests[name].whole

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the published rows as record batches of bounded size, straight from the tar or folder.

        Raises
        ------
        BundleFormatError
            It is a covariance release, or its data are not what the manifest says.
        """
        return (group.read() for group in self.row_groups())

    def row_groups(self) -> Iterator[RowGroup]:
        """Yield the batches of `batches` as row groups, which any thread may read.

        Raises
        ------
        BundleFormatError
            It is a covariance release, or its data are not what the manifest says.
        """
        from dp_bundle.data.row_reader import find_groups  # only readers of data need pyarrow

        parts = ((name, self._views(name)) for name in self._row_members())
        version_1 = self.release.format_version == "1"
        return find_groups(parts, self.release.columns, self.release.n_rows, version_1=version_1)

    def part_tasks(self) -> list[PartTask]:
        """Return the parts of the rows as tasks for workers, who read them by `open_part`.

        Raises
        ------
        BundleFormatError
            It is a covariance release.
        """
        names, n_columns = self._row_members(), len(self.release.columns)
        signed = {name: digests.whole for name, digests in self._digests.items()}
        return part_tasks(self.path, self.members, signed, names, n_columns)

    def second_moments(self) -> NDArray[np.float64]:
        """Return the noisy matrix of a covariance release, straight from the tar or folder.

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
        return self._matrix(COVARIANCE_NAME)

    def first_round(self) -> NDArray[np.float64]:
        """Return the noisy matrix of the first of two rounds, like `second_moments`, which is that of the second.

        Raises
        ------
        BundleFormatError
            It is not a covariance release of two rounds, or its data are not what the manifest says.
        """
        return self._matrix(FIRST_ROUND_NAME)

    def transform(self) -> NDArray[np.float64]:
        """Return what the second of two rounds multiplied its standardised rows by.

        Returns
        -------
        ndarray of float64, shape (p, p)
            Symmetric, positive definite and safely invertible, in the order of the release's columns.

        Raises
        ------
        BundleFormatError
            It is not a covariance release of two rounds, or its data are not what the manifest says.
        """
        return self._matrix(TRANSFORM_NAME)

    def _views(self, name: str) -> Callable[[], BinaryIO]:
        """Return what opens a new view of a member: in memory, which threads share without a lock, if it is small."""
        if self.members[name].size > MOST_IN_MEMORY:
            return partial(self.open, name)
        import pyarrow as pa

        self._source.require_open()
        content = read_unchanged(self._source, self.members[name], self.sha256(name))
        return partial(pa.BufferReader, content)

    def _row_members(self) -> list[str]:
        """Return the names of the parts of a release of rows."""
        if self.release.kind != "rows":
            raise BundleFormatError("this bundle is a covariance release, which has no rows: read its second moments")
        return [name for name in self.members if name.startswith("data/")]

    def _matrix(self, name: str) -> NDArray[np.float64]:
        from dp_bundle.data.matrix import read_triangle

        if self.release.kind != "covariance":
            raise BundleFormatError("this bundle is a release of rows, not of second moments: read its batches")
        if [each for each in self.members if each.startswith("data/")] != self.release.matrix_names:
            raise BundleFormatError("the bundle is a covariance release whose data are not its matrices alone")
        if name not in self.members:
            raise BundleFormatError("this covariance was released in one round, and has one matrix: its second moments")
        with self.open(name) as file:
            return read_triangle(file, self.release, name)

    def close(self) -> None:
        """Close the tar or the folder; a second time does nothing."""
        self._source.close()

    def __enter__(self) -> Bundle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
