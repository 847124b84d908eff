"""Problems of few columns are solved without compiled kernels, as well as with them."""

import numpy as np
import pytest

from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Problem, Solution, Status, duality_gap, make_problem, objective
from dp_learn.glasso.solvers.few import solve_few
from dp_learn.glasso.solvers.standard_form import Start
from dp_learn.glasso.solving import solve

TOL = 1e-8


def table(p: int, seed: int, noise: float = 0.0) -> np.ndarray:
    """Return the debiased correlation of 100 rows under a random sparse graph."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(p) + (rng.random((p, p)) < 2.0 / p) * rng.uniform(-0.6, 0.6, (p, p))
    rows = rng.normal(size=(100, p)) @ mixing
    s = np.cov((rows + noise * rng.normal(size=rows.shape)).T) - noise**2 * np.eye(p)
    unit = np.sqrt(s.diagonal())
    return s / np.outer(unit, unit)


def solved(problem: Problem, start: Solution | None = None) -> Solution:
    """Return the answer that is expected, after checking its certificate."""
    first = None if start is None else Start(start.covariance, start.precision)
    solution = solve_few(problem, tol=TOL, max_iter=1000, start=first)
    assert solution is not None
    assert solution.status is Status.OPTIMAL
    assert -1e-12 <= solution.duality_gap <= TOL * problem.n_features
    assert duality_gap(problem, solution.precision, solution.covariance) == pytest.approx(
        solution.duality_gap, abs=1e-11 * problem.n_features
    )
    assert objective(problem, solution.precision) == pytest.approx(solution.objective, rel=1e-12)
    assert np.array_equal(solution.precision, solution.precision.T)
    assert (solution.precision[np.isinf(problem.penalty)] == 0.0).all()
    return solution


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_answers_are_those_of_the_compiled_solvers(seed: int, noise: float) -> None:
    """Along a path, warm or cold, with and without a penalty on the diagonal, and for the fits on its graphs."""
    s = table(25, seed, noise)
    smallest = max(1.1 * smallest_solvable_alpha(s), 0.05)
    for penalize_diagonal in (True, False):
        last = None
        for alpha in np.geomspace(max(0.9, 3.0 * smallest), 2.0 * smallest, 6):
            problem = make_problem(s, alpha, penalize_diagonal=penalize_diagonal)
            judge = solve(problem, solver="cd", tol=TOL)
            assert judge is not None
            for start in (None, last):
                last = solved(problem, start)
                assert last.objective == pytest.approx(judge.objective, abs=2.0 * TOL * len(s))
                np.testing.assert_allclose(last.precision, judge.precision, atol=1e-2 * np.abs(judge.precision).max())
                assert last.n_components == judge.n_components
    if not noise and last is not None:
        free = make_problem(s, 1.0, weights=np.where(last.precision != 0.0, 0.0, np.inf))
        judge = solve(free, solver="admm", tol=TOL)
        assert judge is not None
        assert solved(free, last).objective == pytest.approx(judge.objective, abs=2.0 * TOL * len(s))


def test_weights_units_and_a_column_alone() -> None:
    """Free and forbidden entries, units of any size, unconnected columns and a single one are nothing special."""
    rng = np.random.default_rng(0)
    s, unit = table(12, 5), 10.0 ** rng.uniform(-6, 6, 12)
    weights = np.triu(rng.choice([0.0, 0.5, 1.0, np.inf], size=(12, 12)), 1)
    weights += np.where(np.isinf(weights.T), np.inf, weights.T) + 0.3 * np.eye(12)
    plain = solved(make_problem(s, 0.1, weights=weights))
    scale = np.outer(unit, unit)
    scaled = solved(make_problem(s * scale, 0.1, weights=weights * scale))
    np.testing.assert_allclose(scaled.precision * scale, plain.precision, atol=1e-6)
    assert solved(make_problem(np.array([[2.0]]), 0.5)).precision[0, 0] == 0.4
    alone = solved(make_problem(np.diag([1.0, 4.0, 9.0]), 1.0))
    assert alone.n_components == 3
    assert np.count_nonzero(alone.precision) == 3


def test_no_solution_is_told_from_one_that_was_not_found() -> None:
    """Below the smallest alpha there is none, and the same is said for few columns as for many."""
    s = table(20, 7, noise=1.0)
    smallest = smallest_solvable_alpha(s)
    for factor, solvable in ((0.9, False), (1.1, True)):
        problem = make_problem(s, factor * smallest)
        assert (solve(problem, solver="auto") is not None) is solvable
    assert solve(make_problem(np.array([[-1.0, 0.0], [0.0, 1.0]]), 0.5), solver="auto") is None
