"""Neighbourhood selection, SCIO and CLIME against independent computations of the same problems."""

import re
from typing import Any

import numpy as np
import pytest
from scipy.optimize import OptimizeResult, linprog
from sklearn.linear_model import Lasso
from tests.unit.consumer.estimators.tables import missed, noisy_chain

from dp_bundle.base.errors import EstimationError, NotConvergedError, ParameterError
from dp_learn.estimators.columnwise import (
    clime_precision,
    keep_smaller,
    neighborhood_selection,
    scio_precision,
    smallest_column_alpha,
    solve_linear_programme,
)
from dp_learn.estimators.registry import ESTIMATORS
from dp_learn.glasso.solvers.gram_lasso import solve_gram_lassos
from dp_learn.matrices.linalg import FloatArray
from dp_learn.matrices.repair import repair_covariance

RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(80, 9)) @ (np.eye(9) + 0.25 * RNG.normal(size=(9, 9)))
ROWS = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0)
S = ROWS.T @ ROWS / len(ROWS)
S = (S + S.T) / 2
WEIGHTS = (lambda a: (a + a.T) / 2)(RNG.uniform(0.5, 2.0, size=(9, 9)))


def lasso(x: FloatArray, y: FloatArray, penalty: FloatArray) -> FloatArray:
    """Return scikit-learn's solution of (1/2n) |y - x b|^2 + sum penalty |b|, the penalties as units of the columns."""
    fitted = Lasso(1.0, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(x / penalty, y)
    return np.asarray(fitted.coef_) / penalty


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("weights", [np.ones((9, 9)), WEIGHTS], ids=["equal", "weighted"])
def test_neighborhoods_are_scikit_learns_lassos(alpha: float, weights: FloatArray) -> None:
    """Every column's coefficients are those of the lasso on the rows themselves."""
    found = neighborhood_selection(S, alpha, weights=weights).coefficients
    for j in range(9):
        others = np.arange(9) != j
        expected = lasso(ROWS[:, others], ROWS[:, j], alpha * weights[j, others])
        np.testing.assert_allclose(found[j, others], expected, atol=1e-6)
        assert found[j, j] == 0.0
    assert 0 < np.count_nonzero(found) < 72


def test_the_two_rules_make_the_graph_from_the_coefficients() -> None:
    """`and` asks for both coefficients of a pair, `or` for one; the precision matrix has exactly these edges."""
    both = neighborhood_selection(S, 0.15, rule="and")
    either = neighborhood_selection(S, 0.15, rule="or")
    nonzero = both.coefficients != 0.0

    np.testing.assert_array_equal(both.edges, nonzero & nonzero.T)
    np.testing.assert_array_equal(either.edges, nonzero | nonzero.T)
    assert both.edges.sum() < either.edges.sum()
    for found in (both, either):
        np.testing.assert_array_equal(found.precision, found.precision.T)
        np.testing.assert_array_equal((found.precision != 0.0) & ~np.eye(9, dtype=bool), found.edges)


def test_with_little_penalty_neighborhoods_give_the_inverse() -> None:
    """As alpha goes to zero, the regressions' precision matrix goes to the inverse of the covariance."""
    np.testing.assert_allclose(neighborhood_selection(S, 1e-9).precision, np.linalg.inv(S), atol=1e-5)


def clime_column(s: FloatArray, j: int, tolerance: FloatArray) -> FloatArray:
    """Return CLIME's column by another programme (sizes as variables, slacks as equalities) and an interior point."""
    p, eye, zero = len(s), np.eye(len(s)), np.zeros((len(s), len(s)))
    answer = linprog(
        np.concatenate((np.zeros(p), np.ones(p), np.zeros(p))),
        A_ub=np.block([[eye, -eye, zero], [-eye, -eye, zero]]),
        b_ub=np.zeros(2 * p),
        A_eq=np.hstack((s, zero, eye)),
        b_eq=eye[j],
        bounds=[(None, None)] * p + [(0, None)] * p + [(-t, t) for t in tolerance],
        method="highs-ipm",
    )
    assert answer.status == 0
    return np.asarray(answer.x[:p])


def scio_column(s: FloatArray, j: int, penalty: FloatArray) -> FloatArray:
    """Return SCIO's column by the lasso: with rows X and y = X S^-1 e_j its objective is SCIO's."""
    return lasso(ROWS, ROWS @ np.linalg.inv(s)[j], penalty)


def indefinite() -> FloatArray:
    """Return the correlations with noise that makes them indefinite."""
    noise = np.random.default_rng(1).normal(scale=0.2, size=S.shape)
    s = S + np.triu(noise, 1) + np.triu(noise, 1).T
    assert np.linalg.eigvalsh(s)[0] < -0.05
    return s


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("weights", [np.ones((9, 9)), WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize(("method", "column"), [(scio_precision, scio_column), (clime_precision, clime_column)])
def test_columns_are_what_others_find(method: Any, column: Any, weights: FloatArray, alpha: float) -> None:
    """Scikit-learn's lasso, or an independent programme solved by an interior-point method, has the same columns."""
    columns = np.array([column(S, j, alpha * weights[j]) for j in range(9)])
    expected = np.where(np.abs(columns) <= np.abs(columns.T), columns, columns.T)

    np.testing.assert_allclose(method(S, alpha, weights=weights), expected, atol=1e-6)
    assert np.count_nonzero(expected) > 9


def test_clime_solves_an_indefinite_matrix_as_it_is() -> None:
    """Its programme does not care about the sign of the eigenvalues."""
    columns = np.array([clime_column(indefinite(), j, np.full(9, 0.3)) for j in range(9)])
    expected = np.where(np.abs(columns) <= np.abs(columns.T), columns, columns.T)
    np.testing.assert_allclose(clime_precision(indefinite(), 0.3), expected, atol=1e-6)


@pytest.mark.parametrize("method", [neighborhood_selection, scio_precision])
def test_least_squares_refuse_an_indefinite_matrix(method: Any) -> None:
    """The sentence names the eigenvalue and the remedy, which then works."""
    with pytest.raises(ParameterError, match=r"use repair_covariance first, not .one with the eigenvalue -0"):
        method(indefinite(), 0.3)
    method(repair_covariance(indefinite(), "maxnorm").covariance, 0.3)


@pytest.mark.parametrize(("method", "name"), [(scio_precision, "SCIO"), (clime_precision, "CLIME")])
def test_singular_covariance_names_the_smallest_alpha(method: Any, name: str) -> None:
    """At the alpha in the sentence there is an estimate, and just below it there is none."""
    singular = repair_covariance(indefinite(), "clip").covariance
    d, q = np.linalg.eigh(singular)
    null = q[:, d < 1e-9]
    smallest = smallest_column_alpha(singular, np.ones((9, 9)))

    # with one null direction d the constraint |e_j'd| <= alpha |d|_1 is all there is to it
    if null.shape[1] == 1:
        assert smallest == pytest.approx(np.abs(null).max() / np.abs(null).sum(), rel=1e-6)
    with pytest.raises(EstimationError, match=f"{name} has no solution at alpha = .* smallest alpha that has one is"):
        method(singular, 0.9 * smallest)
    assert method(singular, 1.01 * smallest).shape == (9, 9)


@pytest.mark.parametrize("method", [scio_precision, clime_precision])
def test_a_free_diagonal_is_left_where_all_else_is_penalised_away(method: Any) -> None:
    """At alpha = 1 the zero matrix is optimal; with a free diagonal isolated columns have their inverse variance."""
    with pytest.raises(EstimationError, match="no positive diagonal entry"):
        method(S, 1.0)
    np.testing.assert_allclose(method(S, 0.999, penalize_diagonal=False), np.diag(1.0 / S.diagonal()), atol=1e-9)


def test_residuals_say_how_good_a_lasso_is() -> None:
    """The residual of every column is the violation of the optimality conditions, small when solved."""
    penalty = np.full((9, 9), 0.05)
    solutions, residuals = solve_gram_lassos(S, np.eye(9), penalty)
    rest = np.eye(9) - solutions @ S
    violated = np.where(solutions == 0.0, np.abs(rest) - penalty, np.abs(rest - np.sign(solutions) * penalty))

    np.testing.assert_allclose(residuals, np.maximum(violated.max(axis=1), 0.0), atol=1e-12)
    assert residuals.max() <= 1e-10
    flat = np.ones((2, 2))  # unbounded along (1, -1)
    assert solve_gram_lassos(flat, np.eye(2), np.full((2, 2), 0.1))[1].max() > 0.1


@pytest.mark.parametrize("method", [scio_precision, clime_precision])
@pytest.mark.parametrize("size", [1e-5, 1e-7])
def test_nearly_collinear_columns_end_in_an_answer_or_in_a_sentence(method: Any, size: float) -> None:
    """Whatever the linear programmes' solver makes of them, no words of its own come out."""
    rng = np.random.default_rng(0)  # twelve columns made of three factors, but for parts of their own of this size
    rows = rng.normal(size=(2000, 3)) @ rng.normal(size=(3, 12)) + size * rng.normal(size=(2000, 12))
    said = "nearly collinear"
    try:
        assert np.isfinite(method(np.corrcoef(rows, rowvar=False), 1e-6)).all()
    except EstimationError as error:
        said = str(error)
    assert re.search("the smallest alpha that has one|nearly collinear", said)
    assert "HiGHS" not in said


@pytest.mark.parametrize("n_failures", [1, 2])
def test_a_linear_programme_that_rounding_spoils_is_tried_again_and_then_blamed_on_the_columns(
    n_failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second tolerance may do where the first does not; where neither does, columns are nearly collinear."""
    tried: list[float] = []

    def solve(*words: Any, options: dict[str, float], **others: Any) -> OptimizeResult:
        tried.append(options["primal_feasibility_tolerance"])
        failed = OptimizeResult(status=4, message="HiGHS Status 0: Not Set")
        return failed if len(tried) <= n_failures else linprog(*words, options=options, **others)

    monkeypatch.setattr("dp_learn.estimators.columnwise.linprog", solve)
    programme = (np.ones(2), -np.eye(2), -np.ones(2), None)
    if n_failures == 1:
        assert solve_linear_programme(*programme) == pytest.approx([1.0, 1.0])
    else:
        with pytest.raises(NotConvergedError, match=r"so nearly collinear .*: leave out columns that others"):
            solve_linear_programme(*programme)
    assert tried == [1e-10, 1e-7]


def test_smaller_of_each_pair() -> None:
    """Of a pair the smaller in size is kept, and of two that contradict each other at equal size neither."""
    kept = keep_smaller(np.array([[1.0, -2.0, 3.0], [0.5, 1.0, 4.0], [-3.0, 4.0, 1.0]]))
    np.testing.assert_array_equal(kept, [[1.0, 0.5, 0.0], [0.5, 1.0, 4.0], [0.0, 4.0, 1.0]])


@pytest.mark.parametrize("name", ["neighborhood", "scio", "clime"])
def test_estimators_find_the_chain_behind_the_noise(name: str) -> None:
    """Each finds the edges of a chain, and few others, in rows as noisy as their signal."""
    fitted = ESTIMATORS[name](noise_variance=1.0).fit(noisy_chain(8000))

    assert not missed(fitted)
    assert len(fitted.edges_) < 20
    assert np.count_nonzero(np.triu(fitted.precision_, 1)) == len(fitted.edges_)


@pytest.mark.parametrize("name", ["neighborhood", "scio", "clime"])
def test_estimators_cope_with_an_indefinite_debiased_covariance(name: str) -> None:
    """On few rows with much noise, also with weights, each returns an estimate, and in other units the same one."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(100, 10)) + 2.0 * rng.normal(size=(100, 1)) + 2.0 * rng.normal(size=(100, 10))
    units = 2.0 ** np.arange(-4, 6)  # so that nothing is rounded differently
    for weights in ("equal", "noise"):
        fitted = ESTIMATORS[name](noise_variance=4.0, weights=weights).fit(rows)
        other = ESTIMATORS[name](noise_variance=4.0 * units**2, weights=weights).fit(rows * units)
        np.testing.assert_allclose(other.precision_ * np.outer(units, units), fitted.precision_, atol=1e-9)
        assert fitted.smallest_eigenvalue_ < 0.0
        assert fitted.repair_ == "maxnorm"
        np.testing.assert_allclose(np.diagonal(fitted.covariance_), rows.var(axis=0, ddof=1) - 4.0, rtol=1e-6)
        assert (np.diagonal(fitted.precision_) > 0.0).all()


def test_other_bad_settings() -> None:
    """An unknown rule, weights of another shape, an infinite tolerance and a constant column are named."""
    with pytest.raises(ParameterError, match="rule must be or, and"):
        neighborhood_selection(S, 0.1, rule="xor")
    for method in (neighborhood_selection, scio_precision, clime_precision):
        with pytest.raises(ParameterError, match=r"weights\.shape"):
            method(S, 0.1, weights=np.ones((2, 2)))
    with pytest.raises(ParameterError, match="weights must be finite"):
        clime_precision(S, 0.1, weights=np.where(np.eye(9) > 0.0, 1.0, np.inf))
    with pytest.raises(ParameterError, match="positive variances"):
        neighborhood_selection(np.diag([1.0, 0.0]), 0.1)
