"""Standard normal numbers to any number of binary places.

The absolute value of a normal number is j + x, with j a whole number and x in [0, 1). A table proposes j with
probability proportional to ``exp(-j^2 / 2)``, uniform bits propose x, and the two are accepted with probability
``exp(-x (2 j + x) / 2)``: about 1.4 proposals a number.

With P places, the law deviates from that of normal numbers, each known by its cell of width 2^-P, by a total variation
below 2^(16 - P). Before normalising, an entry of the table is off by at most 3 units of 2^-P, all that are missing by
one, the comparison with uniform bits by 3, and the density in a cell's middle differs from its mean by less than one.
The J entries and one comparison are at most 3 J + 8 units, normalising multiplies them by 2 / 0.71 at most, and J
stays below 1000 up to P = 500,000.

References
----------
Karney (2016), Sampling exactly from the normal distribution, ACM Trans. Math. Softw. 42, for proposals of this form.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from dp_publish.sampling.fixed_point import exp_minus, uniform_bits
from dp_publish.sampling.keystream import Keystream


def precise_normals(n: int, places: int, rng: Keystream) -> list[int]:
    """Return n standard normal numbers, as odd multiples of 2^-(places + 1): the middles of their cells."""
    sums = _table(places)
    found: list[int] = []
    while len(found) < n:
        bits = uniform_bits(3 * places + 1, rng)
        sign, bits = bits & 1, bits >> 1
        at, bits = bits % (1 << places), bits >> places
        x, threshold = bits % (1 << places), bits >> places
        j = bisect_right(sums, at * sums[-1] >> places)
        middle = 2 * x + 1  # of 2^-(places + 1)
        exponent = (middle * (4 * (j << places) + middle)) >> (places + 3)
        if threshold < exp_minus(exponent, places):
            value = (2 * j << places) + middle
            found.append(-value if sign else value)
    return found


@lru_cache(32)
def _table(places: int) -> list[int]:
    """Return the cumulative sums of exp(-j^2 / 2)."""
    weights: list[int] = []
    while not weights or weights[-1]:
        weights.append(exp_minus((len(weights) ** 2) << (places - 1), places))
    return list(accumulate(weights[:-1]))
