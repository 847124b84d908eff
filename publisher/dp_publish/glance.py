"""The first rows of a private table, column by column: what the publisher is warned by, and nothing else rests on."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_bundle.arrays import to_numpy
from dp_bundle.parts import batch_rows
from dp_publish.table import Table

__all__ = ["LEAST_ROWS", "Glance", "find_codes", "glance"]

LEAST_ROWS = 20  # of which distinct whole numbers, or one value alone, are worth a word
_CELLS = 2**20
_LONG_CODE = re.compile(r"-?(?:99+|9+\.9+|88+|77+)")
_SHORT_CODES = {-1.0, 0.0, 7.0, -7.0, 8.0, -8.0, 9.0, -9.0}
_MOST_CODES = 4  # at either end of a column

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Glance:
    """The first rows.

    Attributes
    ----------
    n_rows : int
        How many they are.
    values : dict of str to ndarray
        What each column holds in them, in order of size, without gaps.
    """

    n_rows: int
    values: dict[str, Floats]


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
        A column's values.
    bounds : tuple of float, or None
        Its bounds, where they are declared.
    """
    distinct, counts = np.unique(values, return_counts=True)
    found: set[int] = set()
    for written, is_far in ((_is_long_code, _is_far), (_is_short_code, _is_outside)):
        ends = {*range(min(_MOST_CODES, len(distinct))), *range(max(0, len(distinct) - _MOST_CODES), len(distinct))}
        coded = [place for place in sorted(ends) if written(distinct[place])]
        others = np.delete(distinct, coded)
        if len(others) > 1:
            found |= {place for place in coded if is_far(distinct[place], others, bounds)}
    return {float(distinct[place]): int(counts[place]) for place in sorted(found)}


def _is_long_code(value: float) -> bool:
    return _LONG_CODE.fullmatch(f"{value:.12g}") is not None


def _is_short_code(value: float) -> bool:
    return value in _SHORT_CODES


def _is_far(value: float, others: Floats, _bounds: tuple[float, float] | None) -> bool:
    """Tell whether a value is farther from all others than those are from one another."""
    return bool(max(others[0] - value, value - others[-1]) > others[-1] - others[0])


def _is_outside(value: float, others: Floats, bounds: tuple[float, float] | None) -> bool:
    """Tell whether a value is outside of the bounds, and no other is."""
    if bounds is None or bounds[0] <= value <= bounds[1]:
        return False
    return bool(bounds[0] <= others[0] and others[-1] <= bounds[1])
