"""The work of one worker: at a raw table that many read, in splits, of whose entities each keeps so many rows in all.

The table is described once, in the staging place; a task names the description, with its digest, and a split. Where
entities are capped, workers count the rows of each entity in each split. Which rows are kept is drawn entity by entity,
through all splits, and is staged as one bit for each row of a split, which every later pass reads. The seed of a draw
is created once and never replaced: a task that runs again draws the same. Entities are drawn in buckets, by a digest of
their names, so that no worker needs all of them.

A part is noise on a range of rows. A worker gets no key, no ledger and no random bits: every attempt draws its own from
the operating system, and stages its parts under a name of its own, where only the publisher may read. Dask gives one
result of each task, which names the parts that are copied into the bundle. So noise that is drawn twice, as a worker
was lost or slow, is never seen twice; what is not named is removed with all that was staged.
"""

import io
import json
import secrets
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import count, pairwise
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_bundle.base.errors import StoreError
from dp_bundle.data.rows import PartWriter, batch_rows
from dp_bundle.engines.engine import map_batches
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import Store
from dp_bundle.manifest.columns import Column
from dp_publish.data.contribution_cap import (
    NAME,
    SEED_BYTES,
    add_counts,
    count_entities,
    count_left_out,
    draw_quotas,
    find_kept,
    unpack_kept,
)
from dp_publish.data.dialect import Dialect
from dp_publish.data.kinds import WrittenSource
from dp_publish.data.missing import RowReport, drop_missing, find_complete
from dp_publish.data.table import Table, coded, open_table
from dp_publish.release.parts import RowRange
from dp_publish.release.workers.cluster import changed_there, create_staged, is_here, read_staged
from dp_publish.rows.mechanism import add_noise
from dp_publish.sampling.keystream import SecureKeystream

T = TypeVar("T")
_GRAIN = 2**16  # raw rows of which the published ones are counted together
_OPENED = 4  # tables
_BUCKET_ROWS, _MOST_BUCKETS = 2**23, 256  # raw rows for each bucket of entities


class TableDescription(NamedTuple):
    """The table as workers are told of it.

    Attributes
    ----------
    source : str
        Its path or URI, which is the same for all of them.
    coded : list of str
        What columns that are no numbers are published as.
    decimal : str or None
        The decimal mark of numbers in text, if the policy says.
    signs : dict of str to str
        The units that these may carry.
    edges : list of int
        The first row of each split, and the number of rows.
    entity : str or None
        The column that tells whose row it is, if rows are capped.
    max_rows : int
        The cap.
    """

    source: str
    coded: list[str]
    decimal: Literal[".", ","] | None
    signs: dict[str, str]
    edges: list[int]
    entity: str | None = None
    max_rows: int = 1

    @property
    def n_splits(self) -> int:
        """The number of splits."""
        return len(self.edges) - 1

    @property
    def n_buckets(self) -> int:
        """The number of buckets of entities."""
        return min(_MOST_BUCKETS, 1 + self.edges[-1] // _BUCKET_ROWS)


class SplitTask(NamedTuple):
    """A split of a staged table, or a bucket of its entities.

    Attributes
    ----------
    staging, job : str
        The staging place, and the job's folder there.
    table : str
        The digest of the description.
    given : str
        The digest of a list of digests, of what an earlier step staged; empty for a step that needs none.
    place : int
        Which split or bucket.
    """

    staging: str
    job: str
    table: str
    given: str
    place: int


class RawRange(NamedTuple):
    """Raw rows that hold a range of published ones, before which they hold some others."""

    start: int
    stop: int
    n_before: int


class StagedTable:
    """The table of a job, as a worker reads it.

    Parameters
    ----------
    store : Store
        The staging place.
    job, table, kept : str
        As of a `SplitTask`.
    """

    def __init__(self, store: Store, job: str, table: str, kept: str) -> None:
        self._store, self._job = store, job
        self.description = TableDescription(**json.loads(read_staged(store, f"{job}/table.json", table)))
        self._kept: list[str] = read_list(store, job, "kept", kept) if kept else []
        if kept and len(self._kept) != self.description.n_splits:
            raise changed_there(store)
        self._bits = -1, b""

    @property
    def raw(self) -> Table:
        """All rows."""
        return _open_table(self._job, json.dumps(self.description._replace(edges=[])))

    def read(self, kinds: dict[str, str], start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield those raw rows of a range that are kept."""
        table = replace(self.raw, keep=self.find_kept if self._kept else None)
        yield from table.read(kinds, batch_rows(len(kinds)), start, stop)

    def find_kept(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return which raw rows of a range are kept."""
        keep, edges, position = np.ones(stop - start, dtype=bool), self.description.edges, start
        while self._kept and position < stop:
            split = bisect_right(edges, position) - 1
            end, first = min(stop, edges[split + 1]), position - edges[split]
            keep[position - start : end - start] = unpack_kept(self._bits_of(split), first, end - edges[split])
            position = end
        return keep

    def _bits_of(self, split: int) -> bytes:
        """Return the bits of a split, which is the last one that was asked for, or one after it."""
        if self._bits[0] != split:
            self._bits = split, read_staged(self._store, _kept_name(self._job, split), self._kept[split])
        return self._bits[1]


@lru_cache(_OPENED)
def _open_table(_job: str, description: str) -> Table:
    """Return a job's table, whose files a worker looks at once for all of its tasks."""
    told = TableDescription(*json.loads(description))
    sources = [WrittenSource.model_validate_json(each) for each in told.coded]
    return coded(open_table(told.source, Dialect(decimal=told.decimal)), sources, told.signs)


def stage_list(store: Store, job: str, name: str, digests: Sequence[object]) -> str:
    """Stage a list of digests, and return the digest of the list."""
    return create_staged(store, f"{job}/{name}.json", json.dumps(digests).encode())


def read_list(store: Store, job: str, name: str, sha256: str) -> list[Any]:
    """Return a list that was staged."""
    found: list[Any] = json.loads(read_staged(store, f"{job}/{name}.json", sha256))
    return found


def count_split(task: SplitTask) -> list[str]:
    """Count the rows of each entity in a split, stage the counts, and return their digests, one for each bucket."""
    store, table, (start, stop) = _open(task, "")
    entity, n_buckets = table.description.entity or "", table.description.n_buckets
    counts = count_entities(table.raw.read({entity: "text"}, batch_rows(1), start, stop), entity).sort_by(NAME)
    buckets = np.zeros(len(counts), dtype=np.int64)
    if n_buckets > 1:
        names = (name for batch in counts.column(NAME).cast(pa.binary()).chunks for name in batch.to_pylist())
        buckets = np.fromiter((zlib.crc32(name) % n_buckets for name in names), np.int64, len(counts))
    own = (counts.filter(pa.array(buckets == bucket)) for bucket in range(n_buckets))
    return [
        create_staged(store, _counts_name(task.job, task.place, bucket), _to_bytes([each]))
        for bucket, each in enumerate(own)
    ]


def draw_bucket(task: SplitTask) -> tuple[int, int, str]:
    """Draw which rows of a bucket's crowded entities are kept, by the seed of the first attempt, and stage it.

    Returns
    -------
    n_entities : int
        How many entities the bucket has.
    n_left_out : int
        How many rows are left out.
    sha256 : str
        The digest of what is staged.

    Raises
    ------
    StoreError
        What was staged before is not what this draws, whatever its seed.
    """
    store = open_store(task.staging)
    description = StagedTable(store, task.job, task.table, "").description
    digests = read_list(store, task.job, "counts", task.given)
    counts = [
        _from_bytes(read_staged(store, _counts_name(task.job, split, task.place), digests[split][task.place]), 0)
        for split in range(description.n_splits)
    ]

    seed = store.create(f"{task.job}/seed-{task.place:05d}", secrets.token_bytes(SEED_BYTES))
    quotas = _to_bytes(draw_quotas(counts, description.max_rows, seed))
    sha256 = create_staged(store, _quotas_name(task.job, task.place), quotas)
    return len(add_counts(counts)), count_left_out(counts, description.max_rows), sha256


def keep_split(task: SplitTask) -> str:
    """Stage which rows of a split are kept, and return the digest of that."""
    store, table, (start, stop) = _open(task, "")
    entity = table.description.entity or ""
    digests = read_list(store, task.job, "quotas", task.given)
    quotas = [
        _from_bytes(read_staged(store, _quotas_name(task.job, bucket), sha256), task.place)
        for bucket, sha256 in enumerate(digests)
    ]
    batches = table.raw.read({entity: "text"}, batch_rows(1), start, stop)
    kept = find_kept(batches, pa.concat_tables(quotas))
    return create_staged(store, _kept_name(task.job, task.place), kept)


def pass_split(
    task: SplitTask, *, kinds: dict[str, str], add: Callable[[Iterator[pa.RecordBatch]], T]
) -> tuple[T, int]:
    """Return what comes of the rows of a split that are kept, and the number of its raw rows; see `LocalWork.total`."""
    _, table, (start, stop) = _open(task, task.given)
    return add(table.read(kinds, start, stop)), stop - start


def count_published(task: SplitTask, *, kinds: dict[str, str], columns: Sequence[Column]) -> list[int]:
    """Return how many rows of each grain of a split are published.

    Parameters
    ----------
    task : SplitTask
    kinds : dict of str to str
        The columns whose missing values leave out a row.
    columns : sequence of Column
        These columns.
    """
    _, table, (start, stop) = _open(task, task.given)
    counts = np.zeros(-(-(stop - start) // _GRAIN), dtype=np.int64)
    if not kinds:
        edges = range(start, stop, _GRAIN)
        return [int(table.find_kept(first, min(stop, first + _GRAIN)).sum()) for first in edges]
    position = start
    for batch in table.raw.read(kinds, batch_rows(len(kinds)), start, stop):
        keep = table.find_kept(position, position + batch.num_rows) & find_complete(batch, columns)
        grains = (position - start + np.flatnonzero(keep)) // _GRAIN
        counts += np.bincount(grains, minlength=len(counts))
        position += batch.num_rows
    return counts.tolist()


class PublishedRows:
    """The rows that are published, numbered on their own, and where they are among the raw ones.

    Parameters
    ----------
    edges : sequence of int
        Those of the splits.
    counts : sequence of list of int
        The number of published rows of each grain, by split.
    """

    def __init__(self, edges: Sequence[int], counts: Sequence[list[int]]) -> None:
        starts = [start for first, last in pairwise(edges) for start in range(first, last, _GRAIN)]
        self._starts = np.array([*starts, edges[-1]])
        self._before = np.cumsum([0, *(number for each in counts for number in each)])

    @property
    def n_rows(self) -> int:
        """The number of rows that are published."""
        return int(self._before[-1])

    def n_skipped(self, row: int) -> int:
        """Return the number of published rows that are read in vain to read from this one on."""
        return row - int(self._before[self._grain(row)])

    def find(self, start: int, stop: int) -> RawRange:
        """Return the raw rows that hold a range of at least one published row."""
        last = int(np.searchsorted(self._before, stop, side="left"))
        return RawRange(int(self._starts[self._grain(start)]), int(self._starts[last]), self.n_skipped(start))

    def _grain(self, row: int) -> int:
        return int(np.searchsorted(self._before, row, side="right")) - 1


def _open(task: SplitTask, kept: str) -> tuple[Store, StagedTable, tuple[int, int]]:
    store = open_store(task.staging)
    table = StagedTable(store, task.job, task.table, kept)
    start, stop = table.description.edges[task.place : task.place + 2]
    return store, table, (start, stop)


def _counts_name(job: str, split: int, bucket: int) -> str:
    return f"{job}/entities-{bucket:05d}-{split:05d}.arrow"


def _quotas_name(job: str, bucket: int) -> str:
    return f"{job}/quotas-{bucket:05d}.arrow"


def _kept_name(job: str, split: int) -> str:
    return f"{job}/kept-{split:05d}.bits"


def _to_bytes(tables: Sequence[pa.Table]) -> bytes:
    """Return tables of one schema as a file, each a batch of it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, tables[0].schema) as writer:
        for table in tables:
            columns = [column.combine_chunks() for column in table.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=table.schema))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _from_bytes(content: bytes, place: int) -> pa.Table:
    """Return one of the tables that `_to_bytes` was given."""
    with pa.ipc.open_file(pa.BufferReader(content)) as reader:
        return pa.Table.from_batches([reader.get_batch(place)])


class WorkerTask(NamedTuple):
    """The orders of a worker: where the job is described, with the digest of that, and which rows are its own.

    Where some raw rows are not published, `wanted` counts those that are, and `raw` says where they lie.
    """

    staging: str
    job: str
    sha256: str
    wanted: RowRange
    raw: RawRange | None = None


class PartReceipt(NamedTuple):
    """A staged part: its place among all, its name in the staging place, its size, digest and rows."""

    place: int
    name: str
    size: int
    sha256: str
    n_rows: int


def publish_part(task: WorkerTask) -> tuple[RowRange, list[PartReceipt], RowReport]:
    """Add noise to a range of rows, stage its parts, and return their receipts.

    It may run several times, and several times at once.

    Parameters
    ----------
    task : PartTask
        Which rows of which job.

    Returns
    -------
    RowRange
        Which rows.
    list of PartReceipt
        One for each part.
    RowReport
        What was done to the raw values, which is the same in every attempt.
    """
    store, job, wanted = open_store(task.staging), task.job, task.wanted
    described = json.loads(read_staged(store, f"{job}/job.json", task.sha256))
    columns = tuple(Column.model_validate_json(column) for column in described["columns"])
    kinds, report, keystream = described["kinds"], RowReport(), SecureKeystream()
    table = StagedTable(store, job, described["table"], described["kept"])

    attempt = f"{job}/attempt-{secrets.token_hex(16)}"

    def finished() -> Iterator[tuple[PartReceipt, bytes]]:
        with PartWriter(columns, io.BytesIO, wanted.first_part) as writer:
            for batch in _rows_of(task, table, kinds, columns):
                writer.write(add_noise(batch, columns, keystream, report))
                yield from _take_finished(writer, wanted.first_part, attempt)
            writer.close()
            yield from _take_finished(writer, wanted.first_part, attempt)

    stage = partial(_stage, store)
    n_threads = 1 if is_here(store) else 2  # elsewhere, noise is added to the next part while one is on its way
    receipts = list(map_batches(stage, finished(), n_threads, n_waiting=1))
    return wanted, receipts, report


def _rows_of(
    task: WorkerTask, table: StagedTable, kinds: dict[str, str], columns: tuple[Column, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, without those that are not published."""
    if task.raw is None:
        yield from table.raw.read(kinds, batch_rows(len(columns)), task.wanted.start, task.wanted.stop)
        return
    n_before, n_left = task.raw.n_before, task.wanted.stop - task.wanted.start
    for batch in table.read(kinds, task.raw.start, task.raw.stop):
        kept = drop_missing(batch, columns)
        own = kept.slice(min(n_before, kept.num_rows), n_left)
        n_before -= min(n_before, kept.num_rows)
        n_left -= own.num_rows
        if own.num_rows:
            yield own


def _take_finished(writer: PartWriter, first_part: int, attempt: str) -> Iterator[tuple[PartReceipt, bytes]]:
    """Yield the parts that were finished since the last time; their memory is given back."""
    finished = zip(count(first_part), writer.parts, writer.digests, writer.part_sizes, strict=False)
    for place, file, sha256, n_rows in finished:
        if not file.closed:
            content = cast(io.BytesIO, file).getvalue()
            file.close()
            yield PartReceipt(place, f"{attempt}/part-{place:05d}.parquet", len(content), sha256, n_rows), content


def _stage(store: Store, part: tuple[PartReceipt, bytes]) -> PartReceipt:
    """Stage a part, and return its receipt."""
    own, content = part
    if store.create(own.name, content) != content:
        raise StoreError(store.uri, f"another content is under the name {own.name}")
    return own
