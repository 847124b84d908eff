"""The work of one worker: noise on a range of rows, in parts that are staged and claimed.

A worker gets a range of rows, and the place where the job is described: columns, bounds and noise, and where the raw
table lies. It gets no key, no ledger and no random bits: every attempt draws its own from the operating system. It
stages its parts under a name of its own, where only the publisher may read, and claims each part by creating one name
that all attempts share. One claim wins, and what it names is copied into the bundle. So noise that is drawn twice, as a
worker was lost or slow, is never seen twice; what lost is removed with all that was staged.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import NamedTuple, cast

import pyarrow as pa

from dp_bundle.base.errors import StoreError
from dp_bundle.data.rows import PartWriter, batch_rows
from dp_bundle.engines.engine import map_batches
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import Store
from dp_bundle.manifest.columns import Column
from dp_publish.data.missing import RowReport, drop_missing
from dp_publish.release.parts import RowRange
from dp_publish.release.workers.cluster import is_here, read_staged
from dp_publish.release.workers.staged_table import RawRange, StagedTable
from dp_publish.rows.mechanism import add_noise
from dp_publish.sampling.keystream import SecureKeystream


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
    """A part that won its claim: its place among all, its name in the staging place, its size, digest and rows."""

    place: int
    name: str
    size: int
    sha256: str
    n_rows: int


def publish_part(task: WorkerTask) -> tuple[RowRange, list[PartReceipt], RowReport]:
    """Add noise to a range of rows, stage its parts and claim them; return the receipts of those that won.

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
        One for each part: this attempt's, or those of one that claimed it before.
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

    stage = partial(_stage, store, job)
    n_threads = 1 if is_here(store) else 2  # elsewhere, noise is added to the next part while one is on its way
    receipts = list(map_batches(stage, finished(), n_threads, n_waiting=1))
    return wanted, receipts, report


def _rows_of(
    task: WorkerTask, table: StagedTable, kinds: dict[str, str], columns: tuple[Column, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, without those that are not published."""
    if task.raw is None:
        yield from table.ranges.read(kinds, batch_rows(len(columns)), task.wanted.start, task.wanted.stop)
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


def _stage(store: Store, job: str, part: tuple[PartReceipt, bytes]) -> PartReceipt:
    """Stage a part and claim its place; return the receipt of the one that won."""
    own, content = part
    if store.create(own.name, content) != content:
        raise StoreError(store.uri, f"another content is under the name {own.name}")
    claim = store.create(f"{job}/claim-{own.place:05d}.json", json.dumps(own._asdict()).encode())
    return PartReceipt(**json.loads(claim))
