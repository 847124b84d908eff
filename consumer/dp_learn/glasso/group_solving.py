"""The group graphical lasso: screening into components, a solver for each, and the proof of its answer.

References
----------
Mazumder & Hastie (2012), Exact covariance thresholding into connected components, JMLR 13. Its proof needs of the
penalty only that zeros between components are dual feasible: here ``||S_gh||_F <= L_gh``.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dp_learn.glasso.groups import GroupProblem, Groups, IndexArray, make_group_problem
from dp_learn.glasso.problem import Solution, Status
from dp_learn.glasso.solvers.admm import improve
from dp_learn.glasso.solvers.few import SEARCH_ITER, is_few, solve_at_once, solve_few
from dp_learn.glasso.solvers.standard_form import Answer, Incumbent, Start
from dp_learn.matrices.linalg import FloatArray, few_threads

NAME = "group"
Pair = tuple[FloatArray, FloatArray]

ALPHA_RTOL = 1e-2  # of the smallest alpha that a message names
_ONE_THREAD = 64  # columns that BLAS takes one thread for anyway
LARGEST_FACTOR = 1e9


def solve_groups(
    covariance: ArrayLike,
    alpha: float,
    groups: Groups,
    *,
    weights: ArrayLike | None,
    penalize_diagonal: bool,
    tol: float,
    max_iter: int,
    start: Solution | None,
) -> Solution | None:
    """Solve the group problem as `graphical_lasso` does, or return None; settings are checked, and `start` fits."""
    problem = make_group_problem(covariance, alpha, groups, weights=weights, penalize_diagonal=penalize_diagonal)
    order = groups.order
    warm = None
    if start is not None:
        place = np.ix_(order, order)
        warm = start.precision[place], start.covariance[place]
    with few_threads(len(order)) if len(order) > _ONE_THREAD else contextlib.nullcontext():
        solved = _solve_components(problem, tol, max_iter, warm)
    if solved is None or (groups.are_in_order and solved.solver == NAME):
        return solved
    back = np.ix_(np.argsort(order), np.argsort(order))
    return replace(solved, precision=solved.precision[back], covariance=solved.covariance[back], solver=NAME)


def split_components(problem: GroupProblem) -> list[IndexArray]:
    """Return the nodes of each connected component of the solution's graph, or of a coarser one."""
    from scipy.sparse.csgraph import connected_components  # which few nodes do without

    n_components, label = connected_components(problem.norms(problem.covariance) > problem.penalty, directed=False)
    return [np.flatnonzero(label == component) for component in range(n_components)]


def _solve_components(problem: GroupProblem, tol: float, max_iter: int, warm: Pair | None) -> Solution | None:
    """Solve every component by block coordinate descent, and those left by ADMM, as few nodes are; None without."""
    if is_few(len(problem.first), problem.n_features):
        first = None if warm is None else Start(warm[1], warm[0])
        found = solve_few(problem, tol=tol, max_iter=max_iter, start=first)
        return found and replace(found, solver=NAME)

    precision, w = np.zeros_like(problem.covariance), np.zeros_like(problem.covariance)
    objective, gap, n_iter, components = 0.0, 0.0, 0, split_components(problem)
    for nodes in components:
        part, index = problem.restrict(nodes)
        place = np.ix_(index, index)
        start = None if warm is None else (warm[0][place], warm[1][place])
        answer = _solve_component(part, start, tol * len(index), max_iter)
        if answer is None:
            return None
        precision[place], w[place] = answer.theta, answer.w
        objective, gap, n_iter = objective + answer.objective, gap + answer.duality_gap, max(n_iter, answer.n_iter)
    optimal = gap <= tol * problem.n_features
    status = Status.OPTIMAL if optimal else Status.MAX_ITER if n_iter >= max_iter else Status.STALLED
    return Solution(precision, w, objective, gap, n_iter, status, problem.alpha, NAME, len(components))


def _solve_component(problem: GroupProblem, start: Pair | None, gap: float, max_iter: int) -> Answer | None:
    """Return the answer for one component; None where no dual feasible matrix was found positive definite."""
    if problem.covariance.diagonal().min() <= 0.0:
        return None
    if len(problem.first) == 1:  # a node alone
        best = Incumbent(problem)
        best.offer_theta(problem.unlinked())
        best.offer_w(problem.covariance)
        return None if best.w is None else best.answer(0, Status.OPTIMAL)

    from dp_learn.glasso.solvers.group_descent import solve_group_descent  # a second, for the kernels

    swept = solve_group_descent(problem, start, gap=gap, max_iter=max_iter)
    return swept or solve_at_once(problem, start and Start(start[1], start[0]), gap=gap, max_iter=max_iter)


def smallest_group_alpha(
    covariance: ArrayLike, alpha: float, groups: Groups, *, weights: ArrayLike | None, penalize_diagonal: bool
) -> float:
    """Return the smallest alpha that has a solution, from above, where this one has none; inf where none has."""

    def is_feasible(strength: float) -> bool:
        problem = make_group_problem(covariance, strength, groups, weights=weights, penalize_diagonal=penalize_diagonal)
        return _is_feasible(problem)

    with few_threads(len(groups.labels)):
        low, high = alpha, 2.0 * alpha
        while not is_feasible(high):
            low, high = high, 4.0 * high
            if high > LARGEST_FACTOR * alpha:
                return math.inf
        while high - low > ALPHA_RTOL * high:
            middle = math.sqrt(low * high)
            if is_feasible(middle):
                high = middle
            else:
                low = middle
    return high


def _is_feasible(problem: GroupProblem) -> bool:
    """Return whether a dual feasible matrix was found that is positive definite."""
    for nodes in split_components(problem):
        part, _ = problem.restrict(nodes)
        if part.covariance.diagonal().min() <= 0.0:
            return False
        scaled = part.in_even_units()[0]
        best = Incumbent(scaled)
        improve(scaled, best, None, gap=0.0, max_iter=SEARCH_ITER, feasible_only=True)
        if best.w is None:
            return False
    return True
