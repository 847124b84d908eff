"""Block coordinate descent for the group problem: one group lasso per node, compiled.

In standard form a node's columns are turned to the eigenvectors of its own block of S, which leaves the norms of blocks
what they are, and divided by one number, their root mean variance.
"""

from __future__ import annotations

import math

import numpy as np

from dp_learn.glasso.groups import GroupProblem
from dp_learn.glasso.problem import ROUNDING, Status
from dp_learn.glasso.solvers._component_kernels import CHECK_EVERY, FIRST_CHECK, FRESH
from dp_learn.glasso.solvers._group_kernels import NodeCoefficients, eigenpairs, fill_group_precision, sweep_nodes
from dp_learn.glasso.solvers._sparse_kernels import log_determinant, off_diagonal_rows, small_residual_square
from dp_learn.glasso.solvers.sparse_certificate import gap_bound
from dp_learn.glasso.solvers.standard_form import Answer
from dp_learn.matrices.linalg import FloatArray, is_positive_definite

LOOSEST, SHARE = 3e-3, 2e-3  # tolerance of the first sweep's group lassos; of later ones, in steps of the last sweep
REST = 4e-6  # gaps a column: a tolerance whose square is smaller is of no use at first
STARTS = (0.25, 1.0)  # parts of the way from the matrix of the balls nearest to zero to S
PATIENCE, GAIN = 25, 0.1  # sweeps, and the share of the gap that so many leave where more are worth while
Pair = tuple[FloatArray, FloatArray]


def solve_group_descent(problem: GroupProblem, start: Pair | None, *, gap: float, max_iter: int) -> Answer | None:
    """Return the answer, started from a precision and a dual matrix if there are any; None where that would be slow."""
    values, basis = np.empty(problem.n_features), np.zeros((problem.n_features, problem.sizes.max()))
    for node in problem.slices:
        k = node.stop - node.start
        if not eigenpairs(problem.covariance[node, node].copy(), values[node], basis[node, :k]):
            return None
    factor = np.sqrt(problem.sizes / np.add.reduceat(problem.covariance.diagonal(), problem.first))
    columns = factor.repeat(problem.sizes)
    wide = [node for node in problem.slices if node.stop - node.start > 1]

    def turned(matrix: FloatArray, scale: FloatArray, *, back: bool = False) -> FloatArray:
        full = matrix.copy()
        for _ in range(2):
            for node in wide:
                q = basis[node, : node.stop - node.start]
                full[node] = (q if back else q.T) @ full[node]
            full = full.T.copy()
        full += full.T.copy()
        full *= np.multiply.outer(scale, 0.5 * scale)
        return full

    s = turned(problem.covariance, columns)
    s[problem.spread(np.eye(len(factor), dtype=bool))] = 0.0
    np.fill_diagonal(s, values * columns * columns)
    form = GroupProblem(s, problem.penalty * np.outer(factor, factor), problem.alpha, problem.first)
    near, degree = np.empty((len(factor), len(factor)), dtype=np.int32), np.zeros(len(factor), dtype=np.int64)
    regression = NodeCoefficients(np.zeros(s.shape), near, degree, s.diagonal().copy(), np.zeros(basis.shape))
    for node in problem.slices:
        np.fill_diagonal(regression.basis[node], 1.0)

    # a warm start where it is definite, or the matrix of the balls nearest to zero, or one nearer to S
    nearest = form.project(np.zeros_like(s))
    starts = [nearest + share * (s - nearest) for share in (0.0, *STARTS)]
    if start is not None:
        starts.insert(0, form.project(turned(start[1], columns)))
    w = next(filter(is_positive_definite, starts), None)
    if w is None:
        return None
    if start is not None and w is starts[0]:
        _regress(form, turned(start[0], 1.0 / columns), regression)

    found = _descend(form, np.ascontiguousarray(w), regression, gap, max_iter)
    if found is None:
        return None
    theta, value, reached, n_iter = found
    theta, w = turned(theta, columns, back=True), turned(w, 1.0 / columns, back=True)
    return Answer(theta, w, value - 2.0 * float(np.log(columns).sum()), reached, n_iter, Status.OPTIMAL)


def _regress(form: GroupProblem, theta: FloatArray, regression: NodeCoefficients) -> None:
    """Overwrite the regression with that of a precision matrix, where its own blocks are definite."""
    linked = (form.norms(theta) > 0.0) & np.isfinite(form.penalty)
    np.fill_diagonal(linked, False)
    variance, basis = np.empty_like(regression.variance), np.zeros_like(regression.basis)
    for node in form.slices:
        if not eigenpairs(theta[node, node].copy(), variance[node], basis[node, : node.stop - node.start]):
            return
    regression.variance[:], regression.basis[:] = 1.0 / variance, basis
    regression.link[:] = np.where(form.spread(linked), -theta, 0.0)
    regression.degree[:] = linked.sum(axis=1)
    for g, row in enumerate(linked):
        regression.near[g, : regression.degree[g]] = np.flatnonzero(row)


def _descend(
    form: GroupProblem, w: FloatArray, regression: NodeCoefficients, gap: float, max_iter: int
) -> tuple[FloatArray, float, float, int] | None:
    """Sweep until the gap is proven, overwriting w and the regression; return Theta, objective, gap and sweeps."""
    s, penalty, p = form.covariance, form.penalty, form.n_features
    first = np.append(form.first, p)
    tol, least, fresh = LOOSEST, math.sqrt(REST * gap / p), FRESH * gap / p
    target, next_check = FIRST_CHECK * gap, CHECK_EVERY
    stale, before, since = np.full(len(form.first), np.inf), math.inf, 0
    theta, scratch, neighbour = np.empty_like(w), np.empty_like(w), np.empty(w.shape, dtype=np.int32)

    for n_iter in range(1, max_iter + 1):
        increase, definite = sweep_nodes(s, penalty, first, w, regression, tol, stale, fresh)
        if not definite:
            return None
        tol = max(least, min(LOOSEST, SHARE * math.sqrt(increase / p)))
        if increase > target and n_iter < next_check:
            continue

        # the certificate, as in `sparse_certificate`
        linear, size, complementarity = fill_group_precision(s, penalty, first, w, regression, theta)
        edges, diagonal = off_diagonal_rows(theta), theta.diagonal().copy()
        logdet, reached = log_determinant(edges, diagonal, scratch, neighbour), math.inf
        if logdet > -math.inf:
            reached = complementarity + gap_bound(small_residual_square(w, edges, diagonal, scratch)) + ROUNDING * size
        if reached <= gap:
            return theta, linear - logdet, reached, n_iter
        next_check, fresh, least = n_iter + CHECK_EVERY, -1.0, 0.5 * least
        target = increase * gap / reached if reached < math.inf else 0.1 * increase
        if reached < GAIN * before:
            before, since = reached, n_iter
        elif n_iter - since >= PATIENCE:
            return None
    return None
