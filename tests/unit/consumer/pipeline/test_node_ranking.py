"""The evidence ranks all pairs of nodes, with tests and without."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.consumer.pipeline.mixed import learn_mixed, mixed_sample

from dp_bundle.manifest.sources import Source
from dp_learn.inference.evidence import score_pairs
from dp_learn.output.messages import describe_edges
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.nodes import score_nodes
from dp_learn.pipeline.settings import Settings

N_ROWS = 5000


def chain(n_columns: int) -> dict[str, NDArray[np.generic]]:
    """Return a random walk's columns, of unit variance."""
    walk = np.cumsum(np.random.default_rng(3).normal(size=(N_ROWS, n_columns)), axis=1)
    return {f"x{place}": walk[:, place] / np.sqrt(place + 1.0) for place in range(n_columns)}


@pytest.mark.parametrize(("sigma", "tolerance"), [(0.0, 1e-4), (0.4, 0.05)])
def test_scores_of_single_columns_are_those_of_pairs(sigma: float, tolerance: float) -> None:
    """Where each node is one column, the score is that of `score_pairs`: an estimate over its standard error."""
    fit = fit_graph(mixed_sample(chain(8), sigma), Settings())
    drowned = Source(name="g", kind="category", columns=("g=0", "g=1", "g=2"), levels=("0", "1", "2"))
    levels = replace(fit.nodes.levels, nodes=(*fit.nodes.names, "g", "g", "g"), sources=(drowned,))
    nodes = replace(fit.nodes, units=np.diag(1.0 / fit.pooled.deviations), levels=levels)
    assert not nodes.are_numbers

    expected, found = score_pairs(fit.pooled), score_nodes(replace(fit, nodes=nodes))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * expected.max())


def test_tables_and_the_message_go_by_the_tests_where_there_are_any() -> None:
    """Both tables come surest first; a link that the tests leave in doubt is counted, however high its evidence."""
    rng = np.random.default_rng(4)
    g = rng.integers(0, 4, N_ROWS)
    table = {"g": g, "y": rng.normal(size=N_ROWS) + (g == 3), **chain(3)}
    graph = learn_mixed(mixed_sample(table, 0.02)).estimate
    edges, ranking, tests = graph.edges(), graph.ranking(), graph.tests
    assert list(ranking.columns) == ["source", "target", "evidence", "partial_correlation", "p_value"]
    assert {"statistic", "degrees_of_freedom", "p_value", "q_value"} <= set(edges.columns)
    assert all(found["evidence"].is_monotonic_decreasing for found in (edges, ranking))
    listed = replace(graph, fdr=0.05).edges()
    assert listed["p_value"].is_monotonic_increasing

    doubtful: Any = replace(graph, tests=replace(tests, statistic=np.zeros_like(tests.statistic)))
    (line,) = describe_edges(doubtful, shrunk=False)
    assert "judging by the tests" in line
