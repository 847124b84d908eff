"""Base of the estimators that solve one problem per column: checks, the smallest alpha, the symmetric result.

A column's problem is bounded, or its constraints can be met, exactly when some b has ``|S b - e_j| <= alpha w_j`` in
every entry. A nonsingular S allows any alpha; otherwise the smallest one is found by a linear programme.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from dp_bundle.base.errors import EstimationError, NotConvergedError, ParameterError
from dp_learn.estimators.base import CovarianceEstimator
from dp_learn.estimators.scaled import ScaledCovariance, universal_alpha
from dp_learn.matrices.checks import check_weights
from dp_learn.matrices.linalg import FloatArray, smallest_eigenvalue

ROUNDING = 1e-10  # a negative eigenvalue of this size, relative to the largest variance, is what a repair leaves
ABOVE_SMALLEST = 1.1
TOLERANCES = (1e-10, 1e-7)  # of a linear programme; the second where rounding keeps it from the first
RESIDUAL = 1e-7  # of optimality, relative to the largest entry, that a column may end with


class ColumnwiseEstimator(CovarianceEstimator):
    """An estimator of a precision matrix, one problem per column of the debiased correlations."""

    def __init__(
        self,
        alpha: float | None = None,
        *,
        noise_variance: npt.ArrayLike = 0.0,
        weights: str | npt.ArrayLike = "equal",
        penalize_diagonal: bool = False,
        repair: str = "maxnorm",
    ) -> None:
        self.alpha = alpha
        self.noise_variance = noise_variance
        self.weights = weights
        self.penalize_diagonal = penalize_diagonal
        self.repair = repair

    def _estimate(self, scaled: ScaledCovariance) -> None:
        self.alpha_ = _choose_alpha(scaled, self.alpha, penalize_diagonal=self.penalize_diagonal)
        precision = self._solve(
            scaled.matrix, self.alpha_, weights=scaled.weights, penalize_diagonal=self.penalize_diagonal
        )
        self._store(scaled, precision)

    @staticmethod
    @abstractmethod
    def _solve(
        covariance: npt.ArrayLike, alpha: float, *, weights: npt.ArrayLike | None, penalize_diagonal: bool
    ) -> FloatArray:
        """Return the precision matrix."""


def _choose_alpha(scaled: ScaledCovariance, alpha: float | None, *, penalize_diagonal: bool) -> float:
    """Return the alpha that was given, or the universal one, raised to a tenth above the smallest if need be.

    A repaired matrix is singular, and what makes it so is the noise: the universal alpha may be too small for it.
    """
    chosen = universal_alpha(scaled.pooled, alpha)
    if alpha is not None or smallest_eigenvalue(scaled.matrix) > ROUNDING:
        return chosen
    weights = check_weights(scaled.weights, len(scaled.matrix), penalize_diagonal=penalize_diagonal)
    if not np.isfinite(weights).all():
        return chosen
    return max(chosen, ABOVE_SMALLEST * smallest_column_alpha(scaled.matrix, weights))


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


def check_variances(precision: FloatArray, method: str) -> None:
    """Refuse an estimate with a diagonal entry that is not positive: a conditional variance that makes no sense."""
    bad = np.flatnonzero(~(precision.diagonal() > 0.0))
    if bad.size:
        raise EstimationError(
            f"the {method} estimate of {bad.size} of {len(precision)} columns has no positive diagonal entry, because "
            "alpha is too large for their variance, or the covariance too indefinite: change alpha, leave the "
            "diagonal unpenalised, or repair the covariance"
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


def keep_smaller(matrix: FloatArray) -> FloatArray:
    """Return the symmetric matrix with the smaller in size of every pair of entries.

    References
    ----------
    Cai, Liu & Luo (2011), eq. 3.
    """
    smaller: FloatArray = np.where(np.abs(matrix) <= np.abs(matrix.T), matrix, matrix.T)
    # of a pair of equal size and opposite sign, one rule for both
    return np.where(smaller == smaller.T, smaller, 0.0) + 0.0  # and no negative zeros


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
