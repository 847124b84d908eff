"""The workers of a cluster, and what one does at a raw table that many read, each a range of its rows.

A worker opens the table as the policy describes it. Some rows may be left out, as an entity has more than its cap or a
value is missing. Then it was decided before, for the whole table, which rows are published. It is staged for each range
as one bit for each row. A task names the digest of its bits.

A part is noise on a range of rows. A worker gets no key, no ledger and no random bits. Every attempt draws its own from
the operating system, and stages its parts under a name of its own, where only the publisher may read. Dask gives one
result of each task, which names the parts that are copied into the bundle. So noise that is drawn twice, as a worker
was lost or slow, is never seen twice. What is not named is removed with all that was staged.
"""

import contextlib
import hashlib
import io
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import numpy as np

from dp_bundle.base.engine import Dask, Engine, map_batches
from dp_bundle.base.errors import ParameterError, StoreError
from dp_bundle.data.rows import batch_rows
from dp_bundle.files.opening import open_store, require_create_only
from dp_bundle.files.places import Store, located
from dp_bundle.manifest.columns import Column
from dp_publish.data.kinds import Kinds
from dp_publish.data.row_ranges import RawBatches
from dp_publish.data.table import Table, coded, open_table
from dp_publish.policy.coded_columns import signs_of
from dp_publish.policy.model import Policy
from dp_publish.release.begun import Part
from dp_publish.release.contribution_cap import unpack_kept
from dp_publish.release.parts import write_parts
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.missing import RowReport, find_complete
from dp_publish.sampling.keystream import SecureKeystream


@dataclass(frozen=True)
class Cluster:
    """Workers, and where they stage what they make.

    Attributes
    ----------
    engine : Engine
        Runs tasks.
    staging : str
        A folder or URI that all workers and this process can write, and nobody else can read.
    """

    engine: Engine
    staging: str


@contextlib.contextmanager
def dask_cluster(scheduler: str | None = None, staging: str | None = None) -> Iterator[Cluster]:
    """Use the workers of Dask for the length of a block.

    Parameters
    ----------
    scheduler : str, optional
        The address of their scheduler; by default, a worker for each core is started on this machine.
    staging : str, optional
        As of `Cluster`; by default, a folder among the temporary files of this machine, which ends with the block.

    Raises
    ------
    ParameterError
        There is a scheduler and no staging place, or the address cannot be used.
    """
    if scheduler is not None and staging is None:
        allowed = "given with --scheduler: a folder or URI that its workers and this process can write"
        raise ParameterError("--staging", allowed, None)
    with contextlib.ExitStack() as ending:
        place = staging or ending.enter_context(tempfile.TemporaryDirectory(prefix="dpgraph-staging-"))
        yield Cluster(ending.enter_context(Dask(scheduler)), whole_place(place))


def require_apart(cluster: Cluster, out: str | os.PathLike[str]) -> None:
    """Refuse to stage where the bundle goes.

    Raises
    ------
    ParameterError
        One of the places is that of staging.
    """
    if whole_place(out).rstrip("/") == whole_place(cluster.staging).rstrip("/"):
        raise ParameterError("--staging", "another place than that of the bundle", cluster.staging)


def whole_place(place: str | os.PathLike[str]) -> str:
    """Return the absolute path of a place here, or the URI of one elsewhere."""
    found = located(place)
    return str(found.absolute()) if isinstance(found, Path) else found.uri


def prepare_staging(staging: str, name: str) -> Store:
    """Return the staging place, after a look whether it can be written and replaces nothing.

    The folder of the job is for its owner alone.

    Raises
    ------
    StoreError
        It cannot be written, or it replaces what is there.
    """
    store, place = open_store(staging), located(staging)
    if isinstance(place, Path):
        try:
            (place / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(staging, f"nothing can be staged there: {error.strerror}") from error
    require_create_only(store)
    return store


def changed_there(store: Store) -> StoreError:
    """Return the error for something that was staged and is not what it was."""
    return StoreError(store.uri, "the job was changed there: publish again, and stage where only you can write")


def is_here(store: Store) -> bool:
    """Return True for a folder, whose workers have every core to themselves; others are waited for."""
    return isinstance(located(store.uri), Path)


T = TypeVar("T")
_OPENED = 4  # tables


class RawRange(NamedTuple):
    """Rows of the raw table: the first, the one behind the last, and the digest of the bits that say which are kept.

    The digest is empty where all are kept. `first_part` is the place of the first part that is made of them.
    """

    start: int
    stop: int
    kept: str = ""
    first_part: int = 0


class PartReceipt(NamedTuple):
    """A staged part: its place among all, its name in the staging place, its size and digest."""

    place: int
    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Job:
    """The work at one table, as workers are told of it.

    Attributes
    ----------
    name : str
        The folder of the job in the staging place; no other job has it.
    staging : str
        The staging place.
    source : str
        The table's absolute path or its URI, which is the same for all workers.
    policy : Policy
        Resolved: what columns are published as.
    """

    name: str
    staging: str = field(compare=False)
    source: str = field(compare=False)
    policy: Policy = field(compare=False)

    def read(self, rows: RawRange, kinds: Kinds) -> RawBatches:
        """Yield those rows of a range that are kept.

        Raises
        ------
        StoreError
            The bits that say which are kept were changed.
        """
        table = _open(self)
        if rows.kept:
            store = open_store(self.staging)
            bits = store.read(self.name_of_bits(rows.kept))
            if hashlib.sha256(bits).hexdigest() != rows.kept:
                raise changed_there(store)
            table = replace(table, keep=lambda start, stop: unpack_kept(bits, start - rows.start, stop - rows.start))
        return table.read(kinds, batch_rows(len(kinds)), rows.start, rows.stop)

    def name_of_bits(self, sha256: str) -> str:
        """Return the name of staged bits."""
        return f"{self.name}/kept-{sha256}.bits"


@lru_cache(_OPENED)
def _open(job: Job) -> Table:
    """Return a job's table, whose files a worker looks at once for all of its tasks."""
    policy = job.policy
    return coded(open_table(job.source, policy.table), policy.sources, signs_of(policy))


def pass_rows(rows: RawRange, *, job: Job, kinds: Kinds, add: Callable[[RawBatches], T]) -> tuple[T, int]:
    """Return what comes of the rows of a range, and how many raw rows it has; see `LocalWork.total`."""
    return add(job.read(rows, kinds)), rows.stop - rows.start


def find_published(rows: RawRange, *, job: Job, kinds: Kinds, columns: Sequence[Column]) -> bytes:
    """Return which rows of a range have a value in each of the columns whose rows are otherwise left out, as bits."""
    complete = [find_complete(batch, columns) for batch in job.read(rows, kinds)]
    return np.packbits(np.concatenate([np.zeros(0, dtype=bool), *complete])).tobytes()


def publish_part(
    rows: RawRange, *, job: Job, kinds: Kinds, columns: tuple[Column, ...]
) -> tuple[list[PartReceipt], RowReport]:
    """Add noise to a range of rows, stage its parts, and return their receipts.

    It may run several times, and several times at once.

    Parameters
    ----------
    rows : RawRange
        Which rows of which job.
    job : Job
        Where they are, and where parts are staged.
    kinds : dict of str to str
        The columns.
    columns : tuple of Column
        How they are published.

    Returns
    -------
    list of PartReceipt
        One for each part.
    RowReport
        What was done to the raw values, which is the same in every attempt.
    """
    store, keystream, report = open_store(job.staging), SecureKeystream(), RowReport()
    noisy = (add_noise(batch, columns, keystream, report) for batch in job.read(rows, kinds))
    parts = write_parts(noisy, columns, io.BytesIO, first_part=rows.first_part)
    stage = partial(_stage, store, f"{job.name}/attempt-{secrets.token_hex(16)}")
    n_threads = 1 if is_here(store) else 2  # elsewhere, noise is added to the next part while one is on its way
    return list(map_batches(stage, parts, n_threads, n_waiting=1)), report


def _stage(store: Store, attempt: str, part: Part) -> PartReceipt:
    """Stage a part, whose memory is given back, and return its receipt."""
    content, name = cast(io.BytesIO, part.file).getvalue(), f"{attempt}/part-{part.place:05d}.parquet"
    part.file.close()
    if store.create(name, content) != content:
        raise StoreError(store.uri, f"another content is under the name {name}")
    return PartReceipt(part.place, name, len(content), part.sha256)
