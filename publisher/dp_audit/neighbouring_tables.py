"""Made-up tables that differ in the rows of one unit: ordinary ones, and the worst for one step or another.

Gaps are NaN. Also tables of as many rows that have nothing in common: what follows from outcomes alone is the same for
all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_publish.covariance.two_rounds.places import Place

_Floats = NDArray[np.float64]

_SPREAD = 1 / 20  # of a typical column, in half-widths of its bounds
_N_TYPICAL, _SMALL = 300, (1, 2, 5, 30)  # rows
_N_RANDOM = 6
_LATTICE = 4.0  # values to a half-width
_NEAR = 0.01  # by how much columns that are nearly the same differ


@dataclass(frozen=True, eq=False)
class NeighbouringTables:
    """Two tables of equal length; all but the last `n_replaced` rows are the same."""

    name: str
    one: _Floats = field(repr=False)
    other: _Floats = field(repr=False)
    n_replaced: int = 1


def worst_neighbours(places: Sequence[Place], n_rows: int) -> NeighbouringTables:
    """Return tables told apart best: corners at right angles move both sums most, and centers and scales besides."""
    typical = _Columns(places).typical(n_rows - 1, np.random.default_rng(2))
    return _replacing("corners at right angles", typical, *_Columns(places).crossing())


def all_neighbours(places: Sequence[Place], max_rows: int, rng: np.random.Generator) -> Iterator[NeighbouringTables]:
    """Yield pairs of tables that differ in one row, and in as many as a unit may have if that is more."""
    columns = _Columns(places)
    typical = columns.typical(_N_TYPICAL, rng)
    one, crossing = columns.crossing()
    middle, infinite = columns.middle, np.full(len(places), np.inf)

    # ordinary rows, and a corner, an infinite row or the middle of all instead of another
    yield _replacing("corners at right angles", typical, one, crossing)
    yield _replacing("opposite corners", typical, columns.at(1.0), columns.at(-1.0))
    yield _replacing("a row far out for one in the middle", typical, infinite, middle)
    yield _replacing("rows far out on either side", typical, infinite, -infinite)
    for n_rows in _SMALL:
        yield _replacing(f"{n_rows} rows", typical[: n_rows - 1], one, crossing)

    # columns that hardly vary, or vary together, or take few values
    yield _replacing("ties", np.tile(middle, (_N_TYPICAL, 1)), one, middle)
    lattice = columns.on_lattice(typical, rng)
    yield _replacing("a lattice", lattice, columns.at(1 / _LATTICE), middle)
    together = columns.together(_N_TYPICAL, rng)
    yield _replacing(
        "columns alike", together, *(columns.middle + 0.5 * (row - columns.middle) for row in (one, crossing))
    )
    yield _replacing("columns alike, and far out", together, columns.at(1.0), crossing)

    # gaps: all of a row, some of it, and of other rows while one row comes to lie far away
    some = np.where(np.arange(len(places)) % 2, one, np.nan)
    gaps = np.full(len(places), np.nan)
    with_gaps = columns.with_gaps(typical)
    yield _replacing("a row without values", typical, one, gaps)
    yield _replacing("a row with gaps, among others with gaps", with_gaps, some, crossing)
    yield _replacing("a corner among rows with gaps", with_gaps, one, crossing)
    yield _replacing("a corner among rows without values", np.tile(gaps, (_N_TYPICAL, 1)), one, crossing)

    # rows of chance, and rows of a unit
    for _ in range(_N_RANDOM):
        table = columns.heavy(int(rng.integers(2, 60)), rng)
        yield _replacing("rows of chance", table, *columns.heavy(2, rng))
    if max_rows > 1:
        n = min(max_rows, _N_TYPICAL // 4)
        rows = (np.tile(row, (n, 1)) for row in (one, crossing))
        yield _replacing("rows of a unit", typical, *rows)


def in_other_cells(
    places: Sequence[Place], blocks: Sequence[Sequence[int]], max_rows: int, rng: np.random.Generator
) -> Iterator[NeighbouringTables]:
    """Yield tables in which the rows of a unit come to another cell of every histogram: no count moves more.

    `blocks` are the places of levels that have a column each, of which a row has one.
    """
    columns = _Columns(places)
    one, other = columns.at(-1.0), columns.at(1.0)
    for block in blocks:
        one[list(block)], other[list(block)] = 0.0, 0.0
        one[block[0]] = other[block[-1]] = 1.0
    typical = columns.typical(_N_TYPICAL, rng)
    for n_rows in {1, max_rows}:
        rows = (np.tile(row, (min(n_rows, _N_TYPICAL // 4), 1)) for row in (one, other))
        yield _replacing("other cells of all columns", typical, *rows)


def unlike_tables(places: Sequence[Place], rng: np.random.Generator) -> list[_Floats]:
    """Return tables of as many rows that differ in all of them: ordinary, heavy, equal, far out, and with gaps."""
    columns = _Columns(places)
    typical = columns.typical(_N_TYPICAL, rng)
    corners = np.tile(columns.at(1.0), (_N_TYPICAL, 1))
    far = np.tile(columns.at(np.where(np.arange(len(places)) % 2, -np.inf, np.inf)), (_N_TYPICAL, 1))
    heavy = columns.heavy(_N_TYPICAL, rng)
    return [typical, heavy, corners, far, columns.together(_N_TYPICAL, rng), columns.with_gaps(heavy)]


class _Columns:
    """Rows in the bounds of some columns."""

    def __init__(self, places: Sequence[Place]) -> None:
        low, high = np.array([(place.low, place.high) for place in places]).T
        self.middle, self.half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low

    def at(self, share: float | _Floats) -> _Floats:
        """Return what lies so many half-widths from the middle."""
        with np.errstate(over="ignore"):
            return np.asarray(self.middle + self.half * share)

    def crossing(self) -> tuple[_Floats, _Floats]:
        """Return a corner, and a row at right angles to it: one at the ends of bounds, but for an odd column."""
        signs = np.where(np.arange(len(self.middle)) % 2, -1.0, 1.0)
        signs[len(signs) // 2 * 2 :] = 0.0
        return self.at(1.0), self.at(signs)

    def typical(self, n: int, rng: np.random.Generator) -> _Floats:
        """Return normal rows, far inside the bounds."""
        return self.at(_SPREAD * rng.standard_normal((n, len(self.middle))))

    def together(self, n: int, rng: np.random.Generator) -> _Floats:
        """Return rows whose columns are nearly the same."""
        own = rng.standard_normal((n, len(self.middle)))
        return self.at(_SPREAD * (rng.standard_normal((n, 1)) + _NEAR * own))

    def heavy(self, n: int, rng: np.random.Generator) -> _Floats:
        """Return rows with heavy tails, some beyond the bounds."""
        return self.at(_SPREAD * rng.standard_t(1, (n, len(self.middle))))

    def with_gaps(self, table: _Floats) -> _Floats:
        """Return these rows with a gap in every column of most of them, each column's in rows of its own."""
        n, p = table.shape
        gaps = (np.arange(n)[:, None] + np.arange(p)) % 4 > 0
        return np.where(gaps, np.nan, table)

    def on_lattice(self, table: _Floats, rng: np.random.Generator) -> _Floats:
        """Return rows like these that take a few values only."""
        return self.at(rng.integers(-1, 2, table.shape) / _LATTICE)


def _replacing(name: str, table: _Floats, one: _Floats, other: _Floats) -> NeighbouringTables:
    last = [np.atleast_2d(rows) for rows in (one, other)]
    return NeighbouringTables(name, np.vstack([table, last[0]]), np.vstack([table, last[1]]), len(last[0]))
