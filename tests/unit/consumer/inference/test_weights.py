"""Weights of edges are the fit's where its graph is right, and else expectations given the estimates."""

import numpy as np
from scipy import integrate, stats

from dp_learn.covariance.estimate import FormErrors
from dp_learn.inference.edges import EdgeInference, shrink_weights


def inference_of(estimate: np.ndarray, error: float, noise: np.ndarray | None) -> EdgeInference:
    """Return the inference of standardised columns with these partial correlations and equal standard errors."""
    same = np.full(estimate.shape, error**2)
    names = tuple(f"c{place}" for place in range(len(estimate)))
    errors = FormErrors(same, np.zeros_like(same), np.zeros_like(same))
    return EdgeInference(names, 2.0 * np.eye(len(estimate)) - estimate, np.sqrt(same), estimate, errors, noise)


def symmetric(values: np.ndarray, n_columns: int) -> np.ndarray:
    """Return a matrix of partial correlations with these above the diagonal."""
    matrix = np.zeros((n_columns, n_columns))
    matrix[np.triu_indices(n_columns, 1)] = values
    return matrix + matrix.T + np.eye(n_columns)


def test_a_weight_is_the_expectation_given_the_estimate() -> None:
    """Where the fit is no limit, weights are the means of the posteriors, here by quadrature."""
    r, noise = np.array([0.3, -0.2, 0.05]), np.array([0.1, 0.2, 0.04])
    edges = np.triu_indices(3, 1)
    inference = inference_of(symmetric(r, 3), 0.1, symmetric(noise, 3))
    scale = np.sqrt(np.mean(r**2) - np.mean(noise**2))

    def mean(estimate: float, error: float) -> float:
        def density(x: float) -> float:
            return float(stats.norm.pdf(x, scale=scale) * stats.norm.pdf(estimate, x, error))

        return float(integrate.quad(lambda x: x * density(x), -2, 2)[0] / integrate.quad(density, -2, 2)[0])

    found = shrink_weights(inference, edges, np.zeros(3))

    np.testing.assert_allclose(found, [mean(*each) for each in zip(r, noise, strict=True)], rtol=1e-6)
    np.testing.assert_allclose(shrink_weights(inference, edges, 2.0 * r), r)  # no reason to shrink
    between = np.asarray(found) + 0.3 * (r - found)
    np.testing.assert_allclose(shrink_weights(inference, edges, between), between)


def test_no_edge_loses_its_weight_or_its_sign() -> None:
    """Estimates no larger than the noise are not shrunk to zero; where the estimate is unknown, the fit stays."""
    inference = inference_of(symmetric(np.array([0.1, -0.1, np.nan]), 3), 0.5, np.full((3, 3), 0.5))
    first, second, third = shrink_weights(inference, np.triu_indices(3, 1), np.array([-0.2, -0.3, 0.4]))

    assert 0.0 < first < 0.1
    assert -0.1 <= second < 0.0
    assert third == 0.4


def test_the_fit_is_the_weight_where_its_graph_is_right() -> None:
    """Where edges alone differ from zero by more than chance, and not where other pairs do, too."""
    truth = symmetric(np.where(np.arange(66) < 5, 0.4, 0.0), 12)
    edges = tuple(each[:5] for each in np.triu_indices(12, 1))
    errors = symmetric(np.random.default_rng(0).normal(0.0, 0.05, 66), 12) - np.eye(12)
    for factor, noise, is_right in ((0.8, 0.02, True), (3.0, 0.02, False), (3.0, None, True)):
        given = inference_of(truth + factor * errors, 0.05, None if noise is None else np.full((12, 12), noise))
        assert (shrink_weights(given, edges, np.full(5, 0.4)) is None) == is_right
