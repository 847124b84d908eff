"""The center and the scale of a column, found privately, both from one fine histogram.

A column's values are counted in cells, of equal width within public bounds (`EqualCells`). Where nothing public is
known, they have nearly equal numbers of significant digits over all numbers up to 2^52 (`FloatGrid`). The counts are
private. From them two choices are made by the exponential mechanism:

- **center**: the middle of a cell near the median. A cell's score is the number of values below it, or of those above
  it, whichever is larger. It is smallest where the median is, or where one value is most of the column. A moved value
  moves it by at most 1. All cells are alike before the data are seen.
- **scale**: a quantile r of the distance from the center over 0.8416, which is the normal distribution's of 60 %. With
  w(r) values within r, and r' the next smaller radius, the score of r is max(T - w(r), w(r') - T). It is smallest where
  the T-th value is between both. T = max(ceil(0.6 n), o + h), o being the number in the center's own cell and h half of
  the others, rounded up. In a column of which most values are one and the same, T is in the middle of the others. Where
  these are so few that nothing distinguishes the radii, the least one is chosen. Its score is at most max(h - k,
  ceil(0.6 n) - o). The number k, which is public, is enough to make it a hundred times as probable as all others
  together. Replacing, adding or leaving out one value moves w(r) less either term of T by at most 1, and so do h and
  ceil(0.6 n)
  - o, and with them every score. The radii are log-uniform, 12 or 48 to an octave.

A gap may thus be filled or left, and the number of values need not be public. An entity's m rows move a score by m. Its
choices cost m times a row's mu, so that a row's is its share divided by m.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from dp_bundle.base.arrays import Floats, Integers
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import Keystream

_MOST_CELLS = 1 << 20  # of one column
_ALL_CELLS = 1 << 24  # of all columns: 128 MB of counts
_OCTAVES = 14  # of radii, from the least one to the width of the bounds
_LEAST_CELLS = 2  # in the least radius
_SHARE_WITHIN = (6, 10)
_NORMAL_QUANTILE = 0.8416212335729143  # of 0.8: the radius that holds 60 % of a standard normal
_LEAST_RADIUS_ODDS = 100.0  # against all others, where nothing tells the radii apart
_TINY, LARGEST = 2.0**-40, 2.0**52  # where the scale of floats becomes linear, and where it ends


@dataclass(frozen=True)
class EqualCells:
    """Public bounds of a column, cut into cells of equal width.

    Parameters
    ----------
    low, high : float
        The bounds.
    cells : int
        How many cells they have.
    """

    low: float
    high: float
    cells: int
    per_octave: ClassVar[int] = 12  # radii, of which the fewer are told apart by the fewer values

    @property
    def widest(self) -> float:
        """The width of the bounds."""
        return self.high - self.low

    @property
    def cell(self) -> float:
        """The width of one cell."""
        return self.widest / self.cells

    def position(self, index: int) -> float:
        """Return where so many cells end."""
        return min(self.low + index * self.cell, self.high)

    def places_of(self, values: Floats) -> Floats:
        """Return how many cells lie below every value, fractions included."""
        places: Floats = (np.clip(values, self.low, self.high) - self.low) * (self.cells / self.widest)
        return places

    def least_radius(self, cell: int) -> float:  # noqa: ARG002  the same everywhere
        """Return two cells, or the width halved 14 times."""
        return max(math.ldexp(self.widest, -_OCTAVES), _LEAST_CELLS * self.cell)


@dataclass(frozen=True)
class FloatGrid:
    """All numbers up to 2^52, in cells of equal width on the scale of asinh(2^40 x).

    2^20 cells leave 1 part in 8,000 of a number, down to 2^-40.

    Parameters
    ----------
    cells : int
        How many cells there are, an even number.
    """

    cells: int
    widest = 2 * LARGEST
    per_octave: ClassVar[int] = 48

    def position(self, index: int) -> float:
        """Return where so many cells end."""
        return _TINY * math.sinh((2 * index / self.cells - 1) * math.asinh(LARGEST / _TINY))

    def places_of(self, values: Floats) -> Floats:
        """Return how many cells lie below every value, fractions included."""
        scaled = np.arcsinh(np.clip(values, -LARGEST, LARGEST) / _TINY) / math.asinh(LARGEST / _TINY)
        places: Floats = (scaled + 1) * (self.cells / 2)
        return places

    def least_radius(self, cell: int) -> float:
        """Return two cells there, and at least 2^-40."""
        return max(_LEAST_CELLS * (self.position(cell + 1) - self.position(cell)), _TINY)


Cells: TypeAlias = EqualCells | FloatGrid


class Range(NamedTuple):
    """Where most values of a column are known to be: from a first cell to the one before the end.

    `most` is the largest radius that is worth a look, and `least` the smallest one around a center nearer to zero.
    """

    first: int
    end: int
    most: float = math.inf
    least: float = 0.0


def center_scores(counts: Integers) -> Integers:
    """Return the score of every cell as a center; it is private, as are the counts, and moves by at most 1."""
    up_to = np.cumsum(counts)
    n_values = int(up_to[-1])
    below = up_to - counts
    above = np.subtract(n_values, up_to, out=up_to)
    scores: Integers = np.maximum(below, above, out=below)
    return scores


@dataclass(frozen=True)
class ScaleSearch:
    """The private choice of a column's scale, given the cell that its center is the middle of.

    Parameters
    ----------
    mechanism : ExponentialMechanism
        What it may cost.
    grid : Grid or FloatGrid
        The cells of the counts.
    floor : float
        The least radius to choose, if it is public: half the distance between values of a lattice, such as integers.
    most : float
        The largest, if that is public and less than the grid's.
    """

    mechanism: ExponentialMechanism
    grid: Cells
    floor: float = 0.0
    most: float = math.inf

    def radii(self, center: int) -> Floats:
        """Return the radii to choose from, ascending."""
        widest = min(self.grid.widest, self.most)
        least = min(max(self.grid.least_radius(center), self.floor), widest)
        n_steps = math.ceil(self.grid.per_octave * math.log2(widest / least))
        radii: Floats = np.minimum(least * np.exp2(np.arange(n_steps + 1) / self.grid.per_octave), widest)
        return radii

    def scores(self, counts: Integers, center: int) -> Integers:
        """Return the score of every radius around the middle of a cell; it is private, as are the counts."""
        radii = self.radii(center)
        within = count_within(counts, self.grid, _middle(self.grid, center), radii)

        n_values, own = int(counts.sum()), int(counts[center])
        part, whole = _SHARE_WITHIN
        most, half = -(-part * n_values // whole), -(-(n_values - own) // 2)
        target = max(most, own + half)
        scores: Integers = np.maximum(target - within, np.concatenate([[0], within[:-1]]) - target)
        enough = math.ceil(math.log(_LEAST_RADIUS_ODDS * len(radii)) / max(self.mechanism.rate, 2.0**-40))
        scores[0] = min(int(scores[0]), max(half - enough, most - own))  # which outweighs so many radii
        return scores


def count_within(counts: Integers, grid: Cells, center: float, radii: Floats) -> Integers:
    """Return how many values are within every radius of a center, to the nearest cell; at least those in its own."""
    own = min(max(int(grid.places_of(np.array([center]))[0]), 0), grid.cells - 1)
    first = np.ceil(grid.places_of(center - radii) - 0.5).astype(np.int64)
    end = np.floor(grid.places_of(center + radii) + 0.5).astype(np.int64)
    filled = np.flatnonzero(counts != 0)  # of truth values, which is faster
    up_to = np.concatenate([[0], np.cumsum(counts[filled])])
    first, end = (np.searchsorted(filled, each) for each in (np.minimum(first, own), np.maximum(end, own + 1)))
    within: Integers = up_to[end] - up_to[first]
    return within


def cells_for(n_columns: int) -> int:
    """Return how many cells each of so many columns has: a power of two, 2^24 in all at most."""
    return min(1 << (_ALL_CELLS // n_columns).bit_length() - 1, _MOST_CELLS)


def add_to_cells(counts: Integers, values: Floats, grid: Cells) -> None:
    """Add a column's values of one batch to its counts, in place.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_cells,)
        Overwritten; private.
    values : ndarray of float64, shape (n_rows,)
        Values beyond the bounds fall into the end cells; missing ones (NaN) are not counted.
    grid : Grid or FloatGrid
        The column's cells.
    """
    from dp_publish.sampling._kernels import tally

    tally(counts, grid.places_of(values))


def find_place(
    counts: Integers, grid: Cells, mu_each: float, rng: Keystream, *, floor: float = 0.0
) -> tuple[float, float]:
    """Return a column's center and scale.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_cells,)
        As `add_to_cells` adds them up.
    grid : Grid or FloatGrid
        The column's cells.
    mu_each : float
        What either of the two choices may cost a row. The search of p columns costs a row sqrt(2 p) times, and a cell
        sqrt(2) times as much.
    rng : Keystream
        Where the random bits come from.
    floor : float
        As in `ScaleSearch`.
    """
    mechanism = ExponentialMechanism(mu_each)
    return place_chosen(counts, grid, mechanism, lambda _, scores: mechanism.choose(scores, rng), floor=floor)


def place_chosen(
    counts: Integers,
    grid: Cells,
    mechanism: ExponentialMechanism,
    choose: Callable[[str, Integers], int],
    *,
    floor: float = 0.0,
    within: Range | None = None,
) -> tuple[float, float]:
    """Return a column's center and scale, where `choose` is told what to choose, and by which private scores.

    The center is one of the cells that are within a public range, if there is one.
    """
    within = within or Range(0, len(counts))
    around = counts[: within.first].sum(), counts[within.end :].sum()
    among = np.concatenate([around[:1], counts[within.first : within.end], around[1:]])
    center = within.first + choose("center", center_scores(among)[1:-1])
    floor = max(floor, within.least) if abs(_middle(grid, center)) < within.least else floor
    search = ScaleSearch(mechanism, grid, floor, within.most)
    radius = search.radii(center)[choose("scale", search.scores(counts, center))]
    return _middle(grid, center), float(radius) / _NORMAL_QUANTILE


def _middle(grid: Cells, cell: int) -> float:
    return 0.5 * grid.position(cell) + 0.5 * grid.position(cell + 1)
