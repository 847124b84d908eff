"""Components are solved apart, in any number of threads, and sparse certificates are the dense ones."""

import math
import os

import numpy as np
import pytest
from scipy.sparse import csgraph

from dp_bundle.base.errors import ParameterError
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Solution, Status, duality_gap, make_problem
from dp_learn.glasso.solvers import components
from dp_learn.glasso.solvers._component_kernels import connected_components, list_edges
from dp_learn.glasso.solvers._sparse_kernels import log_determinant, off_diagonal_rows
from dp_learn.glasso.solvers.sparse_certificate import certify_sparse, is_sparse, sparse_logdet
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


def close_to_a_chain(p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return S, L, a sparse precision matrix and a dual matrix that nearly is its inverse, all in standard form."""
    s = chain(p, 3)
    s /= np.sqrt(np.outer(s.diagonal(), s.diagonal()))
    penalty = np.full((p, p), 0.2) - 0.2 * np.eye(p)
    solution = graphical_lasso(s, 0.2, penalize_diagonal=False, tol=1e-7)
    return s, penalty, solution.precision, solution.covariance


@pytest.mark.parametrize("n_threads", [2, 5])
def test_the_number_of_threads_changes_nothing(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits come out, whatever the number of threads."""
    s = blocks(120, 3, 150, 1, 110)
    monkeypatch.setattr(components, "LARGEST_IN_LOOP", 50)
    monkeypatch.setattr(components, "WORTH_A_THREAD", 100)

    def solve(threads: int) -> Solution:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(threads)))
        return graphical_lasso(s, 0.3)

    one, many = solve(1), solve(n_threads)
    assert one.n_components >= 5
    assert np.array_equal(one.precision, many.precision)
    assert np.array_equal(one.covariance, many.covariance)
    assert (one.objective, one.duality_gap, one.n_iter) == (many.objective, many.duality_gap, many.n_iter)


def test_components_are_those_of_the_whole() -> None:
    """Screening leaves out nothing: where the covariance between blocks is within the penalty, the answer is apart."""
    s = blocks(12, 20)
    between = s == 0.0
    s[between] = np.triu(np.random.default_rng(0).uniform(-0.19, 0.19, s.shape))[between]
    s = np.triu(s) + np.triu(s, 1).T
    solution = graphical_lasso(s, 0.2, tol=1e-10)
    assert solution.n_components == 2
    assert duality_gap(make_problem(s, 0.2), solution.precision, solution.covariance) <= 1e-10 * 32
    assert np.all(solution.precision[np.triu(between) | np.triu(between).T] == 0.0)


@pytest.mark.parametrize("p", [400, 500])
def test_sparse_certificate_is_the_dense_one(p: int) -> None:
    """A large sparse answer carries the gap that dense factors give, or a fraction of its root more."""
    s = chain(p, 1)
    solution = graphical_lasso(s, 0.6)
    assert is_sparse(off_diagonal_rows(solution.precision))
    dense = duality_gap(make_problem(s, 0.6), solution.precision, solution.covariance)
    assert dense - 1e-11 * p <= solution.duality_gap <= dense * (1.0 + math.sqrt(2.0 * dense)) + 1e-11 * p


def test_sparse_certificate_bounds_a_poor_pair() -> None:
    """Far from the optimum the bound is not below the gap, and not far above it; farther still there is none."""
    s, penalty, theta, w = close_to_a_chain(300)
    inside = s + 0.999 * (w - s)
    edges = off_diagonal_rows(theta)
    value, bound = certify_sparse(s, penalty, edges, theta.diagonal(), inside)
    gap = value - logdet(inside) - 300
    assert 1e-6 < gap <= bound <= 2.0 * gap
    value, bound = certify_sparse(s, penalty, edges, theta.diagonal(), s)
    assert math.isfinite(value)
    assert bound == math.inf


def test_sparse_logdet() -> None:
    """It is the determinant's logarithm, and -inf for a matrix that is indefinite or singular."""
    theta = close_to_a_chain(100)[2]
    edges = off_diagonal_rows(theta)
    assert sparse_logdet(edges, theta.diagonal()) == pytest.approx(np.linalg.slogdet(theta)[1], rel=1e-12)
    smallest = np.linalg.eigvalsh(theta)[0]
    assert sparse_logdet(edges, theta.diagonal() - smallest * (1.0 - 1e-8)) > -math.inf
    assert sparse_logdet(edges, theta.diagonal() - smallest * (1.0 + 1e-8)) == -math.inf
    singular = np.ones((2, 2))
    assert sparse_logdet(off_diagonal_rows(singular), singular.diagonal()) == -math.inf


def indefinite(p: int) -> np.ndarray:
    """Return correlations of a few factors, with noise on them."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(80, 6)) @ rng.normal(size=(6, p)) + 0.3 * rng.normal(size=(80, p))
    noise = np.triu(0.1 * rng.normal(size=(p, p)), 1)
    return np.corrcoef(rows.T) + noise + noise.T


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


def test_a_dense_answer_from_nothing_is_not_swept_for() -> None:
    """Where most covariances are beyond the penalty, ADMM is quicker from the beginning."""
    s = indefinite(60)
    alpha = 1.5 * smallest_solvable_alpha(s)
    assert graphical_lasso(s, alpha, solver="auto").solver == "admm"
    assert graphical_lasso(s, alpha, solver="auto", start=graphical_lasso(s, 2.0 * alpha)).solver == "cd"


def test_auto_without_any_success_returns_the_best() -> None:
    """If every solver runs out, the status says so and the better certificate is returned."""
    solution = graphical_lasso(chain(60, 2), 0.1, solver="auto", tol=1e-15, max_iter=1)
    assert solution.status is Status.MAX_ITER
    alone = graphical_lasso(chain(60, 2), 0.1, solver="cd", tol=1e-15, max_iter=1)
    assert solution.duality_gap <= alone.duality_gap


@pytest.mark.parametrize("solver", ["cd", "auto"])
def test_small_components_are_solved_without_leaving_compiled_code(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small components, cold or from an earlier answer, are certified, and agree with another solver's answer."""

    def refuse(*_: object) -> None:
        raise AssertionError("a component was taken out of compiled code")

    s = blocks(1, 7, 40, 2, 100, 1)
    judge = graphical_lasso(s, 0.2, solver="admm", tol=1e-9)
    monkeypatch.setattr(components, "standardize", refuse)
    cold = graphical_lasso(s, 0.2, solver=solver, tol=1e-9)
    found = [cold]
    small = blocks(1, 7, 40, 2, 1)
    found.append(graphical_lasso(small, 0.2, solver=solver, tol=1e-9, start=graphical_lasso(small, 0.3)))
    for solution, covariance in zip(found, (s, small), strict=True):
        gap = duality_gap(make_problem(covariance, 0.2), solution.precision, solution.covariance)
        assert solution.converged
        assert gap <= 1.01e-9 * len(covariance)
        assert gap <= solution.duality_gap + 1e-12 * len(covariance)
    np.testing.assert_allclose(cold.precision, judge.precision, atol=1e-4)
    assert cold.objective == pytest.approx(judge.objective, abs=1e-8 * len(s))
    assert cold.n_components == judge.n_components == 6


def test_a_large_sparse_component_is_solved_without_leaving_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns passed over leave a pair that dense factors certify, next to the answer to a far smaller gap."""
    s = chain(350, 5)
    exact = graphical_lasso(s, 0.6, tol=1e-12)
    monkeypatch.setattr(components, "standardize", None)
    solution = graphical_lasso(s, 0.6)
    gap = duality_gap(make_problem(s, 0.6), solution.precision, solution.covariance)
    assert solution.converged
    assert gap <= solution.duality_gap * 1.001 + 1e-11 * 350
    assert solution.objective - exact.objective <= gap
    np.testing.assert_allclose(solution.precision, exact.precision, atol=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_the_determinant_by_elimination_is_the_dense_one(seed: int) -> None:
    """Whatever the order, the logarithm of the determinant is right, and -inf without positive definiteness."""
    rng = np.random.default_rng(seed)
    matrix = np.triu((rng.random((60, 60)) < 0.02 * (1 + seed)) * rng.normal(size=(60, 60)), 1)
    matrix += matrix.T
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    edges = off_diagonal_rows(matrix)
    for excess, definite in ((0.1, True), (-0.1, False)):
        diagonal = np.full(60, excess - smallest)
        found = log_determinant(edges, diagonal, np.empty((60, 60)), np.empty((60, 60), dtype=np.int32))
        assert found == (pytest.approx(logdet(matrix + np.diag(diagonal)), rel=1e-10) if definite else -math.inf)


def test_entries_beyond_a_rows_count_are_numbers() -> None:
    """Whatever lay in memory before, the unused places of sparse rows are zero: whole arrays of them are multiplied."""
    matrix = np.eye(25)
    matrix[0, 1:] = matrix[1:, 0] = 0.1
    for _ in range(20):
        np.full((25, 24), np.nan)
        assert np.isfinite(off_diagonal_rows(matrix).value).all()


def test_components_are_those_of_the_graph() -> None:
    """The columns of each component come in ascending order, whatever the number of edges."""
    s = blocks(5, 1, 17, 30)
    for threshold in (0.0, 0.1, 0.3, 2.0):
        start, column = list_edges(s, np.full(s.shape, threshold))
        edges = (np.abs(s) > threshold) & ~np.eye(len(s), dtype=bool)
        assert [column[start[i] : start[i + 1]].tolist() for i in range(len(s))] == [
            np.flatnonzero(row).tolist() for row in edges
        ]
        vertex, first = connected_components(start, column)
        n_components, labels = csgraph.connected_components(edges)
        assert [vertex[first[c] : first[c + 1]].tolist() for c in range(first.size - 1)] == [
            np.flatnonzero(labels == c).tolist() for c in range(n_components)
        ]


def test_a_matrix_that_needs_no_conversion_is_checked_like_any_other() -> None:
    """Compiled code and numpy refuse the same covariances, in the same words."""
    for place, value in [((2, 1), math.nan), ((2, 1), 9.0), ((2, 1), -math.inf), ((3, 3), math.inf), ((3, 3), 0.0)]:
        s = np.eye(20)
        s[place] = value
        with pytest.raises(ParameterError) as compiled:
            graphical_lasso(s, 0.1, penalize_diagonal=False)
        with pytest.raises(ParameterError) as plain:
            make_problem(s, 0.1, penalize_diagonal=False)
        assert str(compiled.value) == str(plain.value)


def test_lassos_that_need_newton_steps_are_solved() -> None:
    """Columns that are nearly the same take more rounds of coordinate descent than are tried at first."""
    rng = np.random.default_rng(0)
    s = np.cov((rng.normal(size=(200, 1)) + 0.05 * rng.normal(size=(200, 12))).T)
    solution = graphical_lasso(s, 1e-3, penalize_diagonal=False, tol=1e-8)
    assert solution.converged
    problem = make_problem(s, 1e-3, penalize_diagonal=False)
    assert duality_gap(problem, solution.precision, solution.covariance) <= 12e-8
    other = graphical_lasso(s, 1e-3, solver="admm", penalize_diagonal=False, tol=1e-8)
    assert solution.objective == pytest.approx(other.objective, abs=24e-8)


def test_a_small_component_may_start_from_an_indefinite_matrix() -> None:
    """The matrix of the box nearest to zero has a negative eigenvalue, others in it have none."""
    s = np.array([[1.0, 1.1, 0.3], [1.1, 1.0, 1.1], [0.3, 1.1, 1.0]])
    solution = graphical_lasso(s, 0.3, penalize_diagonal=False)
    assert solution.converged
    problem = make_problem(s, 0.3, penalize_diagonal=False)
    assert duality_gap(problem, solution.precision, solution.covariance) <= 3e-6
