"""Bounds found privately: so many scales to either side of a center, both chosen by the exponential mechanism.

A column's values are counted in cells over all floats. From the counts a center near the median is chosen, and a scale,
which for a normal column is its standard deviation (`sampling.places`). Nothing public is needed, and only the two
choices are looked at, so that the bounds cost what the choices cost.

**Cost.** Each of the two choices is mu-GDP for the column's cell, for the mu of its mechanism. It is sqrt(2) of that
for a cell, which is in one column, and sqrt(2 p) for a row, which is in p. An entity's m rows cost m times as much.

**Width.** Bounds h scales from the center get noise of sigma 2 h / mu, in scales, from the column's own mu. On n rows
that gives correlations the variance (2 r + r^2) / n about those of the clipped values. Here r is sigma^2 over the
variance of a normal column clipped at h. Clipping biases them, too. On real tables (wine, breast cancer, sachs) the
median bias is about 0.17 e^-h, and the median noise is 0.67 deviations. So h is where the sum of both squares is least,
1 to 1.5 where noise dominates, and 3 or more where it does not. All of n, mu and h are public (ADR 0006).
"""

import functools
import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from scipy import special

from dp_bundle.base.arrays import Integers
from dp_bundle.base.errors import PrivacyError
from dp_bundle.data.rows import to_numpy
from dp_publish.rows.noise import Bounds
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import Keystream
from dp_publish.sampling.places import LARGEST, FloatGrid, add_to_cells, cells_for, find_place

_HALF_WIDTHS = tuple(step / 4 for step in range(4, 41))  # of bounds, in scales
_MEDIAN_SQUARE = 0.45  # of a standard normal number
_BIAS = 0.17  # of a correlation, where values are clipped at 0 scales
_HALF_STEP = 0.5  # of integers: the least radius
_LEAST_MU = 1e-9  # of a choice: with less, no table is large enough


def choice_mu(unit: str, n_columns: int, mu: float, max_rows: int = 1) -> float:
    """Return what each choice may cost a cell, so that the search for all columns' bounds costs the unit mu.

    Parameters
    ----------
    unit : {"cell", "row", "entity"}
        What neighbouring tables differ in.
    n_columns : int
        How many columns are searched.
    mu : float
        What the search may cost.
    max_rows : int
        How many rows an entity has at most.

    Raises
    ------
    PrivacyError
        That is too little to choose by.
    """
    each = mu / _n_choices(unit, n_columns, max_rows)
    if each < _LEAST_MU:
        raise PrivacyError(
            "this strength is too extreme for bounds to be found privately: choose another one, or declare bounds in "
            "the policy"
        )
    return each


def search_mu(unit: str, n_columns: int, mu_each: float, max_rows: int = 1) -> float:
    """Return the mu of the search for another unit of privacy, by what its choices do cost; see `choice_mu`."""
    return ExponentialMechanism(mu_each).cost * _n_choices(unit, n_columns, max_rows)


def count_values(batches: Iterable[pa.RecordBatch], n_columns: int) -> tuple[Integers, int]:
    """Return the counts of every column's values by cell, which are private, and the number of rows.

    Returns
    -------
    counts : ndarray of int64, shape (n_columns, n_cells)
        Missing values are not counted.
    n_rows : int
    """
    grid, n_rows = FloatGrid(cells_for(n_columns)), 0
    counts = np.zeros((n_columns, grid.cells), dtype=np.int64)
    for batch in batches:
        n_rows += batch.num_rows
        for column, values in zip(counts, batch.columns, strict=True):
            add_to_cells(column, to_numpy(values.drop_null()).astype(float), grid)
    return counts, n_rows


def merge_values(one: tuple[Integers, int], other: tuple[Integers, int]) -> tuple[Integers, int]:
    """Return what `count_values` gives of two runs of rows together; the first is overwritten."""
    counts = one[0]
    counts += other[0]
    return counts, one[1] + other[1]


def find_bounds(
    counts: Integers, kinds: Iterable[str], mu_each: float, half_widths: Iterable[float], keystream: Keystream
) -> list[Bounds]:
    """Return bounds for every column, found privately from its counts.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_columns, n_cells)
        As `count_values` gives them.
    kinds : iterable of {"continuous", "integer"}
        The columns' kinds; integer columns get integer bounds.
    mu_each : float
        What each choice may cost a cell.
    half_widths : iterable of float
        Every column's h, as `half_width_for` gives it.
    keystream : Keystream
        Where the random bits come from.
    """
    grid, found = FloatGrid(counts.shape[1]), []
    for column, kind, half_width in zip(counts, kinds, half_widths, strict=True):
        floor = _HALF_STEP if kind == "integer" else 0.0
        center, scale = find_place(column, grid, mu_each, keystream, floor=floor)
        low, high = max(center - half_width * scale, -LARGEST), min(center + half_width * scale, LARGEST)
        found.append((low, high) if kind == "continuous" else (float(math.floor(low)), float(math.ceil(high))))
    return found


@functools.lru_cache(maxsize=256)  # columns have few different mu
def half_width_for(n_rows: int, mu: float) -> float:
    """Return how many scales bounds extend to either side where correlations err least, from public facts alone.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    mu : float
        The column's own, of the noise on its cells.
    """
    return min(
        _HALF_WIDTHS, key=lambda h: _MEDIAN_SQUARE * _noise_in_correlations(n_rows, mu, h) + (_BIAS * math.exp(-h)) ** 2
    )


def rows_for_search(mu_each: float, n_columns: int) -> int:
    """Return how many rows let the search find all columns with a probability of about 99 %, if they are bell-shaped.

    A cell a deviation off the median, or a radius off by a half, has a score that is worse by about 0.3 n. There are at
    most 10^5 times as many of them as of good ones.
    """
    epsilon = max(ExponentialMechanism(mu_each).epsilon, 2.0**-40)
    return math.ceil(2 * math.log(1e7 * n_columns) / (0.3 * epsilon))


def _n_choices(unit: str, n_columns: int, max_rows: int) -> float:
    return max_rows * math.sqrt(2 * (1 if unit == "cell" else n_columns))


def _noise_in_correlations(n_rows: int, mu: float, h: float) -> float:
    """Return the variance of a correlation near zero, given the clipped values."""
    density, beyond = math.exp(-0.5 * h * h) / math.sqrt(2 * math.pi), float(special.ndtr(-h))
    left = 1 - 2 * h * density - 2 * beyond + 2 * h * h * beyond  # of the variance of a normal column
    ratio = (2 * h / mu) ** 2 / left
    return (2 * ratio + ratio * ratio) / max(n_rows, 1)
