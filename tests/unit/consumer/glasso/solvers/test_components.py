"""Components are solved apart, and `auto` takes what suits."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from tests.contract.test_solvers import autoregressive

from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Solution, Status, duality_gap, make_problem
from dp_learn.glasso.solving import graphical_lasso


def blocks(*sizes: int) -> np.ndarray:
    """Chains without covariance between them, their columns shuffled."""
    s = block_diag(*(autoregressive(size, 4 * size, seed) for seed, size in enumerate(sizes)))
    order = np.random.default_rng(9).permutation(len(s))
    return s[np.ix_(order, order)]


def indefinite(p: int) -> np.ndarray:
    """Return correlations of a few factors, with noise on them."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(80, 6)) @ rng.normal(size=(6, p)) + 0.3 * rng.normal(size=(80, p))
    noise = np.triu(0.1 * rng.normal(size=(p, p)), 1)
    return np.corrcoef(rows.T) + noise + noise.T


def gap_of(s: np.ndarray, alpha: float, found: Solution, **options: bool) -> float:
    """Return the duality gap of an answer, by dense factors."""
    return duality_gap(make_problem(s, alpha, **options), found.precision, found.covariance)


@pytest.mark.parametrize("sizes", [(1, 7, 40, 2, 100, 1, 60), (350,)])
def test_components_are_certified(sizes: tuple[int, ...]) -> None:
    """Cold or from an earlier answer, small ones, several together, and a large sparse one are optimal."""
    s, alpha = blocks(*sizes), 0.6 if len(sizes) == 1 else 0.2
    judge = graphical_lasso(s, alpha, solver="admm", tol=1e-9) if len(sizes) > 1 else None
    start = graphical_lasso(s, 1.5 * alpha)
    for first in (None, start):
        found = graphical_lasso(s, alpha, tol=1e-9, start=first)
        gap = gap_of(s, alpha, found)
        assert found.converged
        assert gap <= 1.01e-9 * len(s)
        assert gap <= found.duality_gap * 1.001 + 1e-12 * len(s)
        if judge is not None:
            assert found.n_components == judge.n_components == len(sizes)
            np.testing.assert_allclose(found.precision, judge.precision, atol=1e-4)


@pytest.mark.slow
def test_auto_goes_on_with_another_solver() -> None:
    """Close to the smallest penalty that has a solution sweeps gain little, and ADMM ends; both are named."""
    s = indefinite(60)
    smallest = smallest_solvable_alpha(s)
    start = graphical_lasso(s, 2.0 * smallest)
    solution = graphical_lasso(s, 1.002 * smallest, solver="auto", start=start)
    assert solution.status is Status.OPTIMAL
    assert solution.solver == "cd, admm"
    alone = graphical_lasso(s, 1.002 * smallest, solver="admm")
    assert solution.objective == pytest.approx(alone.objective, abs=2e-6 * 60)


def test_auto_takes_what_suits() -> None:
    """A dense answer from nothing is not swept for, one from a near start is, and without success the best is kept."""
    s = indefinite(60)
    alpha = 1.5 * smallest_solvable_alpha(s)
    assert graphical_lasso(s, alpha, solver="auto").solver == "admm"
    assert graphical_lasso(s, alpha, solver="auto", start=graphical_lasso(s, 2.0 * alpha)).solver == "cd"
    tried, alone = (
        graphical_lasso(autoregressive(60, 240, seed=2), 0.1, solver=name, tol=1e-15, max_iter=1)
        for name in ("auto", "cd")
    )
    assert tried.status is Status.MAX_ITER
    assert tried.duality_gap <= alone.duality_gap


def test_ill_conditioned_components_are_solved() -> None:
    """Nearly equal columns need Newton steps; another box has an indefinite matrix nearest to zero."""
    rng = np.random.default_rng(0)
    alike = np.cov((rng.normal(size=(200, 1)) + 0.05 * rng.normal(size=(200, 12))).T)
    beyond = np.array([[1.0, 1.1, 0.3], [1.1, 1.0, 1.1], [0.3, 1.1, 1.0]])
    for s, alpha, tol in ((alike, 1e-3, 1e-8), (beyond, 0.3, 1e-6)):
        solution = graphical_lasso(s, alpha, penalize_diagonal=False, tol=tol)
        assert solution.converged
        assert gap_of(s, alpha, solution, penalize_diagonal=False) <= tol * len(s)
