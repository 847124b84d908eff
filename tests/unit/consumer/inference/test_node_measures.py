"""Measures of nodes against what defines them: regressions, small graphs by hand, and finite differences."""

import numpy as np
import pytest

from dp_learn.inference.networks import communities_of, draw_together, measure_paths
from dp_learn.pipeline.measures import (
    FirstOrder,
    are_clear,
    estimate_predictability,
    sum_edges,
    unexplained_shares,
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
    estimate, _, _ = estimate_predictability(matrix, np.arange(2), drawn, np.ones(2), of_sampling)
    assert np.isfinite(estimate).all() == known


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
    weights = np.zeros((5, 5))
    for first, second, weight in ((0, 1, 0.5), (1, 2, -0.25), (2, 3, 1.0)):
        weights[first, second] = weights[second, first] = weight
    betweenness, closeness = measure_paths(weights)

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
