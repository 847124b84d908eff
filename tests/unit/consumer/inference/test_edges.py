"""Estimates, intervals and tests of edges, the fit that they start from, and the evidence that ranks all pairs."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats
from tests.unit.consumer.sources import pooled_of, source_of

from dp_bundle.base.errors import ParameterError
from dp_learn.covariance.estimate import FormErrors, PooledCovariance, combine_sources
from dp_learn.covariance.standard_errors import form_variances, null_standard_errors, universal_penalty
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.inference.edges import EdgeInference, fit_for_inference, infer_edges, score_pairs, shrink_weights

P = 5
UPPER = np.triu_indices(P, 1)
TRIPLE = np.array([[1.0, 0.9, 0.6], [0.9, 1.0, 0.9], [0.6, 0.9, 1.0]])  # beside two of 0.9, 0.62 is the least
NEGATIVE = np.full((4, 4), -0.9) + 1.9 * np.eye(4)


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
    """T - S^^-1 is -(Theta - S^^-1) S^ (Theta - S^^-1), and T's errors in data units are Var[theta_i' S^ theta_j]."""
    pooled = make_pooled()
    exact, change = np.linalg.inv(pooled.covariance), 0.05 * np.diag(np.arange(1.0, P + 1))
    found = infer_edges(pooled, exact + change)

    np.testing.assert_allclose(found.estimate - exact, -change @ pooled.covariance @ change, atol=1e-12)
    np.testing.assert_allclose(found.standard_error**2, form_variances(pooled, exact + change), rtol=1e-12)


def test_p_values_are_normal_and_q_values_benjamini_and_hochbergs() -> None:
    """P-values are those of scipy's normal scores, q-values scipy's, and error bars repeat both with intervals."""
    inference = make_inference(n_rows=60)
    z = np.abs(inference.estimate / inference.standard_error)[UPPER]
    bars = inference.error_bars_at(UPPER)

    np.testing.assert_allclose(inference.p_values[UPPER], 2 * stats.norm.sf(z), rtol=1e-12)
    np.testing.assert_allclose(inference.q_values[UPPER], stats.false_discovery_control(2 * stats.norm.sf(z)))
    np.testing.assert_array_equal(inference.q_values, inference.q_values.T)
    np.testing.assert_array_equal(np.diagonal([inference.p_values, inference.q_values], axis1=1, axis2=2), 1.0)
    expected = dict(zip(("ci_low", "ci_high"), inference.partial_intervals(), strict=True))
    for name, whole in (expected | {"p_value": inference.p_values, "q_value": inference.q_values}).items():
        np.testing.assert_allclose(bars[name], whole[UPPER], rtol=1e-12)


def test_partial_intervals_are_what_the_test_does_not_reject() -> None:
    """An end is where the squared distance begins to exceed its error, and zero is outside exactly if p < 5 %."""
    square = stats.norm.ppf(0.975) ** 2
    for seed in range(10):
        inference = make_inference(n_rows=150, noise=0.2, seed=seed)
        low, high = inference.partial_intervals(0.95)
        r = inference.partial_correlation
        for end, outward in ((low, -1), (high, 1)):
            for step, inside in ((-1e-6, True), (1e-6, False)):
                x = end + outward * step
                excess = ((r - x) ** 2 - square * inference.errors.along(x))[UPPER]
                free = (np.abs(end) < 1)[UPPER] & (np.abs(r) < 1)[UPPER]
                assert ((excess < 0) == inside)[free].all()
        np.testing.assert_array_equal(((low > 0) | (high < 0))[UPPER], (inference.p_values < 0.05)[UPPER])


def test_uncertain_denominators_leave_one_side_or_everything_open() -> None:
    """As the error of the squares grows, an interval reaches the end of its side, and then is all of [-1, 1]."""
    constant = np.ones((2, 2))
    estimate = np.array([[1.0, -0.5], [-0.5, 1.0]])
    ends = []
    for squares in (0.0, 0.24, 0.27, 5.0):
        errors = FormErrors(0.01 * constant, 0.0 * constant, squares * constant)
        inference = EdgeInference(("a", "b"), estimate, 0.1 * constant, -estimate, errors)
        ends.append([end[0, 1] for end in inference.partial_intervals(0.95)])
    lows, highs = zip(*ends, strict=True)

    assert (lows[0], highs[0]) == pytest.approx((0.5 - 0.196, 0.5 + 0.196), abs=1e-3)
    assert lows[0] > lows[1] > lows[2] > 0.0
    assert lows[3] == -1.0
    assert highs[1:] == (1.0,) * 3


def test_column_without_conditional_variance_has_no_partial_correlation() -> None:
    """Where T_ii is not positive, partial correlations are NaN, their interval says nothing, and T is still tested."""
    covariance = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 1.0]])
    inference = infer_edges(pooled_of(50, covariance), np.diag([2.5, 1.0, 1.0]))

    assert inference.estimate[0, 0] < 0
    assert np.isnan(inference.partial_correlation[0, 1])
    assert [end[0, 1] for end in inference.partial_intervals()] == [-1.0, 1.0]
    assert 0.0 < inference.p_values[0, 1] < 1.0
    assert np.isfinite(inference.partial_correlation[1, 2])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: make_inference().partial_intervals(95), "level"),
        (lambda: infer_edges(make_pooled(), np.eye(3)), "precision.shape"),
        (lambda: infer_edges(make_pooled(), np.diag([1.0, 1.0, -1.0, 1.0, 1.0])), "precision"),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object], name: str) -> None:
    """Levels are shares, and the precision matrix fits the covariance."""
    with pytest.raises(ParameterError) as refused:
        call()
    assert refused.value.name == name


def chain(p: int = 8, phi: float = 0.6) -> np.ndarray:
    """Return the covariance of an autoregression, whose graph is a chain."""
    return phi ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))


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
    ("covariance", "n_rows", "noise"), [(TRIPLE, 2000, 1.0), (NEGATIVE, 10_000, 0.01)]
)  # the second is beyond the universal penalty
def test_indefinite_covariances_keep_a_share_of_the_penalty(covariance: np.ndarray, n_rows: int, noise: float) -> None:
    """Where no unpenalised fit exists on the chosen graph, the refit is positive definite and says what it kept."""
    fit = fit_for_inference(pooled_of(n_rows, covariance, noise))

    assert np.linalg.eigvalsh(covariance)[0] < 0
    assert fit.share > 0.0
    assert np.linalg.eigvalsh(fit.precision)[0] > 0


def test_correlations_rank_where_no_inverse_is_left() -> None:
    """A matrix that has no solution at that penalty is ranked by its correlations over their errors."""
    pooled, upper = pooled_of(10_000, NEGATIVE, 0.01), np.triu_indices(4, 1)
    ratio = score_pairs(pooled) * null_standard_errors(pooled) / np.abs(pooled.correlation)
    assert (score_pairs(pooled)[upper] > 10).all()
    assert np.ptp(ratio[upper]) < 1e-9


def inference_of(estimate: np.ndarray, error: float, noise: np.ndarray | None) -> EdgeInference:
    """Return the inference of standardised columns with these partial correlations and equal standard errors."""
    same = np.full(estimate.shape, error**2)
    names = tuple(f"c{place}" for place in range(len(estimate)))
    errors = FormErrors(same, np.zeros_like(same), np.zeros_like(same))
    return EdgeInference(names, 2.0 * np.eye(len(estimate)) - estimate, np.sqrt(same), estimate, errors, noise)


def symmetric(values: np.ndarray, n_columns: int) -> np.ndarray:
    """Return a matrix of partial correlations with these above the diagonal."""
    matrix = np.zeros((n_columns, n_columns))
    matrix[np.triu_indices(n_columns, 1)] = values
    return matrix + matrix.T + np.eye(n_columns)


def test_a_weight_is_the_expectation_given_the_estimate() -> None:
    """Where the fit is no limit, weights are the means of the posteriors, here by quadrature."""
    r, noise = np.array([0.3, -0.2, 0.05]), np.array([0.1, 0.2, 0.04])
    edges = np.triu_indices(3, 1)
    inference = inference_of(symmetric(r, 3), 0.1, symmetric(noise, 3))
    scale = np.sqrt(np.mean(r**2) - np.mean(noise**2))

    def mean(estimate: float, error: float) -> float:
        def density(x: float) -> float:
            return float(stats.norm.pdf(x, scale=scale) * stats.norm.pdf(estimate, x, error))

        return float(integrate.quad(lambda x: x * density(x), -2, 2)[0] / integrate.quad(density, -2, 2)[0])

    found = shrink_weights(inference, edges, np.zeros(3))

    np.testing.assert_allclose(found, [mean(*each) for each in zip(r, noise, strict=True)], rtol=1e-6)
    np.testing.assert_allclose(shrink_weights(inference, edges, 2.0 * r), r)  # no reason to shrink
    between = np.asarray(found) + 0.3 * (r - found)
    np.testing.assert_allclose(shrink_weights(inference, edges, between), between)


def test_no_edge_loses_its_weight_or_its_sign() -> None:
    """Estimates no larger than the noise are not shrunk to zero; where the estimate is unknown, the fit stays."""
    inference = inference_of(symmetric(np.array([0.1, -0.1, np.nan]), 3), 0.5, np.full((3, 3), 0.5))
    first, second, third = shrink_weights(inference, np.triu_indices(3, 1), np.array([-0.2, -0.3, 0.4]))

    assert 0.0 < first < 0.1
    assert -0.1 <= second < 0.0
    assert third == 0.4


def test_the_fit_is_the_weight_where_its_graph_is_right() -> None:
    """Where edges alone differ from zero by more than chance, and not where other pairs do, too."""
    truth = symmetric(np.where(np.arange(66) < 5, 0.4, 0.0), 12)
    edges = tuple(each[:5] for each in np.triu_indices(12, 1))
    errors = symmetric(np.random.default_rng(0).normal(0.0, 0.05, 66), 12) - np.eye(12)
    for factor, noise, is_right in ((0.8, 0.02, True), (3.0, 0.02, False), (3.0, None, True)):
        given = inference_of(truth + factor * errors, 0.05, None if noise is None else np.full((12, 12), noise))
        assert (shrink_weights(given, edges, np.full(5, 0.4)) is None) == is_right
