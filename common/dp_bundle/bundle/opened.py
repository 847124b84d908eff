"""A verified bundle, open for reading: its release, and its data straight from the tar or folder, wherever it lies.

Workers read its parts as tasks, and open the bundle themselves, at its path or URI. The reader who hands them out has
verified signer, signature and manifest. A task names one part, with the digests of that part and of the manifest. A
worker compares what it reads with both before it parses either. So a bundle that is changed or exchanged while workers
read it is refused.

Of a bundle that lies elsewhere, manifest and descriptions are read at once, as they are small, and kept in memory.
Every data member is fetched when it is first needed, in large ranges, into the cache of downloads. The cache compares
it with its signed digest before it is read. From there it is read as from a folder. No more of anything is asked for
than it can have. Of a description that is as many bytes as follow from the manifest, and of a data member those that a
signed description gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from dp_bundle.base.engine import Engine
from dp_bundle.base.errors import BundleFormatError, DigestMismatchError, DpGraphError, StoreError
from dp_bundle.base.quoting import counted, quote_path
from dp_bundle.bundle.writing import MANIFEST_NAME, MAX_MANIFEST
from dp_bundle.describe.descriptors import DESCRIPTORS, file_sizes
from dp_bundle.describe.sentences import describe_size
from dp_bundle.files.cache import Cache
from dp_bundle.files.new_files import read_at, regular_file
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import AnyPath, RemotePath, located
from dp_bundle.files.tar import (
    MOST_IN_MEMORY,
    CheckedReader,
    Digests,
    HeldFile,
    HeldFolder,
    Member,
    Members,
    changed,
    digest_member,
    end_in_name,
    read_unchanged,
)
from dp_bundle.manifest.release import (
    COVARIANCE_NAME,
    FIRST_ROUND_NAME,
    MARGINS_NAME,
    TRANSFORM_NAME,
    Release,
    Statement,
)
from dp_bundle.trust.judging import TrustedKey
from dp_bundle.trust.signing import Envelope, PublicKey

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dp_bundle.base.arrays import Floats
    from dp_bundle.data.learned import Correlations
    from dp_bundle.data.margins import Margin
    from dp_bundle.data.rows import RowGroup

_KEPT = 4  # manifests, by a worker
_MAGIC, _MAGIC_AT = b"ustar", 257  # of a header in a tar
_HEAD, _HEADER = 2**16, 2**11  # bytes that are read of a tar at once: where it begins, and further on


def tar_beside(folder: AnyPath) -> AnyPath:
    """Return the path of the tar that a folder packs to, beside it; signatures are beside that."""
    named = end_in_name(folder)
    return named.with_name(f"{named.name}.tar")


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
        members: list[Member],
        digests: Mapping[str, Digests],
        engine: Engine | None = None,
        copies: Collection[str] = (),
    ) -> None:
        self.path = path
        self.engine = engine
        self.release = release
        self.signer = signer
        self.manifest_sha256 = digests[MANIFEST_NAME].whole
        self.members = {member.name: member for member in members}
        self.notes: tuple[str, ...] = ()
        self.copies = tuple(name for name in self.members if name in copies)
        self._source = source
        self._digests = dict(digests)
        self._margins: tuple[Margin, ...] | None = None

    @property
    def origin(self) -> tuple[PublicKey, str]:
        """The dataset, whichever key of a line signed: the oldest key of the line, and the name."""
        return self.signer.root, self.release.dataset.name

    @property
    def tar_path(self) -> Path | RemotePath:
        """The path of the tar, or of the one that the folder packs to; signatures beside it are beside both."""
        return self.path if self._source.tar else tar_beside(self.path)

    def describe_copies(self) -> list[str]:
        """Return a sentence for a reader who was given copies of earlier downloads, and none otherwise."""
        if not self.copies:
            return []
        return [
            f"{counted(len(self.copies), 'data file')} read from copies of earlier downloads, as they were signed; "
            f"whether the address still has them was not checked: dp-bundle verify {quote_path(self.path)} does that"
        ]

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
        """Return a seekable view of a member; its bytes are those that were verified, or reading them fails."""
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

    def to_pandas(self) -> pd.DataFrame:
        """Return the published numbers as a data frame, noise included.

        Returns
        -------
        DataFrame
            The noisy rows, all in memory; or the noisy matrix of second moments, labelled both ways. Of two rounds it
            is that of the second, whose columns are rotated and labelled so (see `second_moments` and `transform`).
            What both hold without the noise is for `dp_learn`.

        Raises
        ------
        BundleFormatError
            The data are not what the manifest says.
        """
        import pandas as pd

        if self.release.kind == "rows":
            frames: list[pd.DataFrame] = [batch.to_pandas() for batch in self.batches()]
            return pd.concat(frames, ignore_index=True)
        labels = self.release.matrix_labels
        return pd.DataFrame(self.second_moments(), labels, labels)

    def row_groups(self) -> Iterator[RowGroup]:
        """Yield the batches of `batches` as row groups, which any thread may read.

        Raises
        ------
        BundleFormatError
            It is a covariance release, or its data are not what the manifest says.
        """
        from dp_bundle.data.rows import find_groups

        parts, release = ((name, self._views(name)) for name in self._row_members()), self.release
        return find_groups(parts, release.columns, release.n_rows)

    def part_tasks(self) -> list[PartTask]:
        """Return the parts of the rows as tasks for workers, who read them by `open_part`.

        Raises
        ------
        BundleFormatError
            It is a covariance release.
        """
        parts = [self.members[name] for name in self._row_members()]
        signed = {name: digests.whole for name, digests in self._digests.items()}
        return part_tasks(self.path, self.members[MANIFEST_NAME], parts, signed, len(self.release.columns))

    def second_moments(self) -> Floats:
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

    def first_round(self) -> Floats:
        """Return the noisy matrix of the first of two rounds, like `second_moments`, which is that of the second.

        Raises
        ------
        BundleFormatError
            It is not a covariance release of two rounds, or its data are not what the manifest says.
        """
        return self._matrix(FIRST_ROUND_NAME)

    def transform(self) -> Floats:
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

    def margins(self) -> tuple[Margin, ...]:
        """Return the histograms of the raw columns, which are read once, and known when the bundle is closed.

        Returns
        -------
        tuple of Margin
            One for each raw column, with noisy counts whose noise `release.margins` states.

        Raises
        ------
        BundleFormatError
            It has none, or its data are not what the manifest says.
        """
        from dp_bundle.data.margins import read_margins

        self._require_moments()
        if MARGINS_NAME not in self.members:
            raise BundleFormatError("this release has no histograms")
        if self._margins is None:
            with self.open(MARGINS_NAME) as file:
                self._margins = read_margins(file, self.release)
        return self._margins

    def correlations(self) -> Correlations:
        """Return the correlations of the columns without the noise's part, with their standard errors.

        Of columns of normal scores they are those of the normal variables behind the scores. `dp_learn` finds them.

        Returns
        -------
        Correlations
            With `columns`, and `values` and `standard_errors` of shape (p, p).

        Raises
        ------
        EstimationError
            There are too few rows, or numbers that cannot be computed with.
        BundleFormatError
            The data are not what the manifest says.
        """
        from dp_bundle.data.learned import require_reader

        return require_reader().correlations(self)

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

    def _matrix(self, name: str) -> Floats:
        from dp_bundle.data.matrix import read_triangle

        self._require_moments()
        if name not in self.members:
            raise BundleFormatError("this covariance was released in one round, and has one matrix: its second moments")
        with self.open(name) as file:
            return read_triangle(file, self.release, name)

    def _require_moments(self) -> None:
        """Refuse a release of rows, and data that are not those of the second moments."""
        if self.release.kind != "covariance":
            raise BundleFormatError("this bundle is a release of rows, not of second moments: read its batches")
        if [each for each in self.members if each.startswith("data/")] != self.release.moment_names:
            raise BundleFormatError("the bundle is a covariance release whose data are not its matrices alone")

    def __repr__(self) -> str:
        """Return which release it is of what, and how large, in one line."""
        lineage = self.release.lineage
        return f"<Bundle: release {lineage.number} of {self.release.dataset.name!r}, {describe_size(self.release)}>"

    def close(self) -> None:
        """Close the tar or the folder; a second time does nothing."""
        self._source.close()

    def __enter__(self) -> Bundle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def members_at(path: Path | RemotePath, signed: Mapping[str, str] | None = None, *, anew: bool) -> Members:
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
        return RemoteMembers(path, signed, anew=anew)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        return Members(HeldFolder(descriptor))
    return Members(HeldFile(cast(BinaryIO, os.fdopen(descriptor, "rb", buffering=0))), path.name or str(path))


class PartTask(NamedTuple):
    """One part of a bundle.

    Attributes
    ----------
    place : str
        The bundle's absolute path, or its URI.
    manifest, manifest_sha256
        Its manifest, and the digest of that.
    part, sha256
        The part, and its signed digest.
    start : int
        The number of the part's first row among all of the bundle, if earlier parts are of the usual sizes.
    anew : bool
        Whether its digest is taken of what lies at the place, and not of a copy of an earlier download.
    """

    place: str
    manifest: Member
    manifest_sha256: str
    part: Member
    sha256: str
    start: int
    anew: bool = False


def part_tasks(
    path: Path | RemotePath,
    manifest: Member,
    parts: Sequence[Member],
    signed: Mapping[str, str],
    n_columns: int,
    *,
    anew: bool = False,
) -> list[PartTask]:
    """Return these parts of a bundle as tasks.

    Parameters
    ----------
    path : Path or RemotePath
        The bundle.
    manifest : Member
        Its manifest.
    parts : sequence of Member
        In order.
    signed : mapping of str to str
        The SHA-256 of all members, by name.
    n_columns : int
        How many columns they have.
    anew : bool
        As of a `PartTask`.
    """
    from dp_bundle.data.rows import part_rows  # only readers of data need pyarrow

    starts = accumulate((part_rows(n_columns, index) for index in range(len(parts))), initial=0)
    place = path.uri if isinstance(path, RemotePath) else os.fspath(path.absolute())
    return [
        PartTask(place, manifest, signed[MANIFEST_NAME], part, signed[part.name], start, anew)
        for part, start in zip(parts, starts, strict=False)
    ]


def digest_part(task: PartTask) -> tuple[Digests, bool]:
    """Return the digests of a part, for the caller to compare, and whether a copy of an earlier download was read.

    Raises
    ------
    BundleFormatError
        It ends early.
    StoreError
        The bundle cannot be read from here.
    """
    with _opened(task, anew=task.anew) as source:
        return digest_member(source, task.part), task.part.name in source.copies


@contextlib.contextmanager
def open_part(task: PartTask) -> Iterator[Iterator[RowGroup]]:
    """Verify a part, and yield its row groups, one by one, within the block.

    Raises
    ------
    BundleFormatError
        Part or manifest is another one than the task says, or the part holds something else than the manifest says.
    StoreError
        The bundle cannot be read from here.
    """
    import pyarrow as pa  # digests are taken without it

    from dp_bundle.data.rows import part_groups

    with _opened(task) as source:
        release = _parse(read_unchanged(source, task.manifest, task.manifest_sha256))
        if task.part.size <= MOST_IN_MEMORY:
            content = read_unchanged(source, task.part, task.sha256)
            new_view = partial(pa.BufferReader, content)
        else:
            digests = digest_member(source, task.part)
            if digests.whole != task.sha256:
                raise changed(task.part.name)
            new_view = partial(CheckedReader, source, task.part, digests)
        name, columns = task.part.name, release.columns
        n_rows = release.n_rows + task.start  # whoever has the results of all parts counts their rows
        yield part_groups(name, new_view, columns, n_rows, task.start)


@contextlib.contextmanager
def _opened(task: PartTask, *, anew: bool = False) -> Iterator[Members]:
    """Open the bundle of a task; a path that only its sender can read is an error in our words."""
    path = located(task.place)
    try:
        with contextlib.closing(members_at(path, {task.part.name: task.sha256}, anew=anew)) as source:
            yield source
    except DpGraphError:
        raise
    except OSError as error:
        said = f"a worker cannot read it ({error.strerror or error}): give a path or URI that all workers can read"
        raise StoreError(os.fspath(path), said) from error


@lru_cache(_KEPT)
def _parse(manifest: bytes) -> Release:
    """Return the release of a manifest whose digest is that of one whose signature was verified."""
    return Statement.from_bytes(Envelope.from_bytes(manifest).payload).predicate


class RemoteMembers(Members):
    """The members of a bundle at an address: small ones in memory, others in the cache.

    It is a tar if its name ends so, or if its first bytes are those of one. Else it is a folder, in which nothing else
    is looked for.

    Parameters
    ----------
    path : RemotePath
        The address.
    signed : mapping of str to str or None
        Names and signed SHA-256 of what will be read, if they are known; else `scan` is told them.
    anew : bool
        Whether data are fetched even if there are copies of earlier downloads.

    Raises
    ------
    FileNotFoundError
        There is no such tar.
    DpGraphError
        There is no such kind of place, or it cannot be read.
    """

    def __init__(self, path: RemotePath, signed: Mapping[str, str] | None = None, *, anew: bool = False) -> None:
        is_tar = path.name.endswith(".tar") or _holds_tar(path)
        store = open_store(path.folder if is_tar else path.uri)
        super().__init__(store, path.name if is_tar else "")
        self._uri = store.uri
        self._anew, self._cache = anew, Cache()
        self._small: dict[str, bytes] = {}
        self._signed = signed or {}
        self._fetched: dict[str, Path] = {}
        self._windows = [(0, self._at(self.tar, 0, _HEAD) if is_tar else b"")] * 2  # the tar's head, and the last

    def first(self, name: str) -> Member:
        """Return the first member of a tar, or that of this name, which is fetched whole."""
        if self.tar:
            return super().first(name)
        self._small[name] = self._at(name, 0, MAX_MANIFEST + 1)
        return Member(name, 0, len(self._small[name]))

    def scan(self, signed: Mapping[str, str], largest: Callable[[], Mapping[str, int]]) -> list[Member]:
        """Return all members, in this order; of data in a folder, sizes are those that the signed descriptions give.

        Raises
        ------
        BundleFormatError
            A description is missing, too long, or does not give the sizes; or the tar has other members.
        DigestMismatchError
            A description is not the one that was signed.
        """
        self._signed, most = signed, largest()
        members = super().scan(signed, largest) if self.tar else [Member(name, 0, most.get(name, 0)) for name in signed]
        for member in members:
            if member.name in most:
                if member.size > most[member.name]:
                    raise BundleFormatError(f"{member.name} is longer than the manifest makes it: it was altered")
                self._small_content(member)
        sizes = {name: len(content) for name, content in self._small.items()} | self._described_sizes()
        if self.tar and any(member.size != sizes.get(member.name, member.size) for member in members):
            raise BundleFormatError("the files have other sizes than croissant.json says: the bundle was altered")
        return members if self.tar else [Member(name, 0, sizes[name]) for name in signed]

    @property
    def copies(self) -> Collection[str]:  # type: ignore[override]
        """The data members that were found in the cache, whole or begun."""
        return self._cache.copies

    def read(self, member: Member, position: int, size: int) -> bytes:
        """Return `size` bytes of a member, or fewer at its end; those of data have their signed digest."""
        self.require_open()
        if not member.name.startswith("data/"):
            return self._small_content(member)[position : position + size]
        while True:
            try:
                with regular_file(self._fetch(member), os.O_NOFOLLOW) as descriptor:
                    return read_at(descriptor, position, size)
            except FileNotFoundError:  # others needed the room
                self._fetched.pop(member.name, None)

    def _fetch(self, member: Member) -> Path:
        """Return the path of a data member in the cache."""
        if member.name not in self._fetched:
            read = partial(self._range, member)
            sha256 = self._signed[member.name]
            self._fetched[member.name] = self._cache.fetch(member.name, sha256, member.size, read, anew=self._anew)
        return self._fetched[member.name]

    def _described_sizes(self) -> dict[str, int]:
        """Return the sizes of all data members as the signed description gives them.

        Raises
        ------
        DigestMismatchError
            It is not the one that was signed.
        BundleFormatError
            It does not name all.
        """
        for name in DESCRIPTORS:
            if hashlib.sha256(self._small[name]).hexdigest() != self._signed[name]:
                raise DigestMismatchError(name)
        sizes = file_sizes(self._small["croissant.json"])
        if not {name for name in self._signed if name.startswith("data/")} <= sizes.keys():
            raise BundleFormatError("croissant.json does not name all files: do not use this bundle")
        return sizes

    def _small_content(self, member: Member) -> bytes:
        """Return a member that is kept in memory."""
        if member.name not in self._small:
            self._small[member.name] = self._range(member, 0, member.size)
        return self._small[member.name]

    def _range(self, member: Member, position: int, size: int) -> bytes:
        """Return so many bytes of a member from where it lies, or from the head of its tar."""
        start = member.offset + position
        if self.tar and start + size <= len(self._windows[0][1]):
            return self._windows[0][1][start : start + size]
        return self._at(self.tar or member.name, start, size)

    def _archive(self, position: int, size: int) -> bytes:
        """Return bytes of the tar, with a header's worth of those behind them in one request."""
        for start, content in self._windows:
            if start <= position <= position + size <= start + len(content):
                return content[position - start :][:size]
        content = self._at(self.tar, position, max(size, _HEADER))
        self._windows[1] = (position, content)
        return content[:size]

    def _at(self, name: str, position: int, size: int) -> bytes:
        """Return so many bytes of a file."""
        try:
            return self._place.read(name, position, size)
        except FileNotFoundError as error:
            raise BundleFormatError(
                f"{name} is missing at {quote_path(self._uri)}: give the address of a whole bundle"
            ) from error


def _holds_tar(path: RemotePath) -> bool:
    """Return whether a file lies at a URI that begins as a tar does, whatever it is called."""
    with contextlib.suppress(OSError, DpGraphError):
        return open_store(path.folder).read(path.name, _MAGIC_AT, len(_MAGIC)) == _MAGIC
    return False
