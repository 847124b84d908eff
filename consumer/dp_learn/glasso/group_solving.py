"""The group graphical lasso: screening into components, a solver for each, and the proof of its answer.

References
----------
Mazumder & Hastie (2012), Exact covariance thresholding into connected components, JMLR 13. Its proof needs of the
penalty only that zeros between components are dual feasible: here ``||S_gh||_F <= L_gh``.
"""

from __future__ import annotations

import contextlib
import math

import numpy as np
from numpy.typing import ArrayLike

from dp_learn.glasso.groups import GroupProblem, Groups, IndexArray, make_group_problem
from dp_learn.glasso.problem import Solution, Status
from dp_learn.glasso.solvers.group_admm import solve_group_admm
from dp_learn.glasso.solvers.group_descent import GroupIncumbent, descend
from dp_learn.glasso.solvers.small import is_small, solve_small
from dp_learn.matrices.linalg import FloatArray, few_threads, is_positive_definite

NAME = "group"
Pair = tuple[FloatArray, FloatArray]

PATIENCE = 25  # gradient steps that must halve the gap
ALPHA_RTOL = 1e-2  # of the smallest alpha that a message names
_ONE_THREAD = 64  # columns that BLAS takes one thread for anyway
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
    if solved is None:
        return None

    precision, w, objective, gap, n_iter, n_components = solved
    optimal = gap <= tol * len(order)
    status = Status.OPTIMAL if optimal else Status.MAX_ITER if n_iter >= max_iter else Status.STALLED
    if not groups.are_in_order:
        back = np.ix_(np.argsort(order), np.argsort(order))
        precision, w = precision[back], w[back]
    return Solution(precision, w, objective, gap, n_iter, status, float(alpha), NAME, n_components)


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
    problem: GroupProblem, tol: float, max_iter: int, warm: Pair | None
) -> tuple[FloatArray, FloatArray, float, float, int, int] | None:
    """Solve every component by block coordinate descent, and those left by the methods that are sure; None without."""
    plain = is_small(len(problem.first), len(problem.covariance))
    if plain:
        found = solve_small(problem, tol=tol, max_iter=max_iter, start=None if warm is None else warm[0])
        if found is not None:
            return (
                found.precision,
                found.covariance,
                found.objective,
                found.duality_gap,
                found.n_iter,
                found.n_components,
            )

    precision, w = np.zeros_like(problem.covariance), np.zeros_like(problem.covariance)
    objective, gap, n_iter, left = 0.0, 0.0, 0, split_components(problem)
    n_components = len(left)
    if not plain:
        from dp_learn.glasso.solvers._group_component_kernels import solve_group_components  # a second, for the kernels

        first = np.append(problem.first, len(problem.covariance))
        start = (precision, w) if warm is None else warm
        nodes, begin, unsolved, definite, objective, gap, n_iter = solve_group_components(
            problem.covariance, problem.penalty, first, warm is not None, *start, tol, max_iter, precision, w
        )
        if not definite:
            return None
        left = [nodes[begin[component] : begin[component + 1]] for component in unsolved]

    for component in left:
        part, index = problem.restrict(component)
        place = np.ix_(index, index)
        best, steps = _solve_component(part, None if warm is None else warm[0][place], tol * len(index), max_iter)
        if best.w is None or best.theta is None:
            return None
        precision[place], w[place] = best.theta, best.w
        objective, gap, n_iter = objective + best.value, gap + best.duality_gap, max(n_iter, steps)
    return precision, w, objective, gap, n_iter, n_components


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
        if best.w is None and not best.unbounded:  # too few iterations, or no solution
            solve_group_admm(scaled, best, gap=0.0, max_iter=SEARCH_ITER, feasible_only=True)

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
        best = GroupIncumbent(part.in_even_units()[0])
        solve_group_admm(best.problem, best, gap=0.0, max_iter=SEARCH_ITER, feasible_only=True)
        if best.w is None:
            return False
    return True
