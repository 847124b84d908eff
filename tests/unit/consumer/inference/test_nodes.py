"""Strengths of links between nodes of several columns, and the tests of one column each."""

import numpy as np
import pytest
from tests.unit.consumer.sources import pooled_of

from dp_learn.covariance.standard_errors import form_errors
from dp_learn.inference.edges import infer_edges
from dp_learn.inference.nodes import infer_nodes, node_strengths


def test_strength_is_the_canonical_correlation_of_residuals() -> None:
    """It agrees with canonical correlations of residuals from least squares."""
    x = np.random.default_rng(2).normal(size=(500, 8)).cumsum(axis=1)
    x -= x.mean(axis=0)
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 3])
    others = np.flatnonzero((labels != 0) & (labels != 1))
    residuals = x - x[:, others] @ np.linalg.lstsq(x[:, others], x, rcond=None)[0]
    qa, qb = (np.linalg.qr(residuals[:, labels == node])[0] for node in (0, 1))
    found = node_strengths(np.linalg.inv(np.cov(x.T)), labels, 4)
    assert found[0, 1] == pytest.approx(np.linalg.svd(qa.T @ qb, compute_uv=False)[0], abs=1e-9)


def test_nodes_of_one_column_have_the_tests_of_edges() -> None:
    """The strength is the partial correlation with its sign, and p-values and q-values are those of edges."""
    clean = np.array([[1.0, 0.3, 0.0, -0.2], [0.3, 1.0, 0.4, 0.0], [0.0, 0.4, 1.0, 0.3], [-0.2, 0.0, 0.3, 1.0]])
    pooled = pooled_of(120, clean, 0.3)
    theta = np.linalg.inv(clean)
    nodes = infer_nodes(pooled, theta, np.arange(4), tuple("abcd"), lambda b: form_errors(pooled, b))
    edges, off = infer_edges(pooled, theta), ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(nodes.strength[off], edges.partial_correlation[off], rtol=1e-9)
    for name in ("p_values", "q_values", "scores"):
        np.testing.assert_allclose(getattr(nodes, name)[off], getattr(edges, name)[off], rtol=1e-9)
