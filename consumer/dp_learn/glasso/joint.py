"""The joint graphical lasso: checks, screening into components, and the certified answer for all periods.

ADMM for several precision matrices that are penalised together, over-relaxed, balanced and accelerated.

    Z <- prox(H),   U <- H - Z                                       exact, entry by entry; Z is what is returned
    X_k <- argmin -logdet X + <S_k, X> + rho/2 ||X - Z_k + U_k||^2   one eigendecomposition a period
    H <- a X + (1 - a) Z + U

In units of the periods' weights the first step is the single graph's. What it subtracts is a subgradient of the
penalties at Z, so that ``S_k + rho U_k`` is dual feasible in every step, and the certificate costs nothing.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from dp_bundle.base.errors import NoSolutionError, ParameterError
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.joint_problem import (
    Chain,
    Coupling,
    Group,
    JointIncumbent,
    JointProblem,
    JointSolution,
    Kind,
    Pairs,
    Tied,
)
from dp_learn.glasso.problem import Solution, Status
from dp_learn.glasso.solvers.admm import improve
from dp_learn.glasso.solvers.answers import Start
from dp_learn.glasso.solvers.components import split_components
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.matrices.checks import check_alpha, check_covariance, check_weights
from dp_learn.matrices.labels import align, column_labels
from dp_learn.matrices.linalg import FloatArray, few_threads

_FORBIDDEN = 1e3  # no entry is worth as much, in units in which variances are about one


def joint_graphical_lasso(
    covariances: ArrayLike,
    alpha: float,
    coupling: float,
    *,
    kind: str = "fused",
    weights: ArrayLike | None = None,
    difference_weights: ArrayLike | None = None,
    period_weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    tol: float = 1e-6,
    max_iter: int = 5000,
    start: JointSolution | None = None,
) -> JointSolution:
    r"""Return the precision matrices of several covariances, which may be indefinite, with a certificate for all.

    .. math:: \min \sum_k n_k \Bigl(-\log\det\Theta_k + \langle S_k, \Theta_k\rangle
              + \alpha \sum_{ij} w_{kij} |\Theta_{kij}|\Bigr) + \beta\, C(\Theta_1, \dots, \Theta_K)

    Parameters
    ----------
    covariances : array, shape (K, p, p)
        Symmetric, in the order of the periods, on a common scale on which variances are about one.
    alpha : float
        Strength of the penalty of every matrix, > 0.
    coupling : float
        Strength beta, from 0 to inf: at 0 each is the single graph, and at inf all are that of the mean.
    kind : {"fused", "smooth", "pairs", "group"}
        C, without the diagonal: the absolute differences of neighbours ``sum v_kij |Theta_kij - Theta_k+1,ij|``, or
        half of their squares. Or the absolute differences of all pairs, or the norm ``sum v_ij sqrt(sum_k n_k
        Theta_kij^2)``.
    weights : array, shape (p, p) or (K, p, p), optional
        w, finite. Ones by default.
    difference_weights : array, shape (p, p), or (K - 1, p, p) of neighbours, optional
        v, finite. Ones by default.
    period_weights : array, shape (K,), optional
        n, positive; divided by their mean.
    penalize_diagonal : bool
        Whether alpha penalises diagonals.
    tol : float
        The answer is optimal once the duality gap is at most ``tol * p * K``.
    max_iter : int
        Most iterations.
    start : JointSolution, optional
        An earlier answer. It changes the time taken, not the optimum.

    Raises
    ------
    NoSolutionError
        The problem is unbounded at this alpha; at its `smallest_alpha` every period has a solution of its own.
    ParameterError
        For an argument that is not allowed.

    References
    ----------
    Danaher, Wang & Witten (2014). Hallac, Park, Boyd & Leskovec (2017).
    """
    s, alpha = check_periods(covariances), check_alpha(alpha)
    n_periods, p = s.shape[:2]
    unit = np.ones((n_periods, p, p)) if weights is None else np.broadcast_to(np.asarray(weights, float), s.shape)
    unit = np.array([check_weights(each, p, penalize_diagonal=penalize_diagonal) for each in unit])
    n = _period_weights(period_weights, n_periods)
    if not (isinstance(coupling, int | float | np.floating) and coupling >= 0.0):
        raise ParameterError("coupling", "a number >= 0, or inf", coupling)
    if kind not in list(Kind):
        raise ParameterError("kind", "one of " + ", ".join(Kind), kind)
    if not np.isfinite(unit).all():
        raise ParameterError("weights", "finite", float(unit.max()))

    if coupling == 0.0:
        found = [
            graphical_lasso(own, alpha, solver="auto", weights=w, tol=tol, max_iter=max_iter)
            for own, w in zip(s, unit, strict=True)
        ]
        return _together(found, n)
    if math.isinf(coupling):
        if kind == Kind.GROUP:
            raise ParameterError("coupling", "finite for a group norm", coupling)
        mean, w = (np.tensordot(n, each, 1) / n_periods for each in (s, unit))
        return _together(
            [graphical_lasso(mean, alpha, solver="auto", weights=w, tol=tol, max_iter=max_iter)] * n_periods, n
        )

    problem = JointProblem(s, alpha * _pack(unit), n, _coupling(kind, coupling, difference_weights, n, p))
    solution = solve_jointly(problem, tol=tol, max_iter=max_iter, start=start)
    if solution is None:
        pairs = zip(s, unit, strict=True)
        raise NoSolutionError(alpha, lambda: max(smallest_solvable_alpha(c, weights=w) for c, w in pairs))
    return solution


def refit_jointly(
    covariances: FloatArray,
    chosen: JointSolution,
    period_weights: FloatArray,
    *,
    squares: FloatArray | None = None,
    tol: float,
    max_iter: int = 500,
) -> JointSolution | None:
    """Return the fit without alpha's penalty on the entries that are not zero, equal where they are fused.

    Parameters
    ----------
    covariances : ndarray, shape (K, p, p)
    chosen : JointSolution
        What says which these are.
    period_weights, tol, max_iter
        As of `joint_graphical_lasso`.
    squares : ndarray, shape (K - 1, p, p), optional
        The strength of the squared differences of neighbours, which then stay, while nothing is fused.

    Returns
    -------
    JointSolution or None
        None where there is no such fit.
    """
    n = _period_weights(period_weights, len(covariances))
    ties = np.ascontiguousarray(_pack(chosen.ties))
    coupling: Coupling = Tied(ties) if squares is None else Chain(np.ascontiguousarray(_pack(squares)), squared=True)
    penalty = np.where((ties == 0) & (squares is not None), _FORBIDDEN, 0.0)
    found = solve_jointly(JointProblem(covariances, penalty, n, coupling), tol=tol, max_iter=max_iter)
    return found if found is not None and found.converged else None


def solve_jointly(
    problem: JointProblem, *, tol: float, max_iter: int, start: JointSolution | None = None
) -> JointSolution | None:
    """Solve a checked problem by its connected components; None if it has no solution."""
    n_periods, p = problem.covariances.shape[:2]
    precisions, duals = np.zeros(problem.covariances.shape), np.zeros(problem.covariances.shape)
    objective, gap, longest, status = 0.0, 0.0, 0, Status.OPTIMAL
    place = np.zeros((p, p), dtype=np.intp)
    place[problem.upper] = np.arange(len(problem.upper[0]))
    with few_threads(p):
        for columns in _components(problem):
            rows, others = np.triu_indices(len(columns))
            entries, block = place[columns[rows], columns[others]], np.ix_(np.arange(n_periods), columns, columns)
            part = JointProblem(
                np.ascontiguousarray(problem.covariances[block]),
                np.ascontiguousarray(problem.penalty[:, entries]),
                problem.weights,
                problem.coupling.restrict(entries),
            )
            best = JointIncumbent(part)
            first = Start(part.entries)
            if start is not None:
                first = Start(part.pack(start.covariances[block]), part.pack(start.precisions[block]))
            n_iter, ended = improve(part, best, first, gap=tol * len(columns) * n_periods, max_iter=max_iter)
            if best.w is None or best.theta is None or ended is Status.NO_SOLUTION:
                return None

            precisions[block], duals[block] = best.theta, best.w
            objective, gap, longest = objective + best.value, gap + best.duality_gap, max(longest, n_iter)
            status = ended if ended is not Status.OPTIMAL else status
    return JointSolution(precisions, duals, objective, gap, longest, status)


def check_periods(covariances: ArrayLike) -> FloatArray:
    """Return the covariances of at least two periods as one symmetric array, by labels in the first one's order."""
    if not isinstance(covariances, np.ndarray) and isinstance(covariances, Sequence) and len(covariances):
        columns = column_labels(covariances[0])
        if columns is not None:
            covariances = [align("covariances", each, columns) for each in covariances]
    s = np.asarray(covariances, dtype=float)
    if s.ndim != 3 or len(s) < 2:
        raise ParameterError("covariances.shape", "(K, p, p) with K >= 2", s.shape)
    return np.array([check_covariance(each) for each in s])


def _components(problem: JointProblem) -> list[npt.NDArray[np.intp]]:
    """Return the columns of each connected component, and all columns without a link together.

    Zeros between two sets of columns are optimal exactly where the covariances there are within the penalties, which is
    where the nearest point of least penalty is zero.
    """
    shrunk = problem.unpack(problem.shrink(problem.pack(problem.covariances), 1.0))
    parts = split_components(np.any(shrunk != 0.0, axis=0))
    alone = [part for part in parts if len(part) == 1]
    return [part for part in parts if len(part) > 1] + ([np.concatenate(alone)] if alone else [])


def _coupling(kind: str, strength: float, weights: ArrayLike | None, n: FloatArray, p: int) -> Coupling:
    """Return the coupling with its strength in every entry."""
    chain = kind in {Kind.FUSED, Kind.SMOOTH}
    shape = (len(n) - 1, p, p) if chain else (p, p)
    given = np.ones(shape) if weights is None else np.asarray(weights, dtype=float)
    if given.shape not in {shape, (p, p)} or not (np.isfinite(given).all() and (given >= 0.0).all()):
        raise ParameterError("difference_weights", f"finite, not negative, of shape {shape}", given.shape)
    v = strength * np.ascontiguousarray(_pack(np.broadcast_to(given, shape) if chain else given[None]))
    if chain:
        return Chain(v, kind == Kind.SMOOTH)
    if kind == Kind.PAIRS:
        return Pairs(v[0])
    rows, columns = np.triu_indices(p)
    return Group(np.where(rows == columns, 0.0, v[0]), n)


def _pack(matrices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rows, columns = np.triu_indices(matrices.shape[-1])
    packed: npt.NDArray[Any] = matrices[:, rows, columns]
    return packed


def _period_weights(weights: ArrayLike | None, n_periods: int) -> FloatArray:
    n = np.ones(n_periods) if weights is None else np.asarray(weights, dtype=float)
    if n.shape != (n_periods,) or not (np.isfinite(n).all() and (n > 0.0).all()):
        raise ParameterError("period_weights", f"{n_periods} positive numbers", n.tolist())
    scaled: FloatArray = n / n.mean()
    return scaled


def _together(found: list[Solution], n: FloatArray) -> JointSolution:
    """Return single graphs as one solution."""
    return JointSolution(
        np.array([each.precision for each in found]),
        np.array([each.covariance for each in found]),
        float(n @ [each.objective for each in found]),
        float(n @ [each.duality_gap for each in found]),
        max(each.n_iter for each in found),
        next((each.status for each in found if not each.converged), Status.OPTIMAL),
    )
