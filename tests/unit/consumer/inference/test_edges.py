"""Estimates, intervals and tests of edges, the fit that they start from, and the evidence that ranks all pairs."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score
from tests.unit.consumer.sources import pooled_of, source_of

from dp_bundle.base.errors import NotConvergedError, ParameterError
from dp_learn.covariance.estimate import FormErrors, PooledCovariance, combine_sources
from dp_learn.covariance.standard_errors import form_errors, form_variances, null_standard_errors, universal_penalty
from dp_learn.glasso.graph_fit import fit_on_graph
from dp_learn.glasso.solving import graphical_lasso, solve
from dp_learn.inference.edges import EdgeInference, error_forms, fit_for_inference, infer_edges
from dp_learn.inference.evidence import score_pairs
from dp_learn.output.folder import write_estimate
from dp_learn.pipeline.graph import GraphEstimate

P = 5


def make_pooled(n_rows: int = 400, noise: float = 0.7, seed: int = 1) -> PooledCovariance:
    """Return the covariance of Gaussian rows whose columns are correlated in a chain."""
    rng = np.random.default_rng(seed)
    rows = np.cumsum(rng.normal(size=(n_rows, P)), axis=1) + np.sqrt(noise) * rng.normal(size=(n_rows, P))
    return combine_sources("abcde", [source_of(n_rows, np.cov(rows, rowvar=False), noise)])


def make_inference(n_rows: int = 400, noise: float = 0.7, seed: int = 1) -> EdgeInference:
    """Return the inference from the unpenalised inverse."""
    pooled = make_pooled(n_rows, noise, seed)
    return infer_edges(pooled, np.linalg.inv(pooled.covariance))


def test_desparsifying_leaves_an_error_of_second_order() -> None:
    """T - S^^-1 is -(Theta - S^^-1) S^ (Theta - S^^-1): half the error of Theta leaves a quarter."""
    pooled = make_pooled()
    exact = np.linalg.inv(pooled.covariance)
    change = 0.05 * np.diag(np.arange(1.0, P + 1))

    for share in (1.0, 0.5):
        error = infer_edges(pooled, exact + share * change).estimate - exact
        np.testing.assert_allclose(error, -(share**2) * change @ pooled.covariance @ change, atol=1e-12)


def test_standard_errors_are_those_of_the_forms_of_theta() -> None:
    """In data units the squared standard error is Var[theta_i' S^ theta_j], whatever scale it was computed on."""
    pooled = make_pooled()
    theta = np.linalg.inv(pooled.covariance + 0.1 * np.eye(P))

    found = infer_edges(pooled, theta).standard_error

    np.testing.assert_allclose(found**2, form_variances(pooled, theta), rtol=1e-12)


def test_given_errors_are_used() -> None:
    """Errors four times as large, as rows may give, double every standard error; without any, p is 1 everywhere."""
    pooled = make_pooled()
    theta = np.linalg.inv(pooled.covariance)
    rows, usual = form_errors(pooled, error_forms(pooled, theta)), infer_edges(pooled, theta)
    found, none = (infer_edges(pooled, theta, rows.times(factor)) for factor in (4.0, 0.0))

    np.testing.assert_allclose(found.standard_error, 2 * usual.standard_error, rtol=1e-12)
    np.testing.assert_allclose(found.partial_error, 2 * usual.partial_error, rtol=1e-9)
    np.testing.assert_array_equal(none.p_values, 1.0)  # as of two rows, which say the same
    assert len(none.edges_at_fdr(0.05)) == 0


def test_without_noise_partial_correlations_have_their_textbook_error() -> None:
    """It is (1 - r^2) / sqrt(n - 1), in any units."""
    pooled = make_pooled(noise=0.0)
    units = np.array([1.0, 1e3, 1e-4, 7.0, 1.0])
    source = pooled.sources[0]
    scaled = combine_sources(pooled.columns, [replace(source, covariance=source.covariance * np.outer(units, units))])
    upper = np.triu_indices(P, 1)

    for case in (pooled, scaled):
        inference = infer_edges(case, np.linalg.inv(case.covariance))
        r = inference.partial_correlation[upper]
        np.testing.assert_allclose(inference.partial_error[upper], (1 - r**2) / np.sqrt(399), rtol=1e-8)


def test_intervals_and_p_values_are_normal() -> None:
    """The interval at level 1 - p ends at zero."""
    inference = make_inference()
    p = inference.p_values[0, 2]
    ends = inference.intervals(1 - p)

    assert 0.001 < p < 0.999
    assert min(abs(end[0, 2]) for end in ends) < 1e-9 * inference.standard_error[0, 2]
    np.testing.assert_array_equal(np.diagonal(inference.p_values), 1.0)
    half_width = np.subtract(*inference.intervals(0.95)) / -2
    np.testing.assert_allclose(half_width, 1.959963984540054 * inference.standard_error, rtol=1e-12)


def test_partial_intervals_are_what_the_test_does_not_reject() -> None:
    """An end is where the squared distance begins to exceed its error, and zero is outside exactly if p < 5 %."""
    square = stats.norm.ppf(0.975) ** 2
    for seed in range(20):
        inference = make_inference(n_rows=150, noise=0.2, seed=seed)
        low, high = inference.partial_intervals(0.95)
        r = inference.partial_correlation
        upper = np.triu_indices(P, 1)
        for end, outward in ((low, -1), (high, 1)):
            for step, inside in ((-1e-6, True), (1e-6, False)):
                x = end + outward * step
                excess = ((r - x) ** 2 - square * inference.errors.along(x))[upper]
                free = (np.abs(end) < 1)[upper] & (np.abs(r) < 1)[upper]
                assert ((excess < 0) == inside)[free].all()
        excluded = ((low > 0) | (high < 0))[upper]
        np.testing.assert_array_equal(excluded, (inference.p_values < 0.05)[upper])


def test_uncertain_denominators_leave_one_side_or_everything_open() -> None:
    """As the error of the squares grows, an interval reaches the end of its side, and then is all of [-1, 1]."""
    constant = np.ones((2, 2))
    estimate = np.array([[1.0, -0.5], [-0.5, 1.0]])
    lows, highs = [], []
    for squares in (0.0, 0.24, 0.27, 5.0):
        errors = FormErrors(0.01 * constant, 0.0 * constant, squares * constant)
        low, high = EdgeInference(("a", "b"), estimate, 0.1 * constant, -estimate, errors).partial_intervals(0.95)
        lows.append(low[0, 1])
        highs.append(high[0, 1])

    assert (lows[0], highs[0]) == pytest.approx((0.5 - 0.196, 0.5 + 0.196), abs=1e-3)
    assert lows[0] > lows[1] > lows[2] > 0.0
    assert lows[3] == -1.0
    assert highs[1:] == [1.0] * 3


def test_column_without_conditional_variance_has_no_partial_correlation() -> None:
    """Where T_ii is not positive, partial correlations are NaN, their interval says nothing, and T is still tested."""
    covariance = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 1.0]])
    inference = infer_edges(pooled_of(50, covariance), np.diag([2.5, 1.0, 1.0]))

    assert inference.estimate[0, 0] < 0
    assert np.isnan(inference.partial_correlation[0, 1])
    assert (inference.partial_intervals()[0][0, 1], inference.partial_intervals()[1][0, 1]) == (-1.0, 1.0)
    assert 0.0 < inference.p_values[0, 1] < 1.0
    assert np.isfinite(inference.partial_correlation[1, 2])


def test_q_values_are_benjamini_and_hochbergs() -> None:
    """The edges listed at a rate are those that the step-up rule rejects, in order of their p-values."""
    inference = make_inference(n_rows=60)
    upper = np.triu_indices(P, 1)
    p = np.sort(inference.p_values[upper])
    for level in (0.01, 0.05, 0.2, 0.5):
        passed = np.flatnonzero(p <= level * np.arange(1, len(p) + 1) / len(p))
        expected = passed[-1] + 1 if len(passed) else 0
        edges = inference.edges_at_fdr(level)
        assert len(edges) == expected
        np.testing.assert_allclose(edges["p_value"], p[:expected], rtol=1e-12)
    np.testing.assert_array_equal(inference.q_values, inference.q_values.T)


def test_listed_edges_carry_names_errors_and_intervals() -> None:
    """Every row of the list repeats what the matrices say about its pair."""
    inference = make_inference()
    edges = inference.edges_at_fdr(0.05, confidence=0.9)
    low, high = inference.partial_intervals(0.9)

    assert len(edges) >= P - 1
    pairs = tuple(np.array(["abcde".index(name) for name in edges[end]]) for end in ("source", "target"))
    assert (pairs[0] < pairs[1]).all()
    for name, matrix in {
        "partial_correlation": inference.partial_correlation,
        "standard_error": np.sqrt(inference.errors.products),
        "ci_low": low,
        "ci_high": high,
        "p_value": inference.p_values,
        "q_value": inference.q_values,
        "precision": inference.estimate,
        "precision_standard_error": inference.standard_error,
    }.items():
        np.testing.assert_array_equal(edges[name], matrix[pairs])


def test_bad_arguments_are_refused() -> None:
    """Levels are shares, and the precision matrix fits the covariance."""
    inference = make_inference()
    for level in (0.0, 1.0, 95):
        for call in (inference.intervals, inference.partial_intervals, inference.edges_at_fdr):
            with pytest.raises(ParameterError, match="level"):
                call(level)
    with pytest.raises(ParameterError, match=r"precision\.shape"):
        infer_edges(make_pooled(), np.eye(3))
    with pytest.raises(ParameterError, match="positive diagonal"):
        infer_edges(make_pooled(), np.diag([1.0, 1.0, -1.0, 1.0, 1.0]))


def chain(p: int = 8, phi: float = 0.6) -> np.ndarray:
    """Return the covariance of an autoregression, whose graph is a chain."""
    steps = np.arange(p)
    return phi ** np.abs(np.subtract.outer(steps, steps))


def test_penalty_is_universal_and_knows_the_noise() -> None:
    """It is sqrt(2 log p) standard errors of a correlation near zero: here (1 + noise / signal) / sqrt(n - 1)."""
    alpha, weights = universal_penalty(pooled_of(401, 4.0 * chain(), 2.0))

    np.testing.assert_allclose(alpha * weights, np.sqrt(2 * np.log(8)) * 1.5 / 20, rtol=1e-13)


def test_refit_has_no_penalty_on_the_chosen_graph() -> None:
    """On the graph of the penalised solution the inverse reproduces S^, off it the precision is zero, in any units."""
    rng = np.random.default_rng(1)
    units = np.array([1.0, 1e-3, 50.0, 1.0, 2.0, 1e4, 1.0, 1.0])
    covariance = np.cov(rng.multivariate_normal(np.zeros(8), chain(), 2000), rowvar=False)
    pooled = pooled_of(2000, covariance, 1.0)
    alpha, weights = universal_penalty(pooled)
    chosen = graphical_lasso(pooled.correlation, alpha, weights=weights, penalize_diagonal=False, tol=1e-9)
    edge = chosen.precision != 0

    fit = fit_for_inference(pooled)
    other = fit_for_inference(pooled_of(2000, covariance * np.outer(units, units), units**2))

    assert fit.share == 0.0
    assert 8 < edge.sum() < 64
    np.testing.assert_array_equal(fit.precision != 0, edge)
    np.testing.assert_allclose(np.linalg.inv(fit.precision)[edge], covariance[edge], atol=1e-3)
    np.testing.assert_allclose(other.precision * np.outer(units, units), fit.precision, atol=1e-3)


@pytest.mark.parametrize(
    ("covariance", "n_rows", "noise"),
    [
        (np.array([[1.0, 0.9, 0.6], [0.9, 1.0, 0.9], [0.6, 0.9, 1.0]]), 2000, 1.0),  # 0.62 is the least
        (np.full((4, 4), -0.9) + 1.9 * np.eye(4), 10_000, 0.01),  # beyond the universal penalty
    ],
)
def test_indefinite_covariances_keep_a_share_of_the_penalty(covariance: np.ndarray, n_rows: int, noise: float) -> None:
    """Where no unpenalised fit exists on the chosen graph, the refit is positive definite and says what it kept."""
    fit = fit_for_inference(pooled_of(n_rows, covariance, noise))

    assert np.linalg.eigvalsh(covariance)[0] < 0
    assert fit.share > 0.0
    assert np.linalg.eigvalsh(fit.precision)[0] > 0


def test_solver_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph must not rest on an unfinished solution."""
    rng = np.random.default_rng(2)
    covariance = np.cov(rng.multivariate_normal(np.zeros(8), chain(), 300), rowvar=False)
    monkeypatch.setattr("dp_learn.inference.edges.solve", partial(solve, max_iter=1))
    with pytest.raises(NotConvergedError, match="did not converge"):
        fit_for_inference(pooled_of(300, covariance, 1.0))


def test_fit_to_an_indefinite_matrix_is_found_where_there_is_one() -> None:
    """A chain's fit exists wherever neighbours' correlations are below one, however indefinite the other entries."""
    rng = np.random.default_rng(0)
    p = 30
    noise, steps = np.tril(rng.uniform(-0.6, 0.6, (p, p)), -1), np.arange(1, p + 1)
    matrix, edges = noise + noise.T + np.eye(p), np.abs(np.subtract.outer(steps, steps)) <= 1
    for each in (matrix, matrix * np.outer(steps, steps)):
        fitted = fit_on_graph(each, edges, np.ones((p, p)), tol=1e-10)

        assert np.linalg.eigvalsh(each)[0] < -1.0
        assert fitted is not None
        assert fitted.share == 0.0
        np.testing.assert_allclose(np.linalg.inv(fitted.precision)[edges], each[edges], rtol=1e-4, atol=1e-4)


N_CHAIN = 40


def chain_pooled(variance: float, n_rows: int = 3000, units: float = 1.0) -> tuple[PooledCovariance, np.ndarray]:
    """Return the covariance of noisy rows whose graph is a chain of strong links, and that graph."""
    precision = np.eye(N_CHAIN) + 0.5 * (np.eye(N_CHAIN, k=1) + np.eye(N_CHAIN, k=-1))
    covariance = np.linalg.inv(precision)
    deviations = np.sqrt(np.diagonal(covariance))
    rng = np.random.default_rng(4)
    rows = rng.multivariate_normal(np.zeros(N_CHAIN), covariance / np.outer(deviations, deviations), n_rows)
    noisy = units * (rows + np.sqrt(variance) * rng.normal(size=rows.shape))
    variances = np.full(N_CHAIN, variance * units**2)
    return pooled_of(n_rows, np.cov(noisy.T) - np.diag(variances), variances), precision != 0


def auc(scores: np.ndarray, graph: np.ndarray) -> float:
    """Return the area under the curve of a ranking of all pairs."""
    upper = np.triu_indices(N_CHAIN, 1)
    return float(roc_auc_score(graph[upper], scores[upper]))


@pytest.mark.slow
def test_ranking_is_good_at_every_strength_of_the_noise() -> None:
    """It finds a chain with little noise, and with as much noise as signal, which buries the desparsified estimate."""
    for variance, least in ((0.01, 0.99), (1.0, 0.97)):
        pooled, graph = chain_pooled(variance)
        assert auc(score_pairs(pooled), graph) > least

    desparsified = infer_edges(pooled, fit_for_inference(pooled).precision).scores
    assert auc(desparsified, graph) < 0.9


def test_scores_do_not_depend_on_units() -> None:
    """Columns in other units have the same scores, which are symmetric and zero on the diagonal."""
    scores = score_pairs(chain_pooled(0.2)[0])

    np.testing.assert_allclose(score_pairs(chain_pooled(0.2, units=1000.0)[0]), scores, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(scores, scores.T)
    assert (np.diagonal(scores) == 0).all()


def test_correlations_rank_where_no_inverse_is_left() -> None:
    """A matrix that has no solution at that penalty is ranked by its correlations over their errors."""
    covariance = np.full((4, 4), -0.9) + 1.9 * np.eye(4)
    pooled = pooled_of(10_000, covariance, 0.01)
    expected = np.abs(pooled.correlation) / null_standard_errors(pooled)
    upper = np.triu_indices(4, 1)

    assert (score_pairs(pooled)[upper] > 10).all()
    assert np.ptp(score_pairs(pooled)[upper] / expected[upper]) < 1e-9


def test_lists_are_ordered_by_the_evidence(tmp_path: Path) -> None:
    """The edges come surest first, and ranking.csv holds all pairs, or the 10,000 surest."""
    p = 150
    rng = np.random.default_rng(0)
    scores = np.triu(rng.exponential(size=(p, p)), 1)
    precision = np.eye(p) + 1e-3 * (scores > 2)
    names, evidence = tuple(f"c{index}" for index in range(p)), scores + scores.T
    write_estimate(GraphEstimate(names, precision + np.triu(precision, 1).T, np.eye(p), evidence=evidence), tmp_path)
    edges, ranking = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("edges", "ranking"))

    assert len(edges) == np.count_nonzero(scores > 2)
    np.testing.assert_allclose(edges["evidence"], np.sort(scores[scores > 2])[::-1])
    np.testing.assert_allclose(ranking["evidence"], np.sort(scores[np.triu_indices(p, 1)])[::-1][:10_000])
    first = ranking.loc[0]
    assert scores[int(first["source"][1:]), int(first["target"][1:])] == scores.max()
