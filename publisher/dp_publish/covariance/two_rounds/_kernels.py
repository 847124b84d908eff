"""The passes over rows, compiled: of narrow tables one row at a time, and nothing kept of it but its sums."""

import math

import numpy as np

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.base.machine import njit
from dp_publish.covariance.two_rounds.rows import BLOCK, DIRECTION, INSIDE, LIMB, LOW_LIMB, SHORTER


@njit()
def add_outer_product(total: Floats, row: Floats) -> None:
    """Add the product of a row with itself to a matrix."""
    for j in range(len(row)):
        factor = row[j]
        for k in range(len(row)):
            total[j, k] += factor * row[k]


@njit()
def move_to_limbs(limbs: Integers, numbers: Floats) -> None:
    """Add whole numbers below 2^53 to sums in two limbs, all low ones first, and leave zeros in their place."""
    n = len(numbers)
    for i in range(n):
        number = np.int64(numbers[i])
        limbs[i] += number & LOW_LIMB
        limbs[n + i] += number >> LIMB
        numbers[i] = 0.0


@njit()
def add_rows(
    values: Floats,
    low: Floats,
    high: Floats,
    centers: Floats,
    half_widths: Floats,
    transform: Floats,
    row_step: float,
    limits: Floats,
    products: Integers,
    counts: Integers,
    fourths: Integers,
) -> None:
    """Add the integers of rows to sums, as `rows.cut_to_integers` and `sums` have them.

    Parameters
    ----------
    values, low, high, centers, half_widths, transform, row_step
        Rows in data units, shape (n, p), and their `Frame`; the transform has shape (0, 0) where there is none.
    limits : ndarray of float64, shape (m,)
        Of the squared length of a row inside every radius, in its integers.
    products : ndarray of int64, shape (2, 2, m + 1, p + 1, p + 1)
        In two limbs; overwritten, like the others.
    counts : ndarray of int64, shape (m + 1,)
        The number of rows.
    fourths : ndarray of int64, shape (2, m + 1)
        The sum of their lengths to the fourth, in two limbs.
    """
    n, p = values.shape
    m = len(limits)
    factors, steps = np.empty(p), 1 / row_step
    for j in range(p):
        factors[j] = 1 / half_widths[j]
    block, lengths = np.zeros((2, m + 1, p + 1, p + 1)), np.zeros(m + 1)
    standard, row = np.empty(p), np.empty(p)
    inside, outside = np.ones(p + 1), np.ones(p + 1)
    for i in range(n):
        # the row in the units of the round
        for j in range(p):
            standard[j] = (min(max(values[i, j], low[j]), high[j]) - centers[j]) * factors[j]
        for j in range(p):
            row[j] = 0.0 if len(transform) else standard[j]
        if len(transform):
            for j in range(p):
                factor = np.rint(standard[j] * steps) * row_step
                for k in range(p):
                    row[k] += factor * transform[j, k]

        # its length, and its integers
        square = 0.0
        for j in range(p):
            square += row[j] * row[j]
        norm = math.sqrt(square)
        beyond = norm > SHORTER
        scale = SHORTER * INSIDE / norm if beyond else INSIDE
        square = 0.0
        for j in range(p):
            inside[j] = np.trunc(row[j] * scale)
            square += inside[j] * inside[j]

        # the bin that it falls into
        chosen = m
        if not beyond:
            chosen = 0
            while chosen < m and square > limits[chosen]:
                chosen += 1
        counts[chosen] += 1
        part = np.floor(square / INSIDE)
        lengths[chosen] += part * part

        if chosen < m:
            add_outer_product(block[0, chosen], inside)
        if chosen > 0:
            scale = SHORTER * DIRECTION / norm
            for j in range(p):
                outside[j] = np.trunc(row[j] * scale)
            add_outer_product(block[1, chosen], outside)

        # sums of so many rows are exact
        if i % BLOCK == BLOCK - 1 or i == n - 1:
            move_to_limbs(products.ravel(), block.ravel())
            move_to_limbs(fourths.ravel(), lengths)


@njit()
def find_cells(
    values: Floats,
    edges: Floats,
    center: float,
    factor: float,
    guide: Integers,
    gap: int,
    cells: Integers,
) -> None:
    """Put the number of edges that are at most as large as each value into `cells`, and `gap` for NaN.

    A guide says where about it is: of u = y / (1 + |y|), y = (value - center) * factor, for equal parts of (-1, 1).
    """
    half, last, n = 0.5 * len(guide), len(guide) - 1, len(edges)
    for i in range(len(values)):
        value = values[i]
        if value != value:
            cells[i] = gap
            continue
        y = (value - center) * factor
        u = y / (1.0 + abs(y)) if abs(y) < 1e300 else math.copysign(1.0, y)
        cell = guide[min(max(int((u + 1.0) * half), 0), last)]
        while cell > 0 and edges[cell - 1] > value:
            cell -= 1
        while cell < n and edges[cell] <= value:
            cell += 1
        cells[i] = cell
