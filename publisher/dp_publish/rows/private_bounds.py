"""Bounds found privately: a noisy histogram over powers of two per column.

A column's values are counted in bins between consecutive powers of two, of either sign, with one bin around zero. Every
count gets independent Gaussian noise, rounded to a grid, and the bounds are the outer edges of the outermost bins whose
noisy count stands out. Only the noisy counts are looked at, so that the bounds cost what the counts cost.

**Sensitivity.** Replacing one value moves one count down and another up by one: sqrt(2) in the Euclidean norm. A row
moves that in each of p columns: sqrt(2 p). An entity's m rows may all move between the same two bins: m times as much.
With noise of standard deviation s the search is mu-GDP with mu = sensitivity / s, and all continuous releases compose.

**What stands out.** Of k empty bins in all, none exceeds s * Phi^-1(1 - 0.01/k) with probability 99 %. A column none of
whose bins stands out gets the bin with the largest noisy count. From there the bounds grow outwards while the next
bin's noisy count exceeds s: a bin too many doubles the noise, a bin too few clips what it holds.

References
----------
Dong, Roth & Su (2022), theorem 2.7 and corollary 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special

from dp_bundle.data import to_numpy
from dp_bundle.errors import PrivacyError
from dp_bundle.privacy import MAX_SIGMA, MIN_SIGMA
from dp_publish.rows.noise import Bounds
from dp_publish.sampling import Keystream, sample_rounded_gaussian

_LOWEST, _HIGHEST = -40, 52  # exponents: smaller values count as zero, larger ones as 2^52
_N_MAGNITUDES = _HIGHEST - _LOWEST
_N_BINS = 2 * _N_MAGNITUDES + 1
_STEPS = 1024.0  # of the grid, to one count
_FALSE_ALARM = 0.01


def histogram_sigma(unit: str, n_columns: int, mu: float, max_rows: int = 1) -> float:
    """Return the noise's standard deviation, in counts, at which the search for all columns' bounds is mu-GDP.

    Parameters
    ----------
    unit : {"cell", "row", "entity"}
        What neighbouring tables differ in.
    n_columns : int
        How many columns are searched.
    mu : float
        What the search may cost.
    max_rows : int
        How many rows an entity has at most.

    Raises
    ------
    PrivacyError
        Noise of that width cannot be drawn.
    """
    sigma = _sensitivity(unit, n_columns, max_rows) / mu
    if not MIN_SIGMA <= sigma * _STEPS <= 0.5 * MAX_SIGMA:
        raise PrivacyError(
            "this strength is too extreme for bounds to be found privately: choose another one, or declare bounds in "
            "the policy"
        )
    return sigma


def histogram_mu(unit: str, n_columns: int, sigma: float, max_rows: int = 1) -> float:
    """Return the mu of the search for another unit of privacy; the inverse of `histogram_sigma`."""
    return _sensitivity(unit, n_columns, max_rows) / sigma


def count_magnitudes(batches: Iterable[pa.RecordBatch], n_columns: int) -> NDArray[np.int64]:
    """Return the exact counts of every column's values by bin, which are private; missing values are not counted.

    Returns
    -------
    ndarray of int64, shape (n_columns, n_bins)
    """
    counts = np.zeros((n_columns, _N_BINS), dtype=np.int64)
    for batch in batches:
        for index in range(n_columns):
            counts[index] += np.bincount(_bins(batch.column(index)), minlength=_N_BINS)
    return counts


def find_bounds(counts: NDArray[np.int64], kinds: Iterable[str], sigma: float, keystream: Keystream) -> list[Bounds]:
    """Return bounds for every column from its counts plus noise.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_columns, n_bins)
        As `count_magnitudes` gives them.
    kinds : iterable of {"continuous", "integer"}
        The columns' kinds; integer columns get integer bounds.
    sigma : float
        The noise's standard deviation, in counts.
    keystream : Keystream
        Where the noise comes from.
    """
    noise = sample_rounded_gaussian(sigma * _STEPS, counts.shape, keystream)
    noisy = counts + noise / _STEPS
    threshold = sigma * float(special.ndtri(1 - _FALSE_ALARM / counts.size))
    return [_bounds_of(row, threshold, sigma, kind) for row, kind in zip(noisy, kinds, strict=True)]


def _sensitivity(unit: str, n_columns: int, max_rows: int) -> float:
    return max_rows * math.sqrt(2 * (1 if unit == "cell" else n_columns))


def _bounds_of(noisy: NDArray[np.float64], threshold: float, faint: float, kind: str) -> Bounds:
    found = np.flatnonzero(noisy > threshold)
    first, last = (int(found[0]), int(found[-1])) if found.size else (int(np.argmax(noisy)),) * 2
    while first > 0 and noisy[first - 1] > faint:
        first -= 1
    while last < _N_BINS - 1 and noisy[last + 1] > faint:
        last += 1
    low, high = _edges(first)[0], _edges(last)[1]
    if kind == "continuous":
        around_zero = 2.0**_LOWEST
        low = 0.0 if low == -around_zero and high > around_zero else low
        return low, 0.0 if high == around_zero and low < -around_zero else high
    low, high = float(math.trunc(low)), float(math.trunc(high))  # of the bin around zero, zero alone is an integer
    return low, max(high, low + 1)


def _bins(column: pa.Array) -> NDArray[np.int64]:
    """Return each value's bin: negative magnitudes from the largest on, zero, positive magnitudes upwards."""
    values = to_numpy(column.drop_null()).astype(float)
    values = values[~np.isnan(values)]
    exponents = np.where(np.isinf(values), _HIGHEST, np.frexp(values)[1])
    magnitude = np.clip(exponents - _LOWEST, 0, _N_MAGNITUDES)
    magnitude[values == 0] = 0
    bins: NDArray[np.int64] = _N_MAGNITUDES + np.where(values < 0, -magnitude, magnitude).astype(np.int64)
    return bins


def _edges(index: int) -> Bounds:
    """Return a bin's edges: values of magnitude m have 2^(LOWEST + m - 1) <= |x| < 2^(LOWEST + m)."""
    magnitude = index - _N_MAGNITUDES
    if magnitude == 0:
        return -(2.0**_LOWEST), 2.0**_LOWEST
    inner, outer = 2.0 ** (_LOWEST + abs(magnitude) - 1), 2.0 ** (_LOWEST + abs(magnitude))
    return (inner, outer) if magnitude > 0 else (-outer, -inner)
