"""The fit on a sparse graph without penalties is the one that block descent with infinite penalties finds."""

import numpy as np
import pytest
from scipy.linalg import block_diag

from dp_learn.glasso.graph_fit import fit_unpenalised, solve_on_graph
from dp_learn.glasso.solvers.graph_descent import fit_sparse_graph


def covariance_of(p: int, seed: int = 0) -> np.ndarray:
    """Return a covariance of columns of different scales that depend on earlier ones."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(3 * p, p))
    for column in range(1, p):
        rows[:, column] += rows[:, rng.integers(column, size=2)] @ [0.8, -0.5]
    return np.cov((rows * rng.choice([0.5, 1.0, 4.0], p)).T)


def random_graph(p: int, n_edges: int, seed: int = 0) -> np.ndarray:
    """Return so many edges between random columns, fewer where they meet, and the diagonal."""
    rng = np.random.default_rng(seed)
    edges = np.eye(p, dtype=bool)
    edges[rng.integers(p, size=n_edges), rng.integers(p, size=n_edges)] = True
    return edges | edges.T


@pytest.mark.parametrize("n_edges", [0, 30, 90, 300, 1500])
def test_fit_is_that_of_block_descent(n_edges: int) -> None:
    """Objective and entries agree, on graphs of trees and lone columns as on dense ones, and the gap is a bound."""
    s, edges = covariance_of(90), random_graph(90, n_edges)

    fit = fit_sparse_graph(s, edges, gap=1e-9)
    exact = solve_on_graph(s, edges, tol=1e-12, definite=True)

    assert fit is not None
    assert exact is not None
    assert fit.duality_gap <= 1e-9
    assert -1e-9 <= fit.objective - exact.objective <= fit.duality_gap + 1e-9
    np.testing.assert_allclose(fit.precision.toarray(), exact.precision, atol=1e-4 * np.abs(exact.precision).max())


def test_inverse_reproduces_the_covariance_on_the_graph() -> None:
    """The fit's inverse is S on the edges and the diagonal, and the fit is zero elsewhere (Dempster 1972)."""
    s, edges = block_diag(covariance_of(40), covariance_of(30, 1)), random_graph(70, 120)
    edges[:40, 40:] = edges[40:, :40] = False

    fit = fit_sparse_graph(s, edges, gap=1e-13)

    assert fit is not None
    theta = fit.precision.toarray()
    assert not theta[~edges].any()
    np.testing.assert_allclose(np.linalg.inv(theta)[edges], s[edges], atol=1e-6 * np.abs(s).max())
    value = float((theta * s).sum()) - np.linalg.slogdet(theta)[1]
    assert fit.objective == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("n_edges", [90, 1500])
def test_gap_bounds_the_distance_to_the_optimum(n_edges: int) -> None:
    """Where a loose gap is asked for, the objective is above the optimum by no more than the gap that is stated."""
    s, edges = covariance_of(90), random_graph(90, n_edges)
    exact = fit_sparse_graph(s, edges, gap=1e-10)

    loose = fit_sparse_graph(s, edges, gap=0.1)

    assert exact is not None
    assert loose is not None
    assert exact.objective - 1e-9 <= loose.objective <= exact.objective + loose.duality_gap + 1e-9


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
