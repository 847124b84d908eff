"""The path of alphas, against problems solved one by one, where nodes are columns and where they have several."""

import numpy as np
import pytest
from tests.contract.test_solvers import EVERY, autoregressive, random_sparse
from tests.unit.consumer.selection.chains import P, count_edges, debias, noisy_rows

from dp_bundle.base.errors import EstimationError
from dp_learn import graphical_lasso
from dp_learn.pipeline.selection import alpha_grid, select_ebic, solve_path

NODES = [0, 0, 1, 2, 2, 2, 3, 4]
SIZES = np.geomspace(30, 300, 50).astype(int)  # columns of a graph by its number
QUICK, SLOW = (0, 4), (12, 21, 28, 33)
GRAPHS = [
    pytest.param(each, marks=() if each in QUICK else pytest.mark.slow if each in SLOW else pytest.mark.long)
    for each in range(50)
]


def test_grid_begins_where_the_graph_is_empty() -> None:
    """At the largest alpha of the grid no two nodes are linked, a little below it there is an edge."""
    correlation, apart = np.corrcoef(noisy_rows(500, 0.0).T), np.not_equal.outer(NODES, NODES)
    grid = alpha_grid(correlation, 12, 0.02, groups=NODES)

    assert len(grid) == 12
    assert np.all(np.diff(grid) < 0)
    assert grid[-1] == pytest.approx(0.02 * grid[0])
    first, below = (graphical_lasso(correlation, a * grid[0], groups=NODES, tol=1e-10).precision for a in (1.0, 0.99))
    assert not first[apart].any()
    assert below[apart].any()


def test_weighted_grid_begins_where_the_weighted_graph_is_empty() -> None:
    """With weights, free and forbidden pairs aside, the same holds for the weighted penalty."""
    rng = np.random.default_rng(2)
    correlation = np.corrcoef(noisy_rows(500, 0.0).T)
    for _ in range(20):
        weights = rng.uniform(0.1, 3.0, (P, P))
        weights += weights.T
        weights[[0, 1], [1, 0]], weights[[2, 3], [3, 2]] = np.inf, 0.0
        first = alpha_grid(correlation, weights=weights)[0]

        empty, below = (
            graphical_lasso(correlation, alpha, weights=weights, tol=1e-10).precision for alpha in (first, 0.99 * first)
        )
        assert empty[2, 3] != 0
        assert count_edges(empty) == 1 < count_edges(below)


@pytest.mark.parametrize("weights", [None, 1.0 - np.eye(3)[[1, 0, 2]]])
def test_no_correlation_at_all_is_named(weights: np.ndarray | None) -> None:
    """A diagonal matrix, and one whose only correlation is free, has no path, and says so."""
    matrix = np.eye(3)
    if weights is not None:
        matrix[0, 1] = matrix[1, 0] = 0.5
    with pytest.raises(EstimationError, match="no two columns"):
        alpha_grid(matrix, weights=weights)


@pytest.mark.parametrize("number", GRAPHS)
@pytest.mark.parametrize("solver", [*EVERY, "of blocks"])
def test_edges_along_the_path_are_those_of_the_optimum(solver: str, number: int) -> None:
    """As far as EBIC walks they equal those at a tolerance of 1e-8 from nothing, whichever solver finds these."""
    p, n_rows = SIZES[number], SIZES[number] * (2, 4, 10)[number % 3]
    matrix = autoregressive(p, n_rows, number, noise=0.6 * (number % 2)) if number % 4 < 2 else random_sparse(p, n_rows)
    options, judge, groups = {"solver": solver}, {"solver": "cd"}, None
    if solver == "of blocks":
        groups = np.arange(p) // 3
        options = judge = {"groups": groups}
    alphas = alpha_grid(matrix, groups=groups)
    walked = alphas[np.isfinite(select_ebic(matrix, n_rows, alphas, **options).n_edges)]
    assert len(walked) > 3
    for alpha, (_, found) in zip(walked, solve_path(matrix, walked, **options), strict=True):
        exact = graphical_lasso(matrix, alpha, tol=1e-8, **judge).precision
        np.testing.assert_array_equal(found.precision != 0.0, exact != 0.0)


def test_path_ends_where_the_solver_gives_up() -> None:
    """What could not be certified within the iterations allowed is no solution."""
    matrix = debias(noisy_rows(800, 0.7), 0.7)
    alphas = alpha_grid(matrix, 6, 0.01)
    path = list(solve_path(matrix, alphas, tol=1e-13, max_iter=1))

    assert [solution is None for _, solution in path] == [False, True]


def test_path_ends_where_no_solution_is_left() -> None:
    """On an indefinite matrix the last item is the first alpha without a solution."""
    matrix = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    alphas = np.geomspace(0.9, 0.009, 10)
    path = list(solve_path(matrix, alphas, penalize_diagonal=False))
    of_pairs = list(solve_path(np.kron(matrix, [[1.0, 0.5], [0.5, 1.0]]), alphas, groups=[0, 0, 1, 1, 2, 2]))

    for each in (path, of_pairs):
        assert all(solution is not None for _, solution in each[:-1])
        assert each[-1][1] is None
    assert len(path) == 1 + np.count_nonzero(alphas > 0.4)  # eigenvalue 1 - 2 (0.9 - alpha) at the corner of the box
