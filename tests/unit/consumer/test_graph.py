"""The estimate as edges, and the options that it is made with."""

from typing import get_type_hints

import numpy as np
import pytest

from dp_learn.pipeline.graph import GraphEstimate, partial_correlations
from dp_learn.pipeline.settings import Options, Settings

PRECISION = np.array([[2.0, -0.6, 0.0], [-0.6, 1.0, 0.3], [0.0, 0.3, 1.5]])


def test_partial_correlations_are_those_of_the_residuals() -> None:
    """They equal the correlation of two columns' residuals given the others, computed by regression."""
    covariance = np.linalg.inv(PRECISION)
    rest = [2]
    slope = covariance[np.ix_([0, 1], rest)] / covariance[2, 2]
    residual = covariance[:2, :2] - slope @ covariance[np.ix_(rest, [0, 1])]
    expected = residual[0, 1] / np.sqrt(residual[0, 0] * residual[1, 1])

    assert partial_correlations(PRECISION)[0, 1] == pytest.approx(expected, rel=1e-12)


def test_edges_are_the_nonzero_entries_strongest_first() -> None:
    """Every non-zero entry above the diagonal is one edge, and the strongest comes first."""
    edges = GraphEstimate(("a", "b, c", "d"), PRECISION, np.linalg.inv(PRECISION)).edges()

    assert list(zip(edges["source"], edges["target"], strict=True)) == [("a", "b, c"), ("b, c", "d")]
    np.testing.assert_allclose(edges["partial_correlation"], [0.6 / np.sqrt(2), -0.3 / np.sqrt(1.5)])


def test_options_are_the_fields_of_settings() -> None:
    """What may be passed by name is what the settings hold, of the same types."""
    assert get_type_hints(Options) == get_type_hints(Settings)
