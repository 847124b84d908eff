"""Block coordinate descent: one lasso per column, in the manner of glassoFast.

Every column solves ``min_b 1/2 b'W_11 b - b's_12 + sum_i L_i |b_i|`` on its active coordinates and sets
``w_12 = W_11 b``: the dual matrix W stays in its box and its determinant only grows. At the end
``theta_22 = 1 / (w_22 - w_12'b)`` and ``theta_12 = -b theta_22``. Unlike the printed algorithm it starts from any
positive definite matrix of the box, which is what an indefinite covariance needs, and it stops on the duality gap.
"""

from __future__ import annotations

import math

import numpy as np

from dp_learn.glasso.problem import Status
from dp_learn.glasso.solvers._column_kernels import sweep_columns
from dp_learn.glasso.solvers._component_kernels import CHECK_EVERY, FIRST_CHECK, LOOSEST, TIGHTEST, next_tolerance
from dp_learn.glasso.solvers._sparse_kernels import SparseRows, fill_precision, off_diagonal_rows
from dp_learn.glasso.solvers.sparse_certificate import certify_sparse, is_sparse
from dp_learn.glasso.solvers.standard_form import Answer, StandardForm, Start
from dp_learn.matrices.linalg import FloatArray, is_positive_definite

MAX_FAILURES = 6  # losses of positive definiteness, each answered by tighter lassos
MAX_IDLE = 20  # certificates without progress at the tightest lassos


def solve_block_descent(form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the first pair with a duality gap of at most `gap`, or the best one met.

    References
    ----------
    Friedman, Hastie and Tibshirani (2008), algorithm 1; Sustik and Calderhead (2012).
    """
    s, penalty = form.covariance, form.penalty
    w = safe = start.w
    coefficients, variance = _coefficients(start.theta, s.shape[0])
    best = None

    loosest, tol = LOOSEST, LOOSEST
    target, next_check, failures, idle = FIRST_CHECK * gap, CHECK_EVERY, 0, 0
    stale = np.full(s.shape[0], math.inf)

    for n_iter in range(1, max_iter + 1):
        if w is safe:
            w = safe.copy()
        coefficients, increase, definite = sweep_columns(s, penalty, w, coefficients, variance, tol, stale, -math.inf)
        if definite:
            tol = next_tolerance(increase, variance, loosest)
            if increase > target and n_iter < next_check and n_iter < max_iter:
                continue
            theta, value, reached = _certified(form, coefficients, variance, w)
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


def _coefficients(theta: FloatArray | None, p: int) -> tuple[SparseRows, FloatArray]:
    """Return the regression coefficients and residual variances that belong to a precision matrix."""
    if theta is None:
        empty = np.empty((p, 0), dtype=np.int32), np.empty((p, 0)), np.zeros(p, dtype=np.int64)
        return SparseRows(*empty), np.ones(p)
    edges, variance = off_diagonal_rows(theta), 1.0 / theta.diagonal()
    return edges._replace(value=edges.value * -variance[:, None]), variance


def _certified(
    form: StandardForm, coefficients: SparseRows, variance: FloatArray, w: FloatArray
) -> tuple[FloatArray, float, float]:
    """Return the precision matrix of the coefficients, its objective and its gap to the dual value at `w`."""
    theta = np.empty_like(w)
    edges = fill_precision(coefficients, variance, theta)
    if is_sparse(edges):
        value, reached = certify_sparse(form.covariance, form.penalty, edges, theta.diagonal(), w)
        if reached < math.inf:
            return theta, value, reached
    return theta, *form.certify(theta, w)


def _ended(form: StandardForm, start: Start, best: Answer | None, n_iter: int, status: Status) -> Answer:
    """Return the best pair, or without any the identity and the start."""
    if best is None:
        theta = np.eye(start.w.shape[0])
        value, reached = form.certify(theta, start.w)
        best = Answer(theta, start.w, value, reached, 0, status)
    return Answer(best.theta, best.w, best.objective, best.duality_gap, n_iter, status)
