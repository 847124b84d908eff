"""Work on all rows of a table, on all cores of this machine: sums of them, and noise on them, which goes into parts.

Each core reads and writes ranges of whole parts. A range has a reader and a keystream of its own, which gets its bits
from the operating system. So no two ranges share any. Where parts begin follows from the number of columns alone, and
so the bundle has the same parts and row groups whatever made it.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import accumulate, count, pairwise, takewhile
from threading import Lock
from typing import BinaryIO, ClassVar, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from dp_bundle.base.engine import Threads, closing_results, map_in_order
from dp_bundle.base.errors import DataError
from dp_bundle.data.rows import PartWriter, batch_rows, part_rows
from dp_bundle.manifest.columns import Column
from dp_publish.data.kinds import Kinds
from dp_publish.data.row_ranges import RawBatches
from dp_publish.data.table import Table
from dp_publish.policy.memory import count_threads
from dp_publish.release.begun import Begun, Part
from dp_publish.release.contribution_cap import EntityCap
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.missing import RowReport
from dp_publish.sampling.keystream import Keystream, SecureKeystream

T = TypeVar("T")
_log = logging.getLogger(__name__)
_NARROW = 256  # columns; of more, one thread's sums take as much memory as there should be
_RANGES_PER_CORE = 4  # so that no core is left alone with much work at the end
_WORTH_IT = 0.6  # of all rows, for one core: more take as long as one thread that adds noise and one that writes
_REVEAL_NOTHING = (OSError, MemoryError, KeyboardInterrupt)  # of noisy numbers that were drawn before: a full disk, say
_MARK = "reveals_noise"


@dataclass(frozen=True)
class Making:
    """The parts that a release is made with.

    Attributes
    ----------
    keystream : Keystream
        Where random bits come from, unless several threads or workers have bits of their own.
    new_file : callable
        Opens a new file for a data member.
    drawn : ExitStack
        From the moment at which an error could reveal noisy numbers, it holds a `could_reveal_noise`.
    progress : callable, optional
        Called with the number of rows done.
    begun : Begun
        What it has a record of is not drawn again.
    """

    keystream: Keystream
    new_file: Callable[[], BinaryIO]
    drawn: contextlib.ExitStack
    begun: Begun
    progress: Callable[[int], None] | None = None

    def drawing(self) -> None:
        """Mark errors from now on, as they could reveal noisy numbers."""
        self.drawn.enter_context(could_reveal_noise())


@contextlib.contextmanager
def could_reveal_noise() -> Iterator[None]:
    """Mark the errors of a block that may reveal numbers drawn before it: their cost must not be taken back."""
    try:
        yield
    except _REVEAL_NOTHING:
        raise
    except BaseException as error:
        vars(error)[_MARK] = True
        raise


@contextlib.contextmanager
def stays_booked() -> Iterator[None]:
    """Mark all errors of a block after which noisy numbers lie where others may have seen them."""
    try:
        yield
    except BaseException as error:
        vars(error)[_MARK] = True
        error.add_note(
            "noisy parts were staged, so the release stays in the ledger as reserved, and nothing is published"
        )
        raise


def may_reveal_noise(error: BaseException) -> bool:
    """Return True if an error was marked by `could_reveal_noise`."""
    return _MARK in vars(error)


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
    batches: Iterable[pa.RecordBatch],
    columns: tuple[Column, ...],
    new_file: Callable[[], BinaryIO],
    tell: Callable[[int], None] = lambda _: None,
    first_part: int = 0,
) -> Iterator[Part]:
    """Write noisy batches into parts, yield each when it is finished, and tell how many rows each batch had.

    Raises
    ------
    DataError
        There is no row, or the values are so much alike that no reader would accept them.
    """
    with PartWriter(columns, new_file, first_part) as writer:

        def finished() -> Iterator[Part]:
            places = count(first_part + n_yielded)
            yield from map(Part, places, writer.parts[n_yielded:], writer.digests[n_yielded:])

        n_yielded = 0
        for noisy in batches:
            writer.write(noisy)
            tell(noisy.num_rows)
            yield from finished()
            n_yielded = len(writer.digests)
        writer.close()
        yield from finished()
    if writer.n_rows == 0:
        raise DataError("the table has no rows to publish")


@dataclass(frozen=True)
class LocalWork:
    """Work of this process, on all cores where rows are known by their numbers.

    Attributes
    ----------
    read : callable
        Yields the rows in order.
    table : Table or None
        The same rows, some of which can be read by their numbers if they are `stored`.
    keeps_numbers : bool
        Whether rows are published under these numbers, so that it is known where parts begin. They are then published
        with random bits of each thread's own, which an audit has no use for.
    cap : EntityCap or None
        What left out rows of them.
    report : RowReport
        What is done to the rows is counted in it.
    """

    has_staged_noise: ClassVar = False

    read: Callable[[Kinds], RawBatches]
    table: Table | None = None
    keeps_numbers: bool = True
    cap: EntityCap | None = None
    report: RowReport = field(default_factory=RowReport)

    def total(
        self,
        kinds: Kinds,
        add: Callable[[RawBatches], T],
        merge: Callable[[T, T], T],
        progress: Callable[[int], None] | None = None,
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
        n_threads = count_threads(len(kinds)) if len(kinds) <= _NARROW else 1
        threads = Threads(n_threads)
        told = Told(progress, threads)

        def counted(batches: RawBatches) -> RawBatches:
            for batch in batches:
                told.add(batch.num_rows)
                yield batch

        table = None if n_threads == 1 else self.table
        planned = _plan(table, len(kinds), n_threads)
        if table is not None and len(planned) > 1:
            read = partial(table.read, kinds, batch_rows(len(kinds)))
            totals = map_in_order(threads, lambda wanted: add(counted(read(wanted.start, wanted.stop))), planned)
            total = reduce(merge, totals)
        else:
            with closing_results(_one_ahead(self.read(kinds))) as ahead:
                total = add(counted(ahead))
        _log.info("a pass over %d rows is done", told.n_rows)  # columns and parts tell what was found
        return total

    def require_unchanged(self) -> None:
        """Raise `SchemaError` if rows may have passed their cap."""
        if self.cap is not None:
            self.cap.require_unchanged()

    def write(self, kinds: Kinds, columns: tuple[Column, ...], making: Making) -> list[Part]:
        """Add noise to all rows, and return the parts in order.

        All cores do so if that is worth it and it is known where parts begin.

        Parameters
        ----------
        kinds : dict of str to str
            The columns.
        columns : tuple of Column
            How they are published.
        making : Making
            What the release is made with.
        """
        dropping = any(column.missing == "drop" for column in columns)
        table = None if not self.keeps_numbers or dropping else self.table
        planned = _plan(table, len(columns), count_threads(len(columns)))
        if table is not None and len(planned) > 1:
            return self._write_ranges(table, planned, kinds, columns, making)
        batches = (add_noise(batch, columns, making.keystream, self.report) for batch in self.read(kinds))
        with closing_results(_one_ahead(batches)) as ahead:
            return list(write_parts(ahead, columns, making.new_file, Told(making.progress).add))

    def _write_ranges(
        self,
        table: Table,
        planned: Sequence[RowRange],
        kinds: Kinds,
        columns: tuple[Column, ...],
        making: Making,
    ) -> list[Part]:
        """Add noise to each range, write it, and return all parts in order."""
        threads = Threads(count_threads(len(columns)))
        told, parts = Told(making.progress, threads), list[Part]()

        def write_range(wanted: RowRange) -> tuple[list[Part], RowReport]:
            keystream, own = SecureKeystream(), RowReport()
            raw = table.read(kinds, batch_rows(len(columns)), wanted.start, wanted.stop)
            batches = (add_noise(batch, columns, keystream, own) for batch in raw)
            return list(write_parts(batches, columns, making.new_file, told.add, wanted.first_part)), own

        with closing_results(threads.map_unordered(write_range, planned)) as results:
            for written, own in results:
                parts += written
                self.report.add(own)
        return sorted(parts, key=lambda part: part.place)


def _plan(table: Table | None, n_columns: int, n_threads: int) -> list[RowRange]:
    """Divide the rows of a table for the cores, if they can be read by their numbers."""
    rows = None if table is None else table.stored
    return plan_for_cores(rows, n_columns, n_threads) if rows is not None and rows.n_rows else []


class Told:
    """The number of rows that all threads have done, as long as they run.

    It is told to one who may be told by one at a time.

    Attributes
    ----------
    n_rows : int
        The number so far.
    """

    def __init__(self, progress: Callable[[int], None] | None, threads: Threads | None = None) -> None:
        self._progress, self._threads, self._lock, self.n_rows = progress, threads, Lock(), 0

    def add(self, n_rows: int) -> None:
        """Add rows, and tell."""
        if self._threads is not None:
            self._threads.require_running()
        with self._lock:
            self.n_rows += n_rows
            if self._progress is not None:
                self._progress(self.n_rows)


def _starts(n_rows: int, n_columns: int) -> list[int]:
    """Return the first row of every part, and the number of rows."""
    starts = accumulate((part_rows(n_columns, index) for index in count()), initial=0)
    return [*takewhile(lambda row: row < n_rows, starts), n_rows]


def _one_ahead(batches: Iterator[T]) -> Iterator[T]:
    """Yield the batches while a thread makes the next one, so that both sides take a core each; to be closed."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        upcoming = pool.submit(next, batches, None)
        while (batch := upcoming.result()) is not None:
            upcoming = pool.submit(next, batches, None)
            yield batch
