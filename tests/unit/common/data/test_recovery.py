"""Mean, covariance and number of rows come back from a sum of second moments."""

import numpy as np
import pytest

from dp_bundle.data.recovery import mean_and_covariance


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
    """Over 20,000 draws of noise the covariance is right on average, and would not be without its variance."""
    rows = np.random.default_rng(2).uniform(-1, 1, size=(100, 2))
    exact, ones, rng, sigma = _sum(rows, 1.0), np.ones(2), np.random.default_rng(3), 8.0
    truth = np.cov(rows, rowvar=False, bias=True)
    totals = {0.0: np.zeros((2, 2)), sigma**2: np.zeros((2, 2))}
    n = 20_000
    for _ in range(n):
        noise = np.triu(rng.normal(scale=sigma, size=(3, 3)), 1)
        noisy = exact + noise + noise.T
        for variance, total in totals.items():
            total += mean_and_covariance(noisy, 0 * ones, ones, 1.0, n_rows=100, off_diagonal_variance=variance)[1]
    error = np.sqrt(2) * (sigma / 100) ** 2 / np.sqrt(n) + 2 * 0.1 * sigma / 100 / np.sqrt(n)
    assert np.abs(np.diag(totals[sigma**2] / n - truth)).max() < 5 * error
    assert np.abs(np.diag(totals[0.0] / n - truth)).min() > 5 * error
