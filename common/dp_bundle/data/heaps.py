"""Where numbers are within the cells of a histogram: values that many rows share, and tails that may be noise alone."""

import math

import numpy as np

from dp_bundle.data.margins import Counts, Floats

_SURE = 4.5  # standard deviations of the sum of a stretch of cells that hold something
_BESIDE, _NEXT = 2, 16  # cells of the body and of a tail, whose counts say how fast it falls
_LENGTHS = 0.5, 12.0  # cells in which the density of a tail falls by e
_FALL = 3.0  # of its logarithm in all
_CLEAR, _DENSER = 8.0, 4.0  # standard deviations of a share, and times the neighbours' density, of one value


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


def find_body(counts: Counts, sigma: float) -> tuple[int, int]:
    """Return the first and the end of the cells beyond which no stretch of 1, 2, 4, 8 ... cells stands out.

    From the noise, that is; all cells where nothing does.
    """
    up_to, n = np.concatenate([[0], np.cumsum(counts)]), len(counts)
    first, end = n, 0
    for size in (1 << power for power in range(n.bit_length())):
        sums = up_to[size:] - up_to[:-size]
        clear = np.flatnonzero(sums > _SURE * sigma * math.sqrt(size))
        if clear.size:
            first, end = min(first, int(clear[0]) + size - 1), max(end, int(clear[-1]) + 1)
    return (first, end) if first < end else (0, n)


def draw_in_tails(
    ends: tuple[Floats, Floats], shares: Floats, counts: Counts, body: tuple[int, int], *, is_whole: bool
) -> None:
    """Move the ends of cells beyond the body next to it, in place.

    Their shares are what noise has left, and where the farthest of them lie nobody knows: drawn as they are, a
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


def _tail_places(shares: Floats, counts: Counts, inside: Counts) -> Floats:
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
