"""Parts of a bundle as tasks for workers, who open the bundle themselves, at its path or URI.

The reader who hands them out has verified signer, signature and manifest. A task names one part, with the digests of
that part and of the manifest; a worker compares what it reads with both before it parses either. So a bundle that is
changed or exchanged while workers read it is refused.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dp_bundle.base.errors import DpGraphError, StoreError
from dp_bundle.bundle.locating import members_at
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.files.places import RemotePath, located
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
from dp_bundle.manifest.release import Release
from dp_bundle.manifest.statement import Statement
from dp_bundle.trust.signing import Envelope

if TYPE_CHECKING:
    from dp_bundle.data.row_reader import RowGroup

_KEPT = 4  # manifests


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


def place_of(path: Path | RemotePath) -> str:
    """Return a bundle's absolute path or its URI, with everything that is needed to read it."""
    return path.uri if isinstance(path, RemotePath) else os.fspath(path.absolute())


def part_tasks(
    path: Path | RemotePath,
    members: Mapping[str, Member],
    signed: Mapping[str, str],
    parts: Sequence[str],
    n_columns: int,
    *,
    anew: bool = False,
) -> list[PartTask]:
    """Return these parts of a bundle as tasks.

    Parameters
    ----------
    path : Path or RemotePath
        The bundle.
    members, signed
        Its members and their SHA-256, by name.
    parts : sequence of str
        Their names, in order.
    n_columns : int
        How many columns they have.
    anew : bool
        As of a `PartTask`.
    """
    from dp_bundle.data.rows import part_rows  # only readers of data need pyarrow

    starts = accumulate((part_rows(n_columns, index) for index in range(len(parts))), initial=0)
    place, manifest = place_of(path), members[MANIFEST_NAME]
    return [
        PartTask(place, manifest, signed[MANIFEST_NAME], members[name], signed[name], start, anew)
        for name, start in zip(parts, starts, strict=False)
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

    from dp_bundle.data.row_reader import part_groups

    with _opened(task) as source:
        release = _parse(read_unchanged(source, task.manifest, task.manifest_sha256))
        if task.part.size <= MOST_IN_MEMORY:
            content = read_unchanged(source, task.part, task.sha256)
            new_view = partial(pa.BufferReader, content)
        else:
            new_view = partial(CheckedReader, source, task.part, _require_unchanged(source, task))
        version_1 = release.format_version == "1"
        name, columns = task.part.name, release.columns
        n_rows = release.n_rows + task.start  # whoever has the results of all parts counts their rows
        yield part_groups(name, new_view, columns, n_rows, task.start, version_1=version_1)


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


def _require_unchanged(source: Members, task: PartTask) -> Digests:
    digests = digest_member(source, task.part)
    if digests.whole != task.sha256:
        raise changed(task.part.name)
    return digests


@lru_cache(_KEPT)
def _parse(manifest: bytes) -> Release:
    """Return the release of a manifest whose digest is that of one whose signature was verified."""
    return Statement.from_bytes(Envelope.from_bytes(manifest).payload).predicate
