"""The group graphical lasso: screening into components, a solver for each, and the proof of its answer.

References
----------
Mazumder & Hastie (2012), Exact covariance thresholding into connected components, JMLR 13. Its proof needs of the
penalty only that zeros between components are dual feasible: here ``||S_gh||_F <= L_gh``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dp_bundle.errors import NoSolutionError
from dp_learn.glasso.groups import GroupProblem, Groups, IndexArray, make_group_problem
from dp_learn.glasso.solution import Solution, Status
from dp_learn.glasso.solvers.group_admm import solve_group_admm
from dp_learn.glasso.solvers.group_descent import GroupIncumbent, descend
from dp_learn.matrices import FloatArray, few_threads, is_positive_definite

NAME = "group"
PATIENCE = 25  # gradient steps that must halve the gap
ALPHA_RTOL = 1e-2  # of the smallest alpha that a message names
SEARCH_ITER, LARGEST_FACTOR = 500, 1e9


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
) -> Solution:
    """Solve the group problem as `graphical_lasso` does; settings are checked, and `start` fits."""

    def problem_at(strength: float) -> GroupProblem:
        return make_group_problem(covariance, strength, groups, weights=weights, penalize_diagonal=penalize_diagonal)

    problem, order = problem_at(alpha), groups.order
    warm = None if start is None else start.precision[np.ix_(order, order)]
    with few_threads(len(order)):
        solved = _solve_components(problem, tol, max_iter, warm)
        if solved is None:
            raise NoSolutionError(float(alpha), _smallest_alpha(problem_at, float(alpha)))

    precision, w, objective, gap, n_iter, n_components = solved
    optimal = gap <= tol * len(order)
    status = Status.OPTIMAL if optimal else Status.MAX_ITER if n_iter >= max_iter else Status.STALLED
    back = np.ix_(np.argsort(order), np.argsort(order))
    return Solution(precision[back], w[back], objective, gap, n_iter, status, float(alpha), NAME, n_components)


def split_components(problem: GroupProblem) -> list[IndexArray]:
    """Return the nodes of each connected component of the solution's graph, or of a coarser one."""
    linked = problem.norms(problem.covariance) > problem.penalty
    label = np.full(len(linked), -1)
    components: list[IndexArray] = []
    for root in range(len(linked)):
        if label[root] >= 0:
            continue
        label[root], queue = len(components), [root]
        for node in queue:
            new = np.flatnonzero(linked[node] & (label < 0))
            label[new] = len(components)
            queue.extend(new.tolist())
        components.append(np.sort(np.array(queue, dtype=np.intp)))
    return components


def _solve_components(
    problem: GroupProblem, tol: float, max_iter: int, warm: FloatArray | None
) -> tuple[FloatArray, FloatArray, float, float, int, int] | None:
    precision, w = np.zeros_like(problem.covariance), np.zeros_like(problem.covariance)
    objective, gap, n_iter = 0.0, 0.0, 0
    components = split_components(problem)
    for nodes in components:
        part, index = problem.restrict(nodes)
        start = None if warm is None else warm[np.ix_(index, index)]
        best, steps = _solve_component(part, start, tol * len(index), max_iter)
        if best.w is None or best.theta is None:
            return None
        place = np.ix_(index, index)
        precision[place], w[place] = best.theta, best.w
        objective, gap, n_iter = objective + best.value, gap + best.duality_gap, max(n_iter, steps)
    return precision, w, objective, gap, n_iter, len(components)


def _solve_component(
    problem: GroupProblem, warm: FloatArray | None, gap: float, max_iter: int
) -> tuple[GroupIncumbent, int]:
    """Solve one component in units in which every node's mean variance is one; a node alone needs no iterations."""
    if problem.covariance.diagonal().min() <= 0.0:
        return GroupIncumbent(problem), 0
    scaled, units = problem.in_even_units()
    outer = np.outer(units, units)

    best, n_iter = GroupIncumbent(scaled), 0
    if len(scaled.first) == 1:
        if is_positive_definite(scaled.covariance):
            inverse = np.linalg.inv(scaled.covariance)
            best.offer_theta((inverse + inverse.T) / 2.0)
            best.offer_w(scaled.covariance)
    else:
        start = _start(scaled, None if warm is None else warm / outer)
        best, n_iter = descend(scaled, start, gap=gap, max_iter=max_iter, patience=PATIENCE)
        if best.duality_gap > gap and not best.unbounded and n_iter < max_iter:
            n_iter += solve_group_admm(scaled, best, gap=gap, max_iter=max_iter - n_iter)

    # the determinants of the two halves change by opposite amounts
    shift = 2.0 * float(np.log(units).sum())
    best.value, best.dual_value = best.value - shift, best.dual_value - shift
    if best.theta is not None and best.w is not None:
        best.theta, best.w = best.theta * outer, best.w / outer
    return best, n_iter


def _start(problem: GroupProblem, warm: FloatArray | None) -> FloatArray:
    """Return a positive definite start without forbidden entries: an earlier answer, or the nodes' own blocks."""
    if warm is not None:
        warm = np.where(problem.spread(np.isinf(problem.penalty)), 0.0, warm)
        if is_positive_definite(warm):
            return warm
    start = np.zeros_like(problem.covariance)
    for first, size in zip(problem.first, problem.sizes, strict=True):
        block = slice(first, first + size)
        own = problem.covariance[block, block]
        start[block, block] = np.linalg.inv(own) if is_positive_definite(own) else np.eye(size)
    return (start + start.T) / 2.0


def _smallest_alpha(problem_at: Callable[[float], GroupProblem], alpha: float) -> float:
    """Return the smallest alpha that has a solution, from above, where this one has none; inf where none has."""
    low, high = alpha, 2.0 * alpha
    while not _is_feasible(problem_at(high)):
        low, high = high, 4.0 * high
        if high > LARGEST_FACTOR * alpha:
            return math.inf
    while high - low > ALPHA_RTOL * high:
        middle = math.sqrt(low * high)
        if _is_feasible(problem_at(middle)):
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
        best = GroupIncumbent(part.in_even_units()[0])
        solve_group_admm(best.problem, best, gap=0.0, max_iter=SEARCH_ITER, feasible_only=True)
        if best.w is None:
            return False
    return True
