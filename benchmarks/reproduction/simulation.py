"""Models that the papers draw rows from, and the noise that they add."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_publish.sampling.gaussian import sample_discrete_gaussian
from dp_publish.sampling.keystream import insecure_keystream

Floats = NDArray[np.float64]


def chain_precision(n_columns: int) -> Floats:
    """Return the precision matrix with 1 on the diagonal and 0.5 beside it (Guo et al., section 5.2)."""
    return np.eye(n_columns) + 0.5 * (np.eye(n_columns, k=1) + np.eye(n_columns, k=-1))


def random_precision(n_columns: int, sparsity: float, rng: np.random.Generator, of: str = "entries") -> Floats:
    """Return entries of 0.1 at random pairs, and their sums on the diagonal (Guo et al., section 5.2).

    `sparsity` is the share of zeros among all entries, the diagonal included, as the paper's text has it, or among the
    pairs. A column without a link would have a zero on the diagonal: all pairs are drawn again then.
    """
    share = 1.0 - sparsity if of == "pairs" else ((1.0 - sparsity) * n_columns - 1.0) / (n_columns - 1.0)
    while True:
        upper = np.triu(rng.random((n_columns, n_columns)) < share, 1)
        off_diagonal = np.where(upper | upper.T, 0.1, 0.0)
        sums = off_diagonal.sum(axis=1)
        if sums.all():
            return off_diagonal + np.diag(sums)


def gaussian_rows(n_rows: int, precision: Floats, rng: np.random.Generator) -> Floats:
    """Return independent Gaussian rows of mean zero with a precision matrix."""
    mixing = np.linalg.cholesky(np.linalg.inv(precision))
    rows: Floats = rng.standard_normal((n_rows, len(precision))) @ mixing.T
    return rows


def into_the_ball(rows: Floats) -> Floats:
    """Return rows, divided by the largest of their norms."""
    divided: Floats = rows / np.linalg.norm(rows, axis=1).max()
    return divided


def noise_deviation(rows: Floats, snr_db: str) -> float:
    """Return the standard deviation of the noise: that of all entries of the table, by the ratio in decibels.

    One sigma for all columns is the reading that gives the epsilon printed by Guo et al.; "none" is no noise.
    """
    return 0.0 if snr_db == "none" else float(rows.std()) * 10.0 ** (-float(snr_db) / 20.0)


def add_gaussian_noise(rows: Floats, sigma: float, rng: np.random.Generator) -> Floats:
    """Return the rows with independent Gaussian noise on every entry.

    numpy draws it: what is measured here is the estimate, and 10,000 x 1000 exact values would take most of the time.
    """
    noisy: Floats = rows + sigma * rng.standard_normal(rows.shape) if sigma else rows
    return noisy


def add_discrete_noise(rows: Floats, sigma: float, seed: int) -> Floats:
    """Return whole numbers with discrete Gaussian noise, drawn by the publisher's own sampler."""
    if not sigma:
        return rows
    noise = sample_discrete_gaussian(sigma, rows.shape, insecure_keystream(seed))
    noisy: Floats = rows + noise
    return noisy


def symmetric_noise(n_columns: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Return a symmetric matrix whose entries have the same variance."""
    upper = np.triu(rng.normal(scale=sigma, size=(n_columns, n_columns)))
    noise: Floats = upper + np.triu(upper, 1).T
    return noise
