"""The evidence ranks all pairs of nodes; weights are equal for numbers, or by errors; measures are as defined."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.consumer.pipeline.mixed import learn_mixed, mixed_sample

from dp_bundle.manifest.columns import Source
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.inference.edges import score_pairs
from dp_learn.output.messages import describe_edges
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.graph import labelled_edges
from dp_learn.pipeline.learn import learn_sample
from dp_learn.pipeline.measures import (
    FirstOrder,
    are_clear,
    communities_of,
    draw_together,
    estimate_predictability,
    measure_paths,
    sum_edges,
    unexplained_shares,
)
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
    edges, ranking, tests = graph.edges(), graph.ranking_columns(), graph.tests
    assert list(ranking) == ["source", "target", "evidence", "partial_correlation", "p_value"]
    assert {"statistic", "degrees_of_freedom", "p_value", "q_value"} <= set(edges.columns)
    assert all(np.all(np.diff(found["evidence"]) <= 0.0) for found in (edges, ranking))
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


LABELS = np.array([0, 1, 1, 2, 3])


def covariance(p: int = 5) -> np.ndarray:
    """Return a covariance without zeros."""
    x = np.random.default_rng(4).normal(size=(3 * p, p))
    return x.T @ x / len(x)


def partial(sigma: np.ndarray) -> np.ndarray:
    """Return partial correlations."""
    theta = np.linalg.inv(sigma)
    return -theta / np.sqrt(np.outer(np.diagonal(theta), np.diagonal(theta)))


def test_unexplained_share_is_that_of_a_regression() -> None:
    """For a number it is the residual's share of the variance; for two columns the mean over uncorrelated ones."""
    sigma = covariance()
    single, several = unexplained_shares(sigma, np.arange(5)), unexplained_shares(sigma, LABELS)

    beta = np.linalg.solve(sigma[1:, 1:], sigma[1:, 0])
    np.testing.assert_allclose(single[0], 1.0 - beta @ sigma[1:, 0] / sigma[0, 0])
    np.testing.assert_allclose(several[[0, 2, 3]], single[[0, 3, 4]])

    own, others = [1, 2], [0, 3, 4]
    root = np.linalg.inv(np.linalg.cholesky(sigma[np.ix_(own, own)]))
    cross = root @ sigma[np.ix_(own, others)]
    left = np.eye(2) - cross @ np.linalg.inv(sigma[np.ix_(others, others)]) @ cross.T
    np.testing.assert_allclose(several[1], np.trace(left) / 2.0)


@pytest.mark.parametrize("labels", [np.arange(5), LABELS])
def test_first_order_terms_are_derivatives(labels: np.ndarray) -> None:
    """Rows whose products are a small error of S^ change the measures as the terms say."""
    sigma, step = covariance(), 1e-5
    n_nodes = labels[-1] + 1
    signs = np.sign(np.random.default_rng(0).normal(size=(n_nodes, n_nodes)))
    signs = np.triu(signs, 1) + np.triu(signs, 1).T
    model = FirstOrder(sigma, np.linalg.inv(sigma), labels, signs)
    row = np.array([[0.3, -1.0, 0.8, 0.1, 1.2]])
    error = row.T @ row

    change = np.log(unexplained_shares(sigma + step * error, labels)) - np.log(unexplained_shares(sigma, labels))
    pairs = (partial(sigma + step * error) - partial(sigma)) / step
    np.fill_diagonal(pairs, 0.0)
    spread = signs[np.ix_(labels, labels)]
    sums = [(each * pairs).sum(axis=1) @ model.members for each in (spread, np.abs(spread))]

    np.testing.assert_allclose(model.of_rows(row)[0], [*(change / step), *sums[0], *sums[1]], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.ravel(model.sums(model.pair_errors(error))), np.ravel(sums), rtol=1e-3, atol=1e-4)


FEW = np.full((10, 2), -0.01)
TILED = np.tile([-0.09, -0.01], (10, 1))
LINKED = np.array([[1.0, np.sqrt(0.6)], [np.sqrt(0.6), 1.0]])


@pytest.mark.parametrize(
    ("matrix", "drawn", "of_sampling", "known"),
    [
        (np.eye(2), FEW, None, True),
        (np.diag([1.0, -1.0]), FEW, None, False),
        (np.eye(2), np.where(np.arange(20).reshape(10, 2) == 3, np.nan, FEW), None, False),
        (np.eye(2), FEW - 0.1, None, False),
        (np.eye(2), 0.8 * TILED, None, True),
        (np.eye(2), 1.1 * TILED, None, False),
        (LINKED, 2.5 * TILED, None, True),  # where six tenths are explained
        (np.eye(2), 2.0 * FEW, 0.016, True),
        (np.eye(2), 2.0 * FEW, 0.012, False),
    ],
)
def test_too_much_noise_leaves_cells_empty(
    matrix: np.ndarray, drawn: np.ndarray, of_sampling: float | None, known: bool
) -> None:
    """An indefinite matrix or draw, chance that explains too much, and more than sampling makes in two rounds."""
    estimate, low, high = estimate_predictability(matrix, np.arange(2), drawn, np.ones(2), of_sampling)
    assert np.isfinite(estimate).all() == ((low <= estimate) & (estimate <= high)).all() == known


def test_most_edges_must_be_clear() -> None:
    """Three of four scores are at least five, and there are some."""
    assert are_clear(np.array([3.0, 5.0, 5.5, 6.0]))
    assert not are_clear(np.array([3.0, 4.9, 5.0, 6.0]))
    assert not are_clear(np.array([]))


def test_sums_over_edges() -> None:
    """A sum counts edges alone, by the signs of their weights; a node without edges has no interval."""
    partials = np.array([[1.0, 0.3, -0.2], [0.3, 1.0, 0.9], [-0.2, 0.9, 1.0]])
    weights = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    drawn = np.array([[0.1, 0.2, 0.0], [-0.1, -0.2, 0.0]])
    total, low, high = sum_edges(partials, weights, drawn, np.array([1.0, 4.0, 1.0]))

    np.testing.assert_allclose(total, [0.3, 0.3, 0.0])
    np.testing.assert_allclose(high - total, [0.196, 0.784, np.nan], rtol=1e-4)
    np.testing.assert_allclose(total - low, high - total)


def test_paths_of_a_small_graph() -> None:
    """On a path of four nodes and one apart, the inner ones lie between two pairs each."""
    weights = np.diag([0.5, -0.25, 1.0, 0.0], 1)
    betweenness, closeness = measure_paths(weights + weights.T)

    np.testing.assert_allclose(betweenness, [0.0, 2.0, 2.0, 0.0, 0.0])
    distances = np.array([2 + 6 + 7, 2 + 4 + 5, 6 + 4 + 1, 7 + 5 + 1])
    np.testing.assert_allclose(closeness, [*(3 / distances * 0.75), 0.0])


def test_communities_are_as_sure_as_their_edges() -> None:
    """Two triangles are found; small errors keep them together, and large ones do not."""
    weights = np.zeros((7, 7))
    for group in ([0, 1, 2], [3, 4, 5]):
        weights[np.ix_(group, group)] = 0.4
    weights[2, 3] = weights[3, 2] = 0.1
    np.fill_diagonal(weights, 0.0)
    np.testing.assert_array_equal(communities_of(weights), [1, 1, 1, 2, 2, 2, np.nan])

    rng, together = np.random.default_rng(0), []
    for error in (0.01, 0.4):
        drawn = np.triu(error * rng.normal(size=(40, 7, 7)), 1)
        together.append(draw_together(weights, drawn + drawn.swapaxes(1, 2), np.full((7, 7), error)))
    assert together[0][0, 1] == together[0][4, 5] == 1.0
    assert together[0][0, 5] == together[0][0, 6] == 0.0
    assert 0.1 < together[1][0, 1] < 0.9
