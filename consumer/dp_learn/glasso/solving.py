"""The graphical lasso: checks, and whether the problem is one of few columns or for the compiled solvers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dp_bundle.base.errors import NoSolutionError, ParameterError
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Problem, Solution, make_problem
from dp_learn.glasso.solver_names import AUTO, SOLVER_NAMES
from dp_learn.glasso.solvers.answers import Start
from dp_learn.glasso.solvers.few import is_few, solve_few
from dp_learn.matrices.labels import align, column_labels

RESOLUTION = 1e-3  # by so much a next alpha is larger where rounding hides whether there is a solution


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
    groups: ArrayLike | None = None,
) -> Solution:
    r"""Return the sparse precision matrix of a covariance that may be indefinite, with a certificate of its optimality.

    .. math:: \min_{\Theta \succ 0} -\log\det\Theta + \langle S, \Theta\rangle + \alpha \sum_{ij} w_{ij} |\Theta_{ij}|

    Parameters
    ----------
    covariance : array, shape (p, p)
        S, symmetric; solved as it is whenever a solution exists, positive definite or not. Labelled rows are put in the
        order of the columns.
    alpha : float
        Strength of the penalty, > 0, in the units of `covariance`.
    solver : {"cd", "admm", "auto"}
        Block coordinate descent, or the alternating direction method of multipliers. Prefer "cd" for sparse answers,
        and "admm" for dense ones of hundreds of columns and near the smallest alpha that has a solution, where sweeps
        gain little; "auto" begins with "cd" and changes to "admm" where that is faster, and is "admm" for few columns.
    weights : array, shape (p, p), optional
        Symmetric, non-negative; 0 leaves an entry unpenalised, inf forbids the edge. Ones by default. Labels, if any,
        are those of `covariance`, or of the nodes.
    penalize_diagonal : bool
        Whether the sum includes the diagonal.
    tol : float
        The answer is optimal once the duality gap is at most ``tol * p``; the gap does not depend on units.
    max_iter : int
        Most sweeps over the columns, or iterations, of any connected component.
    start : Solution, optional
        An earlier answer for as many columns, from which to start. It changes the time taken, not the optimum.
    groups : sequence of length p, optional
        The node of each column, by name or number; labels, if any, are those of `covariance`. A node of several
        columns, as a category's indicators are, is linked to another by a block of the precision matrix, whose
        Frobenius norm is penalised in place of absolute values of entries: ``alpha sum_{g != h} w_gh ||Theta_gh||_F``,
        each pair of nodes counted twice. A block on the diagonal is free off the diagonal. Then `weights` has the shape
        (G, G), by default ``sqrt(k_g k_h)`` for nodes of k_g and k_h columns and 1 on the diagonal, and there is one
        method whatever `solver`. Nodes of one column each are the problem without groups.

    Returns
    -------
    Solution
        Its `status` says whether it converged; a solver that stops early raises and warns of nothing.

    Raises
    ------
    NoSolutionError
        When the problem is unbounded at this alpha; its `smallest_alpha` is the smallest that is not.
    ParameterError
        For an argument that is not allowed.

    References
    ----------
    Friedman, Hastie and Tibshirani (2008). Yuan and Lin (2006) for the norm of a block.
    """
    if groups is not None:
        from dp_learn.glasso.groups import make_groups

        nodes = make_groups(groups, len(np.asarray(covariance)), column_labels(covariance))
        weights = align("weights", weights, [str(name) for name in nodes.names], what="nodes")
        if not nodes.are_scalar:
            from dp_learn.glasso.group_solving import smallest_group_alpha, solve_groups

            _check_settings(len(nodes.labels), solver, tol, max_iter, start)
            answer = solve_groups(
                covariance,
                alpha,
                nodes,
                weights=weights,
                penalize_diagonal=penalize_diagonal,
                tol=tol,
                max_iter=max_iter,
                start=start,
            )
            if answer is None:
                search = partial(smallest_group_alpha, covariance, float(alpha), nodes, weights=weights)
                raise NoSolutionError(float(alpha), partial(search, penalize_diagonal=penalize_diagonal))
            return answer
    problem = make_problem(covariance, alpha, weights=weights, penalize_diagonal=penalize_diagonal)
    solution = solve(problem, solver=solver, tol=tol, max_iter=max_iter, start=start)
    if solution is None:
        raise NoSolutionError(problem.alpha, partial(_smallest_alpha, problem))
    return solution


def _smallest_alpha(problem: Problem) -> float:
    """Return the smallest alpha that has a solution, which in double precision is above one that has none."""
    relative = problem.penalty / problem.alpha
    smallest = smallest_solvable_alpha(problem.covariance, weights=relative)
    return smallest if smallest > problem.alpha else problem.alpha * (1.0 + RESOLUTION)


def solve(
    problem: Problem,
    *,
    solver: str = "cd",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    start: Solution | None = None,
    n_nodes: int | None = None,
) -> Solution | None:
    """Solve a checked problem as `graphical_lasso` does; None if it has no solution, at no further cost.

    Columns that are those of few nodes count as few.
    """
    _check_settings(problem.n_features, solver, tol, max_iter, start)
    if solver == AUTO and is_few(n_nodes or problem.n_features, problem.n_features):
        first = None if start is None else Start(start.covariance, start.precision)
        return solve_few(problem, tol=tol, max_iter=max_iter, start=first)
    from dp_learn.glasso.solvers.methods import solve_numbers  # half a second, and kernels

    return solve_numbers(problem, solver=solver, tol=tol, max_iter=max_iter, start=start)


def _check_settings(p: int, solver: str, tol: Any, max_iter: Any, start: Solution | None) -> None:
    if solver not in (*SOLVER_NAMES, AUTO):
        raise ParameterError("solver", "one of " + ", ".join((*SOLVER_NAMES, AUTO)), solver)
    if not (isinstance(tol, (int, float, np.floating)) and 0.0 < tol < math.inf):
        raise ParameterError("tol", "a finite number > 0", tol)
    if not (isinstance(max_iter, (int, np.integer)) and max_iter >= 1):
        raise ParameterError("max_iter", "an integer >= 1", max_iter)
    if start is not None and start.precision.shape != (p, p):
        raise ParameterError("start", f"a solution with {p} columns", start.precision.shape)
