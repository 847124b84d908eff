"""The passes over values, compiled: those of searches, of samplers, and of noise on rows.

They are imported where they are called, so that what is refused before has not paid for it.
"""

import math

import numpy as np

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.base.machine import njit

_MARGIN = 2.0**-31  # of a decision in floating point
_UNIT = 2.0**-32
OPEN = 1 << 62  # subtracted from a block's number while its first proposal is not accepted


@njit()
def tally(counts: Integers, places: Floats) -> None:
    """Count places in cells, those below the first in it, those beyond the last in that, and missing ones nowhere."""
    last = len(counts) - 1
    for place in places:
        if not math.isnan(place):
            counts[int(min(max(place, 0.0), last))] += 1


@njit()
def invert(words, spare, head, mid, low, guide, shift, out, start):  # type: ignore[no-untyped-def]
    """Overwrite out[start:], and return its size, or where the spare words ran out."""
    n_spent = 0
    for i in range(start, out.size):
        word = words[i]
        value = np.int64(guide[word >> shift])

        if value < 0:  # thresholds begin with the cell's bits: compare 31 bits of u, and all of them in case of a tie
            value = ~value
            u = word >> np.uint32(1)
            while value < head.size and head[value] < u:
                value += 1
            if value < head.size and head[value] == u:
                if n_spent + 2 > spare.size:
                    return i
                u_mid, u_low = spare[n_spent], spare[n_spent + 1]
                n_spent += 2
                while (
                    value < head.size
                    and head[value] == u
                    and (mid[value] < u_mid or (mid[value] == u_mid and low[value] <= u_low))
                ):
                    value += 1

        sign = -np.int64(word & np.uint32(1))
        out[i] = (value ^ sign) - sign
    return out.size


@njit(inline="always")
def value_in_block(block, word, n_bits, mask, half, width, curvature):  # type: ignore[no-untyped-def]
    """Return the value that a word puts into a block, g, U, and whether the value is allowed."""
    sign = block >> 63
    m = np.abs(block) - 1
    magnitude = (m << n_bits) + ((np.int64(word >> np.uint64(63 - n_bits)) + half) >> 1)
    t = np.float64(np.uint32(word >> np.uint64(32)) & mask) * (width * _UNIT)
    g = t * (2.0 * width * np.float64(m) + t) * curvature
    u = np.float64(np.uint32(word)) * _UNIT
    allowed = magnitude + sign * (1 - half) >= 0
    return (magnitude ^ sign) - sign, g, u, allowed


@njit()
def propose(values, words, n_bits, mask, half, width, curvature):  # type: ignore[no-untyped-def]
    """Replace block numbers by values where 1 - g <= exp(-g) is enough to accept, and mark the others."""
    for i in range(values.size):
        value, g, u, allowed = value_in_block(values[i], words[i], n_bits, mask, half, width, curvature)
        values[i] = value if (u + g <= 1.0 - _MARGIN) & allowed else values[i] - OPEN


@njit()
def settle(values, words, end, start, n_bits, mask, half, width, curvature):  # type: ignore[no-untyped-def]
    """Decide on the marked values in values[start:end], replacing rejected ones by the last; words move along.

    Returns the new end, and where the bounds do not decide, or the end.
    """
    i = start
    while i < end:
        if values[i] > -(OPEN >> 1):
            i += 1
            continue
        value, g, u, allowed = value_in_block(values[i] + OPEN, words[i], n_bits, mask, half, width, curvature)
        upper = 1.0 - g + 0.5 * g * g
        if not allowed or u >= upper + _MARGIN:
            end -= 1
            values[i], words[i] = values[end], words[end]
        elif u <= upper - g * g * g / 6.0 - _MARGIN:
            values[i] = value
        else:
            return end, i
    return end, i


@njit()
def add_steps(values, bounds, granularity, limits, draws, noisy):  # type: ignore[no-untyped-def]
    """Put values on the grid, clip and add noise; return how many lie outside the bounds.

    Parameters
    ----------
    values : ndarray of float64
        No NaN.
    bounds : tuple of two floats
        Outside of which values are counted.
    granularity : float
        The grid's step, a power of two.
    limits : tuple of two floats
        What values are clipped to, in steps.
    draws : ndarray of int64
        The noise in steps.
    noisy : ndarray of float64
        Overwritten by the result; it may share the memory of `draws`.
    """
    n_outside, per_step = 0, 1 / granularity
    for i in range(values.size):
        value = values[i]
        n_outside += (value < bounds[0]) | (value > bounds[1])
        steps = np.minimum(np.maximum(np.rint(value * per_step), limits[0]), limits[1])
        noisy[i] = (steps + draws[i]) * granularity
    return n_outside
