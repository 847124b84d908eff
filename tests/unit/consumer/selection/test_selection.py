"""EBIC, StARS, cross-validation and promises of all rules, against computations from scratch."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from sklearn.covariance import GraphicalLassoCV
from sklearn.model_selection import KFold
from tests.unit.consumer.selection.chains import PRECISION, P, count_edges, debias, noisy_rows, path_of, split_rows

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_learn import graphical_lasso
from dp_learn.covariance.sample import Split
from dp_learn.pipeline.selection import Selection, alpha_grid, cross_validate, select_ebic, select_stars

NODES = [0, 0, 1, 2, 2, 2, 3, 3]


def _fit_on_graph(s: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Fit a Gaussian with these edges: Hastie, Tibshirani & Friedman (2009), algorithm 17.1."""
    w = s.copy()
    for _ in range(60):
        for j in range(len(s)):
            rest = np.arange(len(s)) != j
            near = np.flatnonzero(edges[j] & rest)
            beta = np.zeros(len(s))
            beta[near] = np.linalg.solve(w[np.ix_(near, near)], s[near, j])
            w[rest, j] = w[j, rest] = (w @ beta)[rest]
    return np.linalg.inv(w)


@pytest.mark.parametrize("sigma", [0.0, 1.0])
@pytest.mark.parametrize("n_effective", [1500, lambda theta: 1500 / theta[0, 0]])
def test_ebic_is_that_of_the_unpenalised_fit(sigma: float, n_effective: int | Callable[[np.ndarray], float]) -> None:
    """Each score equals a computation from scratch with another algorithm for the fit."""
    gamma, matrix = 0.3, debias(noisy_rows(1500, sigma), sigma)
    alphas = alpha_grid(matrix, 10, 0.05)
    expected = []
    for theta in path_of(matrix, alphas):
        fit = _fit_on_graph(matrix, theta != 0)
        n = n_effective(theta) if callable(n_effective) else n_effective
        bic = -n * (np.linalg.slogdet(fit)[1] - np.trace(matrix @ fit))
        expected.append(-(bic + count_edges(theta) * (np.log(n) + 4 * gamma * np.log(P))) / n)
    selection = select_ebic(matrix, n_effective, alphas, gamma=gamma, patience=None)

    np.testing.assert_allclose(selection.scores, expected, atol=2e-4)
    assert selection.alpha == alphas[np.argmax(expected)]
    if sigma == 0.0:
        np.testing.assert_array_equal(graphical_lasso(matrix, selection.alpha).precision != 0, PRECISION != 0)


@pytest.mark.parametrize("groups", [range(P), NODES], ids=["columns", "nodes"])
def test_stars_takes_the_smallest_stable_alpha(groups: Sequence[int]) -> None:
    """Scores equal the instability counted pair by pair, and the choice is the last stable graph that is sparse."""
    rng = np.random.default_rng(3)
    rows = noisy_rows(1200, 0.3)
    subsamples = [debias(rows[rng.random(len(rows)) < 0.4], 0.3) for _ in range(10)]
    alphas = alpha_grid(debias(rows, 0.3), 15, 0.001)
    members = np.equal.outer(np.unique(groups), groups).astype(int)
    pairs = np.triu_indices(len(members), 1)
    instability, density = [], []
    for thetas in zip(*(path_of(each, alphas, groups=groups) for each in subsamples), strict=True):
        shares = np.mean([members @ (theta != 0) @ members.T > 0 for theta in thetas], axis=0)[pairs]
        instability.append(np.mean(2 * shares * (1 - shares)))
        density.append(np.mean(shares))
    selection = select_stars(subsamples, alphas, groups=groups)
    unstable = np.array(instability) > 0.05
    last = int(np.argmax(unstable & (np.array(density) > 0.5)))  # where the walk ends
    walked = np.isfinite(selection.scores)

    assert 0 < last < len(alphas) - 1
    np.testing.assert_array_equal(np.flatnonzero(walked), np.arange(last + 1))
    np.testing.assert_allclose(-selection.scores[walked], np.array(instability)[walked], atol=1e-12)
    assert selection.alpha == alphas[: last + 1][~unstable[: last + 1]][-1]
    assert not unstable[last:].all()  # the densest graphs agree again, which must not count


RULES: dict[str, Callable[[np.ndarray, np.ndarray], Selection]] = {
    "likelihood": lambda matrix, alphas: cross_validate([Split(matrix, matrix)] * 3, alphas),
    "mse": lambda matrix, alphas: cross_validate([Split(matrix, matrix)] * 3, alphas, score="mse"),
    "ebic": lambda matrix, alphas: select_ebic(matrix, 1e6, alphas),
    "stars": lambda matrix, alphas: select_stars([matrix] * 3, alphas),
}


@pytest.mark.parametrize("rule", ["likelihood", "ebic", "stars"])
def test_choice_at_the_end_of_the_path_is_said(rule: str) -> None:
    """Whether the grid or the solutions ended the path, the note says which."""
    positive = np.array([[1.0, 0.6, 0.1], [0.6, 1.0, 0.6], [0.1, 0.6, 1.0]])
    indefinite = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    grid_ended = RULES[rule](positive, np.array([0.6, 0.3]))
    path_ended = RULES[rule](indefinite, np.array([0.9, 0.6, 0.01]))
    assert grid_ended.alpha == 0.3
    assert "smallest alpha" in (grid_ended.note or "")
    assert path_ended.alpha == 0.6
    assert "no solution" in (path_ended.note or "")


@pytest.mark.parametrize("rule", ["likelihood", "mse", "ebic", "stars"])
def test_empty_graph_is_explained(rule: str) -> None:
    """Where no edge helps, the first alpha is chosen and the note says why the graph is empty."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, P))
    covariance, halves = np.cov(rows.T), [np.cov(rows[rng.random(400) < 0.5].T) for _ in range(20)]
    alphas = alpha_grid(covariance)
    selection = {
        "ebic": lambda: select_ebic(covariance, 400, alphas),
        "stars": lambda: select_stars(halves, alphas),
    }.get(rule, lambda: cross_validate([Split(covariance, np.eye(P))] * 2, alphas, score=rule))()

    assert selection.alpha == alphas[0]
    assert "emptiest" in (selection.note or "")


SAME = Split(np.eye(2), np.eye(2))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: alpha_grid(np.eye(2), 1), "n_alphas"),
        (lambda: cross_validate([SAME] * 2, [0.1], score="r2"), "score"),
        (lambda: cross_validate([SAME] * 2, [0.1], patience=0), "patience"),
        (lambda: select_ebic(np.eye(2), 10, [0.1, 0.2]), "alphas"),
        (lambda: select_ebic(np.eye(2), 0, [0.1]), "n_effective"),
    ],
)
def test_what_is_not_allowed_is_named(call: Callable[[], object], name: str) -> None:
    """A bad argument is refused by its name."""
    with pytest.raises(ParameterError) as refused:
        call()
    assert refused.value.name == name


def test_patience_counts_graphs_rather_than_alphas() -> None:
    """A weak edge far down the path is found, although a strong one alone makes the graph of many alphas in between."""
    matrix = np.eye(6)
    matrix[0, 1] = matrix[1, 0] = 0.9
    matrix[2, 3] = matrix[3, 2] = 0.054
    alphas = alpha_grid(matrix, 40)
    selection = select_ebic(matrix, 5e6, alphas)

    assert count_edges(graphical_lasso(matrix, selection.alpha).precision) == 2
    assert np.isfinite(selection.scores).sum() > 20


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


def test_folds_without_any_solution_are_an_error() -> None:
    """When not even the first alpha has a solution, the error says so."""
    indefinite = np.array([[1.0, 3.0], [3.0, 1.0]])
    for select in (
        lambda: cross_validate([Split(indefinite, np.eye(2))] * 2, [0.1]),
        lambda: select_ebic(indefinite, 100, [0.1]),
        lambda: select_stars([indefinite] * 2, [0.1]),
    ):
        with pytest.raises(EstimationError, match="solution"):
            select()


ALPHAS = np.array([0.5, 0.25, 0.1])


@pytest.mark.parametrize("groups", [range(P), NODES], ids=["columns", "nodes"])
def test_squared_errors_are_those_of_the_estimate(groups: Sequence[int]) -> None:
    """Scores are those of the solutions, fold by fold, but within nodes; the first at half of the fall is chosen."""
    between, splits = np.not_equal.outer(groups, groups), split_rows(noisy_rows(1500, 1.0), 1.0)
    expected, n_edges = np.zeros(len(ALPHAS)), np.zeros(len(ALPHAS))
    for split in splits:
        for index, alpha in enumerate(ALPHAS):
            precision = graphical_lasso(split.train, alpha, groups=groups, tol=1e-11).precision
            expected[index] -= np.square((np.linalg.inv(precision) - split.test)[between]).mean() / len(splits)
            n_edges[index] += np.count_nonzero(precision[between]) / 2 / len(splits)
    selection = cross_validate(splits, ALPHAS, score="mse", patience=None, groups=groups)
    np.testing.assert_allclose(selection.scores, expected, atol=2e-3)
    np.testing.assert_allclose(selection.n_edges, n_edges, atol=1.0)
    half = 0.5 * (selection.scores[0] + selection.scores.max())
    assert selection.alpha == ALPHAS[np.argmax(selection.scores >= half)]
