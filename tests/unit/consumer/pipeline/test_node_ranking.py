"""The evidence ranks all pairs of nodes; weights of the penalty are equal for numbers, or in proportion to errors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.consumer.pipeline.mixed import learn_mixed, mixed_sample

from dp_bundle.manifest.sources import Source
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.inference.evidence import score_pairs
from dp_learn.output.messages import describe_edges
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.graph import labelled_edges
from dp_learn.pipeline.learn import learn_sample
from dp_learn.pipeline.nodes import score_nodes
from dp_learn.pipeline.settings import Fit, Settings

N_ROWS = 6000


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


MANY = np.array([0.55, *np.full(15, 0.03)])


def numbers() -> dict[str, NDArray[np.generic]]:
    """Return four columns of numbers, of which two are related."""
    values = np.random.default_rng(1).normal(size=(N_ROWS, 4))
    values[:, 1] = 0.2 * values[:, 0] + values[:, 1]
    return {f"x{place}": values[:, place] for place in range(4)}


def with_categories() -> dict[str, NDArray[np.generic]]:
    """Return these numbers with two categories of sixteen levels, most of them rare."""
    rng = np.random.default_rng(2)
    return {**numbers(), **{name: rng.choice(len(MANY), N_ROWS, p=MANY) for name in ("g", "h")}}


def test_links_of_categories_have_no_sign() -> None:
    """In the graph that other software reads, too: theirs is 0, and that of two numbers 1 or -1."""
    group = np.random.default_rng(3).integers(0, 3, N_ROWS)
    sample = mixed_sample({**numbers(), "g": group, "y": numbers()["x0"] - group}, 0.2)
    sources, targets, found = labelled_edges(learn_sample(sample, Settings()).estimate)
    signs = {frozenset(ends): sign for *ends, sign in zip(sources, targets, found["sign"], strict=True)}
    assert signs[frozenset(("g", "y"))] == 0
    assert abs(signs[frozenset(("x0", "x1"))]) == 1


def fit_with(weights: str, sample: Sample) -> Fit:
    """Return the fit with these weights."""
    return fit_graph(sample, Settings(weights=weights))


def test_auto_is_noise_where_nodes_have_several_columns() -> None:
    """Rare levels do not keep out a link between numbers, as they do with equal weights, which stay possible."""
    sample = mixed_sample(with_categories(), 0.35)
    auto, noise = fit_graph(sample, Settings(select="ebic")), fit_with("noise", sample)
    equal = fit_with("equal", sample)
    first, second = auto.pooled.columns.index("x0"), auto.pooled.columns.index("x1")

    np.testing.assert_array_equal(auto.precision, noise.precision)
    assert auto.weights is not None
    assert auto.precision[first, second] != 0.0
    assert equal.weights is None
    assert equal.precision[first, second] == 0.0


UNITS = np.array([1e-3, 0.1, 1.0, 20.0, 3e4, 7.0])
NOISE = np.array([0.2, 0.5, 0.9, 0.3, 0.6, 0.4])  # standard deviations, of columns with variances of about 1


def noisy_chain(units: np.ndarray | float) -> Sample:
    """Return rows of an autoregression with other noise in every column, in these units."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(1500, 6))
    for place in range(1, 6):
        rows[:, place] = 0.6 * rows[:, place - 1] + 0.8 * rows[:, place]
    noisy = rows + NOISE * rng.normal(size=rows.shape)
    return Sample([table_rows(noisy * units, [f"x{place}" for place in range(6)], (NOISE * units) ** 2)])


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_weights_by_noise_make_the_scale_immaterial(*, penalize_diagonal: bool) -> None:
    """Penalties in proportion to errors of covariances choose what those to errors of correlations do."""
    settings = Settings(weights="noise", select="ebic", penalize_diagonal=penalize_diagonal, tol=1e-10)
    sample = noisy_chain(UNITS)
    on_correlations, on_covariances = (
        fit_graph(sample, each) for each in (settings, Settings(**{**vars(settings), "scale": "covariance"}))
    )
    scaled = np.outer(UNITS, UNITS)

    assert np.count_nonzero(np.triu(on_correlations.precision, 1)) >= 5
    assert np.median(on_covariances.weights[np.triu_indices(6, 1)]) == pytest.approx(1.0)
    np.testing.assert_allclose(
        on_covariances.precision * scaled, on_correlations.precision * scaled, rtol=1e-4, atol=1e-6
    )
