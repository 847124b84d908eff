"""Standard normal numbers to 74 binary places, from the exact sampler of rounded ones.

A rounded Gaussian of 2^29 steps to its standard deviation says in which cell of width 2^-29 a normal number lies, with
the right probability. Inside the cell around k the density falls off as ``exp(-h^2 (k u + u^2 / 2))``, h = 2^-29,
|u| < 1/2: 45 uniform bits propose a place u, and one is rejected, about once in 2^28 times, by comparing 64 bits with
that ratio. The law deviates from that of normal numbers, rounded to multiples of 2^-74, by a total variation below
2^-62 per value: 2^-63 from the comparison, 2^-69 from the density's change within 2^-45 of a cell, 2^-144 from the
cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_publish.sampling.gaussian import sample_rounded_gaussian
from dp_publish.sampling.keystream import Keystream

_CELL_BITS, _PLACE_BITS = 29, 45
PLACES = _CELL_BITS + _PLACE_BITS + 1  # a number is cell * 2^-29 + inner * 2^-75, inner odd: the middle of its place
HALF_PLACE = 2.0**-PLACES
TOTAL_VARIATION = 2.0**-62


def standard_normals(size: int | tuple[int, ...], rng: Keystream) -> NDArray[np.float64]:
    """Return standard normal numbers, rounded to float64."""
    cell, inner = normal_parts(size, rng)
    return (cell + inner * 2.0 ** -(_PLACE_BITS + 1)) * 2.0**-_CELL_BITS


def normal_parts(size: int | tuple[int, ...], rng: Keystream) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return standard normal numbers as the integers cell and inner of ``cell * 2^-29 + inner * 2^-75``.

    Parameters
    ----------
    size : int or tuple of int
        The shape of both results.
    rng : Keystream
        Where random bits come from.

    Returns
    -------
    cell, inner : ndarray of int64
        The real number is within 2^-75 of what they stand for; |inner| < 2^45.
    """
    cell = sample_rounded_gaussian(2.0**_CELL_BITS, size, rng)
    inner = np.empty_like(cell)
    flat_cell, flat_inner = cell.reshape(-1), inner.reshape(-1)
    open_places = np.arange(flat_cell.size)
    while open_places.size:
        words = np.empty((2, open_places.size), dtype=np.uint64)
        rng.fill(words)
        proposed = ((words[0] >> np.uint64(64 - _PLACE_BITS)) << np.uint64(1)).astype(np.int64) + 1 - (1 << _PLACE_BITS)
        flat_inner[open_places] = proposed
        open_places = open_places[words[1] < _rejection(flat_cell[open_places], proposed)]
    return cell, inner


def _rejection(cell: NDArray[np.int64], inner: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 2^64 times one less the density over its bound in the cell: ``exp(|k| h^2 / 2)`` times that at k."""
    k, u = cell.astype(np.float64), inner * 2.0 ** -(_PLACE_BITS + 1)
    exponent = (k * u + 0.5 * u * u + 0.5 * np.abs(k)) * 4.0**-_CELL_BITS
    return (-np.expm1(-exponent) * 2.0**64).astype(np.uint64)
