"""Noise on rows by workers on many machines.

A worker gets a range of rows, and the place where the job is described: columns, bounds and noise, and where the raw
table lies. It gets no key, no ledger and no random bits: every attempt draws its own from the operating system. It
stages its parts under a name of its own, where only the publisher may read, and claims each part by creating one name
that all attempts share. One claim wins, and what it names is copied into the bundle. So noise that is drawn twice, as a
worker was lost or slow, is never seen twice; what lost is removed with all that was staged.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from dp_bundle.data import PartWriter, batch_rows
from dp_bundle.engines import Dask, Engine, map_batches
from dp_bundle.errors import ParameterError, StoreError
from dp_bundle.files import RangeReader
from dp_bundle.manifest import Column, Source
from dp_bundle.store import Store, located, open_store
from dp_publish.data import RowReport, TypedRanges, coded, open_table
from dp_publish.release.contents import Progress
from dp_publish.release.parts import Part, RowRange, choose_ranges
from dp_publish.rows import add_noise
from dp_publish.sampling import SecureKeystream

_READ_AHEAD, _READ_AHEAD_HERE = 2**23, 2**20  # bytes of a staged part; here, while those before are digested


@dataclass(frozen=True)
class Cluster:
    """Workers, and where they stage parts.

    Attributes
    ----------
    engine : Engine
        Runs `publish_part`.
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
        yield Cluster(ending.enter_context(Dask(scheduler)), place)


class PartTask(NamedTuple):
    """What a worker is told: where the job is described, with the digest of that, and which rows are its own."""

    staging: str
    job: str
    sha256: str
    wanted: RowRange


class PartReceipt(NamedTuple):
    """A part that won its claim: its place among all, its name in the staging place, its size, digest and rows."""

    place: int
    name: str
    size: int
    sha256: str
    n_rows: int


class Job:
    """Parts made by the workers of a cluster.

    Parameters
    ----------
    cluster : Cluster
        Who works, and where.
    source : Path
        The raw table, under a path that is the same for all workers.
    coded : sequence of Source
        What columns of the raw table that are no numbers are published as.
    name : str, optional
        Its folder in the staging place, where a process that comes later can go on with what was claimed. Without a
        name, nobody will, and each part is removed there as soon as it has been read and closed.
    """

    def __init__(self, cluster: Cluster, source: Path, coded: Sequence[Source] = (), name: str | None = None) -> None:
        self._cluster, self._source, self._coded = cluster, source.absolute(), coded
        self._store = open_store(cluster.staging)
        self._name, self._kept = name or f"job-{secrets.token_hex(8)}", name is not None

    def write(
        self,
        ranges: TypedRanges,
        kinds: dict[str, str],
        columns: tuple[Column, ...],
        progress: Progress | None,
        report: RowReport,
    ) -> list[Part]:
        """Have noise added to all rows, and return the parts that won, in order.

        Raises
        ------
        DataError
            The table cannot be published as the policy says.
        StoreError
            The staging place cannot be used.
        """
        described = {
            "source": os.fspath(self._source),
            "coded": [source.model_dump_json() for source in self._coded],
            "kinds": kinds,
            "columns": [column.model_dump_json() for column in columns],
        }
        content = self._store.create(f"{self._name}/job.json", json.dumps(described).encode())
        sha256 = hashlib.sha256(content).hexdigest()
        planned = choose_ranges(ranges.raw, len(columns), self._cluster.engine.n_workers)
        tasks = [PartTask(self._cluster.staging, self._name, sha256, wanted) for wanted in planned]

        receipts: dict[int, PartReceipt] = {}
        done: set[RowRange] = set()
        for wanted, found, own in self._cluster.engine.map_unordered(publish_part, tasks):
            if wanted in done:
                continue
            done.add(wanted)
            report.add(own)
            receipts |= {receipt.place: receipt for receipt in found}
            if progress is not None:
                progress(report.n_rows)
        self._require_all(receipts, ranges.raw.n_rows)
        return [
            Part(place, _open_staged(self._store, receipts[place], kept=self._kept), receipts[place].sha256)
            for place in sorted(receipts)
        ]

    def remove(self) -> None:
        """Remove everything that was staged, as far as the staging place lets us."""
        remove_staged(self._cluster.staging, self._name)

    def _require_all(self, receipts: dict[int, PartReceipt], n_rows: int) -> None:
        if sorted(receipts) != list(range(len(receipts))) or sum(each.n_rows for each in receipts.values()) != n_rows:
            raise StoreError(self._cluster.staging, "the parts that were staged there are not those of all rows")


def remove_staged(staging: str, name: str) -> None:
    """Remove all that a job staged, as far as the staging place lets us."""
    with contextlib.suppress(StoreError, OSError):
        store = open_store(staging)
        for each in store.names(name):
            store.delete(each)


def publish_part(task: PartTask) -> tuple[RowRange, list[PartReceipt], RowReport]:
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
    content = store.read(f"{job}/job.json")
    if hashlib.sha256(content).hexdigest() != task.sha256:
        raise StoreError(task.staging, "the job was changed there: publish again, and stage where only you can write")
    described = json.loads(content)
    columns = tuple(Column.model_validate_json(column) for column in described["columns"])
    kinds, report, keystream = described["kinds"], RowReport(), SecureKeystream()
    sources = [Source.model_validate_json(source) for source in described["coded"]]
    ranges = coded(open_table(Path(described["source"])), sources).ranges
    if ranges is None:
        raise StoreError(task.staging, "the raw table of this job has become another one: publish again")

    def finished() -> Iterator[_NewPart]:
        with PartWriter(columns, io.BytesIO, wanted.first_part) as writer:
            for batch in ranges().read(kinds, batch_rows(len(columns)), wanted.start, wanted.stop):
                writer.write(add_noise(batch, columns, keystream, report))
                yield from _take_finished(writer, wanted.first_part)
            writer.close()
            yield from _take_finished(writer, wanted.first_part)

    stage = partial(_stage, store, job, f"{job}/attempt-{secrets.token_hex(16)}")
    n_threads = 1 if _is_here(store) else 2  # elsewhere, noise is added to the next part while one is on its way
    receipts = list(map_batches(stage, finished(), n_threads, n_waiting=1))
    return wanted, receipts, report


class _NewPart(NamedTuple):
    """A part that is not staged yet."""

    place: int
    content: bytes
    sha256: str
    n_rows: int


def _take_finished(writer: PartWriter, first_part: int) -> Iterator[_NewPart]:
    """Yield the parts that were finished since the last time; their memory is given back."""
    for index, (file, sha256, n_rows) in enumerate(zip(writer.parts, writer.digests, writer.part_sizes, strict=False)):
        if not file.closed:
            content = cast(io.BytesIO, file).getvalue()
            file.close()
            yield _NewPart(first_part + index, content, sha256, n_rows)


def _stage(store: Store, job: str, attempt: str, part: _NewPart) -> PartReceipt:
    """Stage a part and claim its place; return the receipt of the one that won."""
    name = f"{attempt}/part-{part.place:05d}.parquet"
    if store.create(name, part.content) != part.content:
        raise StoreError(store.uri, f"another content is under the name {name}")
    own = PartReceipt(part.place, name, len(part.content), part.sha256, part.n_rows)
    claim = store.create(f"{job}/claim-{own.place:05d}.json", json.dumps(own._asdict()).encode())
    return PartReceipt(**json.loads(claim))


class _Staged(RangeReader):
    """A staged part, read from start to end; the last byte is given only if all of them are what was claimed.

    Unless it is kept, closing it removes it.
    """

    def __init__(self, store: Store, receipt: PartReceipt, *, kept: bool) -> None:
        super().__init__(receipt.size)
        self._store, self._receipt, self._kept = store, receipt, kept
        self._digest, self._digested = hashlib.sha256(), 0

    def _content(self, position: int, size: int) -> bytes:
        content = self._store.read(self._receipt.name, position, size) if size else b""
        if position == self._digested:
            self._digest.update(content)
            self._digested += len(content)
        whole = self._digested == self._receipt.size
        if len(content) != size or (whole and self._digest.hexdigest() != self._receipt.sha256):
            raise StoreError(self._store.uri, "a staged part was changed: stage where only you can write")
        return content

    def close(self) -> None:
        if not self.closed and not self._kept:
            with contextlib.suppress(StoreError, OSError):  # what cannot be removed now is tried again at the end
                self._store.delete(self._receipt.name)
        super().close()


def _open_staged(store: Store, receipt: PartReceipt, *, kept: bool) -> BinaryIO:
    at_once = _READ_AHEAD_HERE if _is_here(store) else _READ_AHEAD
    return cast(BinaryIO, io.BufferedReader(_Staged(store, receipt, kept=kept), at_once))


def _is_here(store: Store) -> bool:
    """Return True for a folder, whose workers have every core to themselves; others are waited for."""
    return isinstance(located(store.uri), Path)
