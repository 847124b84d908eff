"""The pass over the values of a column, compiled."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.kernels import njit


@njit(nogil=True)
def tally(counts: NDArray[np.int64], places: NDArray[np.float64]) -> None:
    """Count places in cells, those below the first in it, those beyond the last in that, and missing ones nowhere."""
    last = len(counts) - 1
    for place in places:
        if not math.isnan(place):
            counts[int(min(max(place, 0.0), last))] += 1
