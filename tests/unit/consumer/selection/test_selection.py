"""EBIC, StARS, cross-validation and promises of all rules, against computations from scratch."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from sklearn.covariance import GraphicalLassoCV
from sklearn.model_selection import KFold
from tests.unit.consumer.selection.chains import PRECISION, P, count_edges, debias, noisy_rows, path_of, split_rows

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_learn import graphical_lasso
from dp_learn.covariance.sample import Split
from dp_learn.matrices.linalg import FloatArray
from dp_learn.selection.cross_validation import cross_validate, select_stars, stars_subsample_share
from dp_learn.selection.ebic import select_ebic
from dp_learn.selection.path import Selection, alpha_grid


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


@pytest.mark.parametrize("threshold", [0.05, 0.1])
def test_stars_takes_the_smallest_stable_alpha(threshold: float) -> None:
    """Scores equal the instability counted pair by pair, and the choice is the last stable graph that is sparse."""
    rng = np.random.default_rng(3)
    rows = noisy_rows(1200, 0.3)
    subsamples = [debias(rows[rng.random(len(rows)) < 0.4], 0.3) for _ in range(10)]
    alphas = alpha_grid(debias(rows, 0.3), 15, 0.001)
    instability, density = [], []
    for thetas in zip(*(path_of(matrix, alphas) for matrix in subsamples), strict=True):
        graphs = [theta != 0 for theta in thetas]
        shares = [np.mean([graph[i, j] for graph in graphs]) for i in range(P) for j in range(i)]
        instability.append(np.mean([2 * share * (1 - share) for share in shares]))
        density.append(np.mean(shares))
    selection = select_stars(subsamples, alphas, threshold=threshold)
    unstable = np.array(instability) > threshold
    last = int(np.argmax(unstable & (np.array(density) > 0.5)))  # where the walk ends
    walked = np.isfinite(selection.scores)

    assert 0 < last < len(alphas) - 1
    np.testing.assert_array_equal(np.flatnonzero(walked), np.arange(last + 1))
    np.testing.assert_allclose(-selection.scores[walked], np.array(instability)[walked], atol=1e-12)
    assert selection.alpha == alphas[: last + 1][~unstable[: last + 1]][-1]
    assert not unstable[last:].all()  # the densest graphs agree again, which must not count


def test_stars_finds_a_chain_on_few_columns_behind_unstable_alphas() -> None:
    """All edges of a chain appear at about one alpha, which shakes the graph of eight columns before it settles."""
    rng = np.random.default_rng(1)
    chain = np.eye(8) + np.diag(np.full(7, 0.45), 1) + np.diag(np.full(7, 0.45), -1)
    rows = rng.multivariate_normal(np.zeros(8), np.linalg.inv(chain), size=4000)
    subsamples = [np.corrcoef(rows[rng.random(len(rows)) < 0.16].T) for _ in range(20)]
    alphas = alpha_grid(np.corrcoef(rows.T))
    selection = select_stars(subsamples, alphas, threshold=0.04)

    assert selection.scores[alphas > selection.alpha].min() < -0.04
    np.testing.assert_array_equal(graphical_lasso(np.corrcoef(rows.T), selection.alpha).precision != 0, chain != 0)


@pytest.mark.parametrize(("n", "share"), [(1.0, 0.8), (144.0, 0.8), (10_000.0, 0.1), (1e6, 0.01)])
def test_subsamples_hold_ten_times_the_root_of_the_effective_rows(n: float, share: float) -> None:
    """The share of the rows is 10 / sqrt(n), at most 0.8."""
    assert stars_subsample_share(n) == pytest.approx(share)


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
    assert "smallest alpha of the path" in (grid_ended.note or "")
    assert path_ended.alpha == 0.6
    assert "smaller alphas have no solution" in (path_ended.note or "")


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
    assert "the emptiest graph of the path was chosen because" in (selection.note or "")


def test_weights_reach_every_rule() -> None:
    """With one pair free and all others forbidden no score changes along the path."""
    matrix = debias(noisy_rows(500, 0.0), 0.0)
    weights = np.full((P, P), np.inf)
    weights[0, 1] = weights[1, 0] = 0.0
    np.fill_diagonal(weights, 0.0)
    alphas = np.array([0.3, 0.1])
    for selection in (
        cross_validate(split_rows(noisy_rows(500, 0.0), 0.0), alphas, weights=weights),
        select_ebic(matrix, 500, alphas, weights=weights),
        select_stars([matrix, matrix], alphas, weights=weights),
    ):
        assert selection.scores[0] == pytest.approx(selection.scores[1], abs=1e-9)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: alpha_grid(np.eye(2), 1), "n_alphas"),
        (lambda: alpha_grid(np.eye(2), 5, 1.0), "ratio"),
        (lambda: cross_validate([Split(np.eye(2), np.eye(2))], [0.1]), "splits"),
        (lambda: cross_validate([Split(np.eye(2), np.eye(2))] * 2, [0.1], score="r2"), "score"),
        (lambda: cross_validate([Split(np.eye(2), np.eye(2))] * 2, [0.1], patience=0), "patience"),
        (lambda: cross_validate([Split(np.eye(2), np.eye(2))] * 2, []), "alphas"),
        (lambda: select_ebic(np.eye(2), 10, [0.1, 0.2]), "alphas"),
        (lambda: select_ebic(np.eye(2), 10, [0.2, -0.1]), "alphas"),
        (lambda: select_ebic(np.eye(2), 0, [0.1]), "n_effective"),
        (lambda: select_ebic(np.eye(2), 10, [0.1], gamma=2.0), "gamma"),
        (lambda: select_ebic(np.eye(2), 10, [0.1], patience=0), "patience"),
        (lambda: select_stars([np.eye(2)], [0.1]), "subsamples"),
        (lambda: select_stars([np.eye(2)] * 2, [0.1], threshold=0.6), "threshold"),
        (lambda: stars_subsample_share(0.5), "n_effective"),
    ],
)
def test_what_is_not_allowed_is_named(call: Callable[[], object], name: str) -> None:
    """A bad argument is one sentence that begins with its name."""
    with pytest.raises(ParameterError, match=f"^{name} "):
        call()


def test_patience_counts_graphs_rather_than_alphas() -> None:
    """A weak edge far down the path is found, although a strong one alone makes the graph of many alphas in between."""
    matrix = np.eye(6)
    matrix[0, 1] = matrix[1, 0] = 0.9
    matrix[2, 3] = matrix[3, 2] = 0.054
    alphas = alpha_grid(matrix, 40)
    selection = select_ebic(matrix, 5e6, alphas)

    assert count_edges(graphical_lasso(matrix, selection.alpha).precision) == 2
    assert np.isfinite(selection.scores).sum() > 20


def _voltages(n_rows: int = 2000, n_buses: int = 20) -> np.ndarray:
    """Return the debiased correlations of voltages along a feeder at 80 dB, whose condition number is above 1e8."""
    rng = np.random.default_rng(0)
    loads = rng.normal(size=(n_rows, 1)) + 0.3 * rng.normal(size=(n_rows, n_buses))
    resistance = np.minimum.outer(np.arange(n_buses), np.arange(n_buses)) + 1.0
    rows = loads @ resistance
    sigma = 1e-4 * rows.std(axis=0)
    covariance = np.cov((rows + sigma * rng.normal(size=rows.shape)).T) - np.diag(sigma**2)
    unit = np.sqrt(np.diagonal(covariance))
    return covariance / np.outer(unit, unit)


def test_nearly_collinear_columns_have_a_graph() -> None:
    """Where unpenalised fits are nearly singular, a graph that explains the covariance is chosen."""
    matrix = _voltages()
    eigenvalues = np.linalg.eigvalsh(matrix)
    assert eigenvalues[-1] > 1e8 * abs(eigenvalues[0])
    selection = select_ebic(matrix, 2000, alpha_grid(matrix), solver="auto")

    assert count_edges(graphical_lasso(matrix, selection.alpha, solver="auto").precision) > len(matrix)
    assert np.nanmax(selection.scores) > selection.scores[0] + 10.0
    assert selection.note is None


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


def test_squared_error_is_chosen_at_half_its_fall() -> None:
    """The choice is the first alpha at half the fall of the error or below."""
    splits = split_rows(noisy_rows(2000, 1.0), 1.0)
    alphas = alpha_grid(splits[0].train, 15, 0.02)
    selection = cross_validate(splits, alphas, score="mse", patience=None)

    half = 0.5 * (selection.scores[0] + selection.scores.max())
    assert selection.alpha == alphas[np.flatnonzero(selection.scores >= half)[0]]
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
@pytest.mark.parametrize("of_blocks", [False, True])
def test_scores_are_those_of_the_estimate(of_blocks: bool, score: str, splits: list[Split]) -> None:
    """Each score equals that of the solution, fold by fold; differences within nodes do not count."""
    groups = nodes_of(splits[0].train) if of_blocks else list(range(P))
    between = np.not_equal.outer(groups, groups)
    expected, n_edges = np.zeros(len(ALPHAS)), np.zeros(len(ALPHAS))
    for split in splits:
        for index, alpha in enumerate(ALPHAS):
            found = graphical_lasso(split.train, alpha, groups=groups if of_blocks else None, tol=1e-11)
            unit = np.sqrt(1.0 + alpha / np.diagonal(split.train))  # the penalty on the diagonal, undone
            theta = found.precision * np.outer(unit, unit)
            likelihood = np.linalg.slogdet(theta)[1] - np.trace(split.test @ theta)
            squares = -np.square((np.linalg.inv(found.precision) - split.test)[between]).mean()
            expected[index] += (likelihood if score == "likelihood" else squares) / len(splits)
            n_edges[index] += np.count_nonzero(found.precision[between]) / 2 / len(splits)
    options = {"groups": groups} if of_blocks else {}
    selection = cross_validate(splits, ALPHAS, score=score, patience=None, **options)
    np.testing.assert_allclose(selection.scores, expected, atol=2e-3)
    np.testing.assert_allclose(selection.n_edges, n_edges, atol=1.0)
    assert score == "mse" or selection.alpha == ALPHAS[np.argmax(expected)]


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
    np.testing.assert_array_equal(alphas, alpha_grid(splits[0].train, 6, 0.1, groups=groups))
    matrices = [split.train for split in splits]
    for rule in (
        partial(cross_validate, splits, alphas),
        partial(cross_validate, splits, alphas, score="mse"),
        partial(select_stars, matrices, alphas),
        partial(select_ebic, matrices[0], 500, alphas),
    ):
        one, other = rule(), rule(groups=groups)
        np.testing.assert_array_equal(one.scores, other.scores)
        assert one.alpha == other.alpha
