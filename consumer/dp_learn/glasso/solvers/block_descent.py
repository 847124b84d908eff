"""Block coordinate descent: one lasso per column, in the manner of glassoFast.

Every column solves ``min_b 1/2 b'W_11 b - b's_12 + sum_i L_i |b_i|`` on its active coordinates and sets
``w_12 = W_11 b``: the dual matrix W stays in its box and its determinant only grows. At the end
``theta_22 = 1 / (w_22 - w_12'b)`` and ``theta_12 = -b theta_22``. Unlike the printed algorithm it starts from any
positive definite matrix of the box, which is what an indefinite covariance needs, and it stops on the duality gap.
"""

from __future__ import annotations

import math

import numpy as np

from dp_learn.glasso.problem import Problem, Status
from dp_learn.glasso.solvers._column_kernels import Coefficients, sweep_columns
from dp_learn.glasso.solvers.answers import Answer, Start
from dp_learn.matrices.linalg import FloatArray, is_positive_definite

LOOSEST, TIGHTEST = 1e-2, 1e-14  # tolerance of the lasso of one column
FIRST_CHECK = 40.0  # gaps: a sweep that gains less is followed by a certificate, as the gap is a hundredth of its gain
CHECK_EVERY = 10  # sweeps between two certificates at the latest
MAX_FAILURES = 6  # losses of positive definiteness, each answered by tighter lassos
MAX_IDLE = 20  # certificates without progress at the tightest lassos


def solve_block_descent(form: Problem, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the first pair with a duality gap of at most `gap`, or the best one met.

    References
    ----------
    Friedman, Hastie and Tibshirani (2008), algorithm 1; Sustik and Calderhead (2012).
    """
    s, penalty = form.covariance, form.penalty
    w = safe = start.w
    coefficients = _regress(start.theta, len(s))
    best = None

    loosest, tol = LOOSEST, LOOSEST
    target, next_check, failures, idle = FIRST_CHECK * gap, CHECK_EVERY, 0, 0

    for n_iter in range(1, max_iter + 1):
        if w is safe:
            w = safe.copy()
        increase, definite = sweep_columns(s, penalty, w, coefficients, tol)
        if definite:
            step = math.sqrt(increase / len(s)) * float(coefficients.variance.min())
            tol = max(TIGHTEST, min(loosest, 0.03 * step))  # a small part of a typical step
            if increase > target and n_iter < next_check and n_iter < max_iter:
                continue
            theta = _precision(coefficients)
            value, reached = form.certify(theta, w)
            if reached <= gap:
                return Answer(theta, w, value, reached, n_iter, Status.OPTIMAL)
            next_check = n_iter + CHECK_EVERY
            target = 0.5 * increase * gap / reached if reached < math.inf else 0.1 * increase
            definite = reached < math.inf or is_positive_definite(w)

        if not definite:  # a lasso was solved too loosely for so ill-conditioned a matrix: go back, and tighter
            failures += 1
            loosest = tol = max(TIGHTEST, 1e-2 * loosest)
            w = safe
            if failures > MAX_FAILURES:
                return _ended(form, start, best, n_iter, Status.STALLED)
            continue

        safe = w
        reached_before = math.inf if best is None else best.duality_gap
        idle = idle + 1 if reached > 0.99 * reached_before and tol <= TIGHTEST else 0
        if reached < reached_before:
            best = Answer(theta, w, value, reached, n_iter, Status.MAX_ITER)
        if idle >= MAX_IDLE:
            return _ended(form, start, best, n_iter, Status.STALLED)
    return _ended(form, start, best, max_iter, Status.MAX_ITER)


def _regress(theta: FloatArray | None, p: int) -> Coefficients:
    """Return the regression coefficients and residual variances that belong to a precision matrix."""
    column, value, length = np.empty((p, p), dtype=np.int32), np.empty((p, p)), np.zeros(p, dtype=np.int64)
    if theta is None:
        return Coefficients(column, value, length, np.ones(p))
    variance, linked = 1.0 / theta.diagonal(), theta != 0.0
    np.fill_diagonal(linked, val=False)
    length[:] = linked.sum(axis=1)
    rows, others = np.nonzero(linked)
    places = np.arange(rows.size) - np.repeat(np.cumsum(length) - length, length)
    column[rows, places], value[rows, places] = others, theta[rows, others] * -variance[rows]
    return Coefficients(column, value, length, variance)


def _precision(regression: Coefficients) -> FloatArray:
    """Return the symmetric precision matrix: an entry is kept where both columns agree on its sign."""
    column, value, length, variance = regression
    width = length.max()
    used = np.arange(width) < length[:, None]
    rows = np.repeat(np.arange(length.size), length)
    half = np.diag(0.5 / variance)
    half[rows, column[:, :width][used]] = value[:, :width][used] * (-0.5 / variance[rows])
    theta: FloatArray = half + half.T
    theta[half * half.T <= 0.0] = 0.0
    return theta


def _ended(form: Problem, start: Start, best: Answer | None, n_iter: int, status: Status) -> Answer:
    """Return the best pair, or without any the identity and the start."""
    if best is None:
        theta = np.eye(start.w.shape[0])
        value, reached = form.certify(theta, start.w)
        best = Answer(theta, start.w, value, reached, 0, status)
    return Answer(best.theta, best.w, best.objective, best.duality_gap, n_iter, status)
