"""Cross-validation on the debiased held-out likelihood."""

from __future__ import annotations

import numpy as np
import pytest

from dp_bundle.errors import EstimationError
from dp_learn import debias_covariance, graphical_lasso
from dp_learn.moments import batch_moments, merge_moments
from dp_learn.selection import alpha_grid, cross_validate


def _noisy_rows(n_rows: int, sigma: float, seed: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = 8
    precision = np.eye(p) + np.diag(np.full(p - 1, 0.45), 1) + np.diag(np.full(p - 1, 0.45), -1)
    rows = rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision), size=n_rows)
    return rows + sigma * rng.normal(size=rows.shape), precision


def test_grid_begins_where_the_graph_is_empty() -> None:
    """At the largest alpha of the grid there is no edge, a little below it there is one."""
    rows, _ = _noisy_rows(500, 0.0)
    correlation = np.corrcoef(rows.T)
    grid = alpha_grid(correlation)

    assert np.all(np.diff(grid) < 0)
    assert np.count_nonzero(np.triu(graphical_lasso(correlation, grid[0]).precision, 1)) == 0
    assert np.count_nonzero(np.triu(graphical_lasso(correlation, 0.99 * grid[0]).precision, 1)) >= 1


def test_no_correlation_at_all_is_named() -> None:
    """A diagonal matrix has no path, and says so."""
    with pytest.raises(EstimationError, match="no two columns"):
        alpha_grid(np.eye(3))


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_score_is_the_debiased_likelihood_of_the_held_out_rows(sigma: float) -> None:
    """Each score equals a computation from scratch, fold by fold, and the best alpha is chosen."""
    rows, _ = _noisy_rows(600, sigma)
    parts = np.array_split(rows, 5)
    variance = np.full(8, sigma**2)
    alphas = np.array([0.3, 0.15, 0.05])
    selection = cross_validate(
        [batch_moments(part) for part in parts], lambda matrix: debias_covariance(matrix, variance), alphas
    )
    expected = np.zeros(3)
    for fold, part in enumerate(parts):
        others = np.concatenate([other for index, other in enumerate(parts) if index != fold])
        train, test = np.cov(others.T) - np.diag(variance), np.cov(part.T) - np.diag(variance)
        for index, alpha in enumerate(alphas):
            theta = graphical_lasso(train, alpha, tol=1e-10).precision
            expected[index] += (np.linalg.slogdet(theta)[1] - np.trace(test @ theta)) / 5

    np.testing.assert_allclose(selection.scores, expected, atol=5e-3)
    assert selection.alpha == alphas[np.argmax(expected)]


def test_alphas_without_a_solution_are_passed_over() -> None:
    """Where a fold has no solution the score is missing, and the choice falls on an alpha that has one."""
    rows, _ = _noisy_rows(60, 1.5)
    folds = [batch_moments(part) for part in np.array_split(rows, 5)]
    selection = cross_validate(
        folds, lambda matrix: debias_covariance(matrix, np.full(8, 2.25)), np.geomspace(3.0, 0.01, 12)
    )

    assert np.isnan(selection.scores[-1])
    assert np.isfinite(selection.scores[list(selection.alphas).index(selection.alpha)])


def test_debiasing_pays_on_the_true_likelihood() -> None:
    """The alpha chosen with debiasing fits the rows before the noise better than the one chosen without."""
    rows, precision = _noisy_rows(4000, 1.0)
    folds = [batch_moments(part) for part in np.array_split(rows, 5)]
    whole = folds[0]
    for fold in folds[1:]:
        whole = merge_moments(whole, fold)
    grid = np.geomspace(0.5, 0.005, 15)

    def loss(variance: np.ndarray) -> float:
        def prepare(matrix: np.ndarray) -> np.ndarray:
            return debias_covariance(matrix, variance)

        theta = graphical_lasso(prepare(whole.covariance), cross_validate(folds, prepare, grid).alpha).precision
        return float(np.trace(np.linalg.inv(precision) @ theta) - np.linalg.slogdet(theta)[1])

    assert loss(np.ones(8)) < loss(np.zeros(8)) - 0.5
