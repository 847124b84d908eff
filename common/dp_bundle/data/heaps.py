"""Values that many rows share, within the cells of a histogram: a heap is not spread over its cell."""

from __future__ import annotations

import math

import numpy as np

from dp_bundle.data.margins import Floats

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
