"""Private histograms of all columns, and what follows from them: clips, places, and on which scale links are told.

A column of numbers is counted in cells around its center, of equal width on the scale of asinh((x - center) / scale).
How fine they are follows from public facts alone. Whole numbers within few are counted one by one, levels each by
itself, and gaps in a cell of their own. So every row is in exactly one cell of every raw column. Replacing a row takes
1 from one cell of each and adds 1 to another. Over all columns the counts move by at most sqrt(2 p), which is attained.
They have one Gaussian noise together.

What follows from the noisy counts is post-processing, as the number of rows is public:

- the clip of a column: the nearest from which on hardly any counts stand out from their noise, and some steps more;
- the mean and the deviation of levels and of whole numbers within few;
- the scale on which its links are told. It is as it is, or the normal scores of its cells (`dp_bundle.data.margins`)
  where numbers of many values are far from normal.

A score is a function of a row alone, by which later passes replace its values. So whatever later steps may move, and
what they cost, is the same on either scale.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.data.margin_summary import cell_ends, find_body
from dp_bundle.data.margins import Margin, Scores, mean_and_deviation, middle_scores
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.covariance.two_rounds.steps import NoisyCounts

_FINENESS, _STEPS = 0.65, (0.02, 0.3)  # of cells: times the cube root of noise over rows, within these
_SPAN = 6.0  # of the cells on either side, on the scale of asinh: 201 scales
_FARTHEST = 2.5  # lengths of a typical row of five columns more: the most that a column's values count with
_MANY = 20.0  # standard deviations of a count, beside cells of noise: values end there
MOST_COLUMNS = 2048  # that are published
MOST_WHOLE = 64  # whole numbers that are counted one by one
_LEAST_DEVIATION = 0.05  # of what a column becomes
_NEXT_CLIP, _FARTHER = 1.25, 2  # times the one before it; and steps beyond the last counts that stand out
_WINDOW, _STANDS_OUT, _STANDS_OUT_FAR = 3, 2.5, 5.0  # steps whose counts are summed; their standard deviations
_STRAIGHT, _SHOWN = 0.92, 0.9  # of a variance: what a line explains of scores, and these show of a normal variable
_PARTS, _MOST_GUIDES = 2048, 2048  # of a guide to cells, and such guides that are kept
_CLEAR, _LEAST_SHARE = (
    4.0,
    0.01,
)  # of gaps that are worth a column: standard deviations of noise, and a share of the rows
_OF_GAPS = 2.5  # deviations that an indicator of gaps is given, so that rows with gaps are hardly longer than others


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
    tells_gaps : bool
        Whether a second column is to indicate its gaps if they stand out in its histogram.
    """

    name: str
    places: tuple[int, ...]
    labels: tuple[str, ...] = ()
    has_gap_column: bool = False
    may_have_gaps: bool = False
    tells_gaps: bool = False

    @property
    def has_level_columns(self) -> bool:
        """True if there is a published column for each level."""
        return len(self.places) > 1 and not self.has_gap_column


@dataclass(frozen=True, eq=False)
class Described:
    """What noisy histograms make of the columns: all of it is public.

    Attributes
    ----------
    margins : tuple of Margin
        The histograms, by raw column.
    sigma : float
        The standard deviation of the noise on each count, before rounding.
    maps : dict of int to Scores
        Of the columns that are replaced by scores, by place; the others stay as they are.
    gaps : tuple of int
        The places, before, of the numbers behind which there is one column more now, which indicates their gaps.
    low, high, centers, scales, clips : ndarray of float64, shape (p,)
        The ends, centers and scales of what all columns are then, and how many scales from its center each may be. That
        is infinitely many where its ends are as near.
    floors : ndarray of float64, shape (p,)
        The least deviation that a column counts with in the lengths of rows, in scales.
    by_cells : ndarray of float64, shape (p,)
        1 where center and scale are the mean and the standard deviation by the histogram, 0 elsewhere.
    """

    margins: tuple[Margin, ...]
    sigma: float
    maps: dict[int, Scores]
    gaps: tuple[int, ...]
    low: Floats
    high: Floats
    centers: Floats
    scales: Floats
    clips: Floats
    floors: Floats
    by_cells: Floats


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
    def flat(self) -> Integers:
        """The counts of all columns, one after the other."""
        return np.concatenate(self._counts)

    def add(self, values: Floats) -> None:
        """Count the values of some rows, shape (n, p)."""
        for column, margin, counts in zip(self._columns, self._margins, self._counts, strict=True):
            if column.has_level_columns:
                cells = np.argmax(values[:, column.places], axis=1)  # one is 1, the others 0; gaps are a level
            else:
                cells = cells_of(values[:, column.places[0]], margin.edges, len(counts) - 1)
            counts += np.bincount(cells, minlength=len(counts))

    def merged(self, other: MarginCounts) -> MarginCounts:
        """Add the counts of other rows, and return these."""
        for counts, more in zip(self._counts, other._counts, strict=True):
            counts += more
        return self


def describe_columns(
    columns: Sequence[RawColumn],
    places: Sequence[Place],
    empty: Sequence[Margin],
    found: tuple[Floats, Floats],
    noisy: Integers,
    n_rows: int,
    sigma: float,
    least_clip: float,
    scored: Collection[str] | None,
) -> Described:
    """Return what noisy counts make of the columns.

    Parameters
    ----------
    columns, places, empty : sequence of RawColumn, of Place and of Margin
        The raw columns, the published ones, and the cells of the former.
    found : pair of ndarray, shape (p,)
        Centers and scales, where they were declared or found.
    noisy : ndarray of int64
        The counts of all columns, one after the other.
    n_rows : int
        Public.
    sigma : float
        The standard deviation of the noise on each count.
    least_clip : float
        In scales.
    scored : collection of str or None
        The raw columns whose links are told by scores; by default those that `suits_scores` holds of.
    """
    ends = np.cumsum([len(margin.counts) for margin in empty])[:-1]
    margins = [replace(margin, counts=own) for margin, own in zip(empty, np.split(noisy, ends), strict=True)]
    farthest = _FARTHEST * math.sqrt(len(places) + 5)
    entries, maps, gaps = list[Sequence[float]](), dict[int, Scores](), list[int]()
    for column, margin in zip(columns, margins, strict=True):
        shares, first = margin.shares(n_rows, sigma), column.places[0]
        if column.has_level_columns:
            entries += [_of_indicator(share) for share in shares.tolist()]
            continue

        # numbers, or levels in an order
        low, high, center, scale = places[first].low, places[first].high, found[0][first], found[1][first]
        filled, is_known = shares[: margin.n_filled], _has_known_cells(column, places[first])
        scores, values = middle_scores(filled, n_rows), _values_of(margin, places[first], is_known=is_known)
        if is_known:
            center, scale = mean_and_deviation(values, filled)
            scale = max(scale, _LEAST_DEVIATION)
        limit = _clip(margin, center, scale, least_clip, sigma)
        away = limit * _NEXT_CLIP**-_FARTHER
        within = np.clip((values - center) / scale, -away, away)
        if suits_scores(within, scores, filled) if scored is None else column.name in scored:
            maps[len(entries)] = Scores(margin.edges, scores)
            low, high, limit = scores[0], scores[-1], least_clip
            center, scale = mean_and_deviation(scores, filled)
            scale = max(scale, _LEAST_DEVIATION)
        reach = limit if len(entries) in maps else min(limit, _reach(margin, center, scale, sigma))
        by_cells = is_known or len(entries) in maps
        high = max(high, low + _LEAST_DEVIATION) if by_cells else high
        entries.append((low, high, center, scale, limit if len(scores) > 2 else math.inf, reach / farthest, by_cells))

        # their gaps, if they stand out, and so do values
        least = max(_CLEAR * sigma, _LEAST_SHARE * n_rows)
        has_room = column.tells_gaps and len(places) + len(gaps) < MOST_COLUMNS
        if has_room and least < margin.counts[-1] < n_rows - least:
            gaps.append(first)
        if column.has_gap_column or first in gaps:
            entries.append(_of_indicator(float(shares[-1]), _OF_GAPS))

    return Described(tuple(margins), sigma, maps, tuple(gaps), *np.array(entries).T)


def suits_scores(values: Floats, scores: Floats, shares: Floats) -> bool:
    """Return True if a column is far from normal, and of so many values that scores show nearly all of a normal one.

    Parameters
    ----------
    values, scores, shares : ndarray of float64, shape (m,)
        Of its cells, values in scales, pulled in to where counts stand out: noise then makes next to no normal column
        seem bent.
    """
    (mean, deviation), (score, shown) = mean_and_deviation(values, shares), mean_and_deviation(scores, shares)
    if not deviation or shown**2 <= _SHOWN:
        return False
    straight = float(shares @ ((values - mean) * (scores - score))) / (deviation * shown * float(shares.sum()))
    return straight**2 < _STRAIGHT


def indicate_gaps(values: Floats, gaps: Sequence[int]) -> Floats:
    """Return rows, shape (n, p) in data units, with a column behind some that is 1 where these are NaN, else 0."""
    return np.insert(values, np.add(gaps, 1), np.isnan(values[:, gaps]), axis=1) if gaps else values


def places_after(gaps: Sequence[int], n_columns: int) -> Integers:
    """Return the places of columns once one more is behind some of them."""
    places = np.arange(n_columns)
    return places + np.searchsorted(np.array(gaps, dtype=np.int64), places)


def to_scores(values: Floats, maps: Mapping[int, Scores]) -> Floats:
    """Return rows, shape (n, p) in data units, with columns in scores, by place; a gap, which is NaN, remains one."""
    mapped = values.copy(order="K")
    for index, given in maps.items():
        scores = np.append(given.scores, math.nan)
        mapped[:, index] = scores[cells_of(values[:, index], given.edges, len(given.scores))]
    return mapped


def cells_of(values: Floats, edges: Floats, gap: int) -> Integers:
    """Return the cell of each value, by the edges between cells, and that of gaps for NaN."""
    from dp_publish.covariance.two_rounds._kernels import find_cells

    cells = np.empty(len(values), dtype=np.int64)
    find_cells(np.ascontiguousarray(values), edges, *_guide(edges.tobytes()), gap, cells)
    return cells


@lru_cache(maxsize=_MOST_GUIDES)
def _guide(content: bytes) -> tuple[float, float, Integers]:
    """Return the center, the factor and the guide by which `find_cells` looks for values among these edges."""
    edges = np.frombuffer(content)
    if not len(edges):
        return 0.0, 1.0, np.zeros(1, dtype=np.int64)
    low, center, high = edges[[len(edges) // 4, len(edges) // 2, 3 * len(edges) // 4]].tolist()
    factor = 2 / (high - low) if 0 < high - low < math.inf else 1.0
    u = 2 * np.arange(_PARTS) / _PARTS - 1
    with np.errstate(over="ignore"):  # of edges near the largest floats, where a guide is of no use
        starts = center + u / ((1 - np.abs(u)).clip(1e-9) * factor)
    return center, factor, np.searchsorted(edges, starts, side="right").astype(np.int64)


def _clip(margin: Margin, center: float, scale: float, least: float, sigma: float) -> float:
    """Return what a column's values may be away from its center, in scales, by its noisy counts.

    From there on no counts stand out: neither those of the next steps together, on one side, nor, by far, any beyond.
    """
    edges, counts = (margin.edges - center) / scale, margin.counts[: margin.n_filled]
    if not len(edges):
        return least
    sides = (edges, counts[1:]), (-edges[::-1], counts[-2::-1])  # from the inner ends of cells on
    n_steps = math.ceil(math.log(max(np.abs(edges[[0, -1]]).max() / least, 1.0)) / math.log(_NEXT_CLIP)) + 1
    limits = least * _NEXT_CLIP ** np.arange(n_steps + _WINDOW)
    stands = np.zeros(n_steps)
    for starts, own in sides:
        cells, sums = np.searchsorted(starts, limits), np.append(0, np.cumsum(own))
        number, together = cells[_WINDOW:] - cells[:n_steps], sums[cells[_WINDOW:]] - sums[cells[:n_steps]]
        np.maximum(stands, together / (sigma * np.sqrt(np.maximum(number, 1))), out=stands)

    beyond = np.append(np.maximum.accumulate(stands[:0:-1])[::-1], 0.0)
    chosen = int(np.argmax((stands <= _STANDS_OUT) & (beyond <= _STANDS_OUT_FAR)))  # the last has none beyond
    return float(limits[chosen + _FARTHER])


def _reach(margin: Margin, center: float, scale: float, sigma: float) -> float:
    """Return how far from its center a column's values are, in scales, if many are in either of the last cells."""
    counts = margin.counts[: margin.n_filled]
    first, end = find_body(counts, sigma)
    if end - first < 2 or min(counts[first], counts[end - 1]) < _MANY * sigma:
        return math.inf
    low, high = cell_ends(margin.edges, None, is_whole=margin.is_whole)
    return float(max(center - low[first], high[end - 1] - center)) / scale


def _values_of(margin: Margin, place: Place, *, is_known: bool) -> Floats:
    """Return a number for each cell: the whole one, or its middle, and of an outermost one its end."""
    if is_known:
        return math.ceil(place.low) + np.arange(margin.n_filled, dtype=np.float64)
    if not len(margin.edges):
        return np.full(1, 0.5 * (place.low + place.high))
    values: Floats = 0.5 * (np.append(margin.edges[0], margin.edges) + np.append(margin.edges, margin.edges[-1]))
    return values


def _of_indicator(share: float, floor: float = 0.0) -> Sequence[float]:
    """Return what is told of a column that is 1 in a share of the rows, which by rounding may exceed 1."""
    mean = min(share, 1.0)
    return -1.0, floor or 1.0, mean, max(math.sqrt(mean * (1 - mean)), _LEAST_DEVIATION), math.inf, floor, True


def _has_known_cells(column: RawColumn, place: Place) -> bool:
    """Return True if each level in an order, or each of few whole numbers, with a half between any two, has a cell."""
    few = place.floor > 0 and place.high - place.low < MOST_WHOLE and abs(place.low + place.high) < 2.0**52
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
