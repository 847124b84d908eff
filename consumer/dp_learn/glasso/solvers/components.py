"""Exact screening into connected components, each solved in standard form by the solver of choice, compiled.

Block descent is the fastest on sparse answers by far, and on dense ones up to hundreds of columns. Close to the
smallest alpha that has a solution its sweeps gain less and less, more so than the iterations of ADMM: once `PATIENCE`
sweeps have not made the gap ten times smaller, ADMM goes on from the best answer so far. An unpenalised fit on a small
chordal graph needs neither.

References
----------
Witten, Friedman & Simon (2011), New insights and faster computations for the graphical lasso, JCGS 20(4). Mazumder &
Hastie (2012), Exact covariance thresholding into connected components, JMLR 13. Their theorems hold for indefinite S as
well: zeros between components are in the box.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.machine import count_cores
from dp_learn.glasso.feasibility import judge_box, soft_threshold
from dp_learn.glasso.problem import Problem, Solution, Status
from dp_learn.glasso.solver_names import AUTO, SOLVER_NAMES
from dp_learn.glasso.solvers._component_kernels import N_SQUARES, solve_components
from dp_learn.glasso.solvers._sparse_kernels import is_dominant, off_diagonal_rows
from dp_learn.glasso.solvers.admm import solve_admm
from dp_learn.glasso.solvers.block_descent import solve_block_descent
from dp_learn.glasso.solvers.chordal import solve_on_chordal_graph
from dp_learn.glasso.solvers.sparse_certificate import is_sparse, sparse_logdet
from dp_learn.glasso.solvers.standard_form import (
    Answer,
    Solver,
    StandardForm,
    Start,
    restore_units,
    standardize,
    standardize_start,
)
from dp_learn.matrices.linalg import FloatArray, is_positive_definite

SWEEPS, DENSE = SOLVER_NAMES
MANY = 0.6  # of the entries: then ADMM takes a half to a thirtieth of the time from nothing, or little more
SOLVERS: dict[str, Solver] = dict(zip(SOLVER_NAMES, (solve_block_descent, solve_admm), strict=True))

PATIENCE = 20  # sweeps
GAIN = 0.1  # of the gap is what so many sweeps leave of it at most, where more of them are worth while
LARGEST_IN_LOOP = 600  # columns of a component that compiled code may solve without a step between
WORTH_A_THREAD = 300  # columns of a component: with two of these, two threads begin to pay

Piece = tuple[StandardForm, Answer]

_SEVERITY = list(Status)  # the worst component names the status of the whole


def solve_by_components(
    problem: Problem,
    *,
    solver: str,
    tol: float,
    max_iter: int,
    start: Solution | None,
    definite: bool,
    feasible: bool = False,
) -> Solution | None:
    """Solve a checked problem with settings that are checked, as `solve` does."""
    if solver == AUTO and start is None and _looks_dense(problem):
        solver = DENSE
    run = solve_auto if solver == AUTO else SOLVERS[solver]
    precision, w = np.zeros(problem.covariance.shape), np.zeros(problem.covariance.shape)
    n_components, components, objective, duality_gap, n_iter = _solve_simple(
        problem, solver, tol, max_iter, start, precision, w
    )
    if n_components == 0:
        return None
    if not components:
        name = SWEEPS if solver == AUTO and n_iter else solver
        return Solution(precision, w, objective, duality_gap, n_iter, Status.OPTIMAL, problem.alpha, name, n_components)

    def solve_component(index: NDArray[np.intp]) -> Piece | None:
        form = standardize(problem, index)
        first = _starting_point(form, index, start, definite=definite, feasible=feasible)
        return None if first is None else (form, run(form, first, gap=tol * index.size, max_iter=max_iter))

    pieces = _map(solve_component, components)
    if pieces[0] is not None and components[0].size == problem.n_features:
        precision, w = pieces[0][1].theta, pieces[0][1].w  # restored in place
    status, used = Status.OPTIMAL, {SWEEPS} if solver == AUTO and n_iter else set[str]()
    for index, piece in zip(components, pieces, strict=True):
        if piece is None:
            return None
        form, answer = piece
        restore_units(form, answer, index, precision, w)
        objective += answer.objective - 2.0 * float(np.log(form.scale).sum())
        duality_gap += answer.duality_gap
        n_iter = max(n_iter, answer.n_iter)
        status = max(status, answer.status, key=_SEVERITY.index)
        used.update(answer.solvers)
    if status is not Status.OPTIMAL and duality_gap <= tol * problem.n_features:
        status = Status.OPTIMAL
    name = ", ".join(each for each in SOLVERS if each in used) or solver
    return Solution(precision, w, objective, duality_gap, n_iter, status, problem.alpha, name, n_components)


def _looks_dense(problem: Problem) -> bool:
    """Return whether most entries are penalised, and less than their covariance is, as those of a dense answer are."""
    s, penalty = problem.covariance, problem.penalty
    return bool(np.isfinite(penalty).all() and np.mean((penalty > 0.0) & (np.abs(s) > penalty)) > MANY)


def _map(
    solve_component: Callable[[NDArray[np.intp]], Piece | None], components: list[NDArray[np.intp]]
) -> list[Piece | None]:
    """Solve every component, in threads where several are large; the order and the answers do not depend on them."""
    n_threads = min(count_cores(), sum(index.size >= WORTH_A_THREAD for index in components))
    if n_threads < 2:
        return [solve_component(index) for index in components]
    with ThreadPoolExecutor(n_threads) as threads:
        return list(threads.map(solve_component, components))


def _solve_simple(
    problem: Problem,
    solver: str,
    tol: float,
    max_iter: int,
    start: Solution | None,
    precision: FloatArray,
    w: FloatArray,
) -> tuple[int, list[NDArray[np.intp]], float, float, int]:
    """Solve single columns and, by block descent, small components; return the number of all, and those left.

    Then come the objective and the gap of what was solved, and the most sweeps. There is no component where a variance
    is not positive.
    """
    descends = solver in {SWEEPS, AUTO}
    warm = (start.precision, start.covariance) if start is not None else (precision, w)
    largest = min(LARGEST_IN_LOOP, problem.n_features) if descends else 1
    work = np.empty(N_SQUARES * largest * largest)
    covariance = np.broadcast_to(problem.covariance, problem.covariance.shape)  # read-only, as some are: compiled once
    order, first, left, n_components, *solved = solve_components(
        covariance, problem.penalty, start is not None, *warm, tol, largest, max_iter, precision, w, work
    )
    return n_components, [order[first[c] : first[c + 1]] for c in left], *solved


def _starting_point(
    form: StandardForm, index: NDArray[np.intp], start: Solution | None, *, definite: bool, feasible: bool
) -> Start | None:
    """Return a positive definite start in the box, warm if possible; None when the box holds none."""
    warm = None if start is None else standardize_start(start, form, index, feasible=feasible)
    if warm is not None and feasible:
        return warm
    if definite:
        return Start(form.covariance, None if warm is None else warm.theta)
    if warm is not None and is_positive_definite(warm.w):
        return warm
    w = _sparse_start(form)
    if w is None:
        w = judge_box(form.covariance, form.penalty).w
    return None if w is None else Start(w, None if warm is None else warm.theta)


def _sparse_start(form: StandardForm) -> FloatArray | None:
    """Return the matrix of the box nearest to zero if it is sparse and positive definite, which is quickly seen."""
    w = soft_threshold(form.covariance, form.penalty)
    edges = off_diagonal_rows(w)
    if not is_sparse(edges):
        return None
    return w if is_dominant(edges) or sparse_logdet(edges, w.diagonal()) > -math.inf else None


def solve_auto(form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the answer of the first method that reaches the gap, ADMM going on from the best answer of the sweeps.

    Its `solvers` names the ones that ran. If none reaches the gap, the answer is the best one.
    """
    known = solve_on_chordal_graph(form, gap=gap)
    if known is not None:
        return known
    swept = _sweep_while_worth_it(form, start, gap=gap, max_iter=max_iter)
    if swept.status is Status.OPTIMAL:
        return replace(swept, solvers=(SWEEPS,))
    answer = solve_admm(form, Start(swept.w, swept.theta), gap=gap, max_iter=max_iter)
    return replace(min(answer, swept, key=lambda each: each.duality_gap), solvers=SOLVER_NAMES)


def _sweep_while_worth_it(form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
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
