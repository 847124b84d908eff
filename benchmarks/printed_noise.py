"""What both papers' experiments need: sums of products, the noise as it is printed, and means with their errors."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_publish.accounting import GaussianDP
from dp_publish.covariance import ExactMoments, moments_of_batch, scaling_for
from dp_publish.sampling import Keystream
from printed_forms import OneVariance, release

Floats = NDArray[np.float64]


def moments_of(rows: Floats) -> ExactMoments:
    """Return exact sums of products of rows in the unit ball."""
    return moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * rows.shape[1], radius=1.0, with_mean=False))


def release_as_printed(
    moments: ExactMoments, sensitivity: float, epsilon: float, delta: float, stream: Keystream
) -> Floats:
    """Return the sum with one variance for all entries, sigma = sensitivity sqrt(2 ln(1.25 / delta)) / epsilon."""
    mu = math.sqrt(2) / sensitivity * epsilon / math.sqrt(2 * math.log(1.25 / delta))
    return release(OneVariance, moments, GaussianDP(mu), rng=stream).matrix


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))
