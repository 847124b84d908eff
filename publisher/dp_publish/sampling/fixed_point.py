"""Real numbers as integers: so many binary places, of which the caller says how many, and no floating point.

Matrices are arrays of Python integers, whose products numpy sums up exactly.

**Standard normal numbers** to any number of binary places are drawn so. The absolute value of a normal number is j + x,
with j a whole number and x in [0, 1). A table proposes j with probability proportional to ``exp(-j^2 / 2)``, and
uniform bits propose x. The two are accepted with probability ``exp(-x (2 j + x) / 2)``: about 1.4 proposals a number.

Take normal numbers, each known by its cell of width 2^-P. With P places, the law deviates from theirs by a total
variation below 2^(16 - P). Before normalising, an entry of the table is off by at most 3 units of 2^-P, all that are
missing by one, and the comparison with uniform bits by 3. The density in a cell's middle differs from its mean by less
than one. The J entries and one comparison are at most 3 J + 8 units, and normalising multiplies them by 2 / 0.71 at
most. J stays below 1000 up to P = 500,000.

References
----------
Karney (2016), Sampling exactly from the normal distribution, ACM Trans. Math. Softw. 42, for proposals of this form.
"""

import math
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats
from dp_publish.sampling.keystream import Keystream, uniform_integers

_AT_ONCE = 1 << 12  # proposals
_CLOSE = 2.0**-24  # far more than floating point is off


def exp_minus(value: int, places: int) -> int:
    """Return exp(-value), argument and result in units of 2^-places, the result within 2 units.

    The argument is halved h times, and the sum of the series squared as often. Cutting leaves an error of at most 2 n +
    4 working units after the n terms. Each squaring of a number up to 1 doubles it and adds 2.
    """
    whole = value >> places
    if whole > places:
        return 0
    halvings = math.isqrt(places) + whole.bit_length()
    work = places + halvings + 2 * places.bit_length() + 8
    small = (value << (work - places)) >> halvings
    term = total = 1 << work
    n = 0
    while term:
        n += 1
        term = ((term * small) >> work) // n
        total += -term if n & 1 else term
    for _ in range(halvings):
        total = (total * total) >> work
    return total >> (work - places)


def power_of_root(value: int, exponent: int, places: int) -> int:
    """Return value^(exponent / 2) of a value in [0, 1], in units of 2^-places, within 2 `exponent` units."""
    result = math.isqrt(value << places) if exponent & 1 else 1 << places
    square, left = value, exponent >> 1
    while left:
        if left & 1:
            result = (result * square) >> places
        square = (square * square) >> places
        left >>= 1
    return result


def integers(values: Floats, places: int) -> NDArray[Any]:
    """Return float64 numbers, rounded to units of 2^-places, as Python integers."""
    parts = (value.as_integer_ratio() for value in values.ravel().tolist())
    rounded = [((top << (places + 1)) + bottom) // (2 * bottom) for top, bottom in parts]
    return np.array(rounded, dtype=object).reshape(values.shape)


def precise_normals(n: int, places: int, rng: Keystream) -> list[int]:
    """Return n standard normal numbers, as odd multiples of 2^-(places + 1): the middles of their cells."""
    sums, mask = _table(places), (1 << places) - 1
    found: list[int] = []
    while len(found) < n:
        for bits in uniform_integers(min(n - len(found), _AT_ONCE), 3 * places + 1, rng):
            at, x, threshold = bits >> 1 & mask, bits >> places + 1 & mask, bits >> 2 * places + 1
            j = bisect_right(sums, at * sums[-1] >> places)
            middle = 2 * x + 1  # of 2^-(places + 1)
            exponent = (middle * (4 * (j << places) + middle)) >> (places + 3)
            if _is_below_exp_minus(threshold, exponent, places):
                value = (2 * j << places) + middle
                found.append(-value if bits & 1 else value)
    return found


def _is_below_exp_minus(value: int, exponent: int, places: int) -> bool:
    """Return whether value < exp_minus(exponent, places), which floating point decides unless it is close."""
    nearly, density = value / (1 << places), math.exp(-exponent / (1 << places))
    if abs(nearly - density) > _CLOSE + math.ldexp(4.0, -places):
        return nearly < density
    return value < exp_minus(exponent, places)


@lru_cache(32)
def _table(places: int) -> list[int]:
    """Return the cumulative sums of exp(-j^2 / 2)."""
    weights: list[int] = []
    while not weights or weights[-1]:
        weights.append(exp_minus((len(weights) ** 2) << (places - 1), places))
    return list(accumulate(weights[:-1]))
