"""Bad input gets one clear sentence, and a problem without a solution its smallest alpha."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dp_bundle.base.errors import DpGraphError, NoSolutionError, ParameterError
from dp_learn import DebiasedGraphicalLasso
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Solution, Status, duality_gap, make_problem, objective
from dp_learn.glasso.solvers.components import SOLVERS
from dp_learn.glasso.solving import graphical_lasso

GOOD = np.array([[2.0, 0.5], [0.5, 1.0]])
ROWS = np.random.default_rng(0).normal(size=(40, 3))
WIDE = Solution(np.eye(3), np.eye(3), 3.0, 0.0, 1, Status.OPTIMAL, 0.1, "cd", 3)
BAD: list[tuple[Any, dict[str, Any], str]] = [
    ([[1.0, math.nan], [math.nan, 1.0]], {}, "covariance[0, 1] must be finite, not nan"),
    ([[1.0, 0.5], [0.4, 1.0]], {}, "covariance[0, 1] must be covariance[1, 0] = 0.4 (a symmetric matrix), not 0.5"),
    (np.ones((2, 3)), {}, "covariance.shape must be (p, p) with p >= 1, not (2, 3)"),
    (np.ones((0, 0)), {}, "covariance.shape must be (p, p) with p >= 1, not (0, 0)"),
    (1.0, {}, "covariance.shape must be (p, p) with p >= 1, not ()"),
    ([["a", "b"], ["c", "d"]], {}, "covariance must be a matrix of real numbers, not 'list'"),
    (GOOD + 1j, {}, "covariance must be a matrix of real numbers, not 'complex numbers'"),
    (
        np.diag([1.0, 0.0]),
        {"penalize_diagonal": False},
        "covariance[1, 1] must be positive where the diagonal is not "
        "penalised (zero is a constant column, less is all noise), not 0.0",
    ),
    (np.diag([-0.5, 1.0]), {"penalize_diagonal": False}, "covariance[0, 0] must be positive"),
    (GOOD, {"alpha": 0.0}, "alpha must be a finite number > 0, not 0.0"),
    (GOOD, {"alpha": -1}, "alpha must be a finite number > 0, not -1.0"),
    (GOOD, {"alpha": math.nan}, "alpha must be a finite number > 0, not nan"),
    (GOOD, {"alpha": "auto"}, "alpha must be a finite number > 0, not 'auto'"),
    (GOOD, {"alpha": True}, "alpha must be a finite number > 0, not True"),
    (GOOD, {"solver": "lars"}, "solver must be one of "),
    (GOOD, {"tol": 0}, "tol must be a finite number > 0, not 0"),
    (GOOD, {"max_iter": 0}, "max_iter must be an integer >= 1, not 0"),
    (GOOD, {"weights": np.ones((3, 3))}, "weights.shape must be (2, 2), like the covariance, not (3, 3)"),
    (GOOD, {"weights": [[1.0, -1.0], [-1.0, 1.0]]}, "weights[0, 1] must be non-negative"),
    (GOOD, {"weights": [[math.inf, 1.0], [1.0, 1.0]]}, "weights[0, 0] must be finite on the diagonal, not inf"),
    (GOOD, {"weights": [[1.0, math.inf], [1.0, 1.0]]}, "weights[0, 1] must be weights[1, 0] = 1.0"),
    (GOOD, {"start": WIDE}, "start must be a solution with 2 columns, not (3, 3)"),
]


@pytest.mark.parametrize(("covariance", "options", "sentence"), BAD)
def test_bad_input_is_named(covariance: Any, options: dict[str, Any], sentence: str) -> None:
    """The message names the argument, what is allowed and what came."""
    with pytest.raises(ParameterError, match=re.escape(sentence)):
        graphical_lasso(covariance, **{"alpha": 0.1, **options})


BAD_ROWS: dict[str, tuple[Callable[[], Any], str]] = {
    "negative variance": (lambda: graphical_lasso(np.diag([1.0, -0.5]), 0.1), "the smallest alpha that has one is 0.5"),
    "constant column": (
        lambda: DebiasedGraphicalLasso().fit(np.column_stack([ROWS, np.ones(40)])),
        "no variance is left in x3",
    ),
    "one column": (lambda: DebiasedGraphicalLasso().fit(ROWS[:, :1]), "minimum of 2 is required"),
    "one row of data": (lambda: DebiasedGraphicalLasso().fit(ROWS[:1]), "minimum of 2 is required"),
    "rows with NaN": (lambda: DebiasedGraphicalLasso().fit([[1.0, np.nan], [0.0, 1.0], [2.0, 0.0]]), "contains NaN"),
    "noise of a wrong length": (lambda: table_rows(ROWS, "abc", [1.0, 2.0]), "noise_variance must be"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_get_a_sentence(name: str) -> None:
    """What is wrong is named, with what is allowed."""
    call, sentence = BAD_ROWS[name]
    with pytest.raises((DpGraphError, ValueError), match=sentence):
        call()


def test_one_column_of_a_bundle_has_no_graph() -> None:
    """A sample of one column says that a graph needs two."""
    with pytest.raises(DpGraphError, match="a graph needs at least two columns"):
        clear_columns(Sample([table_rows(ROWS[:, :1], "a")]).pooled)


def test_one_and_two_columns_and_fewer_rows_than_columns_are_solved() -> None:
    """One column, two columns, and n < p are no mistakes for the solver."""
    assert graphical_lasso([[2.0]], 0.5).precision[0, 0] == pytest.approx(1 / 2.5)
    pair = graphical_lasso(GOOD, 0.2, tol=1e-14)
    np.testing.assert_allclose(pair.precision, np.linalg.inv([[2.2, 0.3], [0.3, 1.2]]), rtol=1e-12)
    wide = np.random.default_rng(1).normal(size=(8, 20))
    assert DebiasedGraphicalLasso(0.5).fit(wide).duality_gap_ <= 20e-6


def test_rounding_is_not_asymmetry() -> None:
    """A matrix that is symmetric up to rounding is accepted, symmetrised and left as it was."""
    s = GOOD.copy()
    s[0, 1] *= 1.0 + 1e-14
    problem = make_problem(s, 0.1)
    assert np.array_equal(problem.covariance, problem.covariance.T)
    assert s[0, 1] != s[1, 0]


def test_a_constant_column_stands_alone_when_the_diagonal_is_penalised() -> None:
    """A variance of zero is lifted by the penalty, and the column has no edges."""
    solution = graphical_lasso(np.diag([1.0, 0.0]), 0.5)
    np.testing.assert_allclose(solution.precision, np.diag([1.0 / 1.5, 2.0]))


def test_gap_of_an_infeasible_pair_is_infinite() -> None:
    """A dual matrix outside its box, or an indefinite one, certifies nothing."""
    problem = make_problem(GOOD, 0.1)
    assert duality_gap(problem, np.eye(2), GOOD + 0.2) == math.inf
    assert duality_gap(problem, np.array([[1.0, 2.0], [2.0, 1.0]]), GOOD) == math.inf
    assert objective(problem, np.array([[1.0, 2.0], [2.0, 1.0]])) == math.inf
    assert math.isfinite(duality_gap(problem, np.eye(2), GOOD))
    forbidden = make_problem(GOOD, 0.1, weights=[[1.0, math.inf], [math.inf, 1.0]])
    assert objective(forbidden, np.array([[1.0, 0.1], [0.1, 1.0]])) == math.inf


def debiased(p: int, seed: int, lowest: float) -> np.ndarray:
    """Return a random covariance shifted until its smallest eigenvalue is as asked."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2 * p, p)) @ (np.eye(p) + 0.4 * np.eye(p, k=1))
    s = np.cov(rows.T)
    q, _ = np.linalg.qr(rng.normal(size=(p, p)))
    s += 0.2 * (q * rng.normal(size=p)) @ q.T
    s = 0.5 * (s + s.T)
    return s + (lowest - np.linalg.eigvalsh(s)[0]) * np.eye(p)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_a_thousandth_above_the_smallest_alpha(solver: str, penalize_diagonal: bool) -> None:
    """Right at the boundary the optimum is still found and certified, and below it the smallest alpha is named."""
    s = debiased(10, 5, -0.3)
    s = s if penalize_diagonal else s + (0.1 - min(0.0, s.diagonal().min())) * np.eye(10)
    smallest = smallest_solvable_alpha(s, penalize_diagonal=penalize_diagonal)
    solution = graphical_lasso(s, 1.001 * smallest, solver=solver, penalize_diagonal=penalize_diagonal, max_iter=50_000)
    assert solution.status is Status.OPTIMAL
    with pytest.raises(NoSolutionError) as caught:
        graphical_lasso(s, 0.99 * smallest, solver=solver, penalize_diagonal=penalize_diagonal)
    assert caught.value.smallest_alpha == pytest.approx(smallest, rel=3e-4)


def test_smallest_alpha_of_a_definite_matrix_is_zero() -> None:
    """No penalty is needed where the covariance is positive definite already."""
    assert smallest_solvable_alpha(GOOD) == 0.0
    assert smallest_solvable_alpha([[1.0]], penalize_diagonal=False) == 0.0


def test_smallest_alpha_in_closed_form() -> None:
    """For two columns and one the boundary is known."""
    pair = np.array([[1.0, 3.0], [3.0, 1.0]])
    assert smallest_solvable_alpha(pair) == pytest.approx(1.0, rel=2e-4)
    assert smallest_solvable_alpha(pair, penalize_diagonal=False) == pytest.approx(2.0, rel=2e-4)
    assert smallest_solvable_alpha([[-2.0]]) == pytest.approx(2.0, rel=2e-4)


def test_a_singular_covariance_needs_next_to_nothing() -> None:
    """With fewer rows than columns any positive alpha is enough, and the one returned works."""
    rows = np.random.default_rng(0).normal(size=(5, 12))
    s = np.cov(rows.T)
    for penalize_diagonal in (True, False):
        alpha = smallest_solvable_alpha(s, penalize_diagonal=penalize_diagonal)
        assert alpha < 1e-6


def test_no_alpha_helps_free_entries_that_are_indefinite() -> None:
    """Entries without a penalty can rule out every alpha."""
    pair = np.array([[1.0, 3.0], [3.0, 1.0]])
    free = np.array([[0.0, 0.0], [0.0, 0.0]])
    assert smallest_solvable_alpha(pair, weights=free) == math.inf
    with pytest.raises(NoSolutionError):
        graphical_lasso(pair, 1.0, weights=free)


def test_forbidden_edges_cost_nothing() -> None:
    """A forbidden edge leaves its covariance free, so that the rest decides."""
    pair = np.array([[1.0, 3.0], [3.0, 1.0]])
    assert smallest_solvable_alpha(pair, weights=[[1.0, math.inf], [math.inf, 1.0]]) == pytest.approx(0.0, abs=1e-9)
