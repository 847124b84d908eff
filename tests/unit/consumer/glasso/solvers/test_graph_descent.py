"""The fit on a sparse graph without penalties is the one that block descent with infinite penalties finds."""

import numpy as np
import pytest

from dp_learn.glasso.graph_fit import fit_unpenalised, solve_on_graph
from dp_learn.glasso.solvers.graph_descent import fit_sparse_graph


def covariance_of(p: int, seed: int = 0) -> np.ndarray:
    """Return a covariance of columns of different scales that depend on earlier ones."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(3 * p, p))
    for column in range(1, p):
        rows[:, column] += rows[:, rng.integers(column, size=2)] @ [0.8, -0.5]
    return np.cov((rows * rng.choice([0.5, 1.0, 4.0], p)).T)


def random_graph(p: int, n_edges: int) -> np.ndarray:
    """Return so many edges between random columns, fewer where they meet, and the diagonal."""
    rng = np.random.default_rng(0)
    edges = np.eye(p, dtype=bool)
    edges[rng.integers(p, size=n_edges), rng.integers(p, size=n_edges)] = True
    return edges | edges.T


@pytest.mark.parametrize("n_edges", [0, 30, 90, 300, 1500])
def test_fit_is_that_of_block_descent(n_edges: int) -> None:
    """Objective and entries agree, on graphs of trees and lone columns as on dense ones, and a loose gap is a bound."""
    s, edges = covariance_of(90), random_graph(90, n_edges)
    exact = solve_on_graph(s, edges, tol=1e-12, definite=True)
    fit, loose = (fit_sparse_graph(s, edges, gap=gap) for gap in (1e-12, 0.1))

    assert exact is not None
    assert fit is not None
    assert loose is not None
    assert fit.duality_gap <= 1e-12
    for each in (fit, loose):
        assert -1e-9 <= each.objective - exact.objective <= each.duality_gap + 1e-9
    theta = fit.precision.toarray()
    np.testing.assert_allclose(theta, exact.precision, atol=1e-4 * np.abs(exact.precision).max())
    np.testing.assert_allclose(np.linalg.inv(theta)[edges], s[edges], atol=1e-5 * np.abs(s).max())  # Dempster 1972
    assert not theta[~edges].any()


def test_matrices_without_a_fit_have_none() -> None:
    """Columns that are equal have no fit with an edge between them, removed or left; small ones go elsewhere."""
    s = np.ones((300, 300)) + 1e-3 * np.eye(300)
    s[:2, :2] = 1.0
    edges = random_graph(300, 600)
    edges[0, 1] = edges[1, 0] = True

    assert fit_sparse_graph(s[:2, :2].copy(), edges[:2, :2].copy(), gap=1e-6) is None
    assert fit_sparse_graph(s, edges, gap=1e-6) is None
    assert fit_unpenalised(covariance_of(60), random_graph(60, 90)) is None
    assert fit_unpenalised(covariance_of(210), random_graph(210, 300), solver="admm") is None
    assert fit_unpenalised(covariance_of(210), random_graph(210, 300)) is not None
