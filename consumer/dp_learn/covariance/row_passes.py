"""One pass over all rows: a function of every batch, in threads or on workers elsewhere, with the results in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dp_bundle import Bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.base.machine import count_cores
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.opened import PartTask, open_part
from dp_bundle.data.row_reader import RowGroup, require_all_rows, to_numpy
from dp_bundle.data.rows import group_rows, part_rows
from dp_bundle.engines.engine import Engine, map_batches, map_in_order
from dp_learn.matrices.linalg import FloatArray, few_threads

R = TypeVar("R")
_AHEAD = 16  # row groups that are handed out, so that no thread waits while the headers of the next part are read
LARGEST = 1e70  # so that fourth powers, summed, are still numbers


class Rows(NamedTuple):
    """Some rows: the number of the first, and what reads them, in any thread.

    `read` returns an ndarray of shape (n_rows, n_features).
    """

    start: int
    read: Callable[[], FloatArray]

    def select(self, places: Sequence[int] | npt.NDArray[np.int64]) -> Rows:
        """Return the same rows with the columns at these places, in this order."""
        return Rows(self.start, lambda: self.read()[:, places])


class Change(NamedTuple):
    """A change of the values that were read: (value - shift) * factor, arrays of shape (n_features,)."""

    shift: FloatArray
    factor: FloatArray


class BundleRows:
    """All rows of a verified bundle, which can be passed over again and again.

    Parameters
    ----------
    bundle : Bundle
        A release of rows.
    places : sequence of int, optional
        Which columns, in which order; all, by default.
    change : Change, optional
        What becomes of their values; nothing, by default.
    """

    def __init__(self, bundle: Bundle, places: Sequence[int] | None = None, change: Change | None = None) -> None:
        self.bundle, self.places, self.change = bundle, places, change

    def select(self, places: Sequence[int] | npt.NDArray[np.int64]) -> BundleRows:
        """Return the same rows with the columns at these places, in this order."""
        chosen = [int(place) for place in places]
        change = None if self.change is None else Change(*(values[chosen] for values in self.change))
        return BundleRows(
            self.bundle, chosen if self.places is None else [self.places[place] for place in chosen], change
        )

    def __iter__(self) -> Iterator[Rows]:
        """Yield the rows of every row group, to be read by any thread of this process.

        Raises
        ------
        BundleFormatError
            The data are not what the manifest says, or not numbers that can be computed with.
        """
        for group in self.bundle.row_groups():
            yield _rows_of(group, self.bundle.path, self.places, self.change)
        pa.default_memory_pool().release_unused()  # which it would keep, as much as it ever held


def select_columns(batches: Iterable[Rows], places: npt.NDArray[np.int64]) -> Iterable[Rows]:
    """Return the same batches with the columns at these places, in this order."""
    return batches.select(places) if isinstance(batches, BundleRows) else (rows.select(places) for rows in batches)


def map_rows(
    function: Callable[[Any], R], batches: Iterable[Any], room: int, n_workers: int | None = None
) -> Iterator[R]:
    """Yield a function of every batch, in their order; workers read those of a bundle that was opened with an engine.

    Parameters
    ----------
    function : callable
        Takes one batch, in several threads at once; workers need one that can be pickled.
    batches : iterable
        Consecutive batches: `BundleRows`, other `Rows`, or what else the function takes.
    room : int
        How many results may wait in memory, at least 1.
    n_workers : int, optional
        How many threads; one for each core, by default.

    Raises
    ------
    BundleFormatError
        The data are not what the manifest says, or not numbers that can be computed with.
    """
    if isinstance(batches, BundleRows) and batches.bundle.engine is not None:
        yield from _map_on_workers(batches.bundle.engine, function, batches, room)
    else:
        n_threads = n_workers or min(count_cores(), room)
        yield from map_batches(function, batches, n_threads, max(n_threads, min(_AHEAD, room)))


def _map_on_workers(engine: Engine, function: Callable[[Rows], R], rows: BundleRows, room: int) -> Iterator[R]:
    release, seen = rows.bundle.release, 0
    n_columns = len(release.columns)
    at_once = max(engine.n_workers, room // -(-part_rows(n_columns) // group_rows(n_columns)))
    tasks = rows.bundle.part_tasks()
    of_part = partial(_map_part, function=function, places=rows.places, change=rows.change, n_columns=n_columns)
    for task, found in zip(tasks, map_in_order(engine, of_part, tasks, at_once), strict=True):
        if task.start != seen:
            where = quote_path(rows.bundle.path)
            raise BundleFormatError(f"the parts of {where} are not as long as ours: read it without --engine")
        for n_rows, result in found:
            seen += n_rows
            yield result
    require_all_rows(seen, release.n_rows)


def _map_part(
    task: PartTask,
    *,
    function: Callable[[Rows], R],
    places: Sequence[int] | None,
    change: Change | None,
    n_columns: int,
) -> list[tuple[int, R]]:
    """Return the size of every row group of a part, and the function of it."""
    with open_part(task) as groups, few_threads(n_columns):
        return [(group.n_rows, function(_rows_of(group, task.place, places, change))) for group in groups]


def _rows_of(
    group: RowGroup, path: str | os.PathLike[str], places: Sequence[int] | None, change: Change | None
) -> Rows:
    rows = Rows(group.start, partial(_read_matrix, group, path))
    chosen = rows if places is None else rows.select(places)
    return chosen if change is None else Rows(group.start, lambda: (chosen.read() - change.shift) * change.factor)


def _read_matrix(group: RowGroup, path: str | os.PathLike[str]) -> FloatArray:
    batch = group.read()
    shape = batch.num_columns, batch.num_rows  # column after column, as they come
    # Arrow keeps the memory for the next group, where malloc would give it back to the system, page by page.
    values: FloatArray = np.ndarray(shape, np.float64, pa.allocate_buffer(8 * shape[0] * shape[1]))
    for column, found in zip(values, batch.columns, strict=True):
        column[:] = to_numpy(found)
        if len(column) and not (column.max() <= LARGEST and column.min() >= -LARGEST):
            raise BundleFormatError(f"{quote_path(path)} has values that are no finite numbers, or beyond {LARGEST:g}")
    return values.T
