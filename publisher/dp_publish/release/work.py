"""Work on all rows of a table, sums of them and noise on them, on all cores of this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, TypeVar

import pyarrow as pa

from dp_bundle.data.rows import batch_rows
from dp_bundle.engines.engine import Threads, map_in_order
from dp_bundle.manifest.columns import Column
from dp_publish.data.contribution_cap import CappedRanges, EntityCap
from dp_publish.data.missing import RowReport
from dp_publish.data.typed import TypedRanges
from dp_publish.policy.memory import count_threads
from dp_publish.release.contents import Making, Progress, Read, one_ahead
from dp_publish.release.parts import ParallelWriter, Part, RowRange, Told, plan_for_cores, write_parts
from dp_publish.rows.mechanism import add_noise

T = TypeVar("T")
_log = logging.getLogger(__name__)
_DONE = "a pass over %d rows of %d columns is done"
_NARROW = 256  # columns; of more, one thread's sums take as much memory as there should be


class RowWork(Protocol):
    """The rows that may be published, and whoever works at them."""

    def total(
        self,
        kinds: dict[str, str],
        add: Callable[[Iterator[pa.RecordBatch]], T],
        merge: Callable[[T, T], T],
        progress: Progress | None = None,
    ) -> T:
        """Return what comes of all rows, from one pass.

        Parameters
        ----------
        kinds : dict of str to str
            The columns that are read.
        add : callable
            Takes the batches of a run of rows, and returns what comes of them. It may run elsewhere, and more than
            once: it is pickled, draws nothing and changes nothing.
        merge : callable
            Takes what comes of two runs, and returns what comes of both, exactly: where runs begin must not matter.
            It may change the first.
        progress : callable, optional
            Called with the number of rows done.
        """

    def require_unchanged(self) -> None:
        """Raise `SchemaError` if the table has changed since, in a way by which passes would not be of one table."""

    def write(
        self,
        kinds: dict[str, str],
        columns: tuple[Column, ...],
        making: Making,
        report: RowReport,
    ) -> list[Part]:
        """Add noise to all rows, and return the parts in order.

        Parameters
        ----------
        kinds : dict of str to str
            The columns.
        columns : tuple of Column
            How they are published.
        making : Making
            What the release is made with.
        report : RowReport
            Counts are added to it.
        """


@dataclass(frozen=True)
class LocalWork:
    """Work of this process, on all cores where rows are known by their numbers.

    Attributes
    ----------
    read : callable
        Yields the rows in order.
    ranges : callable or None
        Returns the same rows by their numbers.
    keeps_numbers : bool
        Whether rows are published under these numbers, so that it is known where parts begin; and with random bits of
        each thread's own, which an audit has no use for.
    cap : EntityCap or None
        What left out rows of them.
    """

    read: Read
    ranges: Callable[[], TypedRanges | CappedRanges] | None = None
    keeps_numbers: bool = True
    cap: EntityCap | None = None

    def total(
        self,
        kinds: dict[str, str],
        add: Callable[[Iterator[pa.RecordBatch]], T],
        merge: Callable[[T, T], T],
        progress: Progress | None = None,
    ) -> T:
        """Return what comes of all rows; see `RowWork`."""
        n_threads = count_threads(len(kinds)) if len(kinds) <= _NARROW else 1
        told, threads = Told(progress), Threads(n_threads)

        def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                threads.require_running()
                told.add(batch.num_rows)
                yield batch

        if self.ranges is not None and n_threads > 1:
            ranges = self.ranges()
            planned = plan_for_cores(ranges.raw, len(kinds), n_threads)

            def add_range(wanted: RowRange) -> T:
                return add(counted(ranges.read(kinds, batch_rows(len(kinds)), wanted.start, wanted.stop)))

            if len(planned) > 1:
                total = reduce(merge, map_in_order(threads, add_range, planned))
                _log.info(_DONE, told.n_rows, len(kinds))
                return total
        total = add(counted(one_ahead(self.read(kinds))))
        _log.info(_DONE, told.n_rows, len(kinds))
        return total

    def require_unchanged(self) -> None:
        """Raise `SchemaError` if rows may have passed their cap."""
        if self.cap is not None:
            self.cap.require_unchanged()

    def write(
        self,
        kinds: dict[str, str],
        columns: tuple[Column, ...],
        making: Making,
        report: RowReport,
    ) -> list[Part]:
        """Add noise to all rows: on all cores if that is worth it, and it is known where parts begin."""
        dropping = any(column.missing == "drop" for column in columns)
        ranges = None if self.ranges is None or not self.keeps_numbers or dropping else self.ranges()
        if isinstance(ranges, TypedRanges):
            writer = ParallelWriter(ranges, kinds, columns)
            if making.records is not None and writer.ranges.raw.n_rows:
                return writer.write_recorded(making.records, making.progress, report)
            if len(planned := writer.plan()) > 1:
                return writer.write(planned, making.new_file, making.progress, report)
        batches = (add_noise(batch, columns, making.keystream, report) for batch in self.read(kinds))
        return write_parts(one_ahead(batches), columns, making.new_file, making.progress)
