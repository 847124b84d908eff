"""Real numbers as integers: so many binary places, of which the caller says how many, and no floating point.

Matrices are arrays of Python integers, whose products numpy sums up exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_publish.sampling.keystream import Keystream


def uniform_bits(n_bits: int, rng: Keystream) -> int:
    """Return a uniform integer of so many bits."""
    words = np.empty(-(-n_bits // 64), dtype=np.uint64)
    rng.fill(words)
    return int.from_bytes(words.tobytes(), "little") >> (64 * words.size - n_bits)


def exp_minus(value: int, places: int) -> int:
    """Return exp(-value), argument and result in units of 2^-places, the result within 2 units.

    The argument is halved h times, and the sum of the series squared as often. Cutting leaves an error of at most 2 n
    + 4 working units after the n terms, and each squaring of a number up to 1 doubles it and adds 2.
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


def integers(values: NDArray[np.float64], places: int) -> NDArray[Any]:
    """Return float64 numbers, rounded to units of 2^-places, as Python integers."""
    parts = (value.as_integer_ratio() for value in values.ravel().tolist())
    rounded = [((top << (places + 1)) + bottom) // (2 * bottom) for top, bottom in parts]
    return np.array(rounded, dtype=object).reshape(values.shape)
