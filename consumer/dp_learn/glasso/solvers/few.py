"""Problems of few nodes, by the alternating direction method of multipliers in plain numpy.

Loading the compiled kernels of the other solvers takes several times as long as a whole path of such problems, and
compiling them a minute. A column is a node of one.
"""

import math

import numpy as np

from dp_learn.glasso.problem import Problem, Solution, Status
from dp_learn.glasso.solvers.admm import improve
from dp_learn.glasso.solvers.answers import Answer, Incumbent, Start
from dp_learn.matrices.linalg import FEW, is_positive_definite

FEW_COLUMNS = 200  # of `FEW` nodes: with more, a path takes as long as compiling kernels
CLOSE = 1e-13  # of a gap for each column, which tells the edges, where a few more iterations come to it
SEARCH_ITER = 500  # for a feasible matrix, where there is no answer
NAME = "admm"


def is_few(n_nodes: int, n_features: int) -> bool:
    """Return whether problems of so many nodes and columns are solved without compiled kernels."""
    return n_nodes <= FEW and n_features <= FEW_COLUMNS


def solve_few(problem: Problem, *, tol: float, max_iter: int, start: Start | None) -> Solution | None:
    """Return the certified solution of a problem, all components at once, or None where none was found to exist.

    Parameters
    ----------
    problem : Problem
        Of any size.
    tol, max_iter
        As in `graphical_lasso`.
    start : Start or None
        An earlier dual and precision matrix.
    """
    if not (problem.variances > 0.0).all():
        return None
    gap = tol * problem.n_features
    answer = solve_at_once(problem, start, gap=gap, max_iter=max_iter)
    if answer is None:
        return None
    status = Status.OPTIMAL if answer.duality_gap <= gap else answer.status
    return Solution(
        answer.theta,
        answer.w,
        answer.objective,
        answer.duality_gap,
        answer.n_iter,
        status,
        problem.alpha,
        NAME,
        count_components(problem),
    )


def solve_at_once(problem: Problem, start: Start | None, *, gap: float, max_iter: int) -> Answer | None:
    """Return the answer of ADMM in units in which nodes are alike; None where no dual matrix was found definite."""
    scaled, units = problem.in_even_units()
    outer = np.outer(units, units)
    if (inverse := _invert(scaled, gap=gap)) is not None:
        return inverse.restored(units)

    best = Incumbent(scaled)
    theta = scaled.unlinked()
    best.offer_theta(theta)
    if start is not None:
        best.offer_w(scaled.project(start.w * outer))
        theta = theta if start.theta is None else start.theta / outer

    close = CLOSE * scaled.n_features if scaled.has_choice else math.inf
    n_iter, status = improve(scaled, best, theta, gap=gap, max_iter=max_iter, close=close)
    if best.w is None and not best.unbounded:  # too few iterations, or no solution
        improve(scaled, best, best.theta, gap=0.0, max_iter=SEARCH_ITER, feasible_only=True)
    if best.w is None or best.theta is None or best.unbounded:
        return None
    return best.answer(n_iter, status).restored(units)


def count_components(problem: Problem) -> int:
    """Return the number of connected components of the graph with an edge wherever ``||S_gh|| > L_gh``."""
    reached = problem.norms(problem.covariance) > problem.penalty
    np.fill_diagonal(reached, True)
    while True:  # twice as far every time
        further = reached @ reached
        if np.array_equal(further, reached):
            return len({row.tobytes() for row in reached})
        reached = further


def _invert(form: Problem, *, gap: float) -> Answer | None:
    """Return the fit of a problem without any penalty, however nearly singular S is; None of others.

    Its status is `stalled` where rounding alone keeps the gap from being proven: no iteration could do better.
    """
    if form.penalty.any() or not is_positive_definite(form.covariance):
        return None
    theta = np.linalg.inv(form.covariance)
    theta = 0.5 * (theta + theta.T)
    value, reached = form.certify(theta, form.covariance)
    if not np.isfinite(reached):
        return None
    return Answer(theta, form.covariance, value, reached, 1, Status.OPTIMAL if reached <= gap else Status.STALLED)
