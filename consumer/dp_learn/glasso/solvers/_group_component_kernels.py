"""Block coordinate descent for the group problem on every component, in one compiled loop.

As in `_component_kernels`, components are found, brought into standard form, solved, certified and put back without
leaving compiled code, and what is not simple is left. In standard form a node's columns are turned to the eigenvectors
of its own block of S, which leaves the norms of blocks what they are, and divided by one number, their root mean
variance.

Legend: S covariance with the diagonal's penalty, L penalties of pairs of nodes, W dual matrix, T precision matrix.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.glasso.solvers._certificate_kernels import small_residual_square
from dp_learn.glasso.solvers._component_kernels import (
    CHECK_EVERY,
    FIRST_CHECK,
    FRESH,
    ROUNDING,
    connected_components,
    list_edges,
)
from dp_learn.glasso.solvers._elimination_kernels import log_determinant
from dp_learn.glasso.solvers._group_kernels import sweep_nodes
from dp_learn.glasso.solvers._group_regression_kernels import (
    NodeCoefficients,
    fill_group_precision,
    no_coefficients,
    regress_on_precision,
)
from dp_learn.glasso.solvers._node_kernels import (
    block_norms,
    gather_turned,
    own_blocks,
    pull_into_balls,
    put_turned_back,
)
from dp_learn.glasso.solvers._sparse_kernels import off_diagonal_rows
from dp_learn.matrices.linalg import Array

LOOSEST, SHARE = 3e-3, 2e-3  # tolerance of the first sweep's group lassos; of later ones, in steps of the last sweep
REST = 4e-6  # gaps a column: a tolerance whose square is smaller is of no use at first
STARTS = (0.25, 1.0)  # parts of the way from the matrix of the balls nearest to zero to S
PATIENCE, GAIN = 25, 0.1  # sweeps, and the share of the gap that so many leave where more are worth while


@njit(cache=True, nogil=True, error_model="numpy")
def solve_group_components(  # type: ignore[no-untyped-def]
    S: Array, L: Array, first: Array, warm: bool, T0: Array, W0: Array, gap: float, max_iter: int, T: Array, W: Array
):
    """Solve what is simple, to a gap of `gap` a column, overwriting its entries of T and W, which are zero.

    T0 and W0 are an earlier answer to start from, if `warm`. Returns the nodes, component after component, where every
    component starts among them, which components are left, whether every node's own block is positive definite, the
    objective and the gap of those solved, and the most sweeps.
    """
    n_nodes, width = first.size - 1, 1
    for g in range(n_nodes):
        width = max(width, first[g + 1] - first[g])
    scale, d, Q = np.empty(n_nodes), np.empty(S.shape[0]), np.zeros((S.shape[0], width))
    definite = own_blocks(S, first, scale, d, Q)
    start, column = list_edges(block_norms(S, first), L)
    nodes, begin = connected_components(start, column)
    n_components = begin.size - 1
    left = np.zeros(n_components, dtype=np.bool_)
    objective, reached, n_iter = 0.0, 0.0, 0
    if not definite:
        return nodes, begin, np.flatnonzero(left), definite, objective, reached, n_iter

    for c in range(n_components):
        chosen = nodes[begin[c] : begin[c + 1]]
        if chosen.size == 1:
            value, own = _solve_node(S, first[chosen[0]], first[chosen[0] + 1], d, Q, T, W)
            objective += value
            reached += own
            continue
        value, own, sweeps = _solve_component(S, L, first, chosen, scale, d, Q, warm, T0, W0, gap, max_iter, T, W)
        left[c] = sweeps == 0
        if sweeps > 0:
            objective += value
            reached += own
            n_iter = max(n_iter, sweeps)
    return nodes, begin, np.flatnonzero(left), definite, objective, reached, n_iter


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_node(S: Array, left: int, right: int, d: Array, Q: Array, T: Array, W: Array):  # type: ignore[no-untyped-def]
    """Put the answer for a node that has no links into T and W; return its objective and its gap, which is rounding."""
    value, size = float(right - left), 0.0
    for e in range(left, right):
        value += np.log(d[e])
    for i in range(left, right):
        for j in range(left, right):
            total = 0.0
            for e in range(right - left):
                total += Q[i, e] * Q[j, e] / d[left + e]
            T[i, j], W[i, j] = total, S[i, j]
            size += abs(total * S[i, j])
    return value, ROUNDING * size


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_component(  # type: ignore[no-untyped-def]
    S: Array, L: Array, first: Array, chosen: Array, scale: Array, d: Array, Q: Array, warm: bool, T0: Array, W0: Array,
    gap: float, max_iter: int, T: Array, W: Array,
):  # fmt: skip
    """Solve one component and put it into T and W; return its objective, gap and sweeps, or 0 sweeps."""
    n_nodes = chosen.size
    own_first = np.zeros(n_nodes + 1, dtype=np.int64)
    for a in range(n_nodes):
        own_first[a + 1] = own_first[a] + first[chosen[a] + 1] - first[chosen[a]]
    p = own_first[n_nodes]
    index, factor, turn = np.empty(p, dtype=np.int64), np.empty(p), np.empty((p, Q.shape[1]))
    penalty = np.empty((n_nodes, n_nodes))
    for a in range(n_nodes):
        g = chosen[a]
        for i in range(own_first[a], own_first[a + 1]):
            index[i] = first[g] + i - own_first[a]
            factor[i] = scale[g]
            for e in range(Q.shape[1]):
                turn[i, e] = Q[index[i], e]
        for c in range(n_nodes):
            penalty[a, c] = L[g, chosen[c]] * scale[g] * scale[chosen[c]]

    # standard form
    s, scratch, w = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    gather_turned(S, index, factor, own_first, turn, scratch, s)
    for i in range(p):
        for j in range(p):
            if i == j:
                s[i, i] = d[index[i]] * factor[i] * factor[i]
    for a in range(n_nodes):
        for i in range(own_first[a], own_first[a + 1]):
            for j in range(own_first[a], own_first[a + 1]):
                if i != j:
                    s[i, j] = 0.0
    neighbour = np.empty((p, p), dtype=np.int32)
    regression = no_coefficients(s, own_first, Q.shape[1])

    # a warm start where it is definite, or the matrix of the balls nearest to zero, or one nearer to S
    started = False
    if warm:
        gather_turned(W0, index, factor, own_first, turn, scratch, w)
        pull_into_balls(s, penalty, own_first, w)
        if _log_det(w, scratch, neighbour) > -np.inf:
            t = np.empty((p, p))
            gather_turned(T0, index, 1.0 / factor, own_first, turn, scratch, t)
            started = regress_on_precision(t, penalty, own_first, regression)
            if not started:
                regression = no_coefficients(s, own_first, Q.shape[1])
                started = True
    if not started:
        w = np.zeros((p, p))
        pull_into_balls(s, penalty, own_first, w)
        started = _log_det(w, scratch, neighbour) > -np.inf
    for share in STARTS:
        if not started:
            for i in range(p):
                for j in range(p):
                    w[i, j] += share * (s[i, j] - w[i, j])
            started = _log_det(w, scratch, neighbour) > -np.inf
    if not started:
        return 0.0, 0.0, 0

    t = np.empty((p, p))
    value, reached, sweeps = _descend(s, penalty, own_first, w, regression, t, gap * p, max_iter, scratch, neighbour)
    if sweeps > 0:
        put_turned_back(t, index, factor, own_first, turn, scratch, T)
        put_turned_back(w, index, 1.0 / factor, own_first, turn, scratch, W)
        for i in range(p):
            value -= 2.0 * np.log(factor[i])
    return value, reached, sweeps


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(  # type: ignore[no-untyped-def]
    s: Array, penalty: Array, first: Array, w: Array, regression: NodeCoefficients, t: Array, gap: float,
    max_iter: int, scratch: Array, neighbour: Array,
):  # fmt: skip
    """Sweep until the gap is proven, overwriting w, t and the regression; return objective, gap and sweeps, or 0."""
    p = w.shape[0]
    tol, least, fresh = LOOSEST, np.sqrt(REST * gap / p), FRESH * gap / p
    target, next_check = FIRST_CHECK * gap, CHECK_EVERY
    stale, before, since = np.ones(first.size - 1) * np.inf, np.inf, 0
    for n_iter in range(1, max_iter + 1):
        increase, definite = sweep_nodes(s, penalty, first, w, regression, tol, stale, fresh)
        if not definite:
            return 0.0, 0.0, 0
        tol = max(least, min(LOOSEST, SHARE * np.sqrt(increase / p)))
        if increase > target and n_iter < next_check:
            continue

        # the certificate, as in `sparse_certificate`
        linear, size, complementarity = fill_group_precision(s, penalty, first, w, regression, t)
        edges, diagonal = off_diagonal_rows(t), _diagonal(t)
        logdet = log_determinant(edges, diagonal, scratch, neighbour)
        reached = np.inf
        if logdet > -np.inf:
            square = small_residual_square(w, edges, diagonal, scratch)
            distance = np.sqrt(max(square, 0.0))
            if distance < 1.0:
                bound = square * (0.5 + distance / (3.0 * (1.0 - distance)))
                reached = complementarity + bound + ROUNDING * size
        if reached <= gap:
            return linear - logdet, reached, n_iter
        next_check, fresh, least = n_iter + CHECK_EVERY, -1.0, 0.5 * least
        target = increase * gap / reached if reached < np.inf else 0.1 * increase
        if reached < GAIN * before:
            before, since = reached, n_iter
        elif n_iter - since >= PATIENCE:
            return 0.0, 0.0, 0
    return 0.0, 0.0, 0


@njit(cache=True, nogil=True, error_model="numpy")
def _diagonal(m: Array) -> Array:
    """Return a copy of the diagonal."""
    d = np.empty(m.shape[0])
    for i in range(d.size):
        d[i] = m[i, i]
    return d


@njit(cache=True, nogil=True, error_model="numpy")
def _log_det(w: Array, scratch: Array, neighbour: Array) -> float:
    """Return the logarithm of the determinant, -inf unless the matrix is positive definite."""
    value: float = log_determinant(off_diagonal_rows(w), _diagonal(w), scratch, neighbour)
    return value
