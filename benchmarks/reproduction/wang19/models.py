"""The model, the noise and algorithm 1 (DP-Thresholding) as they are printed."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import wishart

from dp_learn.estimators.thresholded_covariance import threshold_covariance
from dp_learn.matrices.repair import repair_covariance
from reproduction.simulation import Floats, symmetric_noise

GAMMA = 0.5  # not stated; twice the largest standard deviation of sqrt(n) S_ij in this model, as lemma 2 needs at least


def sparse_covariance(n_columns: int, share: float, rng: np.random.Generator) -> Floats:
    """Return U = (Z + 50 I) / 200, where a share of the entries of Z, at random, are standard normal."""
    upper = np.triu(rng.normal(size=(n_columns, n_columns)) * (rng.random((n_columns, n_columns)) < share))
    covariance: Floats = (upper + np.triu(upper, 1).T + 50.0 * np.eye(n_columns)) / 200.0
    return covariance


def second_moment(covariance: Floats, n_rows: int, rng: np.random.Generator) -> Floats:
    """Return the mean of x x^T over Gaussian rows, drawn as a Wishart matrix where there are more rows than columns."""
    if n_rows >= len(covariance):
        drawn: Floats = wishart(n_rows, covariance / n_rows).rvs(random_state=rng)
        return drawn
    rows = rng.multivariate_normal(np.zeros(len(covariance)), covariance, size=n_rows, method="cholesky")
    moment: Floats = rows.T @ rows / n_rows
    return moment


def printed_noise(n_columns: int, n_rows: int, epsilon: float, factor: float, rng: np.random.Generator) -> Floats:
    """Return the noise of equation 7 with delta = 1 / n, times a factor."""
    return symmetric_noise(n_columns, factor * math.sqrt(2 * math.log(1.25 * n_rows)) / (n_rows * epsilon), rng)


def dp_thresholding(noisy: Floats, n_rows: int, epsilon: float, factor: float = 1.0) -> Floats:
    """Return algorithm 1's estimate; an infinite epsilon is its form without noise."""
    root = math.sqrt(math.log(len(noisy)))
    noise = factor * 4.0 * math.sqrt(2 * math.log(1.25 * n_rows)) * root / (n_rows * epsilon)
    kept = threshold_covariance(noisy, GAMMA * root / math.sqrt(n_rows) + noise)
    return repair_covariance(kept, "clip").covariance


def relative_error(estimate: Floats, covariance: Floats) -> float:
    """Return the distance over the size, both in the spectral norm."""
    return float(np.linalg.norm(estimate - covariance, 2) / np.linalg.norm(covariance, 2))
