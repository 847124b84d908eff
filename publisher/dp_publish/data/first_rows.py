"""The first rows of a private table, column by column: warnings to the publisher rest on them, and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_bundle.data.row_reader import to_numpy
from dp_bundle.data.rows import batch_rows
from dp_publish.data.table import Table

LEAST_ROWS = 20  # of which distinct whole numbers, or one value alone, are worth a word
_CELLS = 2**20
_LONG_CODE = re.compile(r"-?(?:99+|9+\.9+|88+|77+)")
_SHORT_CODES = {-1.0, 0.0, 7.0, -7.0, 8.0, -8.0, 9.0, -9.0}
_MOST_CODES = 4  # at either end of a column

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Glance:
    """The first rows, which its repr does not show.

    Attributes
    ----------
    n_rows : int
        How many they are.
    values : dict of str to ndarray
        What each column holds in them, in order of size, without gaps.
    """

    n_rows: int = field(repr=False)
    values: dict[str, Floats] = field(repr=False)


def glance(table: Table, kinds: dict[str, str]) -> Glance:
    """Read the first rows of the columns in `kinds`, about a million cells; too few to tell anything count as none."""
    rows = min(batch_rows(len(kinds)), max(LEAST_ROWS, _CELLS // len(kinds)))
    batch = next(table.read(kinds, rows), None)
    if batch is None or batch.num_rows < LEAST_ROWS:
        return Glance(0, {})
    numbers = {name: to_numpy(batch.column(index).drop_null()).astype(float) for index, name in enumerate(kinds)}
    return Glance(batch.num_rows, {name: np.sort(each[~np.isnan(each)]) for name, each in numbers.items()})


def find_codes(values: Floats, bounds: tuple[float, float] | None) -> dict[float, int]:
    """Return the numbers that may stand for missing values, such as -999, and how often each of them occurs.

    They are written in nines, eights or sevens, and farther from all other values than those are from one another; or
    they are one digit and the only values outside of the bounds.

    Parameters
    ----------
    values : ndarray
        A column's values, in order of size.
    bounds : tuple of float, or None
        Its bounds, where they are declared.
    """
    ends = _ends(values)
    found: set[float] = set()
    for written, is_far in ((_is_long_code, _is_far), (_SHORT_CODES.__contains__, _is_outside)):
        coded = [value for value in (*ends[:_MOST_CODES], *ends[-_MOST_CODES:]) if written(value)]
        others = [value for value in ends if value not in coded]
        if len(others) > 1:
            found |= {value for value in coded if is_far(value, others[0], others[-1], bounds)}
    return {
        value: int(np.searchsorted(values, value, "right") - np.searchsorted(values, value)) for value in sorted(found)
    }


def _ends(values: Floats) -> list[float]:
    """Return the lowest and the highest of ordered values, more of either than there may be codes, each once."""
    lowest: list[float] = []
    highest: list[float] = []
    place, last = 0, len(values)
    while place < len(values) and len(lowest) <= _MOST_CODES:
        lowest.append(float(values[place]))
        place = int(np.searchsorted(values, values[place], side="right"))
    while last > 0 and len(highest) <= _MOST_CODES:
        highest.append(float(values[last - 1]))
        last = int(np.searchsorted(values, values[last - 1], side="left"))
    return sorted({*lowest, *highest})


def _is_long_code(value: float) -> bool:
    return _LONG_CODE.fullmatch(f"{value:.12g}") is not None


def _is_far(value: float, low: float, high: float, _bounds: tuple[float, float] | None) -> bool:
    """Return True if a value is farther from all others than those, from `low` to `high`, are from one another."""
    return max(low - value, value - high) > high - low


def _is_outside(value: float, low: float, high: float, bounds: tuple[float, float] | None) -> bool:
    """Return True if a value is outside of the bounds, and no other is."""
    return bounds is not None and not bounds[0] <= value <= bounds[1] and bounds[0] <= low and high <= bounds[1]
