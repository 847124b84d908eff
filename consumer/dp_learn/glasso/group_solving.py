"""The group graphical lasso, by ADMM, and the smallest alpha at which it has a solution."""

import contextlib
import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dp_learn.glasso.problem import GroupProblem, Groups, IndexArray, Solution, make_group_problem
from dp_learn.glasso.solvers.admm import SEARCH_ITER, improve, is_few, solve_at_once, solve_few
from dp_learn.glasso.solvers.answers import Incumbent, Start
from dp_learn.glasso.solvers.components import solve_by_components, split_components
from dp_learn.matrices.linalg import few_threads

NAME = "group"
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
    if start is not None:
        start = _reordered(start, order)
    with few_threads(len(order)) if len(order) > _ONE_THREAD else contextlib.nullcontext():
        solved = _solve(problem, tol, max_iter, start)
    return None if solved is None else _reordered(solved, np.argsort(order))


def _reordered(solution: Solution, order: IndexArray) -> Solution:
    place = np.ix_(order, order)
    own = solution.precision[place], solution.covariance[place]
    return replace(solution, precision=own[0], covariance=own[1], solver=NAME)


def _solve(problem: GroupProblem, tol: float, max_iter: int, start: Solution | None) -> Solution | None:
    """Solve few nodes at once, and every component of many; None without a solution."""
    if is_few(len(problem.first), problem.n_features):
        first = None if start is None else Start(start.covariance, start.precision)
        return solve_few(problem, tol=tol, max_iter=max_iter, start=first)
    return solve_by_components(problem, solve_at_once, NAME, tol=tol, max_iter=max_iter, start=start)


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
