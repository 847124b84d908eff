"""Passes over the rows that may be published: in order, or in runs of rows at once whose results are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, TypeVar

import pyarrow as pa

from dp_bundle.data import batch_rows
from dp_bundle.engines import Threads, map_in_order
from dp_publish.data import TypedRanges
from dp_publish.release.contents import Progress, Read, one_ahead
from dp_publish.release.parts import RowRange, Told, count_threads, plan_for_cores

T = TypeVar("T")
_NARROW = 256  # columns; of more, one thread's sums take as much memory as there should be


class Passes(Protocol):
    """The rows that may be published, as often as they are asked for."""

    def read(self, kinds: dict[str, str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows of the columns in `kinds`, in order."""

    def total(
        self,
        kinds: dict[str, str],
        add: Callable[[Iterator[pa.RecordBatch]], T],
        merge: Callable[[T, T], T],
        progress: Progress | None = None,
    ) -> T:
        """Return what comes of all rows.

        Parameters
        ----------
        kinds : dict of str to str
            The columns.
        add : callable
            Takes the batches of a run of rows, and returns what comes of them. It may run elsewhere, and more than
            once: it is pickled, draws nothing and changes nothing.
        merge : callable
            Takes what comes of two runs, and returns what comes of both, exactly: where runs begin must not matter.
            It may change the first.
        progress : callable, optional
            Called with the number of rows done.
        """


@dataclass(frozen=True)
class LocalPasses:
    """Passes in this process, on all cores where rows are known by their numbers.

    Attributes
    ----------
    read : callable
        Yields the rows in order.
    ranges : callable or None
        Returns the same rows by their numbers.
    """

    read: Read
    ranges: Callable[[], TypedRanges] | None = None

    def total(
        self,
        kinds: dict[str, str],
        add: Callable[[Iterator[pa.RecordBatch]], T],
        merge: Callable[[T, T], T],
        progress: Progress | None = None,
    ) -> T:
        """Return what comes of all rows; see `Passes`."""
        n_threads = count_threads(len(kinds)) if len(kinds) <= _NARROW else 1
        told, threads = Told(progress), Threads(n_threads)
        if self.ranges is not None and n_threads > 1:
            ranges = self.ranges()
            planned = plan_for_cores(ranges.raw, len(kinds), n_threads)
            if len(planned) > 1:

                def add_range(wanted: RowRange) -> T:
                    return add(counted(ranges.read(kinds, batch_rows(len(kinds)), wanted.start, wanted.stop)))

                def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                    for batch in batches:
                        threads.require_running()
                        told.add(batch.num_rows)
                        yield batch

                return reduce(merge, map_in_order(threads, add_range, planned))
        return add(_told(one_ahead(self.read(kinds)), told))


def _told(batches: Iterator[pa.RecordBatch], told: Told) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        told.add(batch.num_rows)
        yield batch
