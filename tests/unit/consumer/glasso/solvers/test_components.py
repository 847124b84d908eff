"""Components are solved apart, in any number of threads, and sparse certificates are the dense ones."""

import math
import os

import numpy as np
import pytest

from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Solution, Status, duality_gap, make_problem
from dp_learn.glasso.solvers import components
from dp_learn.glasso.solvers._sparse_kernels import log_determinant, off_diagonal_rows
from dp_learn.glasso.solvers.sparse_certificate import certify_sparse, sparse_logdet
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.matrices.linalg import logdet


def chain(p: int, seed: int) -> np.ndarray:
    """Sample covariance of a chain."""
    rng = np.random.default_rng(seed)
    root = np.linalg.inv(np.linalg.cholesky(np.eye(p) + 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1))))
    return np.cov((rng.normal(size=(4 * p, p)) @ root).T)


def blocks(*sizes: int) -> np.ndarray:
    """Chains without covariance between them, their columns shuffled."""
    s = np.zeros((sum(sizes), sum(sizes)))
    first = 0
    for seed, size in enumerate(sizes):
        s[first : first + size, first : first + size] = chain(size, seed)
        first += size
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


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits come out, whatever the number of threads."""
    s, found = blocks(120, 3, 150, 1, 110), []
    monkeypatch.setattr(components, "LARGEST_IN_LOOP", 50)
    monkeypatch.setattr(components, "WORTH_A_THREAD", 100)
    for threads in (1, 2, 5):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, threads=threads: set(range(threads)))
        found.append(graphical_lasso(s, 0.3))
    assert found[0].n_components >= 5
    for other in found[1:]:
        assert np.array_equal(found[0].precision, other.precision)
        assert np.array_equal(found[0].covariance, other.covariance)
        assert (found[0].objective, found[0].duality_gap) == (other.objective, other.duality_gap)


@pytest.mark.parametrize(
    ("sizes", "largest"), [((1, 7, 40, 2, 100, 1), 600), ((1, 7, 40, 2, 100, 1), 20), ((350,), 600)]
)
def test_components_are_certified(sizes: tuple[int, ...], largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In compiled code or out of it, cold or from an earlier answer, small ones and a large sparse one are optimal."""
    monkeypatch.setattr(components, "LARGEST_IN_LOOP", largest)
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


def test_screening_leaves_out_nothing() -> None:
    """Where the covariance between blocks is within the penalty, the answer is apart, and that of the whole."""
    s = blocks(12, 20)
    between = s == 0.0
    s[between] = np.triu(np.random.default_rng(0).uniform(-0.19, 0.19, s.shape))[between]
    s = np.triu(s) + np.triu(s, 1).T
    solution = graphical_lasso(s, 0.2, tol=1e-10)
    assert solution.n_components == 2
    assert gap_of(s, 0.2, solution) <= 1e-10 * 32
    assert np.all(solution.precision[np.triu(between) | np.triu(between).T] == 0.0)


def test_sparse_certificate_bounds_a_poor_pair() -> None:
    """Far from the optimum the bound is not below the gap, and not far above it; farther still there is none."""
    s = chain(300, 3)
    s /= np.sqrt(np.outer(s.diagonal(), s.diagonal()))
    penalty, found = 0.2 * (1.0 - np.eye(300)), graphical_lasso(s, 0.2, penalize_diagonal=False, tol=1e-7)
    theta, inside = found.precision, s + 0.999 * (found.covariance - s)
    edges = off_diagonal_rows(theta)
    value, bound = certify_sparse(s, penalty, edges, theta.diagonal(), inside)
    gap = value - logdet(inside) - 300
    assert 1e-6 < gap <= bound <= 2.0 * gap
    value, bound = certify_sparse(s, penalty, edges, theta.diagonal(), s)
    assert math.isfinite(value)
    assert bound == math.inf


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_sparse_determinants_are_the_dense_one(share: float) -> None:
    """Both logarithms are right, and -inf without positive definiteness, or for a singular matrix."""
    rng = np.random.default_rng(0)
    matrix = np.triu((rng.random((60, 60)) < share) * rng.normal(size=(60, 60)), 1)
    matrix += matrix.T
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    edges = off_diagonal_rows(matrix)
    for excess in (0.1, 1e-7, -1e-7, -0.1):
        diagonal = np.full(60, excess - smallest)
        expected = np.linalg.slogdet(matrix + np.diag(diagonal))[1] if excess > 0.0 else -math.inf
        scratch = np.empty((60, 60)), np.empty((60, 60), dtype=np.int32)
        for found in (log_determinant(edges, diagonal, *scratch), sparse_logdet(edges, diagonal)):
            assert found == pytest.approx(expected, rel=1e-6)
    assert sparse_logdet(off_diagonal_rows(np.ones((2, 2))), np.ones(2)) == -math.inf


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
    tried, alone = (graphical_lasso(chain(60, 2), 0.1, solver=name, tol=1e-15, max_iter=1) for name in ("auto", "cd"))
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
