"""The estimate as edges and files."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from dp_learn.output.folder import write_estimate
from dp_learn.pipeline.graph import GraphEstimate, partial_correlations

PRECISION = np.array([[2.0, -0.6, 0.0], [-0.6, 1.0, 0.3], [0.0, 0.3, 1.5]])


@pytest.fixture
def estimate() -> GraphEstimate:
    """Return a graph of three columns and two edges."""
    return GraphEstimate(("a", "b, c", "d"), PRECISION, np.linalg.inv(PRECISION))


def test_partial_correlations_are_those_of_the_residuals() -> None:
    """They equal the correlation of two columns' residuals given the others, computed by regression."""
    covariance = np.linalg.inv(PRECISION)
    rest = [2]
    slope = covariance[np.ix_([0, 1], rest)] / covariance[2, 2]
    residual = covariance[:2, :2] - slope @ covariance[np.ix_(rest, [0, 1])]
    expected = residual[0, 1] / np.sqrt(residual[0, 0] * residual[1, 1])

    assert partial_correlations(PRECISION)[0, 1] == pytest.approx(expected, rel=1e-12)


def test_edges_are_the_nonzero_entries_strongest_first(estimate: GraphEstimate) -> None:
    """Every non-zero entry above the diagonal is one edge, and the strongest comes first."""
    edges = estimate.edges()

    assert list(zip(edges["source"], edges["target"], strict=True)) == [("a", "b, c"), ("b, c", "d")]
    np.testing.assert_allclose(edges["partial_correlation"], [0.6 / np.sqrt(2), -0.3 / np.sqrt(1.5)])


def test_files_read_back_as_they_were(estimate: GraphEstimate, tmp_path: Path) -> None:
    """Labelled matrices, edges, GraphML and summary survive a round trip through other tools."""
    write_estimate(estimate, tmp_path)
    precision = pd.read_csv(tmp_path / "precision.csv", index_col=0)
    covariance = pd.read_csv(tmp_path / "covariance.csv", index_col=0)
    graph = nx.read_graphml(tmp_path / "graph.graphml")

    np.testing.assert_allclose(precision, PRECISION, rtol=1e-15)
    np.testing.assert_allclose(covariance, estimate.covariance, rtol=1e-15)
    assert list(precision.index) == ["a", "b, c", "d"]
    assert graph["b, c"]["d"]["partial_correlation"] == pytest.approx(-0.3 / np.sqrt(1.5))
    assert len(pd.read_csv(tmp_path / "edges.csv")) == 2
