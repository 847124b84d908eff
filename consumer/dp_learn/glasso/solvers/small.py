"""Newton's method on the free entries, for problems of few columns, in plain numpy.

Loading the compiled kernels of the other solvers takes several times as long as a whole path of such problems. With
``W = Theta^-1``, an entry of Theta is free if it is not zero, or if ``|S - W|_ij > L_ij``, so that the objective falls
when it leaves zero. With the signs of the free entries held fixed the objective is smooth, and its Newton step is one
linear system with as many equations; an entry that would change its sign stops at zero. The certificate is the usual
one, with W clipped to the box as the dual matrix. Problems that are not solved quickly are left to the other solvers.

References
----------
Oztoprak, Nocedal, Rennie & Olsen (2012), Newton-like methods for sparse inverse covariance estimation, NIPS 25. Andrew
& Gao (2007), Scalable training of L1-regularized log-linear models, ICML 24, for the line search within an orthant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dp_learn.glasso.feasibility import feasible_covariance
from dp_learn.glasso.problem import Problem, Solution, Status, certify
from dp_learn.matrices.linalg import FloatArray, is_positive_definite

MOST_FREE = 600  # entries: the systems of more take longer than loading the kernels
MAX_STEPS = 30
DOUBTFUL = 8  # steps: most problems that have a solution take fewer
TOO_LARGE = 1e5  # times the inverse of its variance is an entry of the diagonal only where there may be no solution
CLOSE = 1e-3  # of the gap asked for
SUFFICIENT, SHORTEST = 1e-4, 1e-6  # Armijo's constant; the shortest step
NAME = "newton"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Point:
    """A positive definite precision matrix, the objective there, and its inverse."""

    theta: FloatArray
    value: float
    w: FloatArray


def solve_small(
    problem: Problem, *, tol: float, max_iter: int, start: Solution | None, definite: bool = False
) -> Solution | None:
    """Return the certified solution of a problem, all components at once, or None where it was not had quickly.

    Where the first answer that is good enough is not far better still, one more step is taken: it squares the gap, or
    nearly so.

    Parameters
    ----------
    problem : Problem
        Of at most `linalg.FEW` columns.
    tol, max_iter, start
        As in `graphical_lasso`.
    definite : bool
        Whether the covariance is known to be positive definite, so that there is a solution.
    """
    s, penalty = problem.covariance, problem.penalty
    p, variance = problem.n_features, s.diagonal() + penalty.diagonal()
    if not (variance > 0.0).all():
        return None

    n_components = _count_components(s, penalty)
    allowed = np.isfinite(penalty)
    finite = np.where(allowed, penalty, 0.0)
    point = _first_point(s, finite, allowed, start)
    answer: Solution | None = None

    for n_steps in range(min(max_iter, MAX_STEPS) + 1):
        dual = np.minimum(np.maximum(point.w, s - penalty), s + penalty)
        value, gap = certify(s, penalty, point.theta, dual)
        if answer is not None and gap >= answer.duality_gap:
            return answer
        if gap <= tol * p:
            close = answer is not None or gap <= CLOSE * tol * p
            answer = Solution(point.theta, dual, value, gap, n_steps, Status.OPTIMAL, problem.alpha, NAME, n_components)
            if close:
                return answer

        if n_steps == DOUBTFUL and not definite and not has_solution(problem):  # which takes less time than the steps
            return None
        following = _newton_step(s, finite, allowed, point)
        if following is None or (following.theta.diagonal() * variance > TOO_LARGE).any():
            return answer
        point = following
    return answer


def has_solution(problem: Problem) -> bool:
    """Return whether a positive definite matrix was found in the box."""
    variance = problem.covariance.diagonal() + problem.penalty.diagonal()
    if not (variance > 0.0).all():
        return False
    scale = 1.0 / np.sqrt(variance)
    outer = np.outer(scale, scale)
    s, penalty = problem.covariance * outer, problem.penalty * outer
    np.fill_diagonal(s, 1.0)
    np.fill_diagonal(penalty, 0.0)
    return feasible_covariance(s, penalty) is not None


def _first_point(s: FloatArray, finite: FloatArray, allowed: Mask, start: Solution | None) -> _Point:
    """Return the start, without forbidden entries, or a diagonal matrix, times the number that lowers it most."""
    theta = np.diag(1.0 / (s.diagonal() + finite.diagonal()))
    if start is not None:
        warm = np.where(allowed, start.precision, 0.0)
        linear = float(np.vdot(s, warm) + np.vdot(finite, np.abs(warm)))
        if is_positive_definite(warm) and linear > 0.0:
            theta = warm * (len(s) / linear)
    point = _evaluate(s, finite, theta)
    return point or _Point(theta, math.inf, np.diag(1.0 / theta.diagonal()))


def _evaluate(s: FloatArray, finite: FloatArray, theta: FloatArray) -> _Point | None:
    """Return the point at `theta`, None where that is not positive definite."""
    try:
        factor = np.linalg.cholesky(theta)
        w = np.linalg.inv(theta)
    except np.linalg.LinAlgError:
        return None
    linear = float(np.vdot(s, theta) + np.vdot(finite, np.abs(theta)))
    return _Point(theta, linear - 2.0 * float(np.log(factor.diagonal()).sum()), 0.5 * (w + w.T))


def _newton_step(s: FloatArray, finite: FloatArray, allowed: Mask, point: _Point) -> _Point | None:
    """Return the next point, None where there is none with a lower objective or the step is too large a system."""
    theta, w = point.theta, point.w
    slope = s - w
    rows, columns = np.nonzero(np.triu(allowed & ((theta != 0.0) | (np.abs(slope) > finite))))
    if not 0 < len(rows) <= MOST_FREE:
        return None
    x, slope = theta[rows, columns], slope[rows, columns]
    sign = np.where(x != 0.0, np.sign(x), -np.sign(slope))
    slope = (slope + finite[rows, columns] * sign) * np.where(rows == columns, 1.0, 2.0)
    signed = sign * (finite[rows, columns] > 0.0)  # an entry without a penalty may change its sign

    step = np.zeros(len(x))
    moving = np.arange(len(x))
    curvature = _curvature(w, rows, columns)
    while moving.size:  # without the entries at zero that would leave it on the wrong side
        try:
            every = moving.size == x.size
            found = np.linalg.solve(curvature if every else curvature[np.ix_(moving, moving)], -slope[moving])
        except np.linalg.LinAlgError:
            return None
        wrong = (x[moving] == 0.0) & (found * signed[moving] < 0.0)
        if not wrong.any():
            step[moving] = found
            break
        moving = moving[~wrong]

    length = 1.0
    while length > SHORTEST:
        new = x + length * step
        new[new * signed < 0.0] = 0.0
        candidate = theta.copy()
        candidate[rows, columns] = candidate[columns, rows] = new
        following = _evaluate(s, finite, candidate)
        if following is not None and following.value <= point.value + SUFFICIENT * float(slope @ (new - x)):
            return following
        length *= 0.5
    return None


def _curvature(w: FloatArray, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> FloatArray:
    """Return the second derivatives of ``-logdet Theta`` by the entries, each with its mirror image."""
    share = np.where(rows == columns, 0.5, 1.0)
    from_rows, from_columns = w.take(rows, axis=0), w.take(columns, axis=0)
    curvature = from_rows.take(rows, axis=1)
    curvature *= from_columns.take(columns, axis=1)
    crossed = from_rows.take(columns, axis=1)
    crossed *= from_columns.take(rows, axis=1)
    curvature += crossed
    curvature *= share[:, None]
    curvature *= 2.0 * share
    return curvature


def _count_components(s: FloatArray, penalty: FloatArray) -> int:
    """Return the number of connected components of the graph with an edge wherever ``|S_ij| > L_ij``."""
    reached = (np.abs(s) > penalty) | np.eye(len(s), dtype=bool)
    while True:  # twice as far every time
        further = reached @ reached
        if np.array_equal(further, reached):
            return len({row.tobytes() for row in reached})
        reached = further
