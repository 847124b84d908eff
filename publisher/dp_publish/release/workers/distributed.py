"""Rows summed, and noise added to them, by workers on many machines: what the publisher's own process does.

It plans tasks, hands them out, and takes the one result that the engine gives of each (see `worker`).
"""

import contextlib
import hashlib
import io
import json
import logging
import secrets
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import BinaryIO, TypeVar, cast

import pyarrow as pa

from dp_bundle.base.errors import DataError, StoreError
from dp_bundle.engines.engine import closing_results, map_in_order
from dp_bundle.files.opening import open_store, remove_below
from dp_bundle.files.places import RangeReader, Store
from dp_bundle.manifest.columns import Column
from dp_publish.data.missing import RowReport
from dp_publish.data.row_ranges import RowRanges
from dp_publish.data.table import Table
from dp_publish.policy.coded_columns import signs_of
from dp_publish.policy.model import Policy
from dp_publish.release.begun import Part
from dp_publish.release.parts import Making, RowRange, Told, choose_ranges, stays_booked
from dp_publish.release.workers.cluster import (
    Cluster,
    create_staged,
    is_here,
    prepare_staging,
)
from dp_publish.release.workers.worker import (
    PartReceipt,
    PublishedRows,
    SplitTask,
    TableDescription,
    WorkerTask,
    count_published,
    count_split,
    draw_bucket,
    keep_split,
    pass_split,
    publish_part,
    stage_list,
)

T = TypeVar("T")
_log = logging.getLogger(__name__)
_READ_AHEAD, _READ_AHEAD_HERE = 2**23, 2**20  # bytes of a staged part; here, while those before are digested


class ClusterJob:
    """Work at the rows of a table by the workers of a cluster, as `LocalWork` is by this process.

    Parameters
    ----------
    cluster : Cluster
        Who works, and where.
    source : str
        The raw table's absolute path or its URI, which is the same for all workers.
    table : Table
        The same, with rows that can be read by their numbers.
    policy : Policy
        Tells how many rows of an entity may be published, and what columns that are no numbers are published as.
    n_columns : int
        How many columns are published.

    Attributes
    ----------
    report : RowReport
        What is done to the rows is counted in it.
    require_unchanged : callable
        Raises `SchemaError` if rows may have passed their cap, as their table was changed.
    has_staged_noise : bool
        Whether noisy parts may lie in the staging place, so that the release must stay on the books.
    """

    def __init__(self, cluster: Cluster, source: str, table: Table, policy: Policy, n_columns: int) -> None:
        self._cluster, self._table, self._n_columns = cluster, table, n_columns
        coded, privacy = [source.model_dump_json() for source in policy.sources], policy.privacy
        cap = () if privacy.entity is None else (privacy.entity.entity, privacy.max_rows)
        self._own = TableDescription(source, coded, policy.table.decimal, signs_of(policy), [], *cap)
        self._store = open_store(cluster.staging)
        self._name = f"job-{secrets.token_hex(16)}"
        self._tasks: list[SplitTask] = []
        self._edges: list[int] = []
        self.require_unchanged = table.unchanged() if cap else lambda: None
        self.report = RowReport()
        self.has_staged_noise = False

    def prepare(self) -> None:
        """Look whether the staging place can be used, before the release is paid for; see `prepare_staging`."""
        prepare_staging(self._cluster.staging, self._name)

    def total(
        self,
        kinds: dict[str, str],
        add: Callable[[Iterator[pa.RecordBatch]], T],
        merge: Callable[[T, T], T],
        progress: Callable[[int], None] | None = None,
    ) -> T:
        """Return what comes of all rows; see `LocalWork`."""
        told, tasks = Told(progress), self._split_tasks()

        def results() -> Iterator[T]:
            for found, n_rows in map_in_order(self._cluster.engine, partial(pass_split, kinds=kinds, add=add), tasks):
                told.add(n_rows)
                yield found

        total = reduce(merge, results())
        _log.info("a pass over %d rows is done by workers", self._edges[-1])
        return total

    def write(self, kinds: dict[str, str], columns: tuple[Column, ...], making: Making) -> list[Part]:
        """Have noise added to all rows, and return the parts in order; workers have keystreams of their own.

        Raises
        ------
        DataError
            The table cannot be published as the policy says.
        StoreError
            The staging place cannot be used.
        """
        # 1. What is published, and where it lies in the raw table.
        rows, report = self._published_rows(kinds, columns), self.report
        if isinstance(rows, PublishedRows):
            report.n_dropped = self._edges[-1] - report.n_over_cap - rows.n_rows

        # 2. Workers add the noise, and stage parts; from here on noisy numbers lie outside of this process.
        tasks = self._part_tasks(rows, kinds, columns)
        making.begun.staged(self._cluster.staging, self._name)
        self.has_staged_noise = True
        making.drawn.enter_context(stays_booked())
        receipts: dict[int, PartReceipt] = {}
        done: set[RowRange] = set()
        with closing_results(self._cluster.engine.map_unordered(publish_part, tasks)) as results:
            for wanted, found, own in results:
                if wanted in done:
                    continue
                done.add(wanted)
                report.add(own)
                receipts |= {receipt.place: receipt for receipt in found}
                for receipt in found:
                    _log.info("part %d is staged: %d rows, %d bytes", receipt.place, receipt.n_rows, receipt.size)
                if making.progress is not None:
                    making.progress(report.n_rows)
        if sorted(receipts) != [*range(len(receipts))] or sum(each.n_rows for each in receipts.values()) != rows.n_rows:
            raise StoreError(self._cluster.staging, "the parts that were staged there are not those of all rows")

        # 3. They are read from where they are.
        return [
            Part(place, _open_staged(self._store, receipts[place]), receipts[place].sha256)
            for place in sorted(receipts)
        ]

    def remove(self) -> None:
        """Remove everything that was staged, as far as the staging place lets us."""
        remove_below(self._cluster.staging, self._name)

    def _raw_rows(self) -> RowRanges:
        """Return all rows of the table by their numbers."""
        ranges = self._table.ranges
        assert ranges is not None  # noqa: S101  of what one process need not read
        return ranges().raw

    def _split_tasks(self) -> list[SplitTask]:
        """Return a task for each split of the table, which is described, and its entities capped, the first time."""
        if self._tasks:
            return self._tasks
        store, engine, raw = self._store, self._cluster.engine, self._raw_rows()
        planned = choose_ranges(raw, self._n_columns, engine.n_workers) if raw.n_rows else []
        edges = [*sorted(each.start for each in planned), raw.n_rows] if planned else [0, 0]
        description, self._edges = self._own._replace(edges=edges), edges
        table = create_staged(store, f"{self._name}/table.json", json.dumps(description._asdict()).encode())

        def tasks(number: int, given: str = "") -> list[SplitTask]:
            return [SplitTask(self._cluster.staging, self._name, table, given, place) for place in range(number)]

        given, n_splits = "", description.n_splits
        if description.entity is not None:
            counted = list(map_in_order(engine, count_split, tasks(n_splits)))
            given = stage_list(store, self._name, "counts", counted)
            drawn = list(map_in_order(engine, draw_bucket, tasks(description.n_buckets, given)))
            self.report.n_entities = sum(n_entities for n_entities, _, _ in drawn)
            self.report.n_over_cap = sum(n_left_out for _, n_left_out, _ in drawn)
            given = stage_list(store, self._name, "quotas", [sha256 for _, _, sha256 in drawn])
            kept = list(map_in_order(engine, keep_split, tasks(n_splits, given)))
            given = stage_list(store, self._name, "kept", kept)
        self._tasks = tasks(n_splits, given)
        return self._tasks

    def _published_rows(self, kinds: dict[str, str], columns: tuple[Column, ...]) -> RowRanges | PublishedRows:
        """Return the rows that are published: the raw ones, or, if some are left out, those counted by workers."""
        tasks, dropping = self._split_tasks(), [column for column in columns if column.missing == "drop"]
        if self._own.entity is None and not dropping:
            return self._raw_rows()
        count = partial(count_published, kinds={each.name: kinds[each.name] for each in dropping}, columns=dropping)
        return PublishedRows(self._edges, list(map_in_order(self._cluster.engine, count, tasks)))

    def _part_tasks(
        self, rows: RowRanges | PublishedRows, kinds: dict[str, str], columns: tuple[Column, ...]
    ) -> list[WorkerTask]:
        """Return the tasks of a release, which is described in the staging place."""
        if not rows.n_rows:
            raise DataError("the table has no rows to publish")
        described = {"table": self._tasks[0].table, "kept": self._tasks[0].given, "kinds": kinds}
        described["columns"] = [column.model_dump_json() for column in columns]
        sha256 = create_staged(self._store, f"{self._name}/job.json", json.dumps(described).encode())
        tasks = []
        for wanted in choose_ranges(rows, len(columns), self._cluster.engine.n_workers):
            raw = rows.find(wanted.start, wanted.stop) if isinstance(rows, PublishedRows) else None
            tasks.append(WorkerTask(self._cluster.staging, self._name, sha256, wanted, raw))
        return tasks


class _Staged(RangeReader):
    """A staged part, read from start to end; the last byte is given only if all of them are what was staged.

    Closing it removes it.
    """

    def __init__(self, store: Store, receipt: PartReceipt) -> None:
        super().__init__(receipt.size)
        self._store, self._receipt = store, receipt
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
        if not self.closed:
            with contextlib.suppress(StoreError, OSError):  # what cannot be removed now is tried again at the end
                self._store.delete(self._receipt.name)
        super().close()


def _open_staged(store: Store, receipt: PartReceipt) -> BinaryIO:
    at_once = _READ_AHEAD_HERE if is_here(store) else _READ_AHEAD
    return cast(BinaryIO, io.BufferedReader(_Staged(store, receipt), at_once))
