"""Newton's method on the free blocks, for problems of few nodes, in plain numpy.

Loading the compiled kernels of the other solvers takes several times as long as a whole path of such problems, and
compiling them a minute. A column is a node of one: a number's blocks are entries. With ``W = Theta^-1``, a block of
Theta is free if it is not zero, or if ``||S - W||_gh > L_gh``, so that the objective falls when it leaves zero. It does
so along the gradient; a block that would turn away from where it was stops at zero. The norms of the others are smooth,
and the Newton step is one linear system, solved by conjugate gradients where it is large. The certificate is the usual
one, with W projected onto the dual's balls. Problems that are not solved quickly are left to the other solvers.

References
----------
Oztoprak, Nocedal, Rennie & Olsen (2012), Newton-like methods for sparse inverse covariance estimation, NIPS 25. Andrew
& Gao (2007), Scalable training of L1-regularized log-linear models, ICML 24, for the line search within an orthant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dp_learn.glasso.feasibility import feasible_covariance
from dp_learn.glasso.problem import ROUNDING, Problem, Solution, Status
from dp_learn.matrices.linalg import FEW, FloatArray, is_positive_definite

FEW_COLUMNS = 200  # of `FEW` nodes: with more, a path takes as long as compiling kernels
MOST_FREE = 600  # entries: the systems of more are solved by conjugate gradients
MOST_ROUNDS, ENOUGH = 100, 0.05  # of conjugate gradients; the share of the gradient that they leave
MAX_STEPS = 30
DOUBTFUL = 8  # steps: most problems that have a solution take fewer
TOO_LARGE = 1e5  # times the inverse of its variance is an entry of the diagonal only where there may be no solution
CLOSE = 1e-3  # of the gap asked for
SUFFICIENT, SHORTEST = 1e-4, 1e-6  # Armijo's constant; the shortest step
NAME = "newton"

Mask = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class _Point:
    """A positive definite precision matrix, the objective there, and its inverse."""

    theta: FloatArray
    value: float
    w: FloatArray


def is_small(n_nodes: int, n_features: int) -> bool:
    """Return whether problems of so many nodes and columns are solved without compiled kernels."""
    return n_nodes <= FEW and n_features <= FEW_COLUMNS


def solve_small(
    problem: Problem, *, tol: float, max_iter: int, start: FloatArray | None, definite: bool = False
) -> Solution | None:
    """Return the certified solution of a problem, all components at once, or None where it was not had quickly.

    Where the first answer that is good enough is not far better still, one more step is taken: it squares the gap, or
    nearly so.

    Parameters
    ----------
    problem : Problem
        One that `is_small`.
    tol, max_iter
        As in `graphical_lasso`.
    start : ndarray, shape (p, p), or None
        An earlier precision matrix.
    definite : bool
        Whether the covariance is known to be positive definite, so that there is a solution.
    """
    variances = problem.variances
    if not (variances > 0.0).all():
        return None

    allowed = np.isfinite(problem.penalty)
    finite = np.where(allowed, problem.penalty, 0.0)
    point = _first_point(problem, finite, allowed, start)
    n_components = count_components(problem)
    answer: Solution | None = None

    for n_steps in range(min(max_iter, MAX_STEPS) + 1):
        dual = problem.project(point.w)
        value, gap = problem.certify(point.theta, dual)
        if answer is not None and gap >= answer.duality_gap:
            return answer
        if gap <= tol * problem.n_features:
            close = answer is not None or gap <= CLOSE * tol * problem.n_features
            answer = Solution(point.theta, dual, value, gap, n_steps, Status.OPTIMAL, problem.alpha, NAME, n_components)
            if close:
                return answer

        doubtful = n_steps == DOUBTFUL and problem.is_scalar and not definite
        if doubtful and not has_solution(problem):  # which takes less time than the steps
            return None
        following = _newton_step(problem, finite, allowed, point)
        if following is None or (following.theta.diagonal() * variances > TOO_LARGE).any():
            return answer
        point = following
    return answer


def has_solution(problem: Problem) -> bool:
    """Return whether a positive definite matrix was found in the box."""
    variances = problem.variances
    if not (variances > 0.0).all():
        return False
    scale = 1.0 / np.sqrt(variances)
    outer = np.outer(scale, scale)
    s, penalty = problem.covariance * outer, problem.penalty * outer
    np.fill_diagonal(s, 1.0)
    np.fill_diagonal(penalty, 0.0)
    return feasible_covariance(s, penalty) is not None


def _first_point(problem: Problem, finite: FloatArray, allowed: Mask, start: FloatArray | None) -> _Point:
    """Return the start, without forbidden entries, or a matrix without links, times the number that lowers it most."""
    theta = problem.unlinked()
    if start is not None:
        warm = np.where(problem.spread(allowed), start, 0.0)
        linear = float(np.vdot(problem.covariance, warm) + np.vdot(finite, problem.norms(warm)))
        if is_positive_definite(warm) and linear > 0.0:
            theta = warm * (problem.n_features / linear)
    point = _evaluate(problem, finite, theta)
    return point or _Point(theta, math.inf, np.diag(1.0 / theta.diagonal()))


def _evaluate(problem: Problem, finite: FloatArray, theta: FloatArray) -> _Point | None:
    """Return the point at `theta`, None where that is not positive definite."""
    try:
        factor = np.linalg.cholesky(theta)
        w = np.linalg.inv(theta)
    except np.linalg.LinAlgError:
        return None
    linear = float(np.vdot(problem.covariance, theta) + np.vdot(finite, problem.norms(theta)))
    return _Point(theta, linear - 2.0 * float(np.log(factor.diagonal()).sum()), 0.5 * (w + w.T))


def _newton_step(problem: Problem, finite: FloatArray, allowed: Mask, point: _Point) -> _Point | None:
    """Return the next point, None where there is none with a lower objective."""
    theta, w = point.theta, point.w
    slope = problem.covariance - w
    size, pull = problem.norms(theta), problem.norms(slope)
    rows, columns = np.nonzero(np.triu(problem.spread(allowed & ((size != 0.0) | (pull > finite)))))
    if not len(rows):
        return None

    # of every free entry, its part of the unit vector that its block is penalised along, or leaves zero along
    x, slope = theta[rows, columns], slope[rows, columns]
    pair = problem.node[rows], problem.node[columns]
    size, lift = size[pair], finite[pair]
    unit = np.where(size != 0.0, x, -slope) / np.where(size != 0.0, size, pull[pair])
    twice = np.where(rows == columns, 1.0, 2.0)
    slope = (slope + lift * unit) * twice
    signed = unit * (lift > 0.0)  # a block without a penalty may turn away from where it was
    block = pair[0] * len(finite) + pair[1]

    step, moving = np.zeros(len(x)), np.arange(len(x))
    if problem.is_scalar and len(x) <= MOST_FREE:
        solve = _small_system(w, rows, columns, slope)
    else:
        bend = np.divide(twice * lift, size, out=np.zeros(len(x)), where=size != 0.0)
        solve = _large_system(w, rows, columns, slope, twice, unit, bend, block, size == 0.0)
    while moving.size:  # without the blocks at zero that would leave it on the wrong side
        try:
            found = solve(moving)
        except np.linalg.LinAlgError:
            return None
        wrong = (x[moving] == 0.0) & (found * signed[moving] < 0.0)
        if not wrong.any():
            step[moving] = found
            break
        moving = moving[~wrong]

    length, slack = 1.0, 0.0 if problem.is_scalar else ROUNDING * abs(point.value)
    while length > SHORTEST:
        new = x + length * step
        new[(np.bincount(block, new * signed) < 0.0)[block]] = 0.0
        candidate = theta.copy()
        candidate[rows, columns] = candidate[columns, rows] = new
        following = _evaluate(problem, finite, candidate)
        lowered = point.value + SUFFICIENT * float(slope @ (new - x)) + slack
        if following is not None and following.value <= lowered:
            return following
        length *= 0.5
    return None


def _small_system(w: FloatArray, rows: Index, columns: Index, slope: FloatArray) -> Callable[[Index], FloatArray]:
    """Return what finds the Newton step of some of a few numbers' entries."""
    curvature = _curvature(w, rows, columns)

    def solve(moving: Index) -> FloatArray:
        every = moving.size == slope.size
        step = np.linalg.solve(curvature if every else curvature[np.ix_(moving, moving)], -slope[moving])
        return np.asarray(step, dtype=np.float64)

    return solve


def _large_system(
    w: FloatArray, rows: Index, columns: Index, slope: FloatArray, twice: FloatArray, unit: FloatArray,
    bend: FloatArray, block: Index, leaving: Mask,
) -> Callable[[Index], FloatArray]:  # fmt: skip
    """Return what finds the Newton step of some entries, by conjugate gradients.

    The norm of a block has the curvature `bend` across its unit vector; those leaving zero only move along theirs.
    """
    variances, direction = w.diagonal(), np.zeros_like(w)

    def along(x: FloatArray) -> FloatArray:
        return unit * np.bincount(block, unit * x)[block]

    def solve(moving: Index) -> FloatArray:
        moves = np.zeros(len(slope), dtype=bool)
        moves[moving] = True

        def kept(x: FloatArray) -> FloatArray:
            return np.where(moves, np.where(leaving, along(x), x), 0.0)

        def curve(x: FloatArray) -> FloatArray:
            direction[rows, columns] = direction[columns, rows] = x
            return kept(twice * (w @ direction @ w)[rows, columns] + bend * (x - along(x)))

        scale = twice * (variances[rows] * variances[columns] + (twice - 1.0) * w[rows, columns] ** 2) + bend
        x, left = np.zeros(len(slope)), kept(-slope)
        ahead = scaled = kept(left / scale)
        before = first = float(left @ scaled)
        for _ in range(MOST_ROUNDS):
            if not before > min(ENOUGH**2, first) * first:  # the better, the closer
                break
            bent = curve(ahead)
            length = before / float(ahead @ bent)
            x, left = x + length * ahead, left - length * bent
            scaled = kept(left / scale)
            following = float(left @ scaled)
            ahead, before = scaled + (following / before) * ahead, following
        return x[moving]

    return solve


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


def count_components(problem: Problem) -> int:
    """Return the number of connected components of the graph with an edge wherever ``||S_gh|| > L_gh``."""
    reached = problem.norms(problem.covariance) > problem.penalty
    np.fill_diagonal(reached, True)
    while True:  # twice as far every time
        further = reached @ reached
        if np.array_equal(further, reached):
            return len({row.tobytes() for row in reached})
        reached = further
