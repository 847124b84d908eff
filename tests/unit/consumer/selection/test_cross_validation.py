"""Cross-validation on the path, against computations from scratch."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import GraphicalLassoCV
from sklearn.model_selection import KFold
from tests.unit.consumer.selection.chains import P, debias, noisy_rows, split_rows

from dp_bundle.base.errors import EstimationError
from dp_learn import graphical_lasso
from dp_learn.covariance.sample import Split
from dp_learn.selection.cross_validation import cross_validate
from dp_learn.selection.ebic import select_ebic
from dp_learn.selection.path import alpha_grid
from dp_learn.selection.stars import select_stars


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_likelihood_score_is_that_of_the_debiased_held_out_rows(sigma: float) -> None:
    """Each score equals a computation from scratch, fold by fold, and the best alpha is chosen."""
    parts = np.array_split(noisy_rows(600, sigma), 5)
    splits, alphas, expected = [], np.array([0.3, 0.15, 0.05]), np.zeros(3)
    for fold, part in enumerate(parts):
        others = np.concatenate([other for index, other in enumerate(parts) if index != fold])
        splits.append(Split(debias(others, sigma), debias(part, sigma)))
        for index, alpha in enumerate(alphas):
            theta = graphical_lasso(splits[-1].train, alpha, tol=1e-11).precision
            d = np.sqrt(1 + alpha / np.diagonal(splits[-1].train))  # the penalty on the diagonal, undone
            theta = theta * np.outer(d, d)
            expected[index] += (np.linalg.slogdet(theta)[1] - np.trace(splits[-1].test @ theta)) / 5
    selection = cross_validate(splits, alphas)

    np.testing.assert_allclose(selection.scores, expected, atol=2e-3)
    assert selection.alpha == alphas[np.argmax(expected)]


def test_likelihood_score_agrees_with_scikit_learn() -> None:
    """Without noise the scores and the choice are those of GraphicalLassoCV on the same folds and grid."""
    rows = noisy_rows(400, 0.0)
    rows -= rows.mean(axis=0)
    folds = list(KFold(5).split(rows))
    splits = [Split(np.cov(rows[train].T, ddof=0), np.cov(rows[test].T, ddof=0)) for train, test in folds]
    alphas = alpha_grid(np.cov(rows.T), 8, 0.02)
    ours = cross_validate(splits, alphas, penalize_diagonal=False, patience=None)
    theirs = GraphicalLassoCV(alphas=alphas, cv=folds, tol=1e-7, enet_tol=1e-8, max_iter=1000).fit(rows)
    order = np.argsort(theirs.cv_results_["alphas"])[::-1][: len(alphas)]  # the last is alpha = 0

    expected = 2 * theirs.cv_results_["mean_test_score"][order] + P * np.log(2 * np.pi)
    np.testing.assert_allclose(ours.scores, expected, atol=1e-3)
    assert ours.alpha == theirs.alpha_


def test_squared_error_is_of_the_pairs_and_chosen_at_half_its_fall() -> None:
    """The score is the held-out covariance error off the diagonal, the choice the first at half the fall or below."""
    splits = split_rows(noisy_rows(2000, 1.0), 1.0)
    alphas = alpha_grid(splits[0].train, 15, 0.02)
    errors = np.zeros(len(alphas))
    pairs = ~np.eye(P, dtype=bool)
    for split in splits:
        for index, alpha in enumerate(alphas):
            implied = np.linalg.inv(graphical_lasso(split.train, alpha, tol=1e-11).precision)
            errors[index] += np.mean((implied - split.test)[pairs] ** 2) / 5
    selection = cross_validate(splits, alphas, score="mse", patience=None)

    np.testing.assert_allclose(-selection.scores, errors, rtol=2e-3)  # the path is solved to a gap of 1e-6
    half = 0.5 * (errors[0] + errors.min())
    assert selection.alpha == alphas[np.flatnonzero(errors <= half)[0]]
    assert selection.note is None


def test_squared_error_does_not_take_chance_for_a_drop() -> None:
    """A fall in the error that most folds do not share leaves the graph empty, and the note says why."""
    train = np.eye(3) + 0.2 * (np.ones((3, 3)) - np.eye(3))
    tests = [np.eye(3) + share * (np.ones((3, 3)) - np.eye(3)) for share in (0.3, -0.1, 0.0)]
    alphas = np.array([0.2, 0.15, 0.1])
    selection = cross_validate([Split(train, test) for test in tests], alphas, score="mse")

    assert np.nanargmax(selection.scores) > 0
    assert selection.alpha == alphas[0]
    assert selection.note is not None
    assert selection.note.startswith("the emptiest graph of the path was chosen because")


def test_a_penalty_on_the_diagonal_does_not_sway_the_likelihood() -> None:
    """Without edges the score is the same at every alpha, though the penalty inflates the variances."""
    rows = noisy_rows(300, 0.0)
    forbidden = np.full((P, P), np.inf)
    np.fill_diagonal(forbidden, 1.0)
    scores = cross_validate(split_rows(rows, 0.0), [0.5, 0.1, 0.01], weights=forbidden).scores

    assert np.ptp(scores) < 1e-9


def test_patience_spares_work_and_changes_no_choice() -> None:
    """The walk that ends early chooses as the whole one does, with the same scores as far as it goes."""
    splits = split_rows(noisy_rows(1000, 1.0), 1.0)
    alphas = alpha_grid(splits[0].train, 30, 0.01)
    for score in ("likelihood", "mse"):
        whole = cross_validate(splits, alphas, score=score, patience=None)
        early = cross_validate(splits, alphas, score=score)
        walked = np.isfinite(early.scores)

        assert walked.sum() < np.isfinite(whole.scores).sum()
        assert early.alpha == whole.alpha
        np.testing.assert_array_equal(early.scores[walked], whole.scores[walked])


def test_alphas_without_a_solution_are_passed_over() -> None:
    """Where a fold has no solution the score is missing, and the choice falls on an alpha that has one."""
    selection = cross_validate(split_rows(noisy_rows(60, 1.5), 1.5), np.geomspace(3.0, 0.01, 12), patience=None)

    assert np.isnan(selection.scores[-1])
    assert np.isfinite(selection.scores[list(selection.alphas).index(selection.alpha)])


def test_folds_without_any_solution_are_an_error() -> None:
    """When not even the first alpha has a solution, the error says so."""
    indefinite = np.array([[1.0, 3.0], [3.0, 1.0]])
    for select in (
        lambda: cross_validate([Split(indefinite, np.eye(2))] * 2, [0.1]),
        lambda: select_ebic(indefinite, 100, [0.1]),
        lambda: select_stars([indefinite] * 2, [0.1]),
    ):
        with pytest.raises(EstimationError, match="no alpha of the path has a solution"):
            select()
