"""The extended Bayesian information criterion, with a row count that knows the noise."""

import math
from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_learn.glasso.graph_fit import solve_on_graph
from dp_learn.glasso.problem import Solution
from dp_learn.matrices.linalg import FloatArray, is_positive_definite, negative_part
from dp_learn.matrices.repair import nearest_psd_max_norm
from dp_learn.selection.path import (
    PATH_MAX_ITER,
    PATH_TOL,
    SMALLEST,
    PathOptions,
    Selection,
    check_path,
    choose_alpha,
    columns_within,
    solve_path,
    why_ended,
)

DRAWN = 0.02  # towards the diagonal, where S^ is indefinite
LEAST = 1e-4  # of a smallest eigenvalue relative to unit variances: below it, fits cannot be computed reliably
WIDE = 500  # columns: with fewer, fits are exact enough to tell the price of one edge
PATIENCE = 5  # so many different graphs in a row without a better score end the walk


def select_ebic(
    matrix: FloatArray,
    n_effective: float | Callable[[FloatArray], float],
    alphas: Sequence[float] | FloatArray,
    *,
    gamma: float = 0.5,
    patience: int | None = PATIENCE,
    why_last: str = SMALLEST,
    **options: Unpack[PathOptions],
) -> Selection:
    r"""Choose alpha by the extended Bayesian information criterion of its graph.

    The chosen graph has the largest

    .. math:: \log\det\Theta_E - \langle \hat S, \Theta_E\rangle
              - \frac{|E|}{n_\mathrm{eff}} (\log n_\mathrm{eff} + 4 \gamma \log p),

    which is minus the criterion over n_eff. Theta_E is fitted to the graph's edges E without any penalty, as in the
    paper: at the penalised estimate, the shrinkage of the true edges rewards ever smaller alphas and many more edges.

    Subtracting the noise leaves more sampling error in S^ than the rows would have without it: an edge too many raises
    the likelihood by n / n_eff times as much, and must pay as many times more. How many rows are left depends on the
    graph, since noise hurts most where the other columns nearly determine one. They are therefore counted at the
    penalised estimate of every alpha, which stays moderate where an unpenalised fit to an indefinite matrix does not.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        The debiased matrix of all rows, its diagonal positive.
    n_effective : float or callable
        How many rows without noise would be as good, or a function of a precision matrix that says how many would fix
        its partial correlations as well, such as `effective_rows`.
    alphas : sequence of float
        Decreasing, from `alpha_grid`: at the first the graph is empty.
    gamma : float
        0 is the ordinary criterion, 1 the strictest.
    patience : int or None
        The walk ends once so many different graphs in a row have not improved the score, however many alphas share
        them; a graph without a certified fit does not count. None walks the whole path.
    why_last : str
        The note on a choice of the last alpha.
    **options
        As of `solve_path`. A node's own block is part of every model, and each entry of another block is a parameter.

    Returns
    -------
    Selection
        Its scores are as above, NaN also for a graph whose fit has no solution.

    Raises
    ------
    EstimationError
        Not even the first alpha has a solution.

    References
    ----------
    Foygel & Drton (2010), Extended Bayesian information criteria for Gaussian graphical models, eq. 1.
    """
    if not 0.0 <= gamma <= 1.0:
        raise ParameterError("gamma", "in [0, 1]", gamma)
    if not (callable(n_effective) or n_effective > 0.0):
        raise ParameterError("n_effective", "> 0, or a function", n_effective)
    alphas = check_path(alphas, patience)
    scores, n_edges, judge = np.full(len(alphas), np.nan), np.full(len(alphas), np.nan), near_definite(matrix)
    path = solve_path(matrix, alphas, **options)
    groups = options.get("groups")
    within = columns_within(groups, len(matrix))
    n_nodes = len(matrix) if groups is None else len(np.unique(np.asarray(groups)))
    best, n_worse, ended = 0, 0, False
    edges: npt.NDArray[np.bool_] | None = None
    fitted: Solution | None = None
    likelihood = math.nan
    for index, (_, solution) in enumerate(path):
        if solution is None:
            ended = True
            break
        n = n_effective(solution.precision) if callable(n_effective) else n_effective
        price = (math.log(max(n, 1.0)) + 4.0 * gamma * math.log(len(matrix))) / n

        support = (solution.precision != 0.0) | within
        is_new = edges is None or not np.array_equal(edges, support)
        if is_new:
            edges = support
            tol = PATH_TOL if len(matrix) >= WIDE else min(PATH_TOL, price / len(matrix))
            likelihood, fitted = _fit(judge, support, fitted or solution, options.get("solver", "cd"), tol, n_nodes)
        n_edges[index] = int(np.count_nonzero(support & ~within)) // 2
        scores[index] = likelihood - n_edges[index] * price

        if scores[index] > np.nan_to_num(scores[best], nan=-math.inf):
            best, n_worse = index, 0
        elif is_new and np.isfinite(scores[index]):  # neither a graph seen before nor one without a fit says anything
            n_worse += 1
        if patience is not None and n_worse >= patience:
            break
    if np.isnan(scores[best]):
        if ended and index == 0:
            raise EstimationError(
                f"no alpha of the path has a solution, as {why_ended([matrix])}: repair the covariance, or learn from "
                "more rows"
            )
        raise EstimationError(
            "no graph of the path could be fitted without the penalty: give alpha, or choose it by another rule"
        )
    return choose_alpha(
        best,
        f"the extended Bayesian information criterion (gamma = {gamma:g})",
        alphas,
        scores,
        n_edges,
        why_empty="no edge improves the fit enough to be worth its parameter",
        ended=why_ended([matrix]) if ended else None,
        why_last=why_last,
    )


def near_definite(matrix: FloatArray) -> FloatArray:
    """Return a positive definite matrix near S^, or S^ itself, in which every graph has a best fit.

    The likelihood of an indefinite matrix has no maximum for most graphs. A positive semidefinite matrix near it is
    drawn a little towards its diagonal, which bounds the likelihood: the one with the negative eigenvalues set to zero
    and the same variances, if it differs from S^ by no more than the drawing does, or else the nearest in the max norm,
    which is no further from S^ than the truth. A matrix that is nearly singular is drawn far less.
    """
    diagonal = np.diagonal(matrix)
    if is_positive_definite(matrix - np.diag(LEAST * diagonal)):
        return matrix
    if is_positive_definite(matrix + np.diag(LEAST * diagonal)):
        return _drawn(matrix, 2.0 * LEAST)
    raised = matrix + negative_part(matrix)
    unit, root = np.sqrt(diagonal / np.diagonal(raised)), np.sqrt(diagonal)
    clipped = raised * np.outer(unit, unit)
    if (np.abs(clipped - matrix) <= DRAWN * np.outer(root, root)).all():
        return _drawn(clipped, DRAWN)
    return _drawn(nearest_psd_max_norm(matrix, fix_diagonal=True, rtol=1e-2).matrix, DRAWN)


def _drawn(matrix: FloatArray, share: float) -> FloatArray:
    return (1.0 - share) * matrix + share * np.diag(np.diagonal(matrix))


def _fit(
    matrix: FloatArray, edges: npt.NDArray[np.bool_], start: Solution, solver: str, tol: float, n_nodes: int
) -> tuple[float, Solution | None]:
    """Return the largest likelihood on a graph, NaN where it could not be certified, and a start for the next fit."""
    fitted = solve_on_graph(matrix, edges, solver=solver, tol=tol, max_iter=PATH_MAX_ITER, start=start, n_nodes=n_nodes)
    return (-fitted.objective, fitted) if fitted is not None and fitted.converged else (math.nan, None)
