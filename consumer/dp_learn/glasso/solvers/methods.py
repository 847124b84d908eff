"""The solvers of a problem of numbers, and the choice between them.

Block descent is the fastest on sparse answers by far, and on dense ones up to hundreds of columns. Close to the
smallest alpha that has a solution its sweeps gain less and less, more so than the iterations of ADMM: once `PATIENCE`
sweeps have not made the gap ten times smaller, ADMM goes on from the best answer so far.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dp_learn.glasso.feasibility import judge_box
from dp_learn.glasso.problem import Problem, Solution, Status
from dp_learn.glasso.solver_names import AUTO, SOLVER_NAMES
from dp_learn.glasso.solvers.admm import solve_admm
from dp_learn.glasso.solvers.answers import Answer, Solver, Start
from dp_learn.glasso.solvers.block_descent import solve_block_descent
from dp_learn.glasso.solvers.components import solve_by_components
from dp_learn.matrices.linalg import FloatArray, is_positive_definite

SWEEPS, DENSE = SOLVER_NAMES
MANY = 0.6  # of the entries: then ADMM takes a half to a thirtieth of the time from nothing, or little more
SOLVERS: dict[str, Solver] = dict(zip(SOLVER_NAMES, (solve_block_descent, solve_admm), strict=True))

PATIENCE = 20  # sweeps
GAIN = 0.1  # of the gap is what so many sweeps leave of it at most, where more of them are worth while


def solve_numbers(
    problem: Problem, *, solver: str, tol: float, max_iter: int, start: Solution | None
) -> Solution | None:
    """Solve a checked problem with settings that are checked, as `solve` does."""
    if solver == AUTO and start is None and _looks_dense(problem):
        solver = DENSE
    run = solve_auto if solver == AUTO else SOLVERS[solver]

    def solve_component(problem: Problem, start: Start | None, *, gap: float, max_iter: int) -> Answer | None:
        form, units = problem.in_even_units()
        inside = _starting_point(form, start, np.outer(units, units))
        return None if inside is None else run(form, inside, gap=gap, max_iter=max_iter).restored(units)

    return solve_by_components(problem, solve_component, solver, tol=tol, max_iter=max_iter, start=start)


def _looks_dense(problem: Problem) -> bool:
    """Return whether most entries are penalised, and less than their covariance is, as those of a dense answer are."""
    s, penalty = problem.covariance, problem.penalty
    return bool(np.isfinite(penalty).all() and np.mean((penalty > 0.0) & (np.abs(s) > penalty)) > MANY)


def _starting_point(form: Problem, start: Start | None, outer: FloatArray) -> Start | None:
    """Return a positive definite start in the box, warm if possible; None when the box holds none."""
    theta = None
    if start is not None and start.theta is not None:
        theta = np.where(np.isinf(form.penalty), 0.0, start.theta / outer)
        w = form.project(start.w * outer)
        if is_positive_definite(w):
            return Start(w, theta)
    inside = judge_box(form.covariance, form.penalty).w
    return None if inside is None else Start(inside, theta)


def solve_auto(form: Problem, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the answer of the first method that reaches the gap, ADMM going on from the best answer of the sweeps.

    Its `solvers` names the ones that ran. If none reaches the gap, the answer is the best one.
    """
    swept = _sweep_while_worth_it(form, start, gap=gap, max_iter=max_iter)
    if swept.status is Status.OPTIMAL:
        return replace(swept, solvers=(SWEEPS,))
    answer = solve_admm(form, Start(swept.w, swept.theta), gap=gap, max_iter=max_iter)
    return replace(min(answer, swept, key=lambda each: each.duality_gap), solvers=SOLVER_NAMES)


def _sweep_while_worth_it(form: Problem, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the best answer of block descent, run as long as its sweeps gain enough."""
    best = solve_block_descent(form, start, gap=gap, max_iter=min(max_iter, PATIENCE))
    n_iter, before = best.n_iter, math.inf
    while best.status is Status.MAX_ITER and n_iter < max_iter and best.duality_gap <= GAIN * before:
        before = best.duality_gap
        answer = solve_block_descent(
            form, Start(best.w, best.theta), gap=gap, max_iter=min(max_iter - n_iter, PATIENCE)
        )
        n_iter += answer.n_iter
        best = min(answer, best, key=lambda each: each.duality_gap)
    return replace(best, n_iter=n_iter)
