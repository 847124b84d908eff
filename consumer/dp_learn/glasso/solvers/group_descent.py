"""Proximal gradient steps for the group problem: one Cholesky factorisation and one inverse each.

    Theta <- shrink(Theta - t (S - Theta^-1), t),   t by Barzilai and Borwein, halved until the objective falls enough

``Theta^-1`` projected onto the dual's balls is the other half of the certificate.

References
----------
Rolfs, Rajaratnam, Guillot, Wong & Maleki (2012), Iterative thresholding algorithm for sparse inverse covariance
estimation, NIPS 25.
"""

from __future__ import annotations

import math

import numpy as np

from dp_learn.glasso.groups import GroupProblem
from dp_learn.glasso.problem import ROUNDING
from dp_learn.matrices.linalg import FloatArray, logdet

SHORTEST = 1e-14  # relative to the first step: rounding, and no descent
SIGNIFICANT = 1e-12  # relative to the objective's size: a rise of less is rounding


class GroupIncumbent:
    """A certified pair that only improves; `w` is None until a dual feasible matrix was found positive definite."""

    def __init__(self, problem: GroupProblem) -> None:
        self.problem = problem
        self.theta: FloatArray | None = None
        self.w: FloatArray | None = None
        self.value, self.dual_value, self._rounding = math.inf, -math.inf, 0.0
        self.unbounded = False

    @property
    def duality_gap(self) -> float:
        """The bound on the error of `value`, rounding included."""
        return self.value - self.dual_value + self._rounding

    def offer_theta(self, theta: FloatArray) -> None:
        """Keep a matrix if its objective is lower, and see whether it proves that there is no lowest."""
        linear, size = self.problem.linear_term(theta)
        value = linear - logdet(theta)
        if value < self.value:
            self.theta, self.value, self._rounding = theta, value, ROUNDING * size
            self.unbounded = linear <= -ROUNDING * size

    def offer_w(self, w: FloatArray) -> None:
        """Keep a dual feasible matrix if its determinant is larger."""
        dual_value = logdet(w) + len(w)
        if dual_value > self.dual_value:
            self.w, self.dual_value = w, dual_value


def descend(
    problem: GroupProblem, theta: FloatArray, *, gap: float, max_iter: int, patience: int
) -> tuple[GroupIncumbent, int]:
    """Return the best certified pair and the number of steps; it ends early where steps have become slow.

    Parameters
    ----------
    problem : GroupProblem
        One component.
    theta : ndarray, shape (p, p)
        A positive definite start.
    gap : float
        The duality gap to reach.
    max_iter, patience : int
        Most steps, and of these without the gap becoming half as large.
    """
    best, s = GroupIncumbent(problem), problem.covariance
    inverse, log_det = _invert(theta)
    linear = problem.linear_term(theta)
    value, size = linear[0] - log_det, linear[1]
    step, before, last = _first_step(inverse), math.inf, 0

    for n_iter in range(1, max_iter + 1):
        best.theta, best.value, best._rounding = theta, value, ROUNDING * size
        best.unbounded = value + log_det <= -ROUNDING * size
        best.offer_w(problem.project(inverse))
        if best.duality_gap <= gap or best.unbounded:
            return best, n_iter
        if best.duality_gap < 0.5 * before:
            before, last = best.duality_gap, n_iter
        elif n_iter - last >= patience:
            return best, n_iter

        gradient, smallest = s - inverse, SHORTEST * step
        while True:
            new = problem.shrink(theta - step * gradient, step)
            moved = new - theta
            new_inverse, new_log_det = _invert(new)
            if new_log_det > -math.inf:
                new_linear = problem.linear_term(new)
                new_value = new_linear[0] - new_log_det
                if new_value <= value - 0.1 * float((moved * moved).sum()) / step + SIGNIFICANT * new_linear[1]:
                    break
            step *= 0.5
            if step < smallest:
                return best, n_iter

        curvature = float((moved * (inverse - new_inverse)).sum())
        length = float((moved * moved).sum())
        theta, inverse, log_det, value, size = new, new_inverse, new_log_det, new_value, new_linear[1]
        step = length / curvature if curvature > 0.0 and length > 0.0 else _first_step(inverse)
    return best, max_iter


def _first_step(inverse: FloatArray) -> float:
    """Return a step that no curvature at hand makes too long: the square of Theta's smallest eigenvalue, or less."""
    return 1.0 / float(np.abs(inverse).sum(axis=0).max()) ** 2


def _invert(matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return the inverse and ``logdet``, which is -inf where the matrix is not positive definite."""
    from scipy.linalg.lapack import dpotrf, dpotri

    factor, info = dpotrf(matrix.T, lower=0, clean=0)
    if info != 0:
        return matrix, -math.inf
    log_det = 2.0 * float(np.log(factor.diagonal()).sum())
    inverse, info = dpotri(factor, lower=0, overwrite_c=1)
    upper = np.triu(inverse)
    full: FloatArray = np.ascontiguousarray(upper + np.triu(upper, 1).T)
    return (full, log_det) if info == 0 and math.isfinite(log_det) else (matrix, -math.inf)
