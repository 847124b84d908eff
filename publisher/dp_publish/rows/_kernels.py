"""Compiled loops of the row mechanism."""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import njit


@njit(nogil=True)
def add_steps(values, bounds, granularity, limits, draws, noisy):  # type: ignore[no-untyped-def]
    """Put values on the grid, clip and add noise; return how many lie outside the bounds.

    Parameters
    ----------
    values : ndarray of float64
        No NaN.
    bounds : tuple of two floats
        Outside of which values are counted.
    granularity : float
        The grid's step, a power of two.
    limits : tuple of two floats
        What values are clipped to, in steps.
    draws : ndarray of int64
        The noise in steps.
    noisy : ndarray of float64
        Overwritten by the result; it may share the memory of `draws`.
    """
    n_outside, per_step = 0, 1 / granularity
    for i in range(values.size):
        value = values[i]
        n_outside += (value < bounds[0]) | (value > bounds[1])
        steps = np.minimum(np.maximum(np.rint(value * per_step), limits[0]), limits[1])
        noisy[i] = (steps + draws[i]) * granularity
    return n_outside
