"""Rows summed, and noise added to them, by workers on many machines: what the publisher's own process does.

It plans tasks, hands them out, and takes the one result that the engine gives of each (see `worker`). It alone decides
which rows are published: it draws which of an entity's rows are kept, and workers tell it which rows have gaps.
"""

import contextlib
import hashlib
import logging
import secrets
from collections.abc import Callable, Iterator
from functools import cached_property, partial, reduce
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.engine import map_in_order
from dp_bundle.base.errors import DataError, StoreError
from dp_bundle.data.rows import batch_rows
from dp_bundle.files.opening import open_store, remove_below
from dp_bundle.files.places import Store
from dp_bundle.manifest.columns import Column
from dp_publish.data.kinds import Kinds
from dp_publish.data.row_ranges import RawBatches, RowRanges
from dp_publish.data.table import Table
from dp_publish.data.typed import Keep
from dp_publish.policy.model import Policy
from dp_publish.release.begun import Part
from dp_publish.release.contribution_cap import EntityCap, unpack_kept
from dp_publish.release.parts import Making, Told, choose_ranges, stays_booked
from dp_publish.release.workers.worker import (
    Cluster,
    Job,
    PartReceipt,
    RawRange,
    changed_there,
    find_published,
    pass_rows,
    prepare_staging,
    publish_part,
)
from dp_publish.rows.missing import RowReport

T = TypeVar("T")
_log = logging.getLogger(__name__)
_AT_ONCE = 2**23  # bytes of a staged part
_GRAIN = 2**16  # raw rows of which the published ones are counted together


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
    has_staged_noise : bool
        Whether noisy parts may lie in the staging place, so that the release must stay in the ledger.
    """

    def __init__(self, cluster: Cluster, source: str, table: Table, policy: Policy, n_columns: int) -> None:
        self._cluster, self._table, self._n_columns = cluster, table, n_columns
        self._job = Job(f"job-{secrets.token_hex(16)}", cluster.staging, source, policy)
        self._cap: EntityCap | None = None
        self.report = RowReport()
        self.has_staged_noise = False

    def prepare(self) -> None:
        """Look whether the staging place can be used, before the release is paid for, and draw whose rows are kept."""
        prepare_staging(self._cluster.staging, self._job.name)
        privacy = self._job.policy.privacy
        if privacy.entity is not None:
            self._cap = EntityCap(self._table, privacy.entity.entity, privacy.max_rows, batch_rows(1))
            self.report.n_entities, self.report.n_over_cap = self._cap.n_entities, self._cap.n_left_out

    def require_unchanged(self) -> None:
        """Raise `SchemaError` if rows may have passed their cap, as their table was changed."""
        if self._cap is not None:
            self._cap.require_unchanged()

    def total(
        self,
        kinds: Kinds,
        add: Callable[[RawBatches], T],
        merge: Callable[[T, T], T],
        progress: Callable[[int], None] | None = None,
    ) -> T:
        """Return what comes of all rows; see `LocalWork`."""
        told, work = Told(progress), partial(pass_rows, job=self._job, kinds=kinds, add=add)

        def results() -> Iterator[T]:
            for found, n_rows in map_in_order(self._cluster.engine, work, self._capped):
                told.add(n_rows)
                yield found

        total = reduce(merge, results())
        _log.info("a pass over %d rows is done by workers", told.n_rows)
        return total

    def write(self, kinds: Kinds, columns: tuple[Column, ...], making: Making) -> list[Part]:
        """Have noise added to all rows, and return the parts in order; workers have keystreams of their own.

        Raises
        ------
        DataError
            The table cannot be published as the policy says.
        StoreError
            The staging place cannot be used.
        """
        # 1. What is published, and where it lies in the raw table.
        tasks, n_rows = self._part_tasks(kinds, columns)

        # 2. Workers add the noise, and stage parts; from here on noisy numbers lie outside of this process.
        making.begun.staged(self._cluster.staging, self._job.name)
        self.has_staged_noise = True
        making.drawn.enter_context(stays_booked())
        receipts: list[PartReceipt] = []
        work = partial(publish_part, job=self._job, kinds=kinds, columns=columns)
        for found, own in map_in_order(self._cluster.engine, work, tasks):
            self.report.add(own)
            receipts += found
            for receipt in found:
                _log.info("part %d is staged: %d bytes", receipt.place, receipt.size)
            if making.progress is not None:
                making.progress(self.report.n_rows)
        receipts.sort()
        if [receipt.place for receipt in receipts] != [*range(len(receipts))] or self.report.n_rows != n_rows:
            raise StoreError(self._cluster.staging, "the parts that were staged there are not those of all rows")

        # 3. They come here, into files like those of a release without workers.
        store = open_store(self._cluster.staging)
        return [_take(store, receipt, making.new_file()) for receipt in receipts]

    def remove(self) -> None:
        """Remove everything that was staged, as far as the staging place lets us."""
        remove_below(self._cluster.staging, self._job.name)

    @property
    def _raw(self) -> RowRanges:
        """All rows of the table by their numbers."""
        rows = self._table.stored
        assert rows is not None  # noqa: S101  of what one process need not read
        return rows

    @property
    def _kept(self) -> Keep | None:
        """Which rows entities keep, if they are capped."""
        return None if self._cap is None else self._cap.table.keep

    @cached_property
    def _capped(self) -> list[RawRange]:
        """All rows that entities keep, in ranges."""
        return self._splits(self._kept)

    def _splits(self, keep: Keep | None) -> list[RawRange]:
        """Return ranges of all rows, in order; each but the last has a whole number of bytes of bits."""
        raw = self._raw
        planned = choose_ranges(raw, self._n_columns, self._cluster.engine.n_workers) if raw.n_rows else []
        starts = sorted({0, *(min(raw.n_rows, -(-each.start // 8) * 8) for each in planned)})
        return [
            self._with_bits(start, stop, keep) for start, stop in zip(starts, [*starts[1:], raw.n_rows], strict=True)
        ]

    def _with_bits(self, start: int, stop: int, keep: Keep | None, first_part: int = 0) -> RawRange:
        """Return a range of rows, whose bits are staged if not all are kept."""
        if keep is None:
            return RawRange(start, stop, first_part=first_part)
        bits, store = np.packbits(keep(start, stop)).tobytes(), open_store(self._cluster.staging)
        sha256 = hashlib.sha256(bits).hexdigest()
        if store.create(self._job.name_of_bits(sha256), bits) != bits:
            raise changed_there(store)
        return RawRange(start, stop, sha256, first_part)

    def _part_tasks(self, kinds: Kinds, columns: tuple[Column, ...]) -> tuple[list[RawRange], int]:
        """Return the raw rows of each task, which makes whole parts, and how many are published in all."""
        keep, dropping = self._kept, [column for column in columns if column.missing == "drop"]
        if dropping:
            own = {column.name: kinds[column.name] for column in dropping}
            work = partial(find_published, job=self._job, kinds=own, columns=dropping)
            complete = b"".join(map_in_order(self._cluster.engine, work, self._splits(None)))
            keep = partial(_all_of, [partial(unpack_kept, complete), *([] if keep is None else [keep])])
        rows = self._raw if keep is None else PublishedRows(self._raw, keep)
        if not rows.n_rows:
            raise DataError("the table has no rows to publish")
        self.report.n_dropped = self._raw.n_rows - self.report.n_over_cap - rows.n_rows
        tasks = []
        for first_part, start, stop in choose_ranges(rows, len(columns), self._cluster.engine.n_workers):
            if isinstance(rows, PublishedRows):
                start, stop = rows.raw_row(start), rows.raw_row(stop - 1) + 1
            tasks.append(self._with_bits(start, stop, keep, first_part))
        return tasks, rows.n_rows


def _all_of(keeps: list[Keep], start: int, stop: int) -> NDArray[np.bool_]:
    both: NDArray[np.bool_] = np.logical_and.reduce([keep(start, stop) for keep in keeps])
    return both


class PublishedRows:
    """The rows that are published, numbered on their own.

    Parameters
    ----------
    raw : RowRanges
        All rows.
    keep : callable
        Returns which raw rows of a range are published.
    """

    def __init__(self, raw: RowRanges, keep: Keep) -> None:
        self._raw, self._keep = raw, keep
        starts = range(0, raw.n_rows, _GRAIN)
        self._before = np.cumsum([0, *(int(self._grain(start).sum()) for start in starts)])

    @property
    def n_rows(self) -> int:
        """The number of rows that are published."""
        return int(self._before[-1])

    def n_skipped(self, row: int) -> int:
        """Return the number of raw rows that are read in vain to read from this one on."""
        return self._raw.n_skipped(self.raw_row(row))

    def raw_row(self, row: int) -> int:
        """Return the number of a published row among the raw ones."""
        grain = int(np.searchsorted(self._before, row, side="right")) - 1
        inside = np.flatnonzero(self._grain(grain * _GRAIN))
        return grain * _GRAIN + int(inside[row - self._before[grain]])

    def _grain(self, start: int) -> NDArray[np.bool_]:
        return self._keep(start, min(self._raw.n_rows, start + _GRAIN))


def _take(store: Store, receipt: PartReceipt, file: BinaryIO) -> Part:
    """Copy a staged part into a file of this process, where nobody can change it, and remove it from where it was.

    Raises
    ------
    StoreError
        It is not what was staged.
    """
    digest = hashlib.sha256()
    for position in range(0, receipt.size, _AT_ONCE):
        content = store.read(receipt.name, position, _AT_ONCE)
        digest.update(content)
        file.write(content)
    if digest.hexdigest() != receipt.sha256:
        raise StoreError(store.uri, "a staged part was changed: stage where only you can write")
    with contextlib.suppress(StoreError, OSError):  # what cannot be removed now is tried again at the end
        store.delete(receipt.name)
    return Part(receipt.place, file, receipt.sha256)
