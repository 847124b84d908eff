"""The fit of a precision matrix on a given graph, without any penalty wherever that exists.

It is what judges a graph (EBIC), what is reported of it, and what its tests start from: the penalty that finds the
edges also shrinks them, often to a third.

References
----------
Dempster (1972), Covariance selection, Biometrics 28(1). Zhou, Rutimann, Xu & Buhlmann (2011), High-dimensional
covariance estimation based on Gaussian graphical models, JMLR 12, section 2.2.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Problem, Solution, make_problem
from dp_learn.glasso.solving import solve
from dp_learn.matrices.checks import check_covariance, check_free_diagonal
from dp_learn.matrices.linalg import FloatArray, is_positive_definite, smallest_eigenvalue

_MARGIN = 1.05  # above the smallest penalty that has a solution, where the solution is still far from singular
_LEAST_SHARE = 0.01
_SHARE_RTOL = 1e-2  # a fifth of the margin
_DESCENTS, _MOST, _LITTLE = 30, 0.9, 0.02  # steps; shares of an eigenvalue taken at once, and not worth another step
_ROUGH, _ROUGH_ITER = 1e-3, 100
_LEAST_RAISE = 1e-8  # of a variance


@dataclass(frozen=True, eq=False)
class GraphFit:
    """A fit on a graph.

    Attributes
    ----------
    precision : ndarray of shape (n_features, n_features)
        Zero where the graph has no edge.
    share : float
        Which share of the penalty was kept: 0 unless the matrix is so indefinite on the graph that it has no
        unpenalised fit.
    """

    precision: FloatArray
    share: float


def fit_on_graph(
    matrix: FloatArray,
    edges: npt.NDArray[np.bool_],
    penalty: FloatArray,
    *,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    start: Solution | None = None,
) -> GraphFit | None:
    """Return the fit on a graph with the smallest share of a penalty that has one; None if not even all of it has.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        The debiased matrix, possibly indefinite.
    edges : ndarray of bool, shape (n_features, n_features)
        The graph; its diagonal does not matter.
    penalty : ndarray of shape (n_features, n_features)
        The whole penalty of every entry, diagonal included.
    solver, tol, max_iter, start
        As in `graphical_lasso`.
    """
    share, definite = 0.0, is_positive_definite(matrix)
    known = start if definite else find_start(matrix, _restrict(0.0, edges), solver=solver, start=start)

    while share < 1.0:
        solution = None
        if share > 0.0 or definite or known is not None:
            solution = solve_on_graph(
                matrix,
                edges,
                share * penalty if share > 0.0 else 0.0,
                solver=solver,
                tol=tol,
                max_iter=max_iter,
                start=known or start,
            )

        if solution is not None and solution.converged:
            return GraphFit(solution.precision, share)

        smallest = 0.0
        if solution is None:
            smallest = smallest_solvable_alpha(matrix, weights=_restrict(penalty, edges), rtol=_SHARE_RTOL)
        share = max(_MARGIN * smallest, 2.0 * share, _LEAST_SHARE)
    return None


def solve_on_graph(
    matrix: FloatArray,
    edges: npt.NDArray[np.bool_],
    penalty: FloatArray | float = 0.0,
    *,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    start: Solution | None = None,
    n_nodes: int | None = None,
) -> Solution | None:
    """Return the fit on a graph, its entries penalised or not; None if there is none.

    See `solve` for `n_nodes`.
    """
    restricted, s = _restrict(penalty, edges), check_covariance(matrix, copy=False)
    check_free_diagonal(s, restricted)
    problem = Problem(s, restricted, 1.0)
    return solve(problem, solver=solver, tol=tol, max_iter=max_iter, start=start, n_nodes=n_nodes)


def find_start(
    matrix: FloatArray, penalty: FloatArray, *, solver: str = "auto", start: Solution | None = None
) -> Solution | None:
    """Return a start for an indefinite matrix and a penalty that leaves its diagonal free; None if none was found.

    With its variances raised enough the matrix has a fit, whose own covariance is further from singular than the matrix
    itself was. Lowering the variances by most of its smallest eigenvalue gives the start of the next fit. This ends at
    variances that are raised no more, or where nothing is gained because the matrix has no fit.
    """
    variances = np.diagonal(matrix)
    unit = np.outer(np.sqrt(variances), np.sqrt(variances))
    raised = max(-2.0 * smallest_eigenvalue(matrix / unit), _LEAST_RAISE)
    found = start
    for _ in range(_DESCENTS):
        problem = make_problem(matrix + np.diag(raised * variances), 1.0, weights=penalty, penalize_diagonal=False)
        found = solve(problem, solver=solver, tol=_ROUGH, max_iter=_ROUGH_ITER, start=found)
        if found is None or not found.converged:
            return None

        gained = _MOST * smallest_eigenvalue(found.covariance / unit)
        found = replace(found, covariance=found.covariance - np.diag(min(gained, raised) * variances))
        if gained >= raised:
            return found
        if gained < _LITTLE * raised:
            return None
        raised -= gained
    return None


def _restrict(penalty: FloatArray | float, edges: npt.NDArray[np.bool_]) -> FloatArray:
    """Return the penalty with every entry forbidden that is neither an edge nor on the diagonal."""
    return np.where(edges | np.eye(len(edges), dtype=bool), penalty, np.inf)
