"""Problems of few nodes, by the alternating direction method of multipliers in plain numpy.

Loading the compiled kernels of the other solvers takes several times as long as a whole path of such problems, and
compiling them a minute. A column is a node of one.

The unpenalised fit on a chordal graph, which is known in closed form: no iteration, however nearly singular S is.

A graph is chordal if its columns have an order in which the earlier neighbours of each are all neighbours of each
other; trees and complete graphs are. Every column is then regressed on its earlier neighbours alone.

References
----------
Lauritzen (1996), Graphical Models, section 5.3.2. Tarjan & Yannakakis (1984), Simple linear-time algorithms to test
chordality of graphs, SIAM Journal on Computing 13(3), for the order.
"""

import math

import numpy as np
import numpy.typing as npt

from dp_learn.glasso.problem import Problem, Solution, Status
from dp_learn.glasso.solvers.admm import improve
from dp_learn.glasso.solvers.answers import Answer, Incumbent, Start
from dp_learn.matrices.linalg import FEW

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
    known = solve_on_chordal_graph(scaled, gap=gap) if scaled.is_scalar else None
    if known is not None:
        return known.restored(units)

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


def solve_on_chordal_graph(form: Problem, *, gap: float) -> Answer | None:
    """Return the fit where every entry is either free or forbidden and the free ones are a chordal graph, else None.

    Its status is `stalled` where rounding alone keeps the gap from being proven: no iteration could do better.
    """
    s, penalty = form.covariance, form.penalty
    free = penalty == 0.0
    if not (free | np.isinf(penalty)).all():
        return None

    order = _cardinality_order(free)
    theta, w, before = np.zeros_like(s), np.zeros_like(s), np.zeros(len(s), dtype=np.bool_)
    for column in order:
        earlier, near = np.flatnonzero(before), np.flatnonzero(before & free[column])
        before[column] = True
        if not free[np.ix_(near, near)].all():
            return None

        try:
            beta = np.linalg.solve(s[np.ix_(near, near)], s[near, column]) if near.size else np.empty(0)
        except np.linalg.LinAlgError:
            return None
        variance = 1.0 - float(s[near, column] @ beta)
        if not variance > 0.0:
            return None

        residual = np.append(1.0, -beta)
        own = np.append(column, near)
        theta[np.ix_(own, own)] += np.outer(residual, residual / variance)
        w[column, earlier] = w[earlier, column] = w[np.ix_(earlier, near)] @ beta
        w[column, near] = w[near, column] = s[near, column]
        w[column, column] = 1.0

    theta = 0.5 * (theta + theta.T)
    value, reached = form.certify(theta, w)
    if not np.isfinite(reached):
        return None
    return Answer(theta, w, value, reached, 1, Status.OPTIMAL if reached <= gap else Status.STALLED)


def _cardinality_order(free: npt.NDArray[np.bool_]) -> list[int]:
    """Return the columns, each time the one with the most neighbours before it."""
    count, order = np.zeros(len(free), dtype=np.int64), []
    for _ in range(len(free)):
        column = int(np.argmax(count))
        order.append(column)
        count += free[column]
        count[order] = -1
    return order
