"""Tests of the path of alphas where nodes have several columns."""

import numpy as np

from dp_learn.glasso.solving import graphical_lasso
from dp_learn.selection.path import alpha_grid, solve_path

NODES = [0, 0, 1, 2, 2, 2, 3, 4]


def _correlation(noise=0.0):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(100, 8))
    x[:, 1:] += 0.6 * x[:, :-1]
    error = noise * rng.normal(size=(8, 8))
    s = np.corrcoef(x.T) + error + error.T
    np.fill_diagonal(s, 1.0)
    return s


def test_the_first_alpha_is_the_smallest_without_an_edge():
    """At the first alpha no block is linked, and just below it one is."""
    s = _correlation()
    first = alpha_grid(s, groups=NODES)[0]
    outside = np.not_equal.outer(NODES, NODES)
    assert not graphical_lasso(s, first, groups=NODES).precision[outside].any()
    assert graphical_lasso(s, 0.99 * first, groups=NODES).precision[outside].any()


def test_the_path_has_the_solutions():
    """Every step of the path is the answer at its alpha."""
    s = _correlation()
    path = list(solve_path(s, alpha_grid(s, 6, groups=NODES), groups=NODES, tol=1e-11))
    assert len(path) == 6
    for alpha, solution in path:
        alone = graphical_lasso(s, alpha, groups=NODES, tol=1e-11)
        assert np.abs(solution.precision - alone.precision).max() < 1e-5


def test_the_path_ends_where_there_is_no_solution():
    """On an indefinite matrix the last item is None, and no smaller alpha follows."""
    s = _correlation(noise=0.4)
    path = list(solve_path(s, alpha_grid(s, 20, 0.001, groups=NODES), groups=NODES, penalize_diagonal=True))
    assert np.linalg.eigvalsh(s)[0] < 0.0
    assert path[-1][1] is None
    assert all(solution is not None for _, solution in path[:-1])


def test_nodes_of_one_column_are_the_path_without_groups():
    """Both paths are the same to the bit."""
    s = _correlation()
    grid = alpha_grid(s, 5)
    assert (grid == alpha_grid(s, 5, groups=range(8))).all()
    pairs = zip(solve_path(s, grid), solve_path(s, grid, groups=list("abcdefgh")), strict=True)
    assert all((a[1].precision == b[1].precision).all() for a, b in pairs)
