"""The frame of the second round, from what the first released: recentred, rescaled, and partly whitened.

Noise of the second round is isotropic in the frame y = B D^-1 (z - m), with m the mean, D^2 the variances and R the
correlations that the first round shows, and B = R^(-g/2). A radius takes tr(B R B) = tr R^(1 - g), and the noise comes
back through the inverse of B. On the entries of the covariance g = 1/2 is best; g = 3/4 costs next to nothing there,
and helps its inverse, from which partial correlations are made.

R is noisy and may be indefinite. In its place is a correlation matrix near it, without eigenvalues below half of what
noise alone makes of zero ones, sigma sqrt(p).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_publish.covariance.two_rounds.rows import round_transform

_POWER = 0.75  # g
_LEAST_VARIANCE = 0.15  # of a standardised column
_ROUNDS = 20
_CLOSE = 1e-9
_FLOOR = 0.5  # of eigenvalues, in what noise alone makes of zero ones
_LARGEST_CONDITION = 1e6  # of R


def whiten(covariance: NDArray[np.float64], noise: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the second round's transform, the deviations of the columns, and how long a typical row is in its frame.

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        What the first round shows, in its own units; symmetric.
    noise : float
        The standard deviation of the noise on an entry off the diagonal.

    Returns
    -------
    transform : ndarray, shape (p, p)
        B, symmetric and positive definite, rounded so that rows can be multiplied exactly.
    deviations : ndarray, shape (p,)
        D, positive.
    length : float
        The root of tr(B R B).
    """
    p = len(covariance)
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), _LEAST_VARIANCE))
    floor = _FLOOR * noise * math.sqrt(p) / float(np.median(deviations)) ** 2
    values, vectors = _nearby_correlation(covariance / np.outer(deviations, deviations), floor)
    transform = (vectors * values ** (-_POWER / 2)) @ vectors.T
    length = math.sqrt(float((values ** (1 - _POWER)).sum()))
    return round_transform(0.5 * (transform + transform.T)), deviations, length


def _nearby_correlation(
    correlation: NDArray[np.float64], floor: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues and vectors of a correlation matrix without eigenvalues below the floor, or nearly so."""
    floor = min(max(floor, len(correlation) / _LARGEST_CONDITION), 0.5)
    for _ in range(_ROUNDS):
        values, vectors = np.linalg.eigh(correlation)
        values = np.maximum(values, floor)
        raised = (vectors * values) @ vectors.T
        roots = np.sqrt(np.diagonal(raised))
        before, correlation = correlation, raised / np.outer(roots, roots)
        if np.abs(correlation - before).max() < _CLOSE:
            break
    values, vectors = np.linalg.eigh(correlation)
    return np.maximum(values, 0.5 * floor), vectors
