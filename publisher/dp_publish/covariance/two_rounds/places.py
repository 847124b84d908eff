"""The center and the scale of every column, declared or found.

They are found within a column's bounds, or, where nothing public is known of it, over all numbers up to 2^52.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_bundle.base.arrays import Floats, Integers
from dp_publish.covariance.two_rounds.steps import Choice, NoisyCounts, Play
from dp_publish.policy.model import ColumnPolicy
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.places import (
    LARGEST,
    Cells,
    EqualCells,
    FloatGrid,
    Range,
    add_to_cells,
    cells_for,
    count_within,
    place_chosen,
)

MOST_CELLS = 1 << 17  # of a column: counts that stay in a processor's cache
_FAR = 1000.0  # scales of a declared place, in which its values are counted
_SIZES = 128  # of numbers, from one to the next larger by e each, about
_STANDS_OUT = 4.5  # standard deviations: of 128 counts of nothing, one does in 2,000 columns
_STAND_OUT_TOGETHER = 3.5  # of the counts of next sizes, weighted as values of a usual column are spread over them:
_SPREAD = np.array([0.1, 0.2, 0.4, 0.3])  # up to its largest
_WIDE = 1e9  # of bounds: a scale within them would be at least 2^-14 of that, so that they are as good as none
_FINER = 8  # cells, where they are those of all numbers
_BELOW = 0.3  # of the values above zero: what those below are taken to be, if there are any
_LOG_ODDS = math.log(10.0)  # of none
_HALF = 0.5  # of the distance of two integers


@dataclass(frozen=True)
class Place:
    """The public facts of a column before the release.

    Attributes
    ----------
    low, high : float
        Its bounds; -2^52 and 2^52 where there are none.
    center, scale : float or None
        Declared both, or neither.
    floor : float
        The least distance from the center that its scale may be made of, such as half the distance of two integers.
    """

    low: float = -LARGEST
    high: float = LARGEST
    center: float | None = None
    scale: float | None = None
    floor: float = 0.0

    @property
    def is_declared(self) -> bool:
        """True if nothing has to be found."""
        return self.center is not None and self.scale is not None

    @property
    def is_searched_everywhere(self) -> bool:
        """True if it has to be found, and next to nothing public is known of it."""
        inside = self.low >= -LARGEST and self.high <= LARGEST
        return not self.is_declared and inside and self.high - self.low > _WIDE


def declared_place(entry: ColumnPolicy) -> Place:
    """Return what a policy declares of a column."""
    low, high = entry.bounds or (-LARGEST, LARGEST)
    floor = _HALF if entry.holds.is_whole else 0.0
    if "scale" in entry.model_fields_set:
        return Place(low, high, entry.center, entry.scale, floor)
    return Place(low, high, floor=floor)


class PlaceCounts:
    """The counts of the values of all columns, by which their places are found; they are private.

    Parameters
    ----------
    places : sequence of Place
        All columns, in order.
    most_cells : int, optional
        The most that a column's values may be counted in within bounds; eight times as many without.

    Attributes
    ----------
    n_rows : int
        How many rows were counted.
    """

    def __init__(self, places: tuple[Place, ...], most_cells: int = MOST_CELLS) -> None:
        self._places = places
        self._grids = [_grid(place, len(places), most_cells) for place in places]
        self._counts = [np.zeros(grid.cells, dtype=np.int64) for grid in self._grids]
        self.n_rows = 0

    def add(self, values: Floats) -> None:
        """Count the values of some rows, shape (n, p)."""
        self.n_rows += len(values)
        for index, (place, counts, grid) in enumerate(zip(self._places, self._counts, self._grids, strict=True)):
            column = values[:, index]
            if isinstance(grid, FloatGrid) and (place.low, place.high) != (-LARGEST, LARGEST):
                column = np.clip(column, place.low, place.high)
            add_to_cells(counts, column, grid)

    def merged(self, other: PlaceCounts) -> PlaceCounts:
        """Add the counts of other rows, and return these."""
        for counts, more in zip(self._counts, other._counts, strict=True):
            counts += more
        self.n_rows += other.n_rows
        return self

    def find(
        self, places: Sequence[Place], mu_each: float, mu_range: float, play: Play
    ) -> tuple[Floats, Floats, tuple[int, ...]]:
        """Return the centers and the scales of all columns, of which more may be known by now.

        The third are the places of those that seem to have no number below zero. Every choice of one costs a row
        `mu_each`, and to find where a column without bounds is, `mu_range`.
        """
        sizes = self._count_sizes(mu_range, play)
        ranges = {index: _range_of(*told, self._grids[index]) for index, told in sizes.items()}
        mechanism = ExponentialMechanism(mu_each)
        centers = np.array([place.center or 0.0 for place in places])
        scales = np.array([place.scale or 1.0 for place in places])
        for index, (place, counts, grid) in enumerate(zip(places, self._counts, self._grids, strict=True)):
            if place.is_declared:
                continue

            def choose(what: str, scores: Integers, index: int = index) -> int:
                return play(Choice(f"{what} of column {index + 1}", mechanism), scores)

            centers[index], scales[index] = place_chosen(
                counts, grid, mechanism, choose, floor=place.floor, within=ranges.get(index)
            )
        low, high = np.array([(place.low, place.high) for place in places]).T
        positive = (index for index, told in sizes.items() if _seems_positive(*told, is_whole=places[index].floor > 0))
        return np.clip(centers, low, high), scales, tuple(positive)

    def count_beyond(self, low: Floats, high: Floats) -> list[int]:
        """Return how many values of each column are beyond two ends that were found for it, to the nearest cell."""
        numbers = []
        for counts, grid, least, most in zip(self._counts, self._grids, low.tolist(), high.tolist(), strict=True):
            middle, half = 0.5 * (least + most), np.array([0.5 * (most - least)])
            numbers.append(int(counts.sum() - count_within(counts, grid, middle, half)[0]))
        return numbers

    def _count_sizes(self, mu_range: float, play: Play) -> dict[int, tuple[Integers, float]]:
        """Return noisy counts of the sizes of values, and their noise, of the columns of which nothing is public."""
        found: dict[int, tuple[Integers, float]] = {}
        for index, (place, counts) in enumerate(zip(self._places, self._counts, strict=True)):
            if place.is_searched_everywhere:
                step = NoisyCounts(f"sizes of column {index + 1}", mu_range)
                found[index] = play(step, counts.reshape(_SIZES, -1).sum(axis=1)), step.sigma
        return found


def _grid(place: Place, n_columns: int, most_cells: int) -> Cells:
    """Return the cells of a column: within its bounds, if any, and, where its place is declared, the largest clip."""
    low, high = place.low, place.high
    if place.is_searched_everywhere:
        return FloatGrid(min(cells_for(n_columns), _FINER * most_cells))
    if place.center is not None and place.scale is not None:
        away = _FAR * place.scale
        near = max(low, place.center - away), min(high, place.center + away)
        low, high = near if near[0] < near[1] else (low, high)
    return EqualCells(low, high, min(cells_for(n_columns), most_cells))


def _range_of(noisy: Integers, sigma: float, grid: Cells) -> Range:
    """Return where most values of a column are, by noisy counts of their sizes: all that stand out, and the next ones.

    Where none does, by itself or together with the next, it is everywhere. Where nothing but zeros stands out, other
    values are taken to be a half, as indicators and counts are. With a larger scale the column would be lost.
    """
    each, middle = grid.cells // _SIZES, _SIZES // 2
    sizes = np.flatnonzero(noisy > _STANDS_OUT * sigma)
    is_zero = (sizes == middle - 1) | (sizes == middle)
    has_zeros, others = bool(is_zero.any()), sizes[~is_zero]
    if not others.size:
        others = _sizes_together(noisy, _STANDS_OUT * sigma if has_zeros else _STAND_OUT_TOGETHER * sigma)
    sizes = np.union1d(sizes, others)
    if not sizes.size:
        return Range(0, grid.cells)

    first, end = max(int(sizes[0]) - 1, 0) * each, min(int(sizes[-1]) + 2, _SIZES) * each
    if not others.size:
        return Range(first, end, most=_HALF, least=_HALF)
    near = min(min(abs(grid.position(size * each)), abs(grid.position((size + 1) * each))) for size in others.tolist())
    low, high = grid.position(int(sizes[0]) * each), grid.position((int(sizes[-1]) + 1) * each)
    return Range(first, end, max(high, 0.0) - min(low, 0.0), near if has_zeros else 0.0)


def _seems_positive(noisy: Integers, sigma: float, *, is_whole: bool) -> bool:
    """Return True unless the values below zero look ten times as much like three tenths of those above as like none.

    Those above have to stand out, or zeros, but for whole numbers, which are mostly counts and codes.
    """
    middle, noise = _SIZES // 2, sigma * float(np.linalg.norm(_SPREAD))
    above, below = (np.correlate(each, _SPREAD, "valid") for each in (noisy[middle + 1 :], noisy[middle - 2 :: -1]))
    own = int(above.argmax())
    if not is_whole and above[own] <= _STAND_OUT_TOGETHER * noise and noisy[middle] <= _STANDS_OUT * sigma:
        return False
    if_any = _BELOW * max(float(above[own]), noise)
    return bool(below[own] < 0.5 * if_any + _LOG_ODDS * noise**2 / if_any)


def _sizes_together(noisy: Integers, least: float) -> Integers:
    """Return the sizes, of one sign or of both, over which values seem to be spread as they usually are, if any.

    Their weighted sum is to be more than a least one, for weights of length 1.
    """
    middle = _SIZES // 2
    above, below = noisy[middle + 1 :], noisy[middle - 2 :: -1]  # but for zeros
    signs = (above, below, (above + below) / math.sqrt(2))
    sums = np.array([np.correlate(counts, _SPREAD, "valid") for counts in signs])
    sign, smallest = divmod(int(sums.argmax()), sums.shape[1])
    if sums.max() <= least * np.linalg.norm(_SPREAD):
        return np.empty(0, dtype=np.int64)

    sizes = 1 + smallest + np.arange(len(_SPREAD))
    positive, negative = middle + sizes, middle - 1 - sizes
    return (positive, negative, np.concatenate([negative, positive]))[sign]
