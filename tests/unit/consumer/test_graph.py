"""The estimate as edges, and the options that it is made with."""

from typing import get_type_hints

import numpy as np

from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.settings import Options, Settings

PRECISION = np.array([[2.0, -0.6, 0.0], [-0.6, 1.0, 0.3], [0.0, 0.3, 1.5]])


def test_edges_are_the_nonzero_entries_strongest_first() -> None:
    """Every non-zero entry above the diagonal is one edge, and the strongest comes first."""
    edges = GraphEstimate(("a", "b, c", "d"), PRECISION, np.linalg.inv(PRECISION)).edges()

    assert list(zip(edges["source"], edges["target"], strict=True)) == [("a", "b, c"), ("b, c", "d")]
    np.testing.assert_allclose(edges["partial_correlation"], [0.6 / np.sqrt(2), -0.3 / np.sqrt(1.5)])


def test_options_are_the_fields_of_settings() -> None:
    """What may be passed by name is what the settings hold, of the same types."""
    assert get_type_hints(Options) == get_type_hints(Settings)
