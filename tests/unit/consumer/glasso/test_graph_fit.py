"""The fit on a graph has no penalty where it can do without, and the least share of one where it cannot."""

import numpy as np
import pytest

from dp_learn.glasso.solving import fit_on_graph, solve_on_graph

INDEFINITE = np.array([[1.0, 0.9, 0.6], [0.9, 1.0, 0.9], [0.6, 0.9, 1.0]])  # beside two of 0.9, 0.62 is the least
CHAIN = np.eye(10) + 0.45 * (np.eye(10, k=1) + np.eye(10, k=-1))


def test_indefinite_matrix_keeps_the_least_share() -> None:
    """On a full graph an indefinite matrix has no unpenalised fit: a share is kept, and no smaller one would do."""
    edges, penalty = np.ones((3, 3), dtype=bool), 0.1 * (1.0 - np.eye(3))
    fit = fit_on_graph(INDEFINITE, edges, penalty)

    assert fit is not None
    assert 0.0 < fit.share < 1.0
    assert np.linalg.eigvalsh(fit.precision)[0] > 0
    assert solve_on_graph(INDEFINITE, edges, 0.9 * fit.share * penalty) is None
    assert fit_on_graph(INDEFINITE, edges, penalty / 1000.0) is None


def test_fit_to_an_indefinite_matrix_is_found_where_there_is_one() -> None:
    """A chain's fit exists wherever neighbours' correlations are below one, however indefinite the other entries."""
    p, steps = 30, np.arange(1, 31)
    noise = np.tril(np.random.default_rng(0).uniform(-0.6, 0.6, (p, p)), -1)
    matrix, edges = noise + noise.T + np.eye(p), np.abs(np.subtract.outer(steps, steps)) <= 1
    matrix[edges & (matrix < 1.0)] = 0.97
    for each in (matrix, matrix * np.outer(steps, steps)):
        fitted = fit_on_graph(each, edges, np.ones((p, p)), tol=1e-10)

        assert np.linalg.eigvalsh(each)[0] < -1.0
        assert fitted is not None
        assert fitted.share == 0.0
        np.testing.assert_allclose(np.linalg.inv(fitted.precision)[edges], each[edges], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_edges", [0, 12, 30, 300, 5000])
@pytest.mark.parametrize(("p", "solver"), [(30, "auto"), (60, "auto"), (60, "cd"), (60, "admm")])
def test_fit_has_the_covariances_of_its_graph(p: int, solver: str, n_edges: int) -> None:
    """Trees and lone columns, dense graphs and complete ones: nothing is elsewhere (Dempster 1972)."""
    rng = np.random.default_rng(0)
    rows, edges = rng.normal(size=(3 * p, p)), np.eye(p, dtype=bool)
    for column in range(1, p):
        rows[:, column] += rows[:, rng.integers(column, size=2)] @ [0.8, -0.5]
    s = np.cov((rows * rng.choice([0.5, 1.0, 4.0], p)).T)
    edges[rng.integers(p, size=n_edges), rng.integers(p, size=n_edges)] = True
    edges |= edges.T
    fit = solve_on_graph(s, edges, solver=solver, tol=1e-12)

    assert fit is not None
    assert fit.converged
    assert not fit.precision[~edges].any()
    np.testing.assert_allclose(np.linalg.inv(fit.precision)[edges], s[edges], atol=1e-5 * np.abs(s).max())


def test_nearly_singular_matrices_are_inverted_and_singular_ones_have_no_fit() -> None:
    """With all entries free the fit is the inverse, also at a condition number of 1e8."""
    rng = np.random.default_rng(2)
    matrix = np.corrcoef((rng.normal(size=(200, 2)) @ rng.normal(size=(2, 12)) + 1e-4 * rng.normal(size=(200, 12))).T)
    fit = solve_on_graph(matrix, np.ones((12, 12), dtype=bool))

    assert fit is not None
    assert fit.converged
    np.testing.assert_allclose(fit.precision @ matrix, np.eye(12), atol=1e-5)
    assert solve_on_graph(np.ones((2, 2)), np.ones((2, 2), dtype=bool)) is None
