"""Noisy rows of a chain of columns, and what the tests of the rules make of them."""

from typing import Any

import numpy as np

from dp_learn.covariance.sample import Split
from dp_learn.pipeline.selection import solve_path

P = 8
PRECISION = np.eye(P) + np.diag(np.full(P - 1, 0.45), 1) + np.diag(np.full(P - 1, 0.45), -1)


def noisy_rows(n_rows: int, sigma: float, seed: int = 6) -> np.ndarray:
    """Return rows of a chain with noise."""
    rng = np.random.default_rng(seed)
    rows = rng.multivariate_normal(np.zeros(P), np.linalg.inv(PRECISION), size=n_rows)
    return rows + sigma * rng.normal(size=rows.shape)


def debias(rows: np.ndarray, sigma: float) -> np.ndarray:
    """Return the debiased covariance of rows."""
    return np.cov(rows.T) - sigma**2 * np.eye(P)


def split_rows(rows: np.ndarray, sigma: float, n_folds: int = 5) -> list[Split]:
    """Return the folds of rows, debiased."""
    fold = np.arange(len(rows)) % n_folds
    return [Split(debias(rows[fold != k], sigma), debias(rows[fold == k], sigma)) for k in range(n_folds)]


def count_edges(precision: np.ndarray) -> int:
    """Return the number of edges."""
    return int(np.count_nonzero(np.triu(precision, 1)))


def path_of(matrix: np.ndarray, alphas: np.ndarray, **options: Any) -> list[np.ndarray]:
    """Return the precision matrices along a path as exact as the rules want it."""
    return [solution.precision for _, solution in solve_path(matrix, alphas, **options) if solution is not None]
