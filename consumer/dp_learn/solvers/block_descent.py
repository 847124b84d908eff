"""Block coordinate descent: one lasso per column, in the manner of glassoFast.

Every column solves ``min_b 1/2 b'W_11 b - b's_12 + sum_i L_i |b_i|`` on its active coordinates and sets
``w_12 = W_11 b``: the dual matrix W stays in its box and its determinant only grows. At the end
``theta_22 = 1 / (w_22 - w_12'b)`` and ``theta_12 = -b theta_22``. Unlike the printed algorithm it starts from any
positive definite matrix of the box, which is what an indefinite covariance needs, and it stops on the duality gap.
"""

from __future__ import annotations

import math

import numpy as np

from dp_learn.linalg import FloatArray, is_positive_definite
from dp_learn.problem import certify
from dp_learn.solution import Status
from dp_learn.solvers._kernels import precision_from_coefficients, sweep_columns
from dp_learn.solvers.standard_form import Answer, StandardForm, Start

__all__ = ["solve_block_descent"]

LOOSEST, TIGHTEST = 1e-4, 1e-14  # tolerance of the lasso of one column
CHECK_EVERY = 10  # sweeps between two certificates at the latest
MAX_FAILURES = 6  # losses of positive definiteness, each answered by tighter lassos
MAX_IDLE = 20  # certificates without progress at the tightest lassos


def solve_block_descent(form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the first pair with a duality gap of at most `gap`, or the best one met.

    References
    ----------
    Friedman, Hastie and Tibshirani (2008), algorithm 1; Sustik and Calderhead (2012).
    """
    s, penalty = form.covariance, form.penalty
    w = safe = start.w.copy()
    coefficients, variance = _coefficients(start.theta, w)
    best = _diagonal_answer(form, start.w)
    loosest, tol = LOOSEST, LOOSEST
    target, next_check, failures, idle = gap, CHECK_EVERY, 0, 0
    for n_iter in range(1, max_iter + 1):
        if w is safe:
            w = safe.copy()
        increase, definite = sweep_columns(s, penalty, w, coefficients, variance, tol)
        if definite:
            tol = max(TIGHTEST, min(loosest, 0.1 * math.sqrt(increase / s.shape[0]) * float(variance.min())))
            if increase > target and n_iter < next_check and n_iter < max_iter:
                continue
            theta = np.empty_like(w)
            precision_from_coefficients(coefficients, variance, theta)
            value, reached = certify(s, penalty, theta, w)
            if reached <= gap:
                return Answer(theta, w, value, max(reached, 0.0), n_iter, Status.OPTIMAL)
            next_check = n_iter + CHECK_EVERY
            target = 0.5 * increase * gap / reached if reached < math.inf else 0.1 * increase
            definite = reached < math.inf or is_positive_definite(w)
        if not definite:  # a lasso was solved too loosely for so ill-conditioned a matrix: go back, and tighter
            failures += 1
            loosest = tol = max(TIGHTEST, 1e-2 * loosest)
            w = safe
            if failures > MAX_FAILURES:
                return _ended(best, n_iter, Status.STALLED)
            continue
        safe = w
        idle = idle + 1 if reached > 0.99 * best.duality_gap and tol <= TIGHTEST else 0
        if reached < best.duality_gap:
            best = Answer(theta, w, value, reached, n_iter, Status.MAX_ITER)
        if idle >= MAX_IDLE:
            return _ended(best, n_iter, Status.STALLED)
    return _ended(best, max_iter, Status.MAX_ITER)


def _coefficients(theta: FloatArray | None, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the regression coefficients and residual variances that belong to a precision matrix."""
    variance = np.ones(w.shape[0])
    if theta is None:
        return np.zeros_like(w), variance
    coefficients = -theta / theta.diagonal()[:, None]
    np.fill_diagonal(coefficients, 0.0)
    return coefficients, variance


def _diagonal_answer(form: StandardForm, w: FloatArray) -> Answer:
    """Return the pair that is certified before the first sweep: the identity and the start."""
    theta = np.eye(w.shape[0])
    value, reached = certify(form.covariance, form.penalty, theta, w)
    return Answer(theta, w, value, reached, 0, Status.MAX_ITER)


def _ended(best: Answer, n_iter: int, status: Status) -> Answer:
    return Answer(best.theta, best.w, best.objective, max(best.duality_gap, 0.0), n_iter, status)
