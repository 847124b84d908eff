"""What every solver promises, on one table of problems."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from dp_bundle.base.errors import NoSolutionError
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Solution, Status, duality_gap, make_problem
from dp_learn.glasso.solving import SOLVERS, graphical_lasso
from dp_learn.matrices.choices import AUTO

TOL = 1e-9
EVERY = (*SOLVERS, AUTO)  # of few columns the last has a way of its own


def autoregressive(p: int, n: int, seed: int = 0, noise: float = 0.0) -> np.ndarray:
    """Debiased sample covariance of a chain: indefinite when noise is large or n small."""
    rng = np.random.default_rng(seed)
    truth = np.linalg.inv(np.eye(p) + 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1)))
    rows = rng.multivariate_normal(np.zeros(p), truth, size=n, method="cholesky")
    rows = rows + noise * rng.normal(size=(n, p))
    return np.atleast_2d(np.cov(rows.T)) - noise**2 * np.eye(p)


def random_sparse(p: int, n: int, seed: int = 0) -> np.ndarray:
    """Sample covariance under a precision matrix with about two random edges a row."""
    rng = np.random.default_rng(seed)
    edges = np.triu((rng.random((p, p)) < 2.0 / p) * rng.uniform(-0.8, 0.8, (p, p)), 1)
    theta = edges + edges.T
    theta += np.eye(p) * (0.3 - np.linalg.eigvalsh(theta)[0])
    return np.cov(rng.multivariate_normal(np.zeros(p), np.linalg.inv(theta), size=n, method="cholesky").T)


def two_blocks() -> np.ndarray:
    """Two chains without any covariance between them, and a column that stands alone."""
    s = np.zeros((13, 13))
    s[:6, :6] = autoregressive(6, 40, seed=1)
    s[6:12, 6:12] = 50.0 * autoregressive(6, 40, seed=2)
    s[12, 12] = 0.01
    order = np.random.default_rng(0).permutation(13)
    return s[np.ix_(order, order)]


def edge_weights(p: int) -> np.ndarray:
    """Random weights with free and forbidden entries."""
    rng = np.random.default_rng(3)
    w = np.triu(rng.choice([0.0, 0.5, 1.0, 2.0, np.inf], size=(p, p), p=[0.1, 0.3, 0.3, 0.2, 0.1]), 1)
    return w + w.T + np.eye(p)


def near_boundary(**options: bool) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Return an indefinite matrix one per cent above its smallest solvable alpha."""
    s = autoregressive(20, 60, seed=4, noise=1.0)
    s = s + (0.1 - min(0.0, s.diagonal().min())) * np.eye(20)
    return s, 1.01 * smallest_solvable_alpha(s, **options), options


PROBLEMS: dict[str, Callable[[], tuple[np.ndarray, float, dict[str, Any]]]] = {
    "one column": lambda: (np.array([[2.0]]), 0.5, {}),
    "two columns": lambda: (np.array([[2.0, 1.0], [1.0, 3.0]]), 0.3, {}),
    "two columns, indefinite": lambda: (np.array([[1.0, 3.0], [3.0, 1.0]]), 1.5, {}),
    "diagonal": lambda: (np.diag([1.0, 1e-4, 1e4]), 0.1, {}),
    "chain": lambda: (autoregressive(30, 100), 0.1, {}),
    "chain, unpenalised diagonal": lambda: (autoregressive(30, 100), 0.1, {"penalize_diagonal": False}),
    "random": lambda: (random_sparse(40, 80), 0.15, {}),
    "fewer rows than columns": lambda: (random_sparse(30, 15), 0.3, {}),
    "blocks of different units": lambda: (two_blocks(), 0.05, {}),
    "indefinite": lambda: (autoregressive(25, 60, noise=1.0), 0.6, {}),
    "indefinite, unpenalised diagonal": lambda: (autoregressive(25, 200, noise=1.0), 0.3, {"penalize_diagonal": False}),
    "near the boundary": near_boundary,
    "near the boundary, unpenalised diagonal": lambda: near_boundary(penalize_diagonal=False),
    "weights 0 and inf": lambda: (autoregressive(15, 60), 0.1, {"weights": edge_weights(15)}),
    "weights 0 and inf, indefinite": lambda: (autoregressive(15, 60, noise=0.7), 0.7, {"weights": edge_weights(15)}),
    "fit to a given graph": lambda: (
        autoregressive(10, 60),
        1.0,
        {"weights": np.where(np.abs(np.subtract.outer(range(10), range(10))) <= 1, 0.0, np.inf)},
    ),
}


@pytest.mark.parametrize("solver", EVERY)
@pytest.mark.parametrize("name", PROBLEMS)
def test_certified_optimum(solver: str, name: str) -> None:
    """The answer is symmetric, positive definite, sparse, and its printed gap is the one anybody can recompute."""
    s, alpha, options = PROBLEMS[name]()
    p = s.shape[0]
    before = s.copy()
    solution = graphical_lasso(s, alpha, solver=solver, tol=TOL, max_iter=50_000, **options)
    problem = make_problem(s, alpha, **options)
    assert solution.status is Status.OPTIMAL
    assert solution.status.message
    assert solution.solver in (SOLVERS if solver == AUTO else {solver})
    linked = np.abs(problem.covariance) > problem.penalty
    assert solution.n_components == connected_components(linked, directed=False)[0]
    assert 0.0 <= solution.duality_gap <= TOL * p
    assert duality_gap(problem, solution.precision, solution.covariance) == pytest.approx(
        solution.duality_gap, abs=1e-11 * p
    )
    assert problem.certify(solution.precision, s)[0] == pytest.approx(solution.objective, rel=1e-11)
    assert np.array_equal(solution.precision, solution.precision.T)
    assert np.array_equal(s, before)
    assert np.linalg.eigvalsh(solution.precision)[0] > 0.0
    assert np.all(solution.precision[np.isinf(problem.penalty)] == 0.0)
    assert_optimality(problem.covariance, problem.penalty, solution)


def assert_optimality(s: np.ndarray, penalty: np.ndarray, solution: Solution) -> None:
    """Check that the inverse of the estimate lies in the box, and at its edge wherever the estimate is not zero."""
    size = np.sqrt(np.outer(s.diagonal() + penalty.diagonal(), s.diagonal() + penalty.diagonal()))
    inverse = np.linalg.inv(solution.precision)
    # the inverse amplifies the gap: ||dW|| <= sqrt(2 gap) * lambda_max(W) in the units of a correlation
    slack = 1e-9 + 3.0 * np.sqrt(2.0 * TOL * s.shape[0]) * np.linalg.norm(inverse / size, 2)
    assert np.all(np.abs(inverse - s) <= penalty + slack * size)
    edges = solution.precision != 0.0
    at_edge = (inverse - s)[edges] - penalty[edges] * np.sign(solution.precision[edges])
    strength = np.abs(solution.precision * size)[edges] / np.abs(solution.precision * size).max()
    assert np.all(np.abs(at_edge) * strength <= slack * size[edges])


@pytest.mark.parametrize("solver", SOLVERS)
def test_non_convergence_is_a_status(solver: str) -> None:
    """Too few iterations leave a valid pair whose gap is honest, and a status that says so."""
    s = autoregressive(30, 200, noise=1.0)
    solution = graphical_lasso(s, 0.1, solver=solver, tol=1e-14, max_iter=2)
    assert solution.status is Status.MAX_ITER
    assert not solution.converged
    best = graphical_lasso(s, 0.1, solver=solver, tol=1e-9)
    assert solution.objective - best.objective <= solution.duality_gap + 1e-9
    assert np.linalg.eigvalsh(solution.precision)[0] > 0.0


@pytest.mark.parametrize("solver", EVERY)
def test_warm_start_saves_work_and_is_not_changed(solver: str) -> None:
    """A start from the path stays as it is, and takes no longer; one of another matrix ends at the same optimum."""
    s = random_sparse(40, 80)
    start = graphical_lasso(s, 0.2, solver=solver, tol=1e-8)
    before = np.array([start.precision, start.covariance])
    cold, warm = (graphical_lasso(s, 0.18, solver=solver, tol=1e-8, start=each) for each in (None, start))
    np.testing.assert_array_equal([start.precision, start.covariance], before)
    assert warm.status is Status.OPTIMAL
    assert warm.n_iter <= cold.n_iter + 5
    other = graphical_lasso(random_sparse(40, 80, seed=1), 0.1, solver=solver)
    elsewhere = graphical_lasso(s, 0.18, solver=solver, tol=1e-8, start=other)
    assert elsewhere.objective == pytest.approx(cold.objective, abs=1e-6)


@pytest.mark.parametrize("penalize_diagonal", [True, False])
@pytest.mark.parametrize(
    ("p", "seed"),
    [
        (10, 1),
        pytest.param(30, 2, marks=pytest.mark.slow),
        *(pytest.param(100, seed, marks=pytest.mark.long) for seed in range(9)),
    ],
)
def test_indefinite_problems_are_certified_or_refused(p: int, seed: int, penalize_diagonal: bool) -> None:
    """Below the smallest alpha every solver names it, and right above it and far from it all find one optimum."""
    s = autoregressive(p, 2 * p, seed=seed, noise=1.0)
    s = s if penalize_diagonal else s + (0.1 - min(0.0, s.diagonal().min())) * np.eye(p)
    smallest = smallest_solvable_alpha(s, penalize_diagonal=penalize_diagonal)
    assert np.linalg.eigvalsh(s)[0] < 0.0 < smallest
    for factor in (0.9, 1.001 if p == 10 else 1.02, 1.5):
        options, alpha = {"penalize_diagonal": penalize_diagonal, "tol": 1e-7}, factor * smallest
        if factor < 1.0:
            for solver in EVERY:
                with pytest.raises(NoSolutionError) as refused:
                    graphical_lasso(s, alpha, solver=solver, **options)
                assert refused.value.smallest_alpha == pytest.approx(smallest, rel=3e-4)
            continue
        problem = make_problem(s, alpha, penalize_diagonal=penalize_diagonal)
        found = [graphical_lasso(s, alpha, solver=solver, max_iter=50_000, **options) for solver in EVERY]
        for each in found:
            assert each.status is Status.OPTIMAL
            assert duality_gap(problem, each.precision, each.covariance) <= 2e-7 * p
        assert np.ptp([each.objective for each in found]) <= 2e-7 * p
