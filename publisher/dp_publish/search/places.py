"""Where a column lies and how wide it is, found privately: its center and scale, both from one fine histogram.

The column's bounds are cut into equal cells, and its values are counted in them; values beyond fall into the end cells.
The counts are private. From them two choices are made by the exponential mechanism:

- **center**: a position between two cells, near the median. The score of a position is half of the difference between
  the numbers of values below and above it, rounded down. A moved value moves the difference by at most 2, so the score
  by at most 1. All positions within the bounds are alike before the data are seen.
- **scale**: the 60 % quantile r of the distance from the center, divided by the normal distribution's, 0.8416. The
  score of r is | #{distance <= r} - ceil(0.6 n) |, with the number within r read off the same counts. A moved value
  moves that number by at most 1. The radii are log-uniform, 48 to an octave.

A value that comes or goes, with n, moves either score by at most 1 too, so a gap may be filled or left, and the number
of values need not be public. An entity's m rows move a score by m: its choices cost m times a row's mu, so a row's is a
share divided by m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_publish.sampling import Keystream
from dp_publish.search.exponential import ExponentialMechanism

_CELLS = (1 << 12, 1 << 20)  # of one column
_ALL_CELLS = 1 << 24  # of all columns: 128 MB of counts
_PER_OCTAVE = 48
_OCTAVES = 14  # from the least radius to the width of the bounds
_LEAST_CELLS = 2  # in the least radius
_SHARE_WITHIN = (6, 10)
_NORMAL_QUANTILE = 0.8416212335729143  # of 0.8: the radius that holds 60 % of a standard normal


@dataclass(frozen=True)
class Grid:
    """A column's bounds, cut into cells.

    Parameters
    ----------
    low, high : float
        The bounds.
    cells : int
        How many cells of equal width they have.
    """

    low: float
    high: float
    cells: int

    @property
    def cell(self) -> float:
        """The width of one cell."""
        return (self.high - self.low) / self.cells

    def position(self, index: int) -> float:
        """Return where so many cells end."""
        return min(self.low + index * self.cell, self.high)

    def cells_of(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the cell of every value: whatever rounding does, a value is in one cell, and no value is in another's.

        Parameters
        ----------
        values : ndarray of float64
            Infinite ones are allowed, NaN is not.
        """
        places = (np.clip(values, self.low, self.high) - self.low) * (self.cells / (self.high - self.low))
        cells: NDArray[np.int64] = np.minimum(places.astype(np.int64), self.cells - 1)
        return cells


@dataclass(frozen=True)
class CenterSearch:
    """The private choice of a column's center.

    Parameters
    ----------
    mechanism : ExponentialMechanism
        What it may cost.
    """

    mechanism: ExponentialMechanism
    sensitivity = 1

    def scores(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the score of the position after 1, 2, ..., n_cells - 1 cells; it is private, as are the counts."""
        below = np.cumsum(counts)
        n_values = int(below[-1])
        return np.abs(2 * below[:-1] - n_values) // 2

    def choose(self, counts: NDArray[np.int64], rng: Keystream) -> int:
        """Return the chosen position: how many cells lie below the center."""
        return 1 + self.mechanism.choose(self.scores(counts), rng)

    def log_probabilities(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-probability of every position."""
        return self.mechanism.log_probabilities(self.scores(counts))


@dataclass(frozen=True)
class ScaleSearch:
    """The private choice of a column's scale, given its center.

    Parameters
    ----------
    mechanism : ExponentialMechanism
        What it may cost.
    grid : Grid
        The cells of the counts.
    floor : float
        The least radius to choose, if it is public: half the distance between values of a lattice, such as integers.
    """

    mechanism: ExponentialMechanism
    grid: Grid
    floor: float = 0.0
    sensitivity = 1

    @property
    def radii(self) -> NDArray[np.float64]:
        """The radii to choose from, ascending to the width of the bounds."""
        width = self.grid.high - self.grid.low
        least = min(max(math.ldexp(width, -_OCTAVES), _LEAST_CELLS * self.grid.cell, self.floor), width)
        n_steps = math.ceil(_PER_OCTAVE * math.log2(width / least))
        radii: NDArray[np.float64] = np.minimum(least * np.exp2(np.arange(n_steps + 1) / _PER_OCTAVE), width)
        return radii

    def scores(self, counts: NDArray[np.int64], center: int) -> NDArray[np.int64]:
        """Return the score of every radius around the position after so many cells; it is private."""
        below = np.concatenate([[0], np.cumsum(counts)])
        reach = np.maximum(np.rint(self.radii / self.grid.cell).astype(np.int64), 1)
        within = below[np.minimum(center + reach, self.grid.cells)] - below[np.maximum(center - reach, 0)]
        part, whole = _SHARE_WITHIN
        target = -(-part * int(below[-1]) // whole)
        scores: NDArray[np.int64] = np.abs(within - target)
        return scores

    def choose(self, counts: NDArray[np.int64], center: int, rng: Keystream) -> float:
        """Return the chosen scale."""
        return float(self.radii[self.mechanism.choose(self.scores(counts, center), rng)]) / _NORMAL_QUANTILE

    def log_probabilities(self, counts: NDArray[np.int64], center: int) -> NDArray[np.float64]:
        """Return the log-probability of every radius."""
        return self.mechanism.log_probabilities(self.scores(counts, center))


def cells_for(n_columns: int) -> int:
    """Return how many cells each of so many columns has: a power of two, so that their memory is bounded."""
    least, most = _CELLS
    return min(max(1 << (_ALL_CELLS // n_columns).bit_length() - 1, least), most)


def add_to_cells(counts: NDArray[np.int64], values: NDArray[np.float64], grid: Grid) -> None:
    """Add a column's values of one batch to its counts, in place.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_cells,)
        Overwritten; private.
    values : ndarray of float64, shape (n_rows,)
        Values beyond the bounds fall into the end cells; missing ones (NaN) are not counted.
    grid : Grid
        The column's bounds and cells.
    """
    np.add.at(counts, grid.cells_of(values[~np.isnan(values)]), 1)


def find_place(
    counts: NDArray[np.int64], grid: Grid, mu_each: float, rng: Keystream, *, floor: float = 0.0
) -> tuple[float, float]:
    """Return a column's center and scale.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_cells,)
        As `add_to_cells` adds them up.
    grid : Grid
        The column's bounds and cells.
    mu_each : float
        What either of the two choices may cost a row: the search of p columns costs a row sqrt(2 p) times, a cell
        sqrt(2) times as much.
    rng : Keystream
        Where the random bits come from.
    floor : float
        As in `ScaleSearch`.
    """
    mechanism = ExponentialMechanism(mu_each)
    center = CenterSearch(mechanism).choose(counts, rng)
    return grid.position(center), ScaleSearch(mechanism, grid, floor).choose(counts, center, rng)
