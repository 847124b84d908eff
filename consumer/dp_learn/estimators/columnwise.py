"""Estimators that solve one problem per column: SCIO, CLIME and neighbourhood selection.

A column's problem of the first two is bounded, or its constraints can be met, under one condition. That is that some b
has ``|S b - e_j| <= alpha w_j`` in every entry. A nonsingular S allows any alpha; otherwise the smallest one is found
by a linear programme. Neighbourhood selection and SCIO are made of lasso problems on one Gram matrix, by coordinate
descent over active sets: ``minimise 1/2 b'Gb - b'c + sum_i l_i |b_i|``. Each ends with its optimality residual, the
largest violation of ``|c - Gb| <= l``, with equality of sign where b is not zero.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from dp_bundle.base.errors import EstimationError, NotConvergedError, ParameterError
from dp_bundle.base.machine import njit
from dp_learn.estimators.base import CovarianceEstimator, ScaledCovariance, universal_alpha
from dp_learn.glasso._column_kernels import activate_violators, lasso_on_active, settle
from dp_learn.matrices.checks import check_alpha, check_covariance, check_weights, column_labels
from dp_learn.matrices.linalg import Array, FloatArray, Mask, is_positive_definite, smallest_eigenvalue

ROUNDING = 1e-10  # a negative eigenvalue of this size, relative to the largest variance, is what a repair leaves
ABOVE_SMALLEST = 1.1
TOLERANCES = (1e-10, 1e-7)  # of a linear programme; the second where rounding keeps it from the first
RESIDUAL = 1e-7  # of optimality, relative to the largest entry, that a column may end with
MAX_ROUNDS = 40  # of the active set, or of more passes over it where rounding or a flat direction holds them up


@dataclass(eq=False, repr=False)
class ColumnwiseEstimator(CovarianceEstimator):
    """An estimator of a precision matrix, one problem per column of the debiased correlations."""

    alpha: float | None = None
    _: KW_ONLY
    noise_variance: npt.ArrayLike = 0.0
    weights: str | npt.ArrayLike = "equal"
    penalize_diagonal: bool = False
    repair: str = "maxnorm"
    _solve: ClassVar[Callable[..., FloatArray]]  # the precision matrix of a covariance at an alpha

    def _estimate(self, scaled: ScaledCovariance) -> None:
        self.alpha_ = universal_alpha(scaled.pooled, self.alpha)
        weights = check_weights(scaled.weights, len(scaled.matrix), penalize_diagonal=self.penalize_diagonal)
        # A repaired matrix is singular, and what makes it so is the noise: this alpha may be too small for it.
        if self.alpha is None and smallest_eigenvalue(scaled.matrix) <= ROUNDING and np.isfinite(weights).all():
            self.alpha_ = max(self.alpha_, ABOVE_SMALLEST * smallest_column_alpha(scaled.matrix, weights))
        options = {"weights": scaled.weights, "penalize_diagonal": self.penalize_diagonal}
        self._store(scaled, self._solve(scaled.matrix, self.alpha_, **options))


def scio_precision(
    covariance: npt.ArrayLike, alpha: float, *, weights: npt.ArrayLike | None = None, penalize_diagonal: bool = True
) -> FloatArray:
    r"""Return the precision matrix whose columns solve a lasso each, symmetric by the smaller of each pair of entries.

    .. math:: \min_b \tfrac12 b^T S b - e_j^T b + \alpha \sum_i w_{ij} |b_i|

    Parameters
    ----------
    covariance : array-like of shape (p, p)
        S, symmetric and positive semidefinite: with a negative eigenvalue every column's problem is unbounded.
    alpha : float
        Strength of the penalty, > 0, without a unit. It bounds ``|S b - e_j|``, so that at 1 nothing is left of the
        estimate unless the diagonal is free.
    weights : array-like of shape (p, p), optional
        Symmetric and >= 0; 0 leaves an entry free, inf forbids the edge.
    penalize_diagonal : bool
        Whether the penalty includes the diagonal of the precision matrix, as in the paper.

    Returns
    -------
    ndarray of shape (p, p)
        Symmetric with a positive diagonal; not always positive definite.

    Raises
    ------
    ParameterError
        For a bad argument, an indefinite matrix among them.
    EstimationError
        The problem is unbounded at this alpha, because S is singular; or nothing is left of the estimate.
    NotConvergedError
        Rounding stopped coordinate descent.

    References
    ----------
    Liu & Luo (2015), Fast and adaptive sparse precision matrix estimation in high dimensions, Journal of Multivariate
    Analysis 135, eq. 3 to 5.
    """
    s = check_covariance(covariance)
    alpha = check_alpha(alpha)
    w = check_weights(weights, len(s), penalize_diagonal=penalize_diagonal, columns=column_labels(covariance))
    check_semidefinite(s)
    columns, residuals = solve_gram_lassos(s, np.eye(len(s)), alpha * w)
    converged = residuals.max() <= RESIDUAL * float(np.abs(s).max())
    if not converged and np.isfinite(w).all() and not is_positive_definite(s):  # else every alpha has a solution
        smallest = smallest_column_alpha(s, w)
        if alpha < smallest:
            raise no_column_solution(alpha, smallest, "SCIO")
    require_residuals(columns, residuals, s)
    return keep_smaller(columns, "SCIO")


class DebiasedSCIO(ColumnwiseEstimator):
    """Sparse precision matrix of the rows before the noise, column by column.

    Prefer the graphical lasso for a graph: SCIO's changed more with the noise on real tables (docs/adr/0010).

    Parameters
    ----------
    alpha : float or None
        The penalty on the correlation scale, > 0. None stands for sqrt(2 log p) standard errors of a typical entry,
        noise included. It is a tenth above the smallest alpha that has a solution where that is more.
    noise_variance : float or array-like of shape (n_features,)
        Variance of the independent noise on each column, in its unit squared. Leave it at 0 to fit a bundle.
    weights : {"equal", "noise"} or array-like of shape (n_features, n_features)
        As in `DebiasedGraphicalLasso`.
    penalize_diagonal : bool
        Whether the penalty includes the diagonal. Under noise alpha may approach 1, which would leave no diagonal.
    repair : {"maxnorm", "clip", "shrink", "none"}
        The repair of an indefinite matrix, on which the problem is unbounded. The default is CoCoLasso's step, which at
        most doubles its largest error (Datta & Zou 2017). The repaired matrix is singular, and needs an alpha that is
        not too small.

    Attributes
    ----------
    precision_ : ndarray of shape (n_features, n_features)
        The estimate in data units; symmetric, not always positive definite.
    covariance_ : ndarray of shape (n_features, n_features)
        The repaired covariance that it was fitted to, in data units.
    edges_ : DataFrame
        source, target, partial_correlation, precision; strongest first.
    alpha_, repair_, smallest_eigenvalue_, location_, n_features_in_, feature_names_in_
        As in `DebiasedGraphicalLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]]
    >>> DebiasedSCIO(0.1).fit(rows).edges_[["source", "target"]].values.tolist()
    [['x0', 'x1']]
    """

    _solve = staticmethod(scio_precision)


def clime_precision(
    covariance: npt.ArrayLike, alpha: float, *, weights: npt.ArrayLike | None = None, penalize_diagonal: bool = True
) -> FloatArray:
    r"""Return the precision matrix whose columns are the smallest that the constraints allow.

    .. math:: \min_b \|b\|_1 \quad\text{subject to}\quad |S b - e_j|_i \le \alpha w_{ij}

    Each column is a linear programme, and of each pair of entries the smaller in size is kept.

    Parameters
    ----------
    covariance : array-like of shape (p, p)
        S, symmetric. It may be indefinite. The guarantee of the paper asks only that alpha exceed its largest error,
        times the l1 norm of the true precision matrix.
    alpha : float
        How far the product may be from the identity, > 0, without a unit.
    weights : array-like of shape (p, p), optional
        Symmetric, finite and >= 0: a tolerance per entry, in units of alpha.
    penalize_diagonal : bool
        Whether the diagonal of the product has a tolerance too, as in the paper. At 1 it allows the zero matrix.

    Returns
    -------
    ndarray of shape (p, p)
        Symmetric with a positive diagonal; not always positive definite.

    Raises
    ------
    ParameterError
        For a bad argument.
    EstimationError
        No matrix meets the constraints, because S is singular: the sentence names the smallest alpha. Or the estimate
        has a diagonal entry that is not positive.

    References
    ----------
    Cai, Liu & Luo (2011), A constrained l1 minimization approach to sparse precision matrix estimation, JASA 106(494),
    eq. 2 to 4 and theorem 6.
    """
    s = check_covariance(covariance)
    alpha = check_alpha(alpha)
    w = check_weights(weights, len(s), penalize_diagonal=penalize_diagonal, columns=column_labels(covariance))
    if np.isinf(w).any():
        raise ParameterError("weights", "finite, as they are tolerances of a product", np.inf)
    p = len(s)
    columns, rows = np.empty_like(s), np.block([[s, -s], [-s, s]])  # of a difference of two non-negative vectors
    for j, (unit, tolerance) in enumerate(zip(np.eye(p), alpha * w, strict=True)):
        limits = np.concatenate((tolerance + unit, tolerance - unit))
        found = solve_linear_programme(np.ones(2 * p), rows, limits, 0.0)
        if found is None:
            raise no_column_solution(alpha, smallest_column_alpha(s, w), "CLIME")
        columns[j] = found[:p] - found[p:]
    return keep_smaller(columns, "CLIME")


class DebiasedCLIME(ColumnwiseEstimator):
    """Sparse precision matrix of the rows before the noise, by linear programmes on the debiased correlations.

    Prefer the graphical lasso for many columns: CLIME is slow, and was no better on few (docs/adr/0010).

    Parameters
    ----------
    alpha : float or None
        How far the product with the debiased correlations may be from the identity, > 0. None stands for sqrt(2 log p)
        standard errors of a typical entry, noise included. It is a tenth above the smallest that has a solution where
        that is more.
    noise_variance : float or array-like of shape (n_features,)
        Variance of the independent noise on each column, in its unit squared. Leave it at 0 to fit a bundle.
    weights : {"equal", "noise"} or array-like of shape (n_features, n_features)
        Tolerances in proportion to these.
    penalize_diagonal : bool
        Whether the diagonal has a tolerance too. Under noise alpha may approach 1, which would leave no diagonal.
    repair : {"maxnorm", "clip", "shrink", "none"}
        The repair of an indefinite matrix. Without it the programmes have a solution, but one that follows the negative
        eigenvalues. The default is CoCoLasso's step, which at most doubles the largest error (Datta & Zou 2017).

    Attributes
    ----------
    precision_ : ndarray of shape (n_features, n_features)
        The estimate in data units; symmetric, not always positive definite.
    covariance_ : ndarray of shape (n_features, n_features)
        The covariance that it was fitted to, in data units.
    edges_ : DataFrame
        source, target, partial_correlation, precision; strongest first.
    alpha_, repair_, smallest_eigenvalue_, location_, n_features_in_, feature_names_in_
        As in `DebiasedGraphicalLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]]
    >>> DebiasedCLIME(0.1).fit(rows).edges_[["source", "target"]].values.tolist()
    [['x0', 'x1']]
    """

    _solve = staticmethod(clime_precision)


@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """The lasso regressions of all columns, and the graph that they make.

    Attributes
    ----------
    coefficients : ndarray of shape (p, p)
        Row j predicts column j from the others; zero on the diagonal.
    edges : ndarray of bool, shape (p, p)
        The graph by the rule.
    precision : ndarray of shape (p, p)
        Zero exactly where there is no edge; symmetric, not always positive definite. Regression j gives the entries 1 /
        t_j and -b_ji / t_j with the variance left t_j = s_jj - s_j'b_j. Of each pair it is the smaller in size under
        the rule "and", the larger under "or".
    """

    coefficients: FloatArray
    edges: Mask
    precision: FloatArray


def neighborhood_selection(
    covariance: npt.ArrayLike, alpha: float, *, rule: str = "or", weights: npt.ArrayLike | None = None
) -> Neighborhoods:
    r"""Return the neighbours of every column: those with a coefficient in its lasso regression.

    .. math:: \min_b \tfrac12 b^T S_{-j,-j} b - b^T s_j + \alpha \sum_i w_{ij} |b_i|

    Parameters
    ----------
    covariance : array-like of shape (p, p)
        S, symmetric and positive semidefinite. The problems of an indefinite matrix are unbounded or have many local
        solutions, so that it has to be repaired first.
    alpha : float
        Strength of the penalty, > 0, in the units of the covariance.
    rule : {"or", "and"}
        Whether one of the two regressions is enough for an edge, or both must have it.
    weights : array-like of shape (p, p), optional
        Symmetric and >= 0; 0 leaves an entry free, inf forbids the edge.

    Raises
    ------
    ParameterError
        For a bad argument, an indefinite matrix among them.
    NotConvergedError
        Rounding stopped coordinate descent.

    References
    ----------
    Meinshausen & Buhlmann (2006), High-dimensional graphs and variable selection with the lasso, Annals of Statistics
    34(3), eq. 3 to 7. van de Geer, Buhlmann, Ritov & Dezeure (2014), Annals of Statistics 42(3), eq. 9, for t_j.
    """
    s = check_covariance(covariance)
    if rule not in {"or", "and"}:
        raise ParameterError("rule", "or, and", rule)
    columns = column_labels(covariance)
    penalty = check_alpha(alpha) * check_weights(weights, len(s), penalize_diagonal=False, columns=columns)
    np.fill_diagonal(penalty, np.inf)
    check_semidefinite(s)
    coefficients, residuals = solve_gram_lassos(s, s, penalty)
    require_residuals(coefficients, residuals, s)
    left = s.diagonal() - (coefficients * s).sum(axis=1)
    if not (left > 0.0).all():
        raise ParameterError("alpha", "larger where columns determine each other without error", alpha)
    rows = -coefficients / left[:, None]
    np.fill_diagonal(rows, 1.0 / left)
    smaller = keep_smaller(rows)
    precision = smaller if rule == "and" else rows + rows.T - smaller
    return Neighborhoods(coefficients, (precision != 0.0) & ~np.eye(len(s), dtype=bool), precision)


@dataclass(eq=False, repr=False)
class DebiasedNeighborhoodSelection(CovarianceEstimator):
    """The graph of the rows before the noise by the lasso regression of every column on the others.

    Its graphs are as good as the graphical lasso's where the noise is alike in all columns. Prefer the graphical lasso
    where it differs, which makes false edges here (docs/adr/0010), or where there are too many columns for a repair.

    Parameters
    ----------
    alpha : float or None
        The penalty on the correlation scale, > 0; None for sqrt(2 log p) standard errors of a typical entry, noise
        included.
    noise_variance : float or array-like of shape (n_features,)
        Variance of the independent noise on each column, in its unit squared. Leave it at 0 to fit a bundle.
    rule : {"or", "and"}
        As in `neighborhood_selection`.
    weights : {"equal", "noise"} or array-like of shape (n_features, n_features)
        As in `DebiasedGraphicalLasso`.
    repair : {"maxnorm", "clip", "shrink", "none"}
        The repair of an indefinite matrix, for which the lasso is unbounded. The default is CoCoLasso's step, which at
        most doubles its largest error (Datta & Zou 2017).

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_features, n_features)
        Row j predicts column j from the others, in data units.
    edges_ : DataFrame
        source, target, partial_correlation, precision; strongest first.
    precision_ : ndarray of shape (n_features, n_features)
        As `Neighborhoods.precision`, in data units.
    covariance_ : ndarray of shape (n_features, n_features)
        The repaired covariance that it was fitted to, in data units.
    alpha_, repair_, smallest_eigenvalue_, location_, n_features_in_, feature_names_in_
        As in `DebiasedGraphicalLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]]
    >>> DebiasedNeighborhoodSelection(0.1).fit(rows).edges_[["source", "target"]].values.tolist()
    [['x0', 'x1']]
    """

    alpha: float | None = None
    _: KW_ONLY
    noise_variance: npt.ArrayLike = 0.0
    rule: str = "or"
    weights: str | npt.ArrayLike = "equal"
    repair: str = "maxnorm"

    def _estimate(self, scaled: ScaledCovariance) -> None:
        self.alpha_ = universal_alpha(scaled.pooled, self.alpha)
        found = neighborhood_selection(scaled.matrix, self.alpha_, rule=self.rule, weights=scaled.weights)
        d = scaled.pooled.deviations
        self.coefficients_ = found.coefficients * np.outer(d, 1.0 / d)
        self._store(scaled, found.precision)


def check_semidefinite(s: FloatArray) -> None:
    """Refuse a matrix on which least squares have no smallest value: with negative eigenvalues, or no variance."""
    if not (s.diagonal() > 0.0).all():
        raise ParameterError("covariance", "a matrix with positive variances", float(s.diagonal().min()))
    smallest = smallest_eigenvalue(s)
    if smallest < -ROUNDING * float(s.diagonal().max()):
        raise ParameterError(
            "covariance",
            "positive semidefinite, as the problem of a column is unbounded otherwise: use repair_covariance first",
            f"one with the eigenvalue {smallest:.3g}",
        )


def require_residuals(solutions: FloatArray, residuals: FloatArray, s: FloatArray) -> None:
    """Refuse columns that ended above the optimality residual that rounding explains."""
    worst = float(residuals.max())
    if not worst <= RESIDUAL * float(np.abs(s).max()):
        raise NotConvergedError(
            f"coordinate descent stopped at an optimality residual of {worst:.3g}, as columns are nearly collinear: "
            "raise alpha, or leave out columns that others determine",
            solutions,
        )


def keep_smaller(matrix: FloatArray, method: str | None = None) -> FloatArray:
    """Return the symmetric matrix with the smaller in size of every pair of entries.

    Raises
    ------
    EstimationError
        It is the estimate of a method, and has a diagonal entry that is not positive: a conditional variance that makes
        no sense.

    References
    ----------
    Cai, Liu & Luo (2011), eq. 3.
    """
    smaller: FloatArray = np.where(np.abs(matrix) <= np.abs(matrix.T), matrix, matrix.T)
    # of a pair of equal size and opposite sign, one rule for both
    kept = np.where(smaller == smaller.T, smaller, 0.0) + 0.0  # and no negative zeros
    n_bad = int(np.count_nonzero(~(kept.diagonal() > 0.0)))
    if method is not None and n_bad:
        raise EstimationError(
            f"the {method} estimate of {n_bad} of {len(kept)} columns has no positive diagonal entry. Alpha is too "
            "large for their variance, or the covariance too indefinite: change alpha, leave the diagonal unpenalised, "
            "or repair the covariance"
        )
    return kept


def no_column_solution(alpha: float, smallest_alpha: float, method: str) -> EstimationError:
    """Return the error for an alpha at which some column has no solution."""
    return EstimationError(
        f"{method} has no solution at alpha = {alpha:.6g} because the covariance is singular: the smallest alpha that "
        f"has one is {smallest_alpha:.6g}"
    )


def smallest_column_alpha(s: FloatArray, weights: FloatArray) -> float:
    r"""Return the smallest alpha at which every column has a solution.

    .. math:: \max_j \min_b \max_i |S b - e_j|_i / w_{ji}

    Parameters
    ----------
    s : ndarray of shape (p, p)
        Symmetric.
    weights : ndarray of shape (p, p)
        Finite, >= 0.

    Returns
    -------
    float
        A little above it by the solver's tolerance; inf when no alpha helps.
    """
    p = len(s)
    cost = np.append(np.zeros(p), 1.0)
    largest = 0.0
    for j, w in enumerate(weights):
        unit = np.eye(p)[j]
        rows = np.block([[s, -w[:, None]], [-s, -w[:, None]]])
        found = solve_linear_programme(cost, rows, np.concatenate((unit, -unit)), None)
        if found is None:
            return float("inf")
        largest = max(largest, float(found[-1]))
    return largest * (1.0 + 1e-7)


def solve_linear_programme(
    cost: FloatArray, rows: FloatArray, limits: FloatArray, lower: float | None
) -> FloatArray | None:
    """Minimise ``cost'x`` subject to ``rows x <= limits`` and ``x >= lower``; None where no x meets that."""
    for tolerance in TOLERANCES:
        answer = linprog(
            cost,
            A_ub=rows,
            b_ub=limits,
            bounds=(lower, None),
            method="highs-ds",  # the simplex method: a vertex, so that zeros are exact
            options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
        )
        if answer.status == 0:
            return np.asarray(answer.x, dtype=np.float64)
        if answer.status == 2:
            return None
    raise NotConvergedError(
        "some columns are so nearly collinear that rounding hides the answer of a column's linear programme: leave out "
        "columns that others determine, or use another estimator",
        answer,
    )


def solve_gram_lassos(
    gram: FloatArray, linear: FloatArray, penalty: FloatArray, *, tol: float = 1e-10
) -> tuple[FloatArray, FloatArray]:
    """Return the solution of every column's problem, and the optimality residual of each.

    Parameters
    ----------
    gram : ndarray of shape (p, p)
        G, positive semidefinite with a positive diagonal, of order one.
    linear : ndarray of shape (q, p)
        One c per row.
    penalty : ndarray of shape (q, p)
        One l per row, >= 0, inf where a coordinate is forbidden.
    tol : float
        The residual to stop at. One that stays above says that the problem is unbounded, or that rounding is in the
        way.

    Returns
    -------
    tuple of ndarray of shape (q, p) and ndarray of shape (q,)
        One b per row, exactly zero where the penalty holds it there, and its residual.
    """
    c = np.ascontiguousarray(linear, dtype=np.float64)
    solutions, residuals = np.zeros_like(c), np.zeros(len(c))
    _descend(np.ascontiguousarray(gram), c, np.ascontiguousarray(penalty), solutions, residuals, tol)
    return solutions, residuals


@njit()
def _descend(G: Array, C: Array, L: Array, B: Array, residuals: Array, tol: float) -> None:
    """Solve every row's problem; overwrites B and `residuals`."""
    p = G.shape[0]
    active = np.empty(p, dtype=np.int64)
    beta, s, penalty, rest, w = np.empty(p), np.empty(p), np.empty(p), np.empty(p), np.empty(p)

    for j in range(C.shape[0]):
        is_active = np.zeros(p, dtype=np.bool_)
        k: Any = np.int64(0)  # no literal: what takes it is compiled once
        for _ in range(MAX_ROUNDS):
            w[:] = 0.0
            for a in range(k):
                if beta[a] != 0.0:
                    _add_multiple(w, beta[a], G[active[a]])
            residuals[j] = _violation(C[j], L[j], w, active, is_active, beta, k)
            if not residuals[j] > tol:
                break

            k = activate_violators(C, L, j, w, tol, active, is_active, beta, k)
            block = np.empty((k, k))
            for a in range(k):
                s[a] = C[j, active[a]]
                penalty[a] = L[j, active[a]]
                for c in range(k):
                    block[a, c] = G[active[a], active[c]]
            if not lasso_on_active(block, s, penalty, beta, rest, k, 0.01 * tol):
                settle(block, s, penalty, beta, rest, k, 0.01 * tol)
        for a in range(k):
            B[j, active[a]] = beta[a]


@njit(error_model="numpy", fastmath={"contract"})
def _add_multiple(w: Array, b: float, row: Array) -> None:
    """Add ``b row`` to `w`."""
    for i in range(w.size):
        w[i] += b * row[i]


@njit()
def _violation(c: Array, penalty: Array, w: Array, active: Array, is_active: Array, beta: Array, k: int) -> float:
    """Return the optimality residual at the active coordinates `beta`, whose image under G is `w`."""
    largest = 0.0
    for i in range(w.size):
        if not is_active[i]:
            largest = max(largest, abs(c[i] - w[i]) - penalty[i])
    for a in range(k):
        i = active[a]
        rest = c[i] - w[i]
        if beta[a] == 0.0:
            largest = max(largest, abs(rest) - penalty[i])
        else:
            largest = max(largest, abs(rest - (penalty[i] if beta[a] > 0.0 else -penalty[i])))
    return largest
