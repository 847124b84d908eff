"""The graphical lasso: exact screening into components, each solved in standard form by the solver of choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_bundle.errors import NoSolutionError, ParameterError
from dp_learn.feasibility import feasible_covariance, smallest_solvable_alpha
from dp_learn.linalg import is_positive_definite
from dp_learn.problem import Problem, make_problem
from dp_learn.solution import Solution, Status
from dp_learn.solvers._kernels import label_components
from dp_learn.solvers.admm import solve_admm
from dp_learn.solvers.block_descent import solve_block_descent
from dp_learn.solvers.standard_form import Solver, StandardForm, Start, standardize, standardize_start

__all__ = ["SOLVERS", "graphical_lasso", "solve"]

SOLVERS: dict[str, Solver] = {"cd": solve_block_descent, "admm": solve_admm}

_SEVERITY = list(Status)  # the worst component names the status of the whole


def graphical_lasso(
    covariance: ArrayLike,
    alpha: float,
    *,
    solver: str = "cd",
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    start: Solution | None = None,
) -> Solution:
    r"""Return the sparse precision matrix of a covariance that may be indefinite, with a proof of how good it is.

    .. math:: \min_{\Theta \succ 0} -\log\det\Theta + \langle S, \Theta\rangle + \alpha \sum_{ij} w_{ij} |\Theta_{ij}|

    Parameters
    ----------
    covariance : array, shape (p, p)
        S, symmetric; solved as it is whenever a solution exists, positive definite or not.
    alpha : float
        Strength of the penalty, > 0, in the units of `covariance`.
    solver : {"cd", "admm"}
        Block coordinate descent, or the alternating direction method of multipliers.
    weights : array, shape (p, p), optional
        Symmetric, non-negative; 0 leaves an entry unpenalised, inf forbids the edge. Ones by default.
    penalize_diagonal : bool
        Whether the sum includes the diagonal.
    tol : float
        The answer is optimal once the duality gap is at most ``tol * p``; the gap does not depend on units.
    max_iter : int
        Most sweeps over the columns, or iterations, of any connected component.
    start : Solution, optional
        An earlier answer for as many columns, from which to start. It changes the time taken, not the optimum.

    Returns
    -------
    Solution
        Whether it converged is its `status`: nothing is raised or warned about.

    Raises
    ------
    NoSolutionError
        When the problem is unbounded at this alpha; its `smallest_alpha` is the smallest that is not.
    ParameterError
        For an argument that is not allowed.

    References
    ----------
    Friedman, Hastie and Tibshirani (2008); Witten, Friedman and Simon (2011) and Mazumder and Hastie (2012) for the
    components, whose theorems hold for indefinite S as well: zeros between components are in the box.
    """
    problem = make_problem(covariance, alpha, weights=weights, penalize_diagonal=penalize_diagonal)
    solution = solve(problem, solver=solver, tol=tol, max_iter=max_iter, start=start)
    if solution is None:
        relative = problem.penalty / problem.alpha
        smallest = smallest_solvable_alpha(problem.covariance, weights=relative)
        raise NoSolutionError(problem.alpha, max(smallest, math.nextafter(problem.alpha, math.inf)))
    return solution


def solve(
    problem: Problem, *, solver: str = "cd", tol: float = 1e-6, max_iter: int = 10_000, start: Solution | None = None
) -> Solution | None:
    """Solve a checked problem as `graphical_lasso` does; None if it has no solution, at no further cost."""
    run = _check_settings(problem, solver, tol, max_iter, start)
    variance = problem.covariance.diagonal() + problem.penalty.diagonal()
    if (variance <= 0.0).any():
        return None
    precision, w = np.diag(1.0 / variance), np.diag(variance)
    singles, components = _components(problem)
    objective = float(np.log(variance[singles]).sum()) + singles.size
    duality_gap, n_iter, status = 0.0, 0, Status.OPTIMAL
    for index in components:
        form = standardize(problem, index)
        first = _starting_point(form, index, start)
        if first is None:
            return None
        answer = run(form, first, gap=tol * index.size, max_iter=max_iter)
        block = np.ix_(index, index)
        precision[block] = form.restore_precision(answer.theta)
        w[block] = form.restore_covariance(answer.w)
        objective += answer.objective - 2.0 * float(np.log(form.scale).sum())
        duality_gap += answer.duality_gap
        n_iter = max(n_iter, answer.n_iter)
        status = max(status, answer.status, key=_SEVERITY.index)
    if status is not Status.OPTIMAL and duality_gap <= tol * problem.n_features:
        status = Status.OPTIMAL
    return Solution(
        precision, w, objective, duality_gap, n_iter, status, problem.alpha, solver, singles.size + len(components)
    )


def _check_settings(problem: Problem, solver: str, tol: Any, max_iter: Any, start: Solution | None) -> Solver:
    if solver not in SOLVERS:
        raise ParameterError("solver", "one of " + ", ".join(SOLVERS), solver)
    if not (isinstance(tol, int | float | np.floating) and 0.0 < tol < math.inf):
        raise ParameterError("tol", "a finite number > 0", tol)
    if not (isinstance(max_iter, int | np.integer) and max_iter >= 1):
        raise ParameterError("max_iter", "an integer >= 1", max_iter)
    p = problem.n_features
    if start is not None and start.precision.shape != (p, p):
        raise ParameterError("start", f"a solution with {p} columns", start.precision.shape)
    return SOLVERS[solver]


def _components(problem: Problem) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    """Return the columns that stand alone, and the columns of each larger component."""
    labels = label_components(problem.covariance, problem.penalty)
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    blocks = np.split(order, np.cumsum(sizes)[:-1])
    return order[sizes[labels[order]] == 1], [block for block in blocks if block.size > 1]


def _starting_point(form: StandardForm, index: NDArray[np.intp], start: Solution | None) -> Start | None:
    """Return a positive definite start in the box, warm if possible; None when the box holds none."""
    warm = None if start is None else standardize_start(start, form, index)
    if warm is not None and is_positive_definite(warm.w):
        return warm
    w = feasible_covariance(form.covariance, form.penalty)
    return None if w is None else Start(w, None if warm is None else warm.theta)
