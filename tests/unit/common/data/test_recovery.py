"""Mean, covariance and number of rows come back from a sum of second moments."""

import itertools

import numpy as np
import pytest

from dp_bundle.data.matrix import mean_and_covariance


def _sum(rows: np.ndarray, constant: float) -> np.ndarray:
    v = np.column_stack([rows, np.full(len(rows), constant)]) if constant else rows
    return v.T @ v


def test_exact_sums_give_the_exact_moments() -> None:
    """Without noise, mean and covariance in data units are those of the rows, with and without a public row count."""
    rng = np.random.default_rng(0)
    centers, half_widths = np.array([1.0, 150.0, -3.0]), np.array([2.0, 50.0, 0.1])
    rows = rng.uniform(-1, 1, size=(500, 3)) @ np.array([[1, 0.5, 0], [0, 0.5, 0.2], [0, 0, 0.5]])
    data = centers + half_widths * rows
    for n_rows in (None, 500):
        mean, covariance, found = mean_and_covariance(_sum(rows, 0.75), centers, half_widths, 0.75, n_rows=n_rows)
        assert found == pytest.approx(500)
        np.testing.assert_allclose(mean, data.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(covariance, np.cov(data, rowvar=False, bias=True), rtol=1e-9)


def test_noise_on_the_mean_is_allowed_for() -> None:
    """On average over noise of either sign on the sums of two columns, the covariance is right."""
    rows, ones, sigma = np.random.default_rng(2).uniform(-1, 1, size=(100, 2)), np.ones(2), 8.0
    total = np.zeros((2, 2))
    for signs in itertools.product((-sigma, sigma), repeat=2):
        noisy = _sum(rows, 1.0)
        noisy[:2, 2] += signs
        noisy[2, :2] += signs
        total += mean_and_covariance(noisy, 0 * ones, ones, 1.0, n_rows=100, off_diagonal_variance=sigma**2)[1]
    np.testing.assert_allclose(total / 4, np.cov(rows, rowvar=False, bias=True), rtol=1e-9)
