"""Neighbourhood selection, SCIO and CLIME against independent computations of the same problems."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import Lasso

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_learn.estimators.columnwise import (
    clime_precision,
    neighborhood_selection,
    scio_precision,
    smallest_column_alpha,
)
from dp_learn.matrices.linalg import FloatArray
from dp_learn.matrices.repair import repair_covariance
from dp_learn.output.estimator_results import ESTIMATORS

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


@pytest.mark.parametrize("alpha", [0.02, 0.2])
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
    both, either = (neighborhood_selection(S, 0.15, rule=rule) for rule in ("and", "or"))
    nonzero = both.coefficients != 0.0

    np.testing.assert_array_equal(both.edges, nonzero & nonzero.T)
    np.testing.assert_array_equal(either.edges, nonzero | nonzero.T)
    assert both.edges.sum() < either.edges.sum()
    for found in (both, either):
        np.testing.assert_array_equal((found.precision != 0.0) & ~np.eye(9, dtype=bool), found.edges)


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


@pytest.mark.parametrize("weights", [np.ones((9, 9)), WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize(("method", "column"), [(scio_precision, scio_column), (clime_precision, clime_column)])
def test_columns_are_what_others_find(method: Any, column: Any, weights: FloatArray) -> None:
    """Scikit-learn's lasso, or an independent programme solved by an interior-point method, has the same columns."""
    for s, alpha in ((S, 0.02), (S, 0.2), (indefinite(), 0.3))[: 3 if method is clime_precision else 2]:
        columns = np.array([column(s, j, alpha * weights[j]) for j in range(9)])
        expected = np.where(np.abs(columns) <= np.abs(columns.T), columns, columns.T)
        np.testing.assert_allclose(method(s, alpha, weights=weights), expected, atol=1e-6)
        assert np.count_nonzero(expected) > 9


@pytest.mark.parametrize("method", [neighborhood_selection, scio_precision])
def test_least_squares_refuse_an_indefinite_matrix(method: Any) -> None:
    """The error names the remedy, which then works."""
    with pytest.raises(ParameterError, match="repair_covariance"):
        method(indefinite(), 0.3)
    method(repair_covariance(indefinite(), "maxnorm").covariance, 0.3)


@pytest.mark.parametrize("method", [scio_precision, clime_precision])
def test_singular_covariance_names_the_smallest_alpha(method: Any) -> None:
    """Just above the alpha in the sentence there is an estimate, and just below it there is none."""
    singular = repair_covariance(indefinite(), "clip").covariance
    smallest = smallest_column_alpha(singular, np.ones((9, 9)))

    with pytest.raises(EstimationError, match=f"{smallest:.6g}"):
        method(singular, 0.9 * smallest)
    assert method(singular, 1.01 * smallest).shape == (9, 9)


@pytest.mark.parametrize("method", [scio_precision, clime_precision])
def test_a_free_diagonal_is_left_where_all_else_is_penalised_away(method: Any) -> None:
    """At alpha = 1 the zero matrix is optimal; with a free diagonal isolated columns have their inverse variance."""
    with pytest.raises(EstimationError, match="diagonal"):
        method(S, 1.0)
    np.testing.assert_allclose(method(S, 0.999, penalize_diagonal=False), np.diag(1.0 / S.diagonal()), atol=1e-9)


@pytest.mark.parametrize("name", ["neighborhood", "scio", "clime"])
def test_estimators_cope_with_an_indefinite_debiased_covariance(name: str) -> None:
    """On few rows with much noise each repairs the correlations, and returns an estimate with a positive diagonal."""
    rng = np.random.default_rng(2)
    rows = 2.0 * (rng.normal(size=(100, 1)) + rng.normal(size=(100, 10)))
    for weights in ("equal", "noise"):
        fitted = ESTIMATORS[name](noise_variance=4.0, weights=weights).fit(rows)
        assert fitted.smallest_eigenvalue_ < 0.0
        assert fitted.repair_ == "maxnorm"
        np.testing.assert_allclose(np.diagonal(fitted.covariance_), rows.var(axis=0, ddof=1) - 4.0, rtol=1e-6)
        assert (np.diagonal(fitted.precision_) > 0.0).all()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: neighborhood_selection(S, 0.1, rule="xor"), "rule"),
        (lambda: clime_precision(S, 0.1, weights=np.where(np.eye(9) > 0.0, 1.0, np.inf)), "weights"),
        (lambda: neighborhood_selection(np.diag([1.0, 0.0]), 0.1), "covariance"),
        (lambda: neighborhood_selection(np.ones((2, 2)), 1e-300), "alpha"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], name: str) -> None:
    """An unknown rule, weights of another shape, an infinite tolerance and a constant column are refused by name."""
    with pytest.raises(ParameterError) as refused:
        call()
    assert refused.value.name == name
