"""Compiled kernels of block coordinate descent for the group problem: a sweep over all nodes.

They work on the standard form of the problem: C-contiguous float64 arrays, the columns of a node beside each other, its
own block of S diagonal with a mean of one, nothing validated. Each says what it overwrites.

With W fixed but for the rows of node g, the determinant of W is largest where ``W_12 = W_11 B`` and V = B C^-1 solves

    min_V  1/2 tr(C V' W_11 V) - tr(V' S_12) + sum_h L_gh ||V_h||_F,    C = S_gg - B' W_11 B

C, the covariance of the node given the others, changes little from sweep to sweep, so that the group lasso is solved
for the last one. In the basis of C's eigenvectors it falls apart but for the norms, and one block of it is found by the
length of V_h, one number. It starts from the mean of what both nodes of a pair say of their block of -Theta, which is
much nearer to the solution than either.

Legend: S covariance in standard form, L penalties (entries may be 0 or inf), W dual matrix, B regression coefficients
(row j those of column j), C eigenvalues and Q eigenvectors of the covariances given the others, V the links C^-1 B of
all nodes, G Gram matrix of the active columns, U = B' Q.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dp_bundle.base.kernels import FAST, njit
from dp_learn.glasso.solvers._group_lasso_kernels import group_lasso
from dp_learn.glasso.solvers._sparse_kernels import TINY
from dp_learn.matrices.linalg import Array

OUTSIDE = 3.0  # tolerances: a block that is outside its ball by more becomes active
MAX_ROUNDS = 30  # of rotations
DIAGONAL, MARGIN = 1e-17, 1e-15  # relative to a block's trace: no rotation is needed, and no eigenvalue is positive


class NodeCoefficients(NamedTuple):
    """The regression of every node on the others; node g has nodes ``near[g, e]``, ``e < degree[g]``, in its own.

    Its rows of `link` are the coefficients times the inverse of its covariance given the others: minus its precision.
    """

    link: Array
    near: Array
    degree: Array
    variance: Array
    basis: Array


@njit(error_model="numpy", fastmath=FAST)
def sweep_nodes(  # type: ignore[no-untyped-def]
    S: Array, L: Array, first: Array, W: Array, regression: NodeCoefficients, tol: float, stale: Array, fresh: float
):
    """Solve the group lasso of every node once.

    `tol` is the root mean square that is left of the gradient of a group lasso, relative to C. A node is passed over
    where `stale` is at most `fresh`, as in `_column_kernels`. Overwrites W (stays within the balls), the regression and
    `stale`. Returns an estimate of the dual increase, and False when a node lost positive definiteness.
    """
    p, n_nodes, width = S.shape[0], first.size - 1, regression.basis.shape[1]
    V, near, count = regression.link, regression.near, regression.degree
    is_active, active = np.zeros(n_nodes, dtype=np.bool_), np.empty(n_nodes, dtype=np.int64)
    begin, index, d = np.zeros(n_nodes + 1, dtype=np.int64), np.empty(p, dtype=np.int64), np.empty(p)
    B, U, s = np.empty((width, p)), np.empty((width, p)), np.empty((width, p))
    residual, w, penalty = np.empty((width, p)), np.empty((width, p)), np.empty(n_nodes)
    G = np.empty((32, 32))
    progress = 0.0

    for g in range(n_nodes):
        if stale[g] <= fresh:
            continue
        left = first[g]
        k = first[g + 1] - left
        C, Q = regression.variance[left : left + k], regression.basis[left : left + k, :k]

        # what was active before, from the mean of what both nodes of a pair say
        n = count[g]
        for e in range(n):
            h = near[g, e]
            active[e] = h
            is_active[h] = True
            for i in range(first[h], first[h + 1]):
                for c in range(k):
                    B[c, begin[e] + i - first[h]] = 0.5 * (V[left + c, i] + V[i, left + c])
                    V[left + c, i] = 0.0
            begin[e + 1] = begin[e] + first[h + 1] - first[h]
        is_active[g] = True
        turn(Q, B, U, 0, begin[n])
        smallest = C[0]
        for j in range(k):
            smallest = min(smallest, C[j])
            for a in range(begin[n]):
                U[j, a] *= C[j]
        slack = OUTSIDE * tol * np.sqrt(smallest)

        # the group lasso, with more active nodes until none is outside its ball
        known, n_known = np.int64(0), 0  # no literal: what takes it is compiled once
        while True:
            m = begin[n]
            if m > G.shape[0]:
                G, known, n_known = np.empty((min(p, 2 * m), min(p, 2 * m))), np.int64(0), 0
            for e in range(n_known, n):
                penalty[e] = L[g, active[e]]
                for i in range(first[active[e]], first[active[e] + 1]):
                    index[begin[e] + i - first[active[e]]] = i
            for a in range(m):
                row = W[index[a]]
                for c in range(known if a < known else 0, m):
                    G[a, c] = row[index[c]]
            for a in range(known, m):
                i = index[a]
                d[a] = S[i, i]
                for c in range(k):
                    B[c, a] = S[left + c, i]
            if m > known:
                turn(Q, B, s, known, m)

            most = m * k * tol * tol
            rest = group_lasso(G, s, d, C, penalty, begin, n, U, residual, known, most)
            known, n_known = m, n
            if not rest <= most:
                return progress, False
            turn_back(Q, U, B, m)
            _add_rows(W, index, B, m, w, k)
            n = _activate_outside(S, L, first, g, w, slack, active, is_active, begin, U, n, k)
            if n == n_known:
                break
        for e in range(n):
            is_active[active[e]] = False
        is_active[g] = False

        # the new rows, and what the others leave of the node
        for c in range(k):
            for j in range(k):
                w[c, left + j] = W[left + c, left + j]
        pull_rows_into_balls(S, L, first, g, w, k)
        own = np.zeros((k, k))
        for c in range(k):
            own[c, c] = S[left + c, left + c]
            for j in range(c + 1):
                total = 0.0
                for a in range(m):
                    total += w[c, index[a]] * B[j, a] + w[j, index[a]] * B[c, a]
                own[c, j] -= 0.5 * total
                own[j, c] = own[c, j]
        if not eigenpairs(own, C, Q):
            return progress, False
        for c in range(k):
            for j in range(c + 1):
                total = 0.0
                for e in range(k):
                    total += Q[c, e] * Q[j, e] / C[e]
                own[c, j], own[j, c] = total, total
        change = _replace_rows(W, left, w, own, k)
        progress += change

        # the links that are not zero, and who depends on them
        turn_back(own, B, s, m)
        count[g] = 0
        for e in range(n):
            zero = True
            for c in range(k):
                for a in range(begin[e], begin[e + 1]):
                    zero = zero and B[c, a] == 0.0
            if zero:
                continue
            h = active[e]
            near[g, count[g]] = h
            count[g] += 1
            square = 0.0
            for i in range(first[h], first[h + 1]):
                for c in range(k):
                    b = B[c, begin[e] + i - first[h]]
                    V[left + c, i] = s[c, begin[e] + i - first[h]]
                    square += b * b * regression.variance[i] / C[c]
            stale[h] += square * change
        stale[g] = rest
    return progress, True


@njit(error_model="numpy", fastmath=FAST)
def _add_rows(W: Array, index: Array, B: Array, m: int, w: Array, k: int) -> None:
    """Overwrite the first k rows of `w` with the sums of the rows in `index`, each times its coefficient."""
    p = W.shape[1]
    for c in range(k):
        for i in range(p):
            w[c, i] = 0.0
    odd = m % 2
    if odd:
        for c in range(k):
            b = B[c, 0]
            for i in range(p):
                w[c, i] += b * W[index[0], i]
    for a in range(odd, m, 2):
        one, other = W[index[a]], W[index[a + 1]]
        for c in range(k):
            b0, b1, row = B[c, a], B[c, a + 1], w[c]
            for i in range(p):
                row[i] += b0 * one[i] + b1 * other[i]


@njit(error_model="numpy", fastmath=FAST)
def _activate_outside(
    S: Array, L: Array, first: Array, g: int, w: Array, slack: float, active: Array, is_active: Array, begin: Array,
    U: Array, n: int, k: int,
) -> int:  # fmt: skip
    """Append the nodes outside their balls to `active`, with U zero; return how many there are now."""
    for h in range(first.size - 1):
        if is_active[h]:
            continue
        square = 0.0
        for c in range(k):
            for i in range(first[h], first[h + 1]):
                excess = S[first[g] + c, i] - w[c, i]
                square += excess * excess
        most = L[g, h] + slack
        if square > most * most:
            active[n] = h
            is_active[h] = True
            begin[n + 1] = begin[n] + first[h + 1] - first[h]
            for c in range(k):
                for a in range(begin[n], begin[n + 1]):
                    U[c, a] = 0.0
            n += 1
    return n


@njit(error_model="numpy", fastmath=FAST)
def _replace_rows(W: Array, left: int, w: Array, precision: Array, k: int) -> float:
    """Overwrite the rows and columns of a node; return their square change, times the node's precision."""
    p, total = W.shape[0], 0.0
    for c in range(k):
        change = 0.0
        for i in range(p):
            step = w[c, i] - W[left + c, i]
            change += step * step
            W[left + c, i] = w[c, i]
        total += change * precision[c, c]
    for i in range(p):
        for c in range(k):
            W[i, left + c] = w[c, i]
    return total


@njit(error_model="numpy", fastmath=FAST)
def pull_rows_into_balls(S: Array, L: Array, first: Array, g: int, w: Array, k: int) -> None:
    """Move the new rows of a node into the balls around its rows of S, but for its own block."""
    left = first[g]
    for h in range(first.size - 1):
        if h == g:
            continue
        square = 0.0
        for c in range(k):
            for i in range(first[h], first[h + 1]):
                excess = S[left + c, i] - w[c, i]
                square += excess * excess
        share = L[g, h] / np.sqrt(square) if square > L[g, h] * L[g, h] else 1.0
        for c in range(k):
            for i in range(first[h], first[h + 1]):
                new = w[c, i] if share == 1.0 else S[left + c, i] - share * (S[left + c, i] - w[c, i])
                w[c, i] = new if abs(new) > TINY else 0.0


@njit(error_model="numpy")
def eigenpairs(own: Array, C: Array, Q: Array) -> bool:
    """Overwrite C and Q with the eigenvalues and eigenvectors of a node's block; False unless it is definite.

    Jacobi's rotations (Golub & Van Loan 2013, section 8.5) overwrite the block. They take as long as LAPACK where nodes
    are small, and a tenth of the time to compile.
    """
    k = C.size
    scale = 0.0
    for c in range(k):
        for j in range(k):
            Q[c, j] = 1.0 if c == j else 0.0
        scale += abs(own[c, c])
    for _ in range(MAX_ROUNDS):
        off = 0.0
        for c in range(k):
            for j in range(c):
                off = max(off, abs(own[c, j]))
                if abs(own[c, j]) <= DIAGONAL * scale:
                    continue
                ratio = (own[j, j] - own[c, c]) / (2.0 * own[c, j])
                tangent = (1.0 if ratio >= 0.0 else -1.0) / (abs(ratio) + np.sqrt(ratio * ratio + 1.0))
                cosine = 1.0 / np.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for e in range(k):
                    x, y = own[c, e], own[j, e]
                    own[c, e], own[j, e] = cosine * x - sine * y, sine * x + cosine * y
                for e in range(k):
                    x, y = own[e, c], own[e, j]
                    own[e, c], own[e, j] = cosine * x - sine * y, sine * x + cosine * y
                    x, y = Q[e, c], Q[e, j]
                    Q[e, c], Q[e, j] = cosine * x - sine * y, sine * x + cosine * y
        if not off > DIAGONAL * scale:
            break
    positive = True
    for c in range(k):
        C[c] = own[c, c]
        positive = positive and own[c, c] > MARGIN * scale
    return positive


@njit(error_model="numpy", fastmath=FAST)
def turn(Q: Array, B: Array, U: Array, begin: int | np.int64, m: int) -> None:
    """Overwrite columns `begin` to m of U with those of ``Q' B``."""
    k = Q.shape[0]
    if k == 1:
        for a in range(begin, m):
            U[0, a] = B[0, a]
        return
    for j in range(k):
        for a in range(begin, m):
            U[j, a] = Q[0, j] * B[0, a]
        for c in range(1, k):
            q = Q[c, j]
            for a in range(begin, m):
                U[j, a] += q * B[c, a]


@njit(error_model="numpy", fastmath=FAST)
def turn_back(Q: Array, U: Array, B: Array, m: int) -> None:
    """Overwrite the first m columns of B with those of ``Q U``."""
    k = Q.shape[0]
    for c in range(k):
        for a in range(m):
            B[c, a] = Q[c, 0] * U[0, a]
        for j in range(1, k):
            q = Q[c, j]
            for a in range(m):
                B[c, a] += q * U[j, a]


@njit(error_model="numpy", fastmath=FAST)
def fill_group_precision(  # type: ignore[no-untyped-def]
    s: Array, penalty: Array, first: Array, w: Array, regression: NodeCoefficients, t: Array
):
    """Fill t with the precision matrix: the mean of what both nodes of a pair say, where both link them.

    Returns ``<S, T> + sum L ||T_gh||``, the size of its terms, and it minus ``<W, T>``.
    """
    n_nodes = first.size - 1
    linked = np.zeros((n_nodes, n_nodes), dtype=np.bool_)
    C, Q = regression.variance, regression.basis
    t[:] = 0.0
    linear, size, complementarity = 0.0, 0.0, 0.0
    for g in range(n_nodes):
        left, k = first[g], first[g + 1] - first[g]
        for c in range(k):
            for j in range(k):
                total = 0.0
                for e in range(k):
                    total += Q[left + c, e] * Q[left + j, e] / C[left + e]
                t[left + c, left + j] = total
            x = s[left + c, left + c] * t[left + c, left + c]
            linear += x
            size += abs(x)
        for e in range(regression.degree[g]):
            h = regression.near[g, e]
            linked[g, h] = True
            for c in range(k):
                for i in range(first[h], first[h + 1]):
                    t[left + c, i] = -regression.link[left + c, i]

    for g in range(n_nodes):
        for h in range(g):
            if not (linked[g, h] or linked[h, g]):
                continue
            both = linked[g, h] and linked[h, g]
            square, product, absolute, dual = 0.0, 0.0, 0.0, 0.0
            for i in range(first[g], first[g + 1]):
                for j in range(first[h], first[h + 1]):
                    mean = 0.5 * (t[i, j] + t[j, i]) if both else 0.0
                    t[i, j], t[j, i] = mean, mean
                    square += mean * mean
                    product += s[i, j] * mean
                    absolute += abs(s[i, j] * mean)
                    dual += w[i, j] * mean
            if square > 0.0:
                norm = penalty[g, h] * np.sqrt(square)
                linear += 2.0 * (product + norm)
                size += 2.0 * (absolute + norm)
                complementarity += 2.0 * (product - dual + norm)
    return linear, size, complementarity
