"""What noisy histograms say of the columns of a table: shares, quantiles and means, with intervals.

And where numbers are within the cells: values that many rows share, and tails that may be noise alone.

A count has the noise that the manifest states, and the rows are a sample: both are in every interval, at 95 %. Those of
shares are score intervals, which hold of few rows, too. The number of rows is public, so that the sum of a histogram's
counts is known. That makes sums of many of them surer. Of k out of m cells, the noise on the rest is regressed out. Its
variance is k (m - k) / m times that of a count.

Levels that were replaced at random come out with shares that are linear in the true ones. The interval of what came
out, brought back, has the sampling and the replacements in it.

An interval of a quantile begins at the last place below which significantly less than its share lies, as no more can
lie below those before it; and so at the other end. A place beyond the true quantile is taken for one by mistake with a
probability of 2.5 % at the most, and those behind it hardly ever without it. These places are the edges of cells and,
if cells hold many values, places inside of them. There, below a share t of a cell's width are t of its rows on average.
Let each value have a rows, and values be anywhere in a cell of s rows. Then the variance is a s t (1 - t). So many rows
of one value are on either side of the quantile, and half of them widen the interval at each end. How many a is shows in
the cells: they differ more from their neighbours than noise and sampling explain. No cell may stand out among these
differences, as one with a heap does.

Whole numbers of which the outermost stand out one by one, such as items, are taken to have no values far beyond: the
rows next to them are as many as noise allows at the most, and become fewer from number to number.

References
----------
Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22(158).
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.data.margins import Margin, parts_of
from dp_bundle.manifest.columns import RandomizedResponse

QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}
NORMAL = 1.959964  # standard errors to either side of 95 %
_MOST_BARS = 24
_SHOWN = 0.995  # of the values, between the ends of a picture
_SURE = 4.5  # standard deviations of the sum of a stretch of cells that hold something
_BESIDE, _NEXT = 2, 16  # cells of the body and of a tail, whose counts say how fast it falls
_LENGTHS = 0.5, 12.0  # cells in which the density of a tail falls by e
_FALL = 3.0  # of its logarithm in all
_MUCH, _LITTLE = 0.15, 0.02  # of a cell's rows
_ALONE, _MEDIAN = 3.5, 0.455  # standard deviations of one cell; the median of a squared one
_PLACES, _FEWEST = 32, 7  # places in a cell; cells with two ends
_DUST = 1e-4  # of the narrowest cell: as near to zero, a number is zero but for arithmetic
_CLEAR, _DENSER = 8.0, 4.0  # standard deviations of a share, and times the neighbours' density, of one value


class Estimate(NamedTuple):
    """A number with its 95 % interval, which may be infinite on a side."""

    name: str
    value: float
    low: float
    high: float


class Bar(NamedTuple):
    """A bar of a picture: what it stands for, its ends if these are numbers, its share of the rows, and interval."""

    label: str
    low: float
    high: float
    share: float
    share_low: float
    share_high: float


def cell_shares(margin: Margin, n_rows: int, variance: float) -> tuple[Floats, Floats, Floats]:
    """Return the share of rows in each cell, shape (m,), and the ends of its 95 % interval.

    Parameters
    ----------
    margin : Margin
        The histogram.
    n_rows : int
        The number of rows.
    variance : float
        Of the noise on a count; 0 where levels were replaced at random.
    """
    shares = margin.shares(n_rows, math.sqrt(variance))
    low, high = share_interval(margin.counts / n_rows, n_rows, variance, margin.response)
    return shares, np.minimum(low, shares), np.maximum(high, shares)


def share_interval(
    seen: Floats, n_rows: int, variance: float | Floats = 0.0, response: RandomizedResponse | None = None
) -> tuple[Floats, Floats]:
    """Return the ends of the 95 % intervals of shares, from those that are seen; see `cell_shares`."""
    # the p with (seen - p)^2 <= z^2 (variance / n^2 + p (1 - p) / n), and of these the ones from 0 to 1
    q = NORMAL**2 / n_rows
    middle = seen + q / 2.0
    away = np.sqrt(np.maximum(middle**2 - (1.0 + q) * (seen**2 - q * variance / n_rows), 0.0))
    low, high = (middle - away) / (1.0 + q), (middle + away) / (1.0 + q)
    if response is not None:
        low, high = response.share_before(low), response.share_before(high)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def summarize_margin(
    margin: Margin, n_rows: int, variance: float, bounds: tuple[float, float] | None = None
) -> list[Estimate]:
    """Return what a histogram says of its column: quantiles of numbers, the mean of few whole ones, the share of gaps.

    The parameters are those of `cell_shares`, and the declared bounds of the column, which end its intervals.
    """
    found, (shares, *ends) = [], cell_shares(margin, n_rows, variance)
    if margin.counts_numbers and len(margin.edges) and not margin.labels:
        values, filled = _whole_values(margin), shares[: margin.n_filled]
        if values is None or len(values) > 2:
            rows_each = rows_of_one_value(margin, n_rows, variance)
            found += [_quantile(margin, filled, n_rows, variance, name, rows_each) for name in QUANTILES]
        if values is not None:
            found.append(_mean(margin, values, filled, n_rows, variance))
        least, most = bounds or (-math.inf, math.inf)
        found = [Estimate(name, value, max(low, least), min(high, most)) for name, value, low, high in found]
    if margin.has_gaps:
        found.append(Estimate("(no value)", *(float(each[-1]) for each in (shares, *ends))))
    return found


def bars_of(margin: Margin, n_rows: int, variance: float) -> list[Bar]:
    """Return the bars of a picture of a histogram: of levels each, of few cells each, and else of equal width.

    A bar that ends inside of a cell has its part of it, as if the rows there were evenly spread.
    """
    shares = margin.shares(n_rows, math.sqrt(variance))[: margin.n_filled]
    if margin.labels:
        named, parts = [(label, math.nan, math.nan) for label in margin.labels], np.eye(len(shares))
    else:
        named, parts = _bars_of_numbers(margin, shares, math.sqrt(variance))
    share, seen = parts @ shares, parts @ margin.counts[: margin.n_filled] / n_rows
    low, high = share_interval(seen, n_rows, variance * np.sum(parts**2, axis=1), margin.response)
    numbers = np.column_stack([share, np.minimum(low, share), np.maximum(high, share)]).tolist()
    return [Bar(*each, *found) for each, found in zip(named, numbers, strict=True)]


def _bars_of_numbers(margin: Margin, filled: Floats, sigma: float) -> tuple[list[tuple[str, float, float]], Floats]:
    """Return the labels and ends of bars, and which part of each cell is in each, shape (bars, m).

    They end a little beyond the cells whose counts stand out: noise alone would draw a long line of low bars there.
    """
    edges, values = margin.edges, _whole_values(margin)
    if not len(edges):
        return [], np.empty((0, len(filled)))
    beyond = (math.inf, math.inf) if values is None else (1.0 - edges[0], edges[-1] + 1.0)
    ends = np.concatenate([[-beyond[0]], edges, [beyond[1]]])
    low, high = (_at(margin, filled, share) for share in (1 - _SHOWN, _SHOWN))
    cells = np.flatnonzero(np.isfinite(np.diff(ends)))
    if values is not None:  # the outermost cells have ends, too
        low, high = (low - 1.0 if low <= edges[0] else low), (high + 1.0 if high >= edges[-1] else high)
    if values is None or len(values) > _MOST_BARS:
        start, stop = find_body(margin.counts[: margin.n_filled], sigma)
        low = max(low, float(ends[max(start - _BESIDE, 0)]))
        high = min(high, float(ends[min(stop + _BESIDE, len(filled))]))
        first, last = np.searchsorted(ends, [low, high], side="right") - 1
        cells = cells[(cells >= first) & (cells <= last)]

    if margin.is_whole and len(cells) <= _MOST_BARS:
        return [_whole_bar(*ends[cell : cell + 2].tolist()) for cell in cells], np.eye(len(filled))[cells]
    if not low < high:
        return [], np.empty((0, len(filled)))
    bars = np.linspace(low, high, _MOST_BARS + 1)
    shared = np.minimum(bars[1:, None], ends[1:]) - np.maximum(bars[:-1, None], ends[:-1])
    named = [(f"{start:.4g} to {end:.4g}", start, end) for start, end in pairwise(bars.tolist())]
    return named, np.maximum(shared, 0.0) / np.diff(ends)


def _whole_bar(low: float, high: float) -> tuple[str, float, float]:
    """Return the label and the ends of a bar of a cell of whole numbers."""
    return f"{low + 0.5:g}" if high - low == 1.0 else f"{low + 0.5:g} to {high - 0.5:g}", low, high


def rows_of_one_value(margin: Margin, n_rows: int, variance: float) -> float | None:
    """Return how many rows may have the same value; None if that is much of a cell, where intervals end at cells.

    It is one standard error above the estimate. Second differences correlate by -2 / 3 and 1 / 6. So the sum of their
    squares has 1.95 times the variance that it would have without. The parameters are those of `cell_shares`.
    """
    inner = slice(1, margin.n_filled - 1)
    widths, counts = np.diff(margin.edges), margin.counts[inner].astype(float)
    rows = n_rows * margin.shares(n_rows, math.sqrt(variance))[inner]
    if margin.labels or len(counts) < _FEWEST or _whole_values(margin) is not None or not rows.any():
        return None
    first, own, last = widths[:-2], widths[1:-1], widths[2:]
    with np.errstate(all="ignore"):  # widths of a stranger's cells
        before = own / first * (own + last) / (first + 2.0 * own + last)  # of a count that lies between its neighbours'
        after = own / last * (own + first) / (first + 2.0 * own + last)
        away = (counts[1:-1] - before * counts[:-2] - after * counts[2:]) ** 2
        sampled = rows[1:-1] + before**2 * rows[:-2] + after**2 * rows[2:]
        explained = sampled + variance * (1.0 + before**2 + after**2)
        scaled = away / explained
        error = math.sqrt(2.0 * 1.95 * float(explained @ explained))
        found = float((np.sum(away - explained) + error) / np.sum(sampled))

    typical = float(rows @ rows) / float(rows.sum())
    is_even = bool((scaled <= _ALONE**2 * max(1.0, float(np.median(scaled)) / _MEDIAN)).all())
    return max(found, _LITTLE * typical) if is_even and found <= _MUCH * typical else None


def _quantile(
    margin: Margin, shares: Floats, n_rows: int, variance: float, name: str, rows_each: float | None
) -> Estimate:
    """Return a quantile of the rows with a value, by the shares of their cells.

    So many of them may have the same value; see `rows_of_one_value`.
    """
    share, edges, sigma = QUANTILES[name], margin.edges, math.sqrt(variance)
    m, counts = len(shares), margin.counts[: len(shares)]
    n_filled = max(1.0, float(shares.sum() * n_rows)) if margin.has_gaps else n_rows
    filled_shares = parts_of(shares)

    places, one = (1, 0.0) if rows_each is None else (_PLACES, rows_each / n_filled)
    k = np.arange(places, (m - 1) * places + 1) / places  # cells before a place
    below = np.interp(k, np.arange(m + 1), np.append(0.0, np.cumsum(counts)))
    below = (below - k / m * (float(counts.sum()) - n_filled)) / n_filled
    clipped, part, inside = np.clip(below, 0.0, 1.0), k % 1.0, filled_shares[k.astype(int)]
    spread = clipped * (1 - clipped) / n_filled + part * (1 - part) * np.minimum(one, inside) * inside
    away = NORMAL * np.sqrt(variance * k * (m - k) / m / n_filled**2 + spread) + 0.5 * one
    cell, start, end = int(np.searchsorted(np.cumsum(filled_shares), share)), 0, m
    is_whole = margin.is_whole  # several of which may be in a cell
    if is_whole:
        widths = np.diff(edges, prepend=-math.inf, append=math.inf)
        start = _begin_of_whole(counts, widths, sigma, share * n_filled)
        end = m - _begin_of_whole(counts[::-1], widths[::-1], sigma, (1.0 - share) * n_filled)
        cell = min(max(cell, start), end - 1)
    before = np.flatnonzero((k <= start) | ((k < cell + 1) & (below + away < share)))
    behind = np.flatnonzero((k >= end) | ((k > cell) & (below - away > share)))
    first, last = int(before[-1]) if before.size else -1, int(behind[0]) if behind.size else len(k)

    if (values := _whole_values(margin)) is not None:
        low, value, high = (float(values[min(max(each, 0), m - 1)]) for each in (first + 1, cell, last))
        return Estimate(name, value, min(low, value), max(high, value))
    ends = np.concatenate([[-math.inf], np.interp(k, np.arange(1, m), edges), [math.inf]])
    low, high = float(ends[first + 1]), float(ends[last + 1])
    heaps = find_heaps(filled_shares, cell_ends(edges, None, is_whole=is_whole), sigma / n_filled, is_whole=is_whole)
    value = heaps[cell] if cell in heaps else _at(margin, shares, share)
    if is_whole:
        low, high = float(np.floor(low + 0.5)), float(np.ceil(high - 0.5))
        value = min(max(float(np.rint(value)) + 0.0, low), high)
    dust = _DUST * np.diff(edges).min(initial=np.abs(edges).max())
    numbers = (value, min(low, value), max(high, value))
    return Estimate(name, *(0.0 if abs(each) < dust else each for each in numbers))


def _begin_of_whole(counts: Integers, widths: Floats, sigma: float, rows: float) -> int:
    """Return the first cell of whole numbers with all but so many rows behind; 0 where the body's first is not clear.

    That is, not one number that stands out alone.
    """
    start, stop = find_body(counts, sigma)
    if widths[start] != 1.0 or counts[start] <= _SURE * sigma:
        return 0
    most = max(float(counts[max(start - _NEXT, 0) : start].sum()), 0.0) + 2.0 * sigma * math.sqrt(_NEXT)
    length = most / float(counts[start:stop][:_BESIDE].mean())  # cells in which rows become fewer by e
    return max(start - _BESIDE - math.ceil(length * math.log(max(1.0, most / rows))), 0)


def _at(margin: Margin, filled: Floats, share: float) -> float:
    """Return a quantile by the shares of the cells, evenly spread in each; at most the outermost edge."""
    sums = np.cumsum(parts_of(filled))
    cell = int(np.searchsorted(sums, share))
    edges = margin.edges
    if cell <= 0 or cell >= len(edges):
        return float(edges[0] if cell <= 0 else edges[-1])
    before = float(sums[cell - 1])
    part = (share - before) / max(float(sums[cell]) - before, np.finfo(np.float64).tiny)
    return float(edges[cell - 1] + part * (edges[cell] - edges[cell - 1]))


def _whole_values(margin: Margin) -> Floats | None:
    """Return the number that each cell holds, where every cell holds one."""
    edges = margin.edges
    single = margin.is_whole and bool((np.diff(edges) == 1.0).all())
    return np.append(edges - 0.5, edges[-1] + 0.5) if single else None


def _mean(margin: Margin, values: Floats, shares: Floats, n_rows: int, variance: float) -> Estimate:
    """Return the mean of whole numbers that are counted one by one, over the rows with a value.

    Shares are the nearest that add up to 1. So the mean moves with a cell's noise by how far that cell is from it, less
    the average of these. Gaps are no distance from it.
    """
    filled = max(float(shares.sum()), 1.0 / n_rows)
    shares = shares / filled
    mean = float(shares @ values)
    spread = float(shares @ (values - mean) ** 2)
    moved = np.append(values - mean, np.zeros(int(margin.has_gaps)))
    noise = variance * float(np.sum((moved - moved.mean()) ** 2)) / (n_rows * filled) ** 2
    away = NORMAL * math.sqrt(noise + spread / (n_rows * filled))
    return Estimate("mean", mean, mean - away, mean + away)


def cell_ends(edges: Floats, bounds: tuple[float, float] | None, *, is_whole: bool) -> tuple[Floats, Floats]:
    """Return the least and the largest number of each cell, the outermost of which end at bounds or at their edge."""
    if not len(edges):
        low, high = np.array([[0.0], [0.0]] if bounds is None else [[bounds[0]], [bounds[1]]])
        return low, high
    least, most = (edges[0], edges[-1]) if bounds is None else bounds
    low, high = np.array([min(least, edges[0]), *edges]), np.array([*edges, max(most, edges[-1])])
    if is_whole:
        low[1:] += 0.5
        high[:-1] -= 0.5
        low[0], high[-1] = min(math.ceil(low[0]), high[0]), max(math.floor(high[-1]), low[-1])
    return low, high


def find_heaps(shares: Floats, ends: tuple[Floats, Floats], sigma: float, *, is_whole: bool) -> dict[int, float]:
    """Return the cells of some width that are far denser than their neighbours, each with its roundest number.

    Parameters
    ----------
    shares : ndarray, shape (m,)
        Of the cells.
    ends : pair of ndarray, shape (m,)
        Their least and largest numbers, as `cell_ends` returns them.
    sigma : float
        Of the noise on a share.
    is_whole : bool
        Whether the numbers are whole.
    """
    low, high = ends
    widths = high - low + is_whole
    density = np.divide(shares, widths, out=np.zeros(len(shares)), where=widths > 0.0)
    beside = np.maximum(np.append(0.0, density[:-1]), np.append(density[1:], 0.0))
    cells = np.flatnonzero((shares > _CLEAR * sigma) & (density > _DENSER * beside)).tolist()
    return {cell: roundest(float(low[cell]), float(high[cell])) for cell in cells}


def find_body(counts: Integers, sigma: float) -> tuple[int, int]:
    """Return the first and the end of the cells beyond which no stretch of 1, 2, 4, 8 ... cells stands out.

    From the noise, that is; all cells where nothing does.
    """
    first, end = _clear_cells(counts, sigma)
    return (first, end) if first < end else (0, len(counts))


def stand_out(counts: Integers, sigma: float) -> bool:
    """Return True if some stretch of cells surely holds more than noise."""
    first, end = _clear_cells(counts, sigma)
    return first < end


def _clear_cells(counts: Integers, sigma: float) -> tuple[int, int]:
    up_to, n = np.concatenate([[0], np.cumsum(counts)]), len(counts)
    first, end = n, 0
    for size in (1 << power for power in range(n.bit_length())):
        sums = up_to[size:] - up_to[:-size]
        clear = np.flatnonzero(sums > _SURE * sigma * math.sqrt(size))
        if clear.size:
            first, end = min(first, int(clear[0]) + size - 1), max(end, int(clear[-1]) + 1)
    return first, end


def draw_in_tails(
    ends: tuple[Floats, Floats], shares: Floats, counts: Integers, body: tuple[int, int], *, is_whole: bool
) -> None:
    """Move the ends of cells beyond the body next to it, in place.

    Their shares are what noise has left, and nobody knows where the farthest of them lie. Drawn as they are, a
    hundredth of the rows could be at fifty deviations. Order stays; the density falls from cell to cell, as fast as
    what is counted in the next cells says. Where the body has no negative numbers, the tail has none.
    """
    low, high = ends
    (first, end), grid = body, np.append(low, high[-1])
    is_positive, is_negative = low[first] >= 0.0, high[end - 1] <= 0.0
    above = _tail_places(shares[end:], counts[end:], counts[first:end][::-1])
    below = _tail_places(shares[:first][::-1], counts[:first][::-1], counts[first:end])
    for tail, places in ((slice(end, None), end + above), (slice(None, first), first - below[::-1])):
        numbers = np.interp(places, np.arange(len(grid)), grid)
        numbers = np.maximum(numbers, 0.0) if is_positive else np.minimum(numbers, 0.0) if is_negative else numbers
        numbers = np.rint(numbers) if is_whole else numbers
        low[tail], high[tail] = numbers[:-1], numbers[1:]


def _tail_places(shares: Floats, counts: Integers, inside: Integers) -> Floats:
    """Return where the cells of a tail end, counted in cells from the body on, beginning with 0."""
    total, beside = float(shares.sum()), max(float(inside[:_BESIDE].mean()), 1.0)
    if not total > 0.0:
        return np.zeros(len(shares) + 1)
    length = float(np.clip(counts[:_NEXT].sum() / beside, *_LENGTHS))
    until = np.append(0.0, np.minimum(np.cumsum(shares) / total, 1.0))
    found: Floats = -length * np.log1p(until * math.expm1(-_FALL))
    return found


def roundest(low: float, high: float) -> float:
    """Return the number from one to another that has the fewest digits, of several the nearest to their middle."""
    if low <= 0.0 <= high:
        return 0.0
    for power in range(math.floor(math.log10(max(abs(low), abs(high)))), -300, -1):
        for step in (10.0**power, 0.5 * 10.0**power):
            first, last = math.ceil(low / step), math.floor(high / step)
            if first <= last:
                number = min(max(round(0.5 * (low + high) / step), first), last) * step
                return min(max(float(f"{number:.12g}"), low), high)
    return 0.5 * (low + high)
