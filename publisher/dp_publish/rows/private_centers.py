"""The columns' means, found privately, for rows with gaps to stand at.

A row without a value in a column of `missing = "center"` is published, whole, as if it stood at the mean of all others,
so that its gap links no columns and dilutes no link. If gaps are like other rows (missing completely at random,
together or not), the published rows then have q times the covariance of the complete ones, q being the share of these,
and the same partial correlations. A fill that is off by e adds q (1 - q) e e^T, which the noise on the means makes of
order 1 / n^2.

**Sensitivity.** A complete row adds (z, 1) to the sum, z_j in [-1, 1] being its place in column j's bounds, and a row
with a gap adds 0. Replacing a complete row by another moves the sum by at most 2 sqrt(p), by one with a gap at most by
sqrt(p + 1), which is less. An entity's m rows move it m times as much. Places are multiples of 2^-20, or of a coarser
power of two where the noise is too wide to be drawn in such steps, so that sums are exact, and rounded Gaussian noise
of standard deviation s makes the search mu-GDP with mu = sensitivity / s.

References
----------
Dong, Roth & Su (2022), theorem 2.7 and corollary 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_bundle.base.errors import PrivacyError
from dp_bundle.data.row_reader import to_numpy
from dp_bundle.manifest.columns import Column
from dp_bundle.privacy.noise import MAX_SIGMA, MIN_SIGMA
from dp_publish.data.missing import RowReport, drop_missing, fill_missing, find_gaps
from dp_publish.sampling.gaussian import sample_rounded_gaussian
from dp_publish.sampling.keystream import Keystream

_MOST_BITS = 20  # at most 2^20 steps of the grid to half a width, and to one row


def centers_sigma(n_columns: int, mu: float, max_rows: int = 1) -> float:
    """Return the noise's standard deviation, in half-widths, at which the search for all means is mu-GDP for a row.

    Parameters
    ----------
    n_columns : int
        How many columns are published.
    mu : float
        What the search may cost.
    max_rows : int
        How many rows the unit of privacy has at most.

    Raises
    ------
    PrivacyError
        Noise of that width cannot be drawn.
    """
    sigma = _sensitivity(n_columns, max_rows) / mu
    if not MIN_SIGMA * 2.0**-_MOST_BITS <= sigma <= 0.5 * MAX_SIGMA:
        raise PrivacyError(
            "this strength is too extreme for the means of columns to be found privately: choose another one, or give "
            'missing = "drop"'
        )
    return sigma


def centers_mu(n_columns: int, sigma: float, max_rows: int = 1) -> float:
    """Return the mu of the search; the inverse of `centers_sigma`."""
    return _sensitivity(n_columns, max_rows) / sigma


def steps_for(sigma: float) -> int:
    """Return how many steps of the grid half a width has, and one row, for noise of that many half-widths."""
    return 1 << min(_MOST_BITS, math.frexp(MAX_SIGMA / sigma)[1] - 1)


def sum_complete_rows(batches: Iterable[pa.RecordBatch], columns: Sequence[Column], steps: int) -> NDArray[np.int64]:
    """Return the sum of (z, 1) over the rows that will not stand at the center, in so many steps to one; it is private.

    Returns
    -------
    ndarray of int64, shape (n_columns + 1,)
    """
    total = np.zeros(len(columns) + 1, dtype=np.int64)
    for batch in batches:
        kept = drop_missing(batch, columns)
        gaps = find_gaps(kept, columns)
        complete = kept if gaps is None else kept.filter(~gaps)
        total[-1] += complete.num_rows * steps
        for index, column in enumerate(columns):
            values = to_numpy(fill_missing(complete.column(index), column, RowReport())).astype(float)
            total[index] += int(_places(values, column, steps).sum())
    return total


def find_centers(
    total: NDArray[np.int64], columns: Sequence[Column], sigma: float, keystream: Keystream
) -> dict[str, float]:
    """Return every column's mean from the exact sums plus noise, within its bounds.

    Parameters
    ----------
    total : ndarray of int64, shape (n_columns + 1,)
        As `sum_complete_rows` gives it, with the steps of `steps_for`.
    columns : sequence of Column
        Their bounds.
    sigma : float
        The noise's standard deviation, in half-widths.
    keystream : Keystream
        Where the noise comes from.
    """
    steps = steps_for(sigma)
    noisy = (total + sample_rounded_gaussian(sigma * steps, len(total), keystream)) / steps
    places = np.clip(noisy[:-1] / max(noisy[-1], 1.0), -1.0, 1.0)
    return {
        column.name: float(np.clip(middle + place * half, *limits))
        for column, place in zip(columns, places.tolist(), strict=True)
        for limits, middle, half in [_limits(column)]
    }


def _sensitivity(n_columns: int, max_rows: int) -> float:
    return max_rows * 2 * math.sqrt(n_columns)


def _places(values: NDArray[np.float64], column: Column, steps: int) -> NDArray[np.int64]:
    (low, high), middle, half = _limits(column)
    scaled = (np.clip(values, low, high) - middle) / half
    return np.rint(np.clip(scaled, -1.0, 1.0) * steps).astype(np.int64)


def _limits(column: Column) -> tuple[tuple[float, float], float, float]:
    low, high = column.bounds or (-1.0, 1.0)
    return (low, high), 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
