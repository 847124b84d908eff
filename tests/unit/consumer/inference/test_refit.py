"""The refit is the unpenalised fit on the chosen graph, or keeps as little of the penalty as it must."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from dp_bundle.base.errors import NotConvergedError
from dp_learn.covariance.debias import NoisyCovariance
from dp_learn.covariance.estimate import PooledCovariance, combine_sources
from dp_learn.covariance.standard_errors import universal_penalty
from dp_learn.glasso.graph_fit import fit_on_graph
from dp_learn.glasso.solving import graphical_lasso, solve
from dp_learn.inference.edges import fit_for_inference


def chain(p: int = 8, phi: float = 0.6) -> np.ndarray:
    """Return the covariance of an autoregression, whose graph is a chain."""
    steps = np.arange(p)
    return phi ** np.abs(np.subtract.outer(steps, steps))


def make_pooled(covariance: np.ndarray, n_rows: int, noise: float = 1.0) -> PooledCovariance:
    """Return a pooled covariance with that debiased covariance."""
    p = len(covariance)
    source = NoisyCovariance(n_rows, covariance + noise * np.eye(p), np.full(p, noise), np.zeros(p))
    return combine_sources([f"c{index}" for index in range(p)], [source])


def test_penalty_is_universal_and_knows_the_noise() -> None:
    """It is sqrt(2 log p) standard errors of a correlation near zero: here (1 + noise / signal) / sqrt(n - 1)."""
    alpha, weights = universal_penalty(make_pooled(4.0 * chain(), 401, noise=2.0))

    np.testing.assert_allclose(alpha * weights, np.sqrt(2 * np.log(8)) * 1.5 / 20, rtol=1e-13)


def test_refit_has_no_penalty_on_the_chosen_graph() -> None:
    """On the graph of the penalised solution the inverse reproduces S^, off it the precision is zero, in any units."""
    rng = np.random.default_rng(1)
    units = np.array([1.0, 1e-3, 50.0, 1.0, 2.0, 1e4, 1.0, 1.0])
    covariance = np.cov(rng.multivariate_normal(np.zeros(8), chain(), 2000), rowvar=False)
    pooled = make_pooled(covariance, 2000)
    alpha, weights = universal_penalty(pooled)
    chosen = graphical_lasso(pooled.correlation, alpha, weights=weights, penalize_diagonal=False, tol=1e-9)
    edge = chosen.precision != 0

    fit = fit_for_inference(pooled)
    source = pooled.sources[0]
    scaled = NoisyCovariance(2000, source.covariance * np.outer(units, units), units**2, np.zeros(8))
    other = fit_for_inference(combine_sources(pooled.columns, [scaled]))

    assert fit.share == 0.0
    assert 8 < edge.sum() < 64
    np.testing.assert_array_equal(fit.precision != 0, edge)
    np.testing.assert_allclose(np.linalg.inv(fit.precision)[edge], covariance[edge], atol=1e-3)
    np.testing.assert_allclose(other.precision * np.outer(units, units), fit.precision, atol=1e-3)


def test_indefinite_covariances_keep_a_share_of_the_penalty() -> None:
    """Where no unpenalised fit exists on the chosen graph, the refit is positive definite and says what it kept."""
    covariance = np.array([[1.0, 0.9, 0.6], [0.9, 1.0, 0.9], [0.6, 0.9, 1.0]])  # beside two of 0.9, 0.62 is the least

    fit = fit_for_inference(make_pooled(covariance, 2000))

    assert np.linalg.eigvalsh(covariance)[0] < 0
    assert 0.0 < fit.share < 1.0
    assert np.linalg.eigvalsh(fit.precision)[0] > 0


def test_noise_beyond_the_universal_penalty_still_has_a_fit() -> None:
    """A matrix too indefinite for the universal penalty is fitted at a larger one."""
    covariance = np.full((4, 4), -0.9) + 1.9 * np.eye(4)

    fit = fit_for_inference(make_pooled(covariance, 10_000, noise=0.01))

    assert fit.share > 0.0
    assert np.linalg.eigvalsh(fit.precision)[0] > 0


def test_solver_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph must not rest on an unfinished solution."""
    rng = np.random.default_rng(2)
    covariance = np.cov(rng.multivariate_normal(np.zeros(8), chain(), 300), rowvar=False)
    monkeypatch.setattr("dp_learn.inference.edges.solve", partial(solve, max_iter=1))
    with pytest.raises(NotConvergedError, match="did not converge"):
        fit_for_inference(make_pooled(covariance, 300))


def test_fit_to_an_indefinite_matrix_is_found_where_there_is_one() -> None:
    """A chain's fit exists wherever neighbours' correlations are below one, however indefinite the other entries."""
    rng = np.random.default_rng(0)
    p = 30
    noise = rng.uniform(-0.6, 0.6, (p, p))
    matrix = np.tril(noise, -1) + np.tril(noise, -1).T + np.eye(p)
    edges = np.abs(np.subtract.outer(np.arange(p), np.arange(p))) <= 1
    for each in (matrix, matrix * np.outer(np.arange(1, p + 1), np.arange(1, p + 1))):
        fitted = fit_on_graph(each, edges, np.ones((p, p)), tol=1e-10)

        assert np.linalg.eigvalsh(each)[0] < -1.0
        assert fitted is not None
        assert fitted.share == 0.0
        np.testing.assert_allclose(np.linalg.inv(fitted.precision)[edges], each[edges], rtol=1e-4, atol=1e-4)
