"""Means, covariances and errors of forms of the published rows, each in one pass, whose memory does not grow with them.

`batch_moments` is a pure function of a batch, so that every core or worker reads some batches and computes theirs.
They are merged in the order of the batches, so that the result is equal to the bit on any number of them. Everything
after this module works on p-by-p matrices only.

References
----------
Chan, Golub & LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37(3), eq. 2.1.
White (1980), A heteroskedasticity-consistent covariance matrix estimator, Econometrica 48(4).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dp_bundle import Bundle
from dp_bundle.base.engine import Engine, map_batches, map_in_order
from dp_bundle.base.errors import BundleFormatError, EstimationError, ParameterError
from dp_bundle.base.machine import count_cores
from dp_bundle.base.quoting import Brief, quote_path
from dp_bundle.bundle.opened import PartTask, open_part
from dp_bundle.data.rows import RowGroup, group_rows, part_rows, require_all_rows, to_numpy
from dp_learn.covariance.estimate import FormErrors, by_rows
from dp_learn.matrices.linalg import FloatArray, Places, add_product, few_threads, sandwich, sparse_if_worth_it

R = TypeVar("R")
_AHEAD = 16  # row groups that are handed out, so that no thread waits while the headers of the next part are read
LARGEST = 1e70  # so that fourth powers, summed, are still numbers
WAITING_CELLS = 2**25  # of all cross products that wait to be merged
CHUNK_BYTES = 2**24  # of one matrix of rows


class Rows(NamedTuple):
    """Some rows: the number of the first, and what reads them, in any thread.

    `read` returns an ndarray of shape (n_rows, n_features).
    """

    start: int
    read: Callable[[], FloatArray]

    def select(self, places: Sequence[int] | Places) -> Rows:
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

    def select(self, places: Sequence[int] | Places) -> BundleRows:
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


def select_columns(batches: Iterable[Rows], places: Places) -> Iterable[Rows]:
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


@dataclass(frozen=True)
class Moments(Brief):
    """Row count, means, and centred cross products of some rows.

    Attributes
    ----------
    n_rows : int
    mean : ndarray of shape (n_features,)
    scatter : ndarray of shape (n_features, n_features)
        sum over rows of (x - mean)(x - mean)^T.
    n_off_grid : ndarray of int, shape (n_features,)
        The number of values in each column that are not multiples of the granularity in the manifest: none, if that is
        true.
    """

    n_rows: int
    mean: FloatArray
    scatter: FloatArray
    n_off_grid: Places

    @property
    def covariance(self) -> FloatArray:
        """The sample covariance, divisor n_rows - 1, so that independent noise adds exactly its variance on average."""
        if self.n_rows < 2:
            raise EstimationError("a covariance needs at least two rows")
        return self.scatter / (self.n_rows - 1)


def batch_moments(values: FloatArray, granularity: npt.ArrayLike | None = None) -> Moments:
    """Return the moments of one batch.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features)
    granularity : array-like of shape (n_features,), optional
        The stated grid of every column, powers of two; no grid by default.
    """
    mean = values.mean(axis=0) if len(values) else np.zeros(values.shape[1])
    centred = values - mean
    return Moments(len(values), mean, centred.T @ centred, _count_off_grid(values, granularity))


def merge_moments(first: Moments, second: Moments) -> Moments:
    """Return the moments of both sets of rows together."""
    n_rows = first.n_rows + second.n_rows
    if not first.n_rows or not second.n_rows:
        return first if first.n_rows else second
    shift = second.mean - first.mean
    mean = first.mean + shift * (second.n_rows / n_rows)
    between = np.outer(shift, shift) * (first.n_rows * second.n_rows / n_rows)
    return Moments(n_rows, mean, first.scatter + second.scatter + between, first.n_off_grid + second.n_off_grid)


def estimate_moments(bundle: Bundle) -> Moments:
    """Return the moments of a verified bundle's noisy rows.

    Raises
    ------
    ParameterError
        It is a covariance release, which has no rows.
    BundleFormatError
        The data are not what the manifest says.
    """
    if bundle.release.kind != "rows":
        raise ParameterError(
            "bundle",
            "a release of rows (of a covariance release, learn_graph(bundle) estimates the graph and "
            "bundle.second_moments() is the noisy matrix)",
            f"a {bundle.release.kind} release",
        )
    granularity = [column.grid for column in bundle.release.columns]
    return fold_moments(BundleRows(bundle), len(granularity), 1, granularity)[0]


def fold_moments(
    matrices: Iterable[Rows],
    n_features: int,
    n_folds: int,
    granularity: npt.ArrayLike | None = None,
    n_workers: int | None = None,
) -> list[Moments]:
    """Split the rows into folds by a fixed pseudo-random rule and return each fold's moments, in one pass.

    Parameters
    ----------
    matrices : iterable of Rows
        Consecutive batches.
    n_features : int
        How many columns.
    n_folds : int
        How many folds, at least 1.
    granularity : array-like of shape (n_features,), optional
        As in `batch_moments`.
    n_workers : int, optional
        How many threads, unless workers of the bundle's engine read it; one for each core, by default.
    """
    if n_folds < 1:
        raise ParameterError("n_folds", "at least 1", n_folds)

    split = partial(_split, n_folds=n_folds, granularity=granularity)
    return _merge_all(split, matrices, [_no_rows(n_features)] * n_folds, n_workers)


def subsample_moments(matrices: Iterable[Rows], n_features: int, n_subsamples: int, share: float) -> list[Moments]:
    """Return the moments of random subsamples of the rows, drawn by a fixed pseudo-random rule, in one pass.

    Parameters
    ----------
    matrices, n_features
        As in `fold_moments`.
    n_subsamples : int
        How many; each is drawn without replacement, and independently of the others.
    share : float
        The chance of every row to be in a subsample, in (0, 1].
    """
    limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    draw = partial(_draw, n_subsamples=n_subsamples, limit=limit)
    return _merge_all(draw, matrices, [_no_rows(n_features)] * n_subsamples)


def _split(rows: Rows, *, n_folds: int, granularity: npt.ArrayLike | None) -> list[Moments]:
    """Return the moments of every fold of a batch."""
    values = rows.read()
    if n_folds == 1:
        return [batch_moments(values, granularity)]
    assigned = _folds_of(rows.start, len(values), n_folds)
    return [batch_moments(values[assigned == fold], granularity) for fold in range(n_folds)]


def _draw(rows: Rows, *, n_subsamples: int, limit: np.uint64) -> list[Moments]:
    """Return the moments of every subsample of a batch."""
    values = rows.read()
    seeds = range(1, n_subsamples + 1)
    return [batch_moments(values[_mixed(rows.start, len(values), seed) <= limit]) for seed in seeds]


def _merge_all(
    function: Callable[[Rows], list[Moments]],
    matrices: Iterable[Rows],
    merged: list[Moments],
    n_workers: int | None = None,
) -> list[Moments]:
    """Read batches and compute their moments in threads or on workers; merge them in order."""
    room = max(1, WAITING_CELLS // (len(merged[0].mean) ** 2 * len(merged)))
    for found in map_rows(function, matrices, room, n_workers):
        merged = list(map(merge_moments, merged, found))
    return merged


def _no_rows(n_features: int) -> Moments:
    return batch_moments(np.empty((0, n_features)))


def _count_off_grid(values: FloatArray, granularity: npt.ArrayLike | None) -> Places:
    counts = np.zeros(values.shape[1], dtype=np.int64)
    steps, whole = np.empty((2, len(values)))  # of one column at a time, which stays in the processor's cache
    for index, step in enumerate(np.asarray([] if granularity is None else granularity, dtype=float)):
        np.divide(values[:, index], step, out=steps)  # exact: the granularity is a power of two
        np.rint(steps, out=whole)
        counts[index] = np.count_nonzero(whole != steps)
    return counts


def _folds_of(start: int, n_rows: int, n_folds: int) -> Places:
    """Share out every n_folds consecutive rows in a random order, so that folds are equal and follow no pattern."""
    first = start // n_folds
    n_groups = -(-(start + n_rows) // n_folds) - first
    order = _mixed(first * n_folds, n_groups * n_folds).reshape(n_groups, n_folds).argsort(axis=1)
    return order.ravel()[start - first * n_folds :][:n_rows]


def _mixed(start: int, n_rows: int, seed: int = 0) -> npt.NDArray[np.uint64]:
    """Mix row numbers with a seed (splitmix64, Steele et al. 2014), so that a choice of rows follows no order."""
    with np.errstate(over="ignore"):
        state = np.arange(start, start + n_rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        state += np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
        for _ in range(1 + (seed > 0)):
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state ^= state >> np.uint64(31)
    return state


def row_errors(
    batches: Iterable[FloatArray | Rows], mean: FloatArray, b: FloatArray, covariance: FloatArray | None = None
) -> FormErrors:
    """Return the errors of the forms in one source, estimated from its noisy rows: the sandwich.

    With y = B (x~ - mean), Var f_ij is the rows' variance of y_i y_j over n, noise included. It needs independent rows
    with finite fourth moments and nothing else, so it is the one for binary, coded or heavy-tailed columns. The model's
    variance, `form_errors`, varies less, but is right only for Gaussian rows: tails make it too small.

    Parameters
    ----------
    batches : iterable of Rows, or of ndarray of shape (n_batch, n_features)
        The noisy rows, once. Memory is that of a batch and of a few q-by-q matrices for every thread. To it comes that
        of the few Rows or arrays that wait for one.
    mean : ndarray of shape (n_features,)
        Their mean.
    b : ndarray of shape (q, n_features)
    covariance : ndarray of shape (n_features, n_features), optional
        Their covariance with divisor n - 1, if it is known: a quarter less to do.

    Raises
    ------
    EstimationError
        There are fewer than two rows.
    """
    n_rows, second, squares, cubes = _sum_powers(batches, mean, b, with_second=covariance is None)
    q = len(b)
    if covariance is not None:
        second = sandwich(b, covariance).T
        second *= n_rows - 1
    p, squares, cubes = _fill_lower(second).T, _fill_lower(squares).T, _add_transpose(cubes).T  # C-contiguous views
    p /= n_rows
    d, fourth = np.diagonal(p).copy(), np.diagonal(squares) / n_rows

    def centred(rows: slice) -> FormErrors:
        mean_square = (d[rows, None] + d) / 2.0
        products = squares[rows] / n_rows
        found = FormErrors(
            np.maximum(products - p[rows] ** 2, 0.0),  # rounding, where y_i y_j is the same in all rows
            cubes[rows] / n_rows - 2.0 * p[rows] * mean_square,
            np.maximum((fourth[rows, None] + fourth + 2.0 * products) / 4.0 - mean_square * mean_square, 0.0),
        )
        return found.times(1.0 / n_rows)

    return by_rows(q, centred, into=FormErrors(squares, cubes, p))


def _sum_powers(
    batches: Iterable[FloatArray | Rows], mean: FloatArray, b: FloatArray, *, with_second: bool
) -> tuple[int, FloatArray, FloatArray, FloatArray]:
    """Return the number of rows and the sums of y_i y_j, y_i^2 y_j^2 (the upper triangle of both) and y_i^3 y_j."""
    n_rows, q = 0, len(b)
    sums = [np.zeros((q, q), order="F") for _ in range(3)]  # the system gives what is written to
    room = WAITING_CELLS // (3 * q * q)  # for sums of how many batches
    powers = partial(_batch_powers, mean=mean, b=b, forms=sparse_if_worth_it(b), with_second=with_second)

    if room < 2:
        for rows in batches:
            n_rows += powers(rows, sums)[0]
    else:
        for n_batch, found in map_rows(powers, batches, room):
            n_rows += n_batch
            for total, part in zip(sums, found, strict=True):
                total += part
    if n_rows < 2:
        raise EstimationError("a standard error needs at least two rows")
    return n_rows, sums[0], sums[1], sums[2]


def _batch_powers(
    rows: FloatArray | Rows,
    sums: list[FloatArray] | None = None,
    *,
    mean: FloatArray,
    b: FloatArray,
    forms: Any,
    with_second: bool,
) -> tuple[int, list[FloatArray]]:
    """Return the number of rows of a batch, and its sums, added to others if they are given."""
    values, q = rows.read() if isinstance(rows, Rows) else rows, len(b)
    second, squares, cubes = sums or [np.zeros((q, q), order="F") for _ in range(3)]
    chunk = max(1, CHUNK_BYTES // (8 * b.shape[1]))  # the powers of a whole batch would take several times its memory
    for start in range(0, len(values), chunk):
        y = np.asfortranarray((forms @ (values[start : start + chunk] - mean).T).T)
        y2 = y * y
        if with_second:
            second = add_product(second, y, y)
        squares = add_product(squares, y2, y2)
        cubes = add_product(cubes, y2 * y, y)
    return len(values), [second, squares, cubes]


def _fill_lower(matrix: FloatArray) -> FloatArray:
    """Overwrite the lower triangle of a matrix with the upper one, and return it."""
    for column in range(len(matrix) - 1):
        matrix[column + 1 :, column] = matrix[column, column + 1 :]
    return matrix


def _add_transpose(matrix: FloatArray) -> FloatArray:
    """Add its transpose to a matrix in place, and return it."""
    for column in range(len(matrix)):
        total = matrix[column, column:] + matrix[column:, column]
        matrix[column, column:] = matrix[column:, column] = total
    return matrix
