"""The extended Bayesian information criterion, with a row count that knows the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dp_bundle.errors import EstimationError, ParameterError
from dp_learn.graph_fit import solve_on_graph
from dp_learn.linalg import FloatArray, is_positive_definite
from dp_learn.max_norm import nearest_psd_max_norm
from dp_learn.selection.path import PATH_MAX_ITER, PATH_TOL, Selection, check_alphas, check_patience, choose, solve_path
from dp_learn.solution import Solution

__all__ = ["select_ebic"]

DRAWN = 0.02  # towards the diagonal
PATIENCE = 3  # so many graphs in a row without a better score end the walk


def select_ebic(
    matrix: FloatArray,
    n_effective: float | Callable[[FloatArray], float],
    alphas: Sequence[float] | FloatArray,
    *,
    gamma: float = 0.5,
    solver: str = "cd",
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    patience: int | None = PATIENCE,
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
    solver, weights, penalize_diagonal
        As in `graphical_lasso`.
    patience : int or None
        The walk ends once so many alphas in a row have not improved the score; None walks the whole path.

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
    check_patience(patience)
    alphas = check_alphas(alphas)
    scores, judge = np.full(len(alphas), np.nan), _definite(matrix)
    path = solve_path(matrix, alphas, solver=solver, weights=weights, penalize_diagonal=penalize_diagonal)
    best = 0
    edges, likelihood = None, math.nan
    for index, (_, solution) in enumerate(path):
        if solution is None:
            break
        support = solution.precision != 0.0
        if edges is None or not np.array_equal(edges, support):
            edges, likelihood = support, _likelihood_of_graph(judge, solution, solver)
        n = n_effective(solution.precision) if callable(n_effective) else n_effective
        n_edges = np.count_nonzero(np.triu(edges, 1))
        scores[index] = likelihood - n_edges * (math.log(max(n, 1.0)) + 4.0 * gamma * math.log(len(matrix))) / n
        best = index if scores[index] > np.nan_to_num(scores[best], nan=-math.inf) else best
        if patience is not None and index - best >= patience:
            break
    if np.isnan(scores[best]):
        raise EstimationError("no alpha of the path has a solution: repair the covariance, or learn from more rows")
    return choose(
        best,
        f"the extended Bayesian information criterion (gamma = {gamma:g})",
        alphas,
        scores,
        why_empty="no edge fits well enough to pay for itself",
        ended=bool(np.isnan(scores[index])),
    )


def _definite(matrix: FloatArray) -> FloatArray:
    """Return a positive definite matrix near S^, or S^ itself, in which every graph has a best fit.

    The likelihood of an indefinite matrix has no maximum for most graphs. The nearest positive semidefinite matrix in
    the max norm differs from it by no more than S^ does from the truth; drawing it a little towards its diagonal
    bounds the likelihood.
    """
    if is_positive_definite(matrix):
        return matrix
    nearest = nearest_psd_max_norm(matrix, fix_diagonal=True, rtol=1e-2).matrix
    return (1.0 - DRAWN) * nearest + DRAWN * np.diag(np.diagonal(nearest))


def _likelihood_of_graph(matrix: FloatArray, solution: Solution, solver: str) -> float:
    """Return ``logdet Theta - <S, Theta>`` at its largest over the precision matrices with these edges, or NaN."""
    fitted = solve_on_graph(
        matrix, solution.precision != 0.0, solver=solver, tol=PATH_TOL, max_iter=PATH_MAX_ITER, start=solution
    )
    return -fitted.objective if fitted is not None and fitted.converged else math.nan
