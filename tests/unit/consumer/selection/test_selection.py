"""EBIC, StARS and promises of all rules, against computations from scratch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.unit.consumer.selection.chains import PRECISION, P, count_edges, debias, noisy_rows, path_of, split_rows

from dp_bundle.base.errors import ParameterError
from dp_learn import graphical_lasso
from dp_learn.covariance.sample import Split
from dp_learn.selection.cross_validation import cross_validate
from dp_learn.selection.ebic import select_ebic
from dp_learn.selection.path import Selection, alpha_grid
from dp_learn.selection.stars import select_stars, stars_subsample_share


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
    alphas = alpha_grid(np.cov(rows.T))
    if rule == "ebic":
        selection = select_ebic(np.cov(rows.T), 400, alphas)
    elif rule == "stars":
        selection = select_stars([np.cov(rows[rng.random(400) < 0.5].T) for _ in range(20)], alphas)
    else:
        selection = cross_validate([Split(np.cov(rows.T), np.eye(P))] * 2, alphas, score=rule)

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
