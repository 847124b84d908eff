"""Tests of the compiled block coordinate descent for the group problem."""

import numpy as np
import pytest

from dp_learn.glasso.group_solving import _start
from dp_learn.glasso.groups import make_group_problem, make_groups
from dp_learn.glasso.solvers._group_component_kernels import solve_group_components
from dp_learn.glasso.solvers._node_kernels import eigenpairs
from dp_learn.glasso.solvers.group_descent import descend

LABELS = np.repeat(np.arange(9), [1, 3, 2, 8, 1, 2, 5, 2, 6])


def _problem(alpha=0.15, noise=0.0):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 30))
    x[:, 1:] += 0.6 * x[:, :-1]
    error = noise * rng.normal(size=(30, 30))
    s = np.corrcoef(x.T) + error + error.T
    np.fill_diagonal(s, 1.0)
    return make_group_problem(s, alpha, make_groups(LABELS, 30))


def _solve(problem, gap=1e-12, warm=None, max_iter=200):
    t, w = np.zeros((30, 30)), np.zeros((30, 30))
    start = (t, w) if warm is None else warm
    first = np.append(problem.first, 30)
    found = solve_group_components(
        problem.covariance, problem.penalty, first, warm is not None, *start, gap, max_iter, t, w
    )
    return t, w, found[2], found[4], found[5], found[6]


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_descent_agrees_with_gradient_steps(noise):
    """Both methods prove the same optimum, also where the matrix is indefinite."""
    problem = _problem(0.35 if noise else 0.15, noise)
    assert (np.linalg.eigvalsh(problem.covariance - 0.35 * np.eye(30))[0] < 0.0) or not noise
    t, w, left, objective, gap, _ = _solve(problem)
    other, _ = descend(problem, _start(problem, None), gap=1e-9, max_iter=5000, patience=1000)
    assert not left.size
    assert 0.0 <= gap <= 3e-11
    assert objective == pytest.approx(other.value, abs=1e-8)
    assert problem.certify(t, w)[1] == pytest.approx(0.0, abs=1e-10)


def test_a_start_at_the_answer_takes_one_sweep():
    """From the answer itself nothing is left to do."""
    problem = _problem()
    t, w, _, _, _, cold = _solve(problem)
    warm_t, _, left, _, _, sweeps = _solve(problem, gap=1e-10, warm=(t, w))
    assert cold > sweeps == 1
    assert not left.size
    assert np.abs(warm_t - t).max() < 1e-6


def test_too_few_sweeps_leave_a_component():
    """What is not proven in so many sweeps is left, and its entries stay zero."""
    t, w, left, *_ = _solve(_problem(0.02), max_iter=1)
    assert left.size == 1
    assert not t.any()
    assert not w.any()


@pytest.mark.parametrize("k", [1, 2, 5, 50])
def test_eigenpairs_are_those_of_lapack(k):
    """Jacobi's rotations find the eigenvalues and a basis, and see that a block is not definite."""
    rng = np.random.default_rng(k)
    x = rng.normal(size=(k + 3, k))
    own = x.T @ x
    values, basis = np.empty(k), np.empty((k, k))
    assert eigenpairs(own.copy(), values, basis)
    assert np.sort(values) == pytest.approx(np.linalg.eigvalsh(own), rel=1e-9)
    assert np.abs((basis * values) @ basis.T - own).max() < 1e-11 * np.trace(own)
    assert not eigenpairs(own - 1.01 * np.linalg.eigvalsh(own)[0] * np.eye(k), values, basis)
