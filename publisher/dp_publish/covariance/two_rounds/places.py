"""The center and the scale of every column: declared, or found within its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_publish.covariance.two_rounds.steps import Choice, Play
from dp_publish.policy.model import ColumnPolicy
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.places import EqualCells, add_to_cells, cells_for, least_scale, place_chosen

MOST_CELLS = 1 << 17  # of a column: counts that stay in a processor's cache
_HALF = 0.5  # of the distance of two integers


@dataclass(frozen=True)
class Place:
    """The public facts of a column before the release.

    Attributes
    ----------
    low, high : float
        Its bounds.
    center, scale : float or None
        Declared both, or neither.
    floor : float
        The least distance from the center that its scale may be made of, such as half the distance of two integers.
    transform : {"asinh"} or None
        What its values become once its center and scale are public (`two_rounds.asinh`).
    """

    low: float
    high: float
    center: float | None = None
    scale: float | None = None
    floor: float = 0.0
    transform: Literal["asinh"] | None = None

    @property
    def is_declared(self) -> bool:
        """True if nothing has to be found."""
        return self.center is not None and self.scale is not None


def declared_place(entry: ColumnPolicy) -> Place:
    """Return what a policy declares of a column, which has bounds."""
    low, high = entry.bounds or (-1.0, 1.0)
    floor = _HALF if entry.holds.is_whole else 0.0
    if "scale" in entry.model_fields_set:
        return Place(low, high, entry.center, entry.scale, floor, entry.transform)
    return Place(low, high, floor=floor, transform=entry.transform)


class PlaceCounts:
    """The counts of the columns whose center and scale have to be found; they are private.

    Parameters
    ----------
    places : sequence of Place
        All columns, in order.
    most_cells : int, optional
        The most that a column's values may be counted in.

    Attributes
    ----------
    n_rows : int
        How many rows were counted.
    """

    def __init__(self, places: tuple[Place, ...], most_cells: int = MOST_CELLS) -> None:
        self._places = places
        self._searched = [index for index, place in enumerate(places) if not place.is_declared]
        self._grids = [_grid(places[index], len(self._searched), most_cells) for index in self._searched]
        self._counts = np.zeros((len(self._grids), self._grids[0].cells if self._grids else 0), dtype=np.int64)
        self.n_rows = 0

    @property
    def limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The bounds of all columns."""
        low, high = np.array([(place.low, place.high) for place in self._places]).T
        return low, high

    def add(self, values: NDArray[np.float64]) -> None:
        """Count the values of some rows, shape (n, p)."""
        self.n_rows += len(values)
        for index, counts, grid in zip(self._searched, self._counts, self._grids, strict=True):
            add_to_cells(counts, values[:, index], grid)

    def merged(self, other: PlaceCounts) -> PlaceCounts:
        """Add the counts of other rows, and return these."""
        self._counts += other._counts
        self.n_rows += other.n_rows
        return self

    def find(self, mu_each: float, play: Play) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the centers and the scales of all columns; every choice of one costs a row `mu_each`."""
        mechanism = ExponentialMechanism(mu_each)
        centers = np.array([place.center or 0.0 for place in self._places])
        scales = np.array([place.scale or 1.0 for place in self._places])
        for index, counts, grid in zip(self._searched, self._counts, self._grids, strict=True):

            def choose(what: str, scores: NDArray[np.int64], index: int = index) -> int:
                return play(Choice(f"{what} of column {index + 1}", mechanism), scores)

            floor = self._places[index].floor
            centers[index], scales[index] = place_chosen(counts, grid, mechanism, choose, floor=floor)
        return centers, scales


def least_scales(places: tuple[Place, ...]) -> list[float]:
    """Return the smallest scale that may be found for every column; 0 for those that are declared."""
    searched = sum(not place.is_declared for place in places)
    return [0.0 if place.is_declared else least_scale(_grid(place, searched), place.floor) for place in places]


def _grid(place: Place, n_searched: int, most_cells: int = MOST_CELLS) -> EqualCells:
    return EqualCells(place.low, place.high, min(cells_for(n_searched), most_cells))
