"""Rules that choose alpha by parts of the rows, where nodes have several columns, against computations from scratch."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.consumer.selection.chains import noisy_rows, split_rows

from dp_learn import graphical_lasso
from dp_learn.covariance.sample import Split
from dp_learn.matrices.linalg import FloatArray
from dp_learn.selection.cross_validation import cross_validate
from dp_learn.selection.path import alpha_grid
from dp_learn.selection.stars import select_stars

ALPHAS = np.array([0.5, 0.25, 0.1])


@pytest.fixture(scope="module")
def splits() -> list[Split]:
    """Return the folds of a noisy chain."""
    return split_rows(noisy_rows(1500, 1.0), 1.0)


def nodes_of(matrix: FloatArray) -> list[int]:
    """Return nodes of two, one and three columns, in turn."""
    pattern = [0, 0, 1, 2, 2, 2]
    return [pattern[place % 6] + 3 * (place // 6) for place in range(len(matrix))]


@pytest.mark.parametrize("score", ["likelihood", "mse"])
def test_scores_are_those_of_the_group_estimate(score: str, splits: list[Split]) -> None:
    """Each score equals that of the group solution, fold by fold; differences within nodes do not count."""
    groups = nodes_of(splits[0].train)
    between = np.not_equal.outer(groups, groups)
    expected, n_edges = np.zeros(len(ALPHAS)), np.zeros(len(ALPHAS))
    for split in splits:
        for index, alpha in enumerate(ALPHAS):
            found = graphical_lasso(split.train, alpha, groups=groups, tol=1e-11)
            unit = np.sqrt(np.diagonal(found.covariance) / np.diagonal(split.train))
            theta = found.precision * np.outer(unit, unit)
            likelihood = np.linalg.slogdet(theta)[1] - np.trace(split.test @ theta)
            squares = -np.square((found.covariance - split.test)[between]).mean()
            expected[index] += (likelihood if score == "likelihood" else squares) / len(splits)
            n_edges[index] += np.count_nonzero(found.precision[between]) / 2 / len(splits)
    selection = cross_validate(splits, ALPHAS, score=score, groups=groups, patience=None)
    np.testing.assert_allclose(selection.scores, expected, atol=2e-3)
    np.testing.assert_allclose(selection.n_edges, n_edges, atol=1.0)


def test_stability_is_of_pairs_of_nodes(splits: list[Split]) -> None:
    """The instability is a mean over pairs of nodes, however many columns each has."""
    matrices = [split.train for split in splits]
    groups = np.array(nodes_of(matrices[0]))
    n_nodes = groups.max() + 1
    expected = []
    for alpha in ALPHAS:
        shares = np.zeros((n_nodes, n_nodes))
        for matrix in matrices:
            precision = graphical_lasso(matrix, alpha, groups=groups).precision
            for row, column in np.ndindex(n_nodes, n_nodes):
                shares[row, column] += precision[np.ix_(groups == row, groups == column)].any() / len(matrices)
        upper = shares[np.triu_indices(n_nodes, 1)]
        expected.append(-np.mean(2 * upper * (1 - upper)))
    selection = select_stars(matrices, ALPHAS, groups=groups)
    seen = np.isfinite(selection.scores)
    np.testing.assert_allclose(selection.scores[seen], np.array(expected)[seen], atol=1e-12)
    assert seen.sum() >= 2


def test_nodes_of_one_column_change_nothing(splits: list[Split]) -> None:
    """With a node for each column all rules give the scores that they give without nodes, to the bit."""
    alphas, groups = alpha_grid(splits[0].train, 6, 0.1), list(range(len(splits[0].train)))
    for score in ("likelihood", "mse"):
        one, other = (cross_validate(splits, alphas, score=score, groups=each) for each in (None, groups))
        assert np.array_equal(one.scores, other.scores, equal_nan=True)
        assert one.alpha == other.alpha
    matrices = [split.train for split in splits]
    one, other = (select_stars(matrices, alphas, groups=each) for each in (None, groups))
    assert np.array_equal(one.scores, other.scores, equal_nan=True)
