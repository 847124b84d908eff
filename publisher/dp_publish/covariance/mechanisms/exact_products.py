"""Exact sums of products of long integers, and their sum with exact moments: no rounding but the last, to a grid.

Integers are split into limbs of 17 bits. Sums of products of limbs over 2^12 rows stay below 2^46 and are integers that
float64 represents. So a BLAS product of limbs is exact whatever its order of summation. What limbs stand for is added
up in Python integers.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats
from dp_publish.covariance.mechanisms.base import DyadicGrid
from dp_publish.covariance.scaling import GRID_BITS

LIMB = 17
_MOST_ROWS = 1 << 12  # of limbs, in one product


def limbs_of(numbers: NDArray[Any], bits: int) -> list[Floats]:
    """Split integers below 2^bits in size into limbs, the lowest first, the last one with the sign."""
    mask, last = (1 << LIMB) - 1, bits // LIMB
    parts = [(numbers >> (LIMB * index)) & mask for index in range(last)]
    return [part.astype(np.float64) for part in (*parts, numbers >> (LIMB * last))]


def gram_of(limbs: Sequence[Floats], offsets: Sequence[int]) -> NDArray[Any]:
    """Return G^T G for ``G = sum 2^offset limb``, as Python integers.

    Parameters
    ----------
    limbs : sequence of ndarray, shape (n_rows, d)
        Integers of at most 2^17 in size, in at most `_MOST_ROWS` rows.
    offsets : sequence of int
        One for each limb.
    """
    d = limbs[0].shape[1]
    total = np.zeros((d, d), dtype=object)
    for (left, i), (right, j) in combinations_with_replacement(zip(limbs, offsets, strict=True), 2):
        product = (left.T @ right).astype(np.int64).astype(object) << (i + j)
        total += product if left is right else product + product.T
    return total


def gram_in_parts(m: int, d: int, draw: Callable[[int], tuple[Sequence[Floats], Sequence[int]]]) -> NDArray[Any]:
    """Return G^T G for m rows in d columns, of which `draw` returns the limbs of so many, and their offsets."""
    parts = (gram_of(*draw(min(_MOST_ROWS, m - start))) for start in range(0, m, _MOST_ROWS))
    return sum(parts, start=np.zeros((d, d), dtype=object))


def add_and_round(steps: NDArray[Any], noise: NDArray[Any], places: int, scale: float, grid: DyadicGrid) -> Floats:
    """Return the sum, in units of 2^-40, plus `scale` times the noise, in units of 2^-places, on the grid."""
    factor = Fraction(scale)  # its denominator is a power of two, as a float's is
    places += factor.denominator.bit_length() - 1
    shift = grid.exponent - 2 * GRID_BITS + places
    total = (steps << (places - 2 * GRID_BITS)) + noise * factor.numerator
    return grid.floats((total + (1 << (shift - 1))) >> shift)
