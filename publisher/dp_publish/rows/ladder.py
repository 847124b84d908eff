"""A geometric ladder of sigmas, so that a wide table's columns share the tables that their noise is drawn from.

An exact sampler tabulates the noise's probabilities, once for every ratio of sigma to the grid's step. A step is a
power of two, so that the mantissa of sigma decides. Columns with different bounds have different sigmas; where there
are more columns than rungs to an octave, each sigma is rounded up to the next rung, and there are no more mantissas
than rungs. Whatever is drawn, published and charged is the sigma on the rung: a guarantee becomes stronger by it, never
weaker, and a column's mu smaller by at most the distance of two rungs, 0.54 % (a sum of many by half of that).
"""

from __future__ import annotations

import math
from bisect import bisect_left

N_RUNGS = 128  # to an octave
_MANTISSAS = [2.0 ** (rung / N_RUNGS - 1) for rung in range(N_RUNGS + 1)]  # from 0.5 to 1, as `math.frexp` has them


def rung_above(sigma: float) -> float:
    """Return the lowest rung that is not below sigma."""
    mantissa, exponent = math.frexp(sigma)
    return math.ldexp(_MANTISSAS[bisect_left(_MANTISSAS, mantissa)], exponent)
