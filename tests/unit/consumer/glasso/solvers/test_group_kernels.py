"""Tests of the solvers of the group problem."""

import numpy as np
import pytest

from dp_learn.glasso.groups import make_group_problem, make_groups
from dp_learn.glasso.solvers.admm import improve
from dp_learn.glasso.solvers.few import solve_few
from dp_learn.glasso.solvers.group_descent import solve_group_descent
from dp_learn.glasso.solvers.standard_form import Incumbent, Start

LABELS = np.repeat(np.arange(9), [1, 3, 2, 8, 1, 2, 5, 2, 6])


def _problem(alpha=0.15, noise=0.0):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 30))
    x[:, 1:] += 0.6 * x[:, :-1]
    error = noise * rng.normal(size=(30, 30))
    s = np.corrcoef(x.T) + error + error.T
    np.fill_diagonal(s, 1.0)
    return make_group_problem(s, alpha, make_groups(LABELS, 30))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_all_methods_agree(noise):
    """All three prove the same optimum, also where the matrix is indefinite, and know an answer that they start at."""
    problem = _problem(0.35 if noise else 0.15, noise)
    assert (np.linalg.eigvalsh(problem.covariance - 0.35 * np.eye(30))[0] < 0.0) or not noise
    swept = solve_group_descent(problem, None, gap=3e-11, max_iter=200)
    split = solve_few(problem, tol=1e-12, max_iter=1000, start=None)
    best = Incumbent(problem)
    improve(problem, best, None, gap=1e-9, max_iter=5000)
    assert 0.0 <= swept.duality_gap <= 3e-11
    assert problem.certify(swept.theta, swept.w)[1] == pytest.approx(0.0, abs=1e-10)
    assert split.duality_gap <= 3e-11
    assert [split.objective, best.value] == pytest.approx([swept.objective] * 2, abs=1e-8)
    assert np.abs(split.precision - swept.theta).max() < 1e-5

    again = solve_group_descent(problem, (swept.theta, swept.w), gap=3e-9, max_iter=200)
    assert swept.n_iter >= again.n_iter == 1
    assert np.abs(again.theta - swept.theta).max() < 1e-6
    assert solve_few(problem, tol=1e-10, max_iter=100, start=Start(swept.w, swept.theta)).n_iter <= 1


def test_too_few_sweeps_leave_a_component():
    """What is not proven in so many sweeps is left to other methods."""
    assert solve_group_descent(_problem(0.02), None, gap=1e-11, max_iter=1) is None
