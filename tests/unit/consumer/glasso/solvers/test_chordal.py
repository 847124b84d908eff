"""The closed-form fit on chordal graphs against block descent."""

import numpy as np
import pytest

from dp_learn.glasso.problem import Status, make_problem
from dp_learn.glasso.solving import solve
from dp_learn.matrices.linalg import FEW

WIDE = FEW + 10  # columns; fewer are not solved so


def correlation(p: int = WIDE) -> np.ndarray:
    """Return the correlations of random rows."""
    return np.corrcoef(np.random.default_rng(1).normal(size=(p, 4 * p)))


def graph(kind: str, p: int = WIDE) -> np.ndarray:
    """Return which entries are free."""
    edges = np.eye(p, dtype=bool)
    if kind == "complete":
        edges[:] = True
    if kind == "overlapping cliques":
        edges[:7, :7] = edges[4:, 4:] = True
    if kind == "tree":
        for child in range(1, p):
            edges[child, child // 2] = edges[child // 2, child] = True
    if kind == "cycle":
        for each in range(p):
            edges[each, (each + 1) % p] = edges[(each + 1) % p, each] = True
    return edges


@pytest.mark.parametrize("kind", ["complete", "overlapping cliques", "tree", "cycle"])
def test_fit_is_that_of_block_descent(kind: str) -> None:
    """Both agree; a chordal graph takes one step, and a cycle, which is not chordal, several."""
    problem = make_problem(correlation(), 1.0, weights=np.where(graph(kind), 0.0, np.inf))
    ours, swept = (solve(problem, solver=solver, tol=1e-12) for solver in ("auto", "cd"))

    assert ours is not None
    assert swept is not None
    assert ours.converged
    assert (ours.n_iter == 1) == (kind != "cycle")
    np.testing.assert_allclose(ours.precision, swept.precision, atol=1e-5)


def test_a_nearly_singular_matrix_is_inverted() -> None:
    """With all entries free the fit is the inverse, also at a condition number of 1e8."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 12)) + 1e-4 * rng.normal(size=(200, 12))
    matrix = np.corrcoef(rows.T)
    solution = solve(make_problem(matrix, 1.0, weights=np.zeros_like(matrix)), solver="auto")

    assert solution is not None
    assert solution.status is Status.OPTIMAL
    np.testing.assert_allclose(solution.precision @ matrix, np.eye(12), atol=1e-5)
