"""Private histograms of all columns, and the normal scores of their cells.

A column of numbers is counted in cells around its center, of equal width on the scale of asinh((x - center) / scale);
how fine they are follows from public facts alone. Whole numbers within few are counted one by one, levels each by
itself, and gaps in a cell of their own, so that every row is in exactly one cell of every raw column. Replacing a row
takes 1 from one cell of each and adds 1 to another: over all columns the counts move by at most sqrt(2 p), which is
attained. They have one Gaussian noise together.

What follows from the noisy counts is post-processing, as the number of rows is public: the score of each cell
(`dp_bundle.data.margins`), and with it a function of a row alone, by which later passes replace its values. So whatever
later steps may move, and what they cost, is as it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_bundle.data.margins import Counts, Floats, Margin, Scores, mean_and_deviation, middle_scores
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.covariance.two_rounds.scores import cells_of
from dp_publish.covariance.two_rounds.steps import NoisyCounts

_FINENESS, _STEPS = 0.85, (0.02, 0.3)  # of cells: times the cube root of noise over rows, within these
_SPAN = 6.0  # of the cells on either side, on the scale of asinh: 201 scales
MOST_WHOLE = 64  # whole numbers that are counted one by one
_LEAST_DEVIATION = 0.05  # of what a column becomes


@dataclass(frozen=True)
class RawColumn:
    """A raw column, by what is published for it.

    Attributes
    ----------
    name : str
        Its own.
    places : tuple of int
        Of the published columns: one; one for each level; or one of numbers and one that indicates its gaps.
    labels : tuple of str
        Its levels, if it has any.
    has_gap_column : bool
        Whether the second of two columns indicates gaps.
    may_have_gaps : bool
        Whether rows come with NaN in it.
    """

    name: str
    places: tuple[int, ...]
    labels: tuple[str, ...] = ()
    has_gap_column: bool = False
    may_have_gaps: bool = False

    @property
    def has_level_columns(self) -> bool:
        """True if there is a published column for each level."""
        return len(self.places) > 1 and not self.has_gap_column


@dataclass(frozen=True, eq=False)
class Scored:
    """What noisy histograms make of the columns: all of it is public.

    Attributes
    ----------
    margins : tuple of Margin
        The histograms, by raw column.
    sigma : float
        The standard deviation of the noise on each count, before rounding.
    maps : dict of int to Scores
        Of the columns that are replaced by scores, by place; the others stay as they are.
    low, high, centers, scales : ndarray of float64, shape (p,)
        The ends, the mean and the standard deviation of what all columns are then.
    """

    margins: tuple[Margin, ...]
    sigma: float
    maps: dict[int, Scores]
    low: Floats
    high: Floats
    centers: Floats
    scales: Floats


def places_of_whole(columns: Sequence[RawColumn], places: Sequence[Place]) -> tuple[Place, ...]:
    """Return places, those of levels and of few whole numbers as declared: their cells are known without a search."""
    found = list(places)
    for column in columns:
        place = places[column.places[0]]
        if _has_known_cells(column, place) and not place.is_declared:
            middle, half = 0.5 * (place.low + place.high), 0.5 * (place.high - place.low)
            found[column.places[0]] = replace(place, center=middle, scale=half)
    return tuple(found)


def empty_margins(
    columns: Sequence[RawColumn], places: Sequence[Place], centers: Floats, scales: Floats, mu: float, n_rows: int
) -> tuple[Margin, ...]:
    """Return the cells of all raw columns, with no counts yet, from public facts alone."""
    noise = counts_of(columns, mu).sigma / n_rows
    step = min(max(_FINENESS * noise ** (1 / 3), _STEPS[0]), _STEPS[1])
    margins = []
    for column in columns:
        first, edges = column.places[0], np.empty(0)
        if not column.has_level_columns:
            edges = _edges(column, places[first], float(centers[first]), float(scales[first]), step)
        gaps = column.may_have_gaps
        size = (len(column.places) if column.has_level_columns else len(edges) + 1) + gaps
        margins.append(Margin(column.name, edges, column.labels, gaps, np.zeros(size, dtype=np.int64)))
    return tuple(margins)


def counts_of(columns: Sequence[RawColumn], mu: float) -> NoisyCounts:
    """Return the step that adds noise to the counts of all raw columns: two cells of each move by 1."""
    return NoisyCounts("margins", mu, square=2.0 * len(columns))


class MarginCounts:
    """The counts of the rows by cell, of all raw columns; they are private.

    Parameters
    ----------
    columns : sequence of RawColumn
        In order.
    margins : sequence of Margin
        Their cells.
    """

    def __init__(self, columns: Sequence[RawColumn], margins: Sequence[Margin]) -> None:
        self._columns, self._margins = columns, margins
        self._counts = [np.zeros(len(margin.counts), dtype=np.int64) for margin in margins]

    @property
    def flat(self) -> Counts:
        """The counts of all columns, one after the other."""
        return np.concatenate(self._counts)

    def add(self, values: Floats) -> None:
        """Count the values of some rows, shape (n, p)."""
        for column, margin, counts in zip(self._columns, self._margins, self._counts, strict=True):
            own = values[:, column.places[0]]
            if column.has_level_columns:
                cells = np.argmax(values[:, column.places], axis=1)  # one is 1, the others 0
            else:
                cells = cells_of(own, margin.edges, len(counts) - 1)
            if column.has_level_columns and margin.has_gaps:
                cells = np.where(np.isnan(own), len(counts) - 1, cells)
            counts += np.bincount(cells, minlength=len(counts))

    def merged(self, other: MarginCounts) -> MarginCounts:
        """Add the counts of other rows, and return these."""
        for counts, more in zip(self._counts, other._counts, strict=True):
            counts += more
        return self


def score_columns(
    columns: Sequence[RawColumn], margins: Sequence[Margin], noisy: Counts, n_rows: int, sigma: float, p: int
) -> Scored:
    """Return what noisy counts make of p columns."""
    ends = np.cumsum([len(margin.counts) for margin in margins])[:-1]
    margins = [replace(margin, counts=own) for margin, own in zip(margins, np.split(noisy, ends), strict=True)]
    maps: dict[int, Scores] = {}
    low, high, centers, scales = np.zeros(p), np.ones(p), np.zeros(p), np.ones(p)
    for column, margin in zip(columns, margins, strict=True):
        shares = margin.shares(n_rows, sigma)
        if column.has_level_columns:
            for place, share in zip(column.places, shares, strict=True):
                centers[place], scales[place] = _of_indicator(share)
            continue
        place, filled = column.places[0], shares[: margin.n_filled]
        values = middle_scores(filled, n_rows)
        low[place], high[place] = values[0], values[-1]
        centers[place], scales[place] = mean_and_deviation(values, filled)
        maps[place] = Scores(margin.edges, values)
        if column.has_gap_column:
            centers[column.places[1]], scales[column.places[1]] = _of_indicator(shares[-1])
    scales = np.maximum(scales, _LEAST_DEVIATION)
    high = np.maximum(high, low + _LEAST_DEVIATION)
    return Scored(tuple(margins), sigma, maps, low, high, centers, scales)


def _of_indicator(share: float) -> tuple[float, float]:
    """Return the mean and the standard deviation; by rounding, a share may exceed 1."""
    mean = min(float(share), 1.0)
    return mean, math.sqrt(mean * (1 - mean))


def _has_known_cells(column: RawColumn, place: Place) -> bool:
    """Return True if each level in an order, or each of few whole numbers, has a cell."""
    few = bool(place.floor) and place.is_bounded and place.high - place.low < MOST_WHOLE
    return not column.has_level_columns and (bool(column.labels) or few)


def _edges(column: RawColumn, place: Place, center: float, scale: float, step: float) -> Floats:
    """Return what is between the cells of a column of numbers."""
    if _has_known_cells(column, place):
        return np.arange(math.ceil(place.low), math.floor(place.high), dtype=np.float64) + 0.5
    n_steps = math.ceil(_SPAN / step)
    with np.errstate(over="ignore"):  # of bounds that are too far apart for a float; what is infinite is beyond them
        edges = center + scale * np.sinh(np.arange(-n_steps, n_steps + 1) * step)
    if place.floor:
        edges = np.floor(edges) + 0.5
    found: Floats = np.unique(edges[(edges > place.low) & (edges < place.high)])
    return found
