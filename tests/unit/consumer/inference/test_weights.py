"""Weights of edges err less than the estimates that tests are about, and are the fit's where its graph is right."""

from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy import integrate, stats
from tests.unit.consumer.sources import pooled_of

from dp_learn.covariance.estimate import FormErrors
from dp_learn.inference.edges import EdgeInference, infer_edges
from dp_learn.inference.weights import shrink_weights
from dp_learn.output.folder import write_estimate
from dp_learn.pipeline.graph import GraphEstimate, partial_correlations


def inference_of(estimate: np.ndarray, error: float, noise: np.ndarray | None) -> EdgeInference:
    """Return the inference of standardised columns with these partial correlations and equal standard errors."""
    same = np.full(estimate.shape, error**2)
    names = tuple(f"c{place}" for place in range(len(estimate)))
    t = 2.0 * np.eye(len(estimate)) - estimate
    errors = FormErrors(same, np.zeros_like(same), np.zeros_like(same))
    return EdgeInference(names, t, np.sqrt(same), estimate, errors, noise)


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
    r = symmetric(np.array([0.1, -0.1, np.nan]), 3)
    inference = inference_of(r, 0.5, np.full((3, 3), 0.5))
    fitted = np.array([-0.2, -0.3, 0.4])

    first, second, third = shrink_weights(inference, np.triu_indices(3, 1), fitted)

    assert 0.0 < first < 0.1
    assert -0.1 <= second < 0.0
    assert third == 0.4


def test_the_fit_is_the_weight_where_its_graph_is_right() -> None:
    """Where edges alone differ from zero by more than chance, and not where other pairs do, too."""
    rng = np.random.default_rng(0)
    truth = symmetric(np.where(np.arange(66) < 5, 0.4, 0.0), 12)
    pairs = np.triu_indices(12, 1)
    edges = tuple(each[:5] for each in pairs)
    noise = np.full((12, 12), 0.02)
    errors = symmetric(rng.normal(0.0, 0.05, 66), 12) - np.eye(12)
    right = inference_of(truth + 0.8 * errors, 0.05, noise)
    wrong = inference_of(truth + 3.0 * errors, 0.05, noise)

    assert shrink_weights(right, edges, np.full(5, 0.4)) is None
    assert shrink_weights(wrong, edges, np.full(5, 0.4)) is not None
    assert shrink_weights(inference_of(truth, 0.05, None), edges, np.full(5, 0.4)) is None


def test_weights_err_less_than_the_estimates() -> None:
    """Of noisy rows, from the partial correlations of the clean ones; a wrong noise error takes the gain away."""
    rng = np.random.default_rng(1)
    p, variance, n_rows = 8, 0.6, 400
    precision = symmetric(0.1 * rng.choice([-1.0, 1.0], 28), p)
    edges = tuple(each[::2] for each in np.triu_indices(p, 1))
    right, wrong, unshrunk = [], [], []
    for _ in range(60):
        clean = rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision), n_rows)
        noisy = clean + np.sqrt(variance) * rng.normal(size=clean.shape)
        pooled = pooled_of(n_rows, np.cov(noisy.T) - variance * np.eye(p), variance)
        inference = infer_edges(pooled, np.linalg.inv(pooled.covariance))
        target = partial_correlations(np.linalg.inv(np.cov(clean.T)))[edges]

        right.append(shrink_weights(inference, edges, np.zeros(14)) - target)
        understated = replace(inference, noise_error=0.1 * inference.noise_error)
        wrong.append(shrink_weights(understated, edges, np.zeros(14)) - target)
        unshrunk.append(inference.partial_correlation[edges] - target)
    error = np.mean(np.square(unshrunk))

    assert np.mean(np.square(right)) < 0.9 * error
    assert np.mean(np.square(wrong)) > 0.95 * error


@pytest.mark.parametrize("shrinks", [True, False])
def test_files_say_what_the_weights_are(shrinks: bool, tmp_path: Path) -> None:
    """The attribute of a graph's file is described, and a reader of graphs reads the weights of edges.csv."""
    r = symmetric(np.array([0.5, 0.2, -0.3]), 3)
    inference = inference_of(r, 0.1, np.full((3, 3), 0.2))
    precision = 2.0 * np.eye(3) - 0.5 * (r + np.eye(3))
    graph = GraphEstimate(("c0", "c1", "c2"), precision, np.eye(3), inference, shrinks=shrinks)
    write_estimate(graph, tmp_path)
    text = (tmp_path / "graph.graphml").read_text()
    weights = sorted(nx.get_edge_attributes(nx.read_graphml(tmp_path / "graph.graphml"), "weight").values())

    assert ("shrunk for the noise: that of precision.csv as far as" in text) == shrinks
    np.testing.assert_allclose(weights, np.sort(np.abs(graph.edge_columns["partial_correlation"])))
    assert (graph.shrunk_weights is not None) == shrinks
