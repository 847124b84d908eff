"""Noisy rows written into parts: in one go, or on all cores, each of which reads and writes a range of whole parts.

A range has a reader and a keystream of its own, which gets its bits from the operating system, so that no two ranges
share any. Where parts begin follows from the number of columns alone, and so the bundle has the same parts and row
groups whatever made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, pairwise, takewhile
from threading import Lock
from typing import BinaryIO, NamedTuple, Protocol

import pyarrow as pa

from dp_bundle.base.errors import DataError
from dp_bundle.data.rows import PartWriter, batch_rows, part_rows
from dp_bundle.engines.engine import Threads
from dp_bundle.manifest.columns import Column
from dp_publish.data.missing import RowReport
from dp_publish.data.typed import TypedRanges
from dp_publish.policy.memory import count_threads
from dp_publish.release.contents import NewFile, Progress, Records
from dp_publish.rows.mechanism import add_noise
from dp_publish.sampling.keystream import SecureKeystream

_RANGES_PER_CORE = 4  # so that no core is left alone with much work at the end
_WORTH_IT = 0.6  # of all rows, for one core: more take as long as one thread that adds noise and one that writes


class NumberedRows(Protocol):
    """Rows that can be read from any one on."""

    @property
    def n_rows(self) -> int:
        """The number of rows."""

    def n_skipped(self, row: int) -> int:
        """Return the number of rows that are read in vain to read from this one on."""


class RowRange(NamedTuple):
    """Rows of whole parts: the place of the first part, the number of the first row, and that behind the last."""

    first_part: int
    start: int
    stop: int


class Part(NamedTuple):
    """A part that was written: its place among all, its file and the SHA-256 of that."""

    place: int
    file: BinaryIO
    sha256: str


def plan_ranges(rows: NumberedRows, n_columns: int, n_ranges: int) -> list[RowRange]:
    """Divide rows into ranges of about equally many whole parts, at edges that are quick to read from.

    Parameters
    ----------
    rows : NumberedRows
        The table, of at least one row.
    n_columns : int
        On which, with its place, the number of rows of a part depends.
    n_ranges : int
        The most ranges there may be.
    """
    starts = _starts(rows.n_rows, n_columns)
    n_parts = len(starts) - 1
    edges = {0, n_parts}
    for index in range(1, n_ranges):
        middle = index * n_parts // n_ranges
        near = [place for place in (middle, middle - 1, middle + 1) if 0 < place < n_parts]
        edges |= {min(near, key=lambda place: rows.n_skipped(starts[place]))} if near else set()
    return [RowRange(first, starts[first], starts[last]) for first, last in pairwise(sorted(edges))]


def choose_ranges(rows: NumberedRows, n_columns: int, n_workers: int) -> list[RowRange]:
    """Divide rows into several ranges for each worker, or fewer where too much would be decoded in vain.

    The longest come first, so that no worker begins one when the others are done.
    """
    for n_ranges in (_RANGES_PER_CORE * n_workers, 2 * n_workers, n_workers):
        planned = plan_ranges(rows, n_columns, n_ranges)
        if sum(rows.n_skipped(each.start) for each in planned) <= rows.n_rows // 4:
            break
    return sorted(planned, key=lambda each: each.start - each.stop)


def plan_for_cores(rows: NumberedRows, n_columns: int, n_threads: int) -> list[RowRange]:
    """Divide rows into ranges for the cores of this machine: into one, if more are not worth it."""
    n_parts = -(-rows.n_rows // part_rows(n_columns))
    if -(-n_parts // n_threads) * part_rows(n_columns) > _WORTH_IT * rows.n_rows:
        return [RowRange(0, 0, rows.n_rows)]
    return choose_ranges(rows, n_columns, n_threads)


def write_parts(
    batches: Iterator[pa.RecordBatch],
    columns: tuple[Column, ...],
    new_file: NewFile,
    progress: Progress | None,
    first_part: int = 0,
) -> list[Part]:
    """Write noisy batches into parts.

    Raises
    ------
    DataError
        There is no row, or the values are so much alike that no reader would accept them.
    """
    with PartWriter(columns, new_file, first_part) as writer:
        for noisy in batches:
            writer.write(noisy)
            if progress is not None:
                progress(writer.n_rows)
    if writer.n_rows == 0:
        raise DataError("the table has no rows to publish")
    return [Part(*each) for each in zip(count(first_part), writer.parts, writer.digests, strict=False)]


@dataclass(frozen=True)
class ParallelWriter:
    """Noise on all rows of a table, on all cores.

    Attributes
    ----------
    ranges : TypedRanges
        The table.
    kinds : dict of str to str
        Its columns.
    columns : tuple of Column
        How they are published; none leaves out rows with missing values, as it is then unknown where parts begin.
    """

    ranges: TypedRanges
    kinds: dict[str, str]
    columns: tuple[Column, ...]

    def plan(self) -> list[RowRange]:
        """Return the ranges of rows for all cores: one, if more are not worth it."""
        return plan_for_cores(self.ranges.raw, len(self.columns), self._n_threads())

    def write(
        self, planned: Sequence[RowRange], new_file: NewFile, progress: Progress | None, report: RowReport
    ) -> list[Part]:
        """Add noise to the ranges, write them, and return all parts in order."""
        threads, told = Threads(self._n_threads()), Told(progress)

        def write_range(wanted: RowRange) -> tuple[list[Part], RowReport]:
            keystream, own, before = SecureKeystream(), RowReport(), [0]

            def tell(n_rows: int) -> None:
                threads.require_running()
                told.add(n_rows - before[0])
                before[0] = n_rows

            raw = self.ranges.read(self.kinds, batch_rows(len(self.columns)), wanted.start, wanted.stop)
            batches = (add_noise(batch, self.columns, keystream, own) for batch in raw)
            return write_parts(batches, self.columns, new_file, tell, wanted.first_part), own

        parts: list[Part] = []
        for written, own in threads.map_unordered(write_range, planned):
            parts += written
            report.add(own)
        return sorted(parts, key=lambda part: part.place)

    def write_recorded(self, records: Records, progress: Progress | None, report: RowReport) -> list[Part]:
        """Add noise to each part that has no record, write and record it, and return all parts in order."""
        starts, told = _starts(self.ranges.raw.n_rows, len(self.columns)), Told(progress)
        missing, parts = [], []
        for place, (start, stop) in enumerate(pairwise(starts)):
            found = records.part(place)
            if found is None:
                missing.append(RowRange(place, start, stop))
            else:
                file, sha256, own = found
                parts.append(Part(place, file, sha256))
                report.add(own)
                told.add(stop - start)

        threads = Threads(self._n_threads())

        def write_part(wanted: RowRange) -> tuple[Part, RowReport]:
            threads.require_running()
            keystream, own = SecureKeystream(), RowReport()
            raw = self.ranges.read(self.kinds, batch_rows(len(self.columns)), wanted.start, wanted.stop)
            batches = (add_noise(batch, self.columns, keystream, own) for batch in raw)
            (part,) = write_parts(batches, self.columns, records.new_file, None, wanted.first_part)
            records.record_part(part.place, part.file, part.sha256, own)
            told.add(wanted.stop - wanted.start)
            return part, own

        for part, own in threads.map_unordered(write_part, missing):
            parts.append(part)
            report.add(own)
        return sorted(parts, key=lambda part: part.place)

    def _n_threads(self) -> int:
        return count_threads(len(self.columns))


class Told:
    """The number of rows that all threads have done, told to one who may be told by one at a time.

    Attributes
    ----------
    n_rows : int
        The number so far.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._lock, self.n_rows = progress, Lock(), 0

    def add(self, n_rows: int) -> None:
        """Add rows, and tell."""
        with self._lock:
            self.n_rows += n_rows
            if self._progress is not None:
                self._progress(self.n_rows)


def _starts(n_rows: int, n_columns: int) -> list[int]:
    """Return the first row of every part, and the number of rows."""
    return [*takewhile(lambda row: row < n_rows, accumulate(map(_rows_of(n_columns), count()), initial=0)), n_rows]


def _rows_of(n_columns: int) -> Callable[[int], int]:
    return lambda index: part_rows(n_columns, index)
