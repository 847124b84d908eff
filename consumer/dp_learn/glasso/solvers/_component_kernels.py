"""Block coordinate descent on every small or sparse component in one compiled loop.

Where a graph falls into many components, most of the time would go into the steps between compiled kernels. Here
components are found, brought into standard form, solved, certified and put back without leaving compiled code, by the
kernels that `block_descent` and `sparse_certificate` use. Whatever is not simple (a dense component of more than
`SMALL` columns, a start that is not positive definite, a lasso solved too loosely, too many sweeps) is left to them.

Legend: S covariance, L penalties (entries may be 0 or inf), W dual matrix, T precision matrix.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.glasso.solvers._column_kernels import sweep_columns
from dp_learn.glasso.solvers._sparse_kernels import (
    SparseRows,
    fill_precision,
    is_dominant,
    linear_terms,
    log_determinant,
    off_diagonal_rows,
    small_residual_square,
)
from dp_learn.matrices.linalg import Array

LOOSEST, TIGHTEST = 1e-2, 1e-14  # tolerance of the lasso of one column
FRESH = 0.3  # gaps a column: where a square residual is below, the next sweep passes over
FIRST_CHECK = 40.0  # gaps: a sweep that gains less is followed by a certificate, as the gap is a hundredth of its gain
CHECK_EVERY = 10  # sweeps between two certificates at the latest
TILE = 8  # columns compared with rows at once: as many doubles as a cache line holds
ROOM = 16  # edges a row, for which there is room at first
SMALL = 128  # columns of a component that may be dense
DEGREE = 16  # entries a column of a larger one, at most, on average
MAX_SWEEPS = 50
N_SQUARES = 6  # of as many columns as the largest component, to work in
NARROW = 6  # entries a row that there is room for at first
FEW_SCALINGS = 4  # of rows, before a factorisation decides
ROUNDING = 8.0 * 2.0**-52  # relative to the sizes of what is added up, as in `problem`


@njit(error_model="numpy")
def solve_components(  # type: ignore[no-untyped-def]
    S: Array, L: Array, warm: bool, T0: Array, W0: Array, gap: float, largest: int, max_iter: int, T: Array, W: Array,
    work: Array,
):  # fmt: skip
    """Solve what is simple, to a gap of `gap` a column, overwriting its entries of T and W, which are zero.

    T0 and W0 are an earlier answer to start from, if `warm`. Returns the columns, component after component, where
    every component starts among them, which components are left (more than `largest` columns, or not simple), their
    number, or 0 where a variance is not positive, the objective and the gap of those solved, and the most sweeps.
    """
    p, n_left = S.shape[0], 0
    left, objective, reached, n_iter = np.empty(p, dtype=np.int64), 0.0, 0.0, 0
    for i in range(p):
        if not S[i, i] + L[i, i] > 0.0:
            return left, left, left[:0], 0, 0.0, 0.0, 0
    start, column = list_edges(S, L)
    order, first = connected_components(start, column)
    n_components, place = first.size - 1, np.empty(p, dtype=np.int32)

    for c in range(n_components):
        index = order[first[c] : first[c + 1]]
        k = index.size
        if k == 1:
            variance = S[index[0], index[0]] + L[index[0], index[0]]
            T[index[0], index[0]], W[index[0], index[0]] = 1.0 / variance, variance
            objective += np.log(variance) + 1.0
            continue
        sweeps = 0
        if k <= largest and not (warm and k > SMALL):
            scale, logarithms = np.empty(k), 0.0
            for a in range(k):
                place[index[a]] = a
                scale[a] = 1.0 / np.sqrt(S[index[a], index[a]] + L[index[a], index[a]])
                logarithms += np.log(scale[a])
            value, own_gap, sweeps = _solve_component(
                S, L, warm, T0, W0, start, column, place, index, scale, gap * k, min(max_iter, MAX_SWEEPS), T, W, work
            )
            if sweeps > 0:
                objective += value - 2.0 * logarithms
                reached += own_gap
                n_iter = max(n_iter, sweeps)
        if sweeps == 0:
            left[n_left] = c
            n_left += 1
    return order, first, left[:n_left], n_components, objective, reached, n_iter


@njit(error_model="numpy", inline="always")
def _solve_component(  # type: ignore[no-untyped-def]
    S: Array, L: Array, warm: bool, T0: Array, W0: Array, start: Array, column: Array, place: Array, index: Array,
    scale: Array, gap: float, max_iter: int, T: Array, W: Array, work: Array,
):  # fmt: skip
    """Solve one component and put it into T and W; return objective and gap in standard form, and sweeps, or 0."""
    k = index.size
    square = work[: N_SQUARES * k * k].reshape((N_SQUARES, k, k))
    s, penalty, w, scratch, earlier = square[0], square[1], square[2], square[3], square[4]
    neighbour = square[5].view(np.int32)
    variance = np.ones(k)
    _gather_and_shrink(S, L, index, scale, s, penalty, w)
    edges = _edges_among(w, start, column, place, index)

    # a warm start, where its dual matrix is definite in the box
    started, simple, value, reached, sweeps = False, True, 0.0, 0.0, 0
    if warm:
        for a in range(k):
            for c in range(k):
                inside = W0[index[a], index[c]] * (scale[a] * scale[c])
                earlier[a, c] = min(max(inside, s[a, c] - penalty[a, c]), s[a, c] + penalty[a, c])
        if log_determinant(off_diagonal_rows(earlier), variance, scratch, neighbour) > -np.inf:
            for a in range(k):
                for c in range(k):
                    w[a, c] = earlier[a, c]
                    t = T0[index[a], index[c]] * ((1.0 / scale[a]) * (1.0 / scale[c]))
                    earlier[a, c] = t if penalty[a, c] < np.inf else 0.0
            edges = off_diagonal_rows(earlier)
            for a in range(k):
                variance[a] = 1.0 / earlier[a, a]
                for e in range(edges.length[a]):
                    edges.value[a, e] *= -variance[a]
            started = True

    # a cold one, where that is known to be definite or soon found not to be
    if not started:
        if k > SMALL:  # where it is small, a proof takes longer than a sweep that finds out
            n_edges = 0
            for a in range(k):
                n_edges += edges.length[a]
            simple = n_edges <= DEGREE * k and (
                is_dominant(edges, FEW_SCALINGS) or log_determinant(edges, variance, scratch, neighbour) > -np.inf
            )
        for a in range(k):
            for e in range(edges.length[a]):  # without a penalty it is a fit that may have a closed form
                simple = simple and penalty[a, edges.column[a, e]] != 0.0

    if simple:
        value, reached, sweeps, edges = _descend(s, penalty, w, edges, variance, gap, max_iter, scratch, neighbour)
    if sweeps > 0:
        _put_back(w, index, scale, W)
        for a in range(k):
            i = index[a]
            T[i, i] = scale[a] * scale[a] / variance[a]
            for e in range(edges.length[a]):
                c = edges.column[a, e]
                T[i, index[c]] = edges.value[a, e] * (scale[a] * scale[c])
    return value, reached, sweeps


@njit(error_model="numpy", inline="always")
def _descend(  # type: ignore[no-untyped-def]
    s: Array, penalty: Array, w: Array, coefficients: SparseRows, variance: Array, gap: float, max_iter: int,
    scratch: Array, neighbour: Array,
):  # fmt: skip
    """Sweep until the gap is proven, overwriting all but s and penalty; return objective, gap and sweeps, or 0 sweeps.

    Then come the entries of the precision matrix off its diagonal; those on it are the inverses of `variance`.
    """
    tol, target, next_check = LOOSEST, FIRST_CHECK * gap, CHECK_EVERY
    stale, diagonal, fresh = np.empty(variance.size), np.empty(variance.size), FRESH * gap / variance.size
    for a in range(variance.size):
        stale[a] = np.inf
    for n_iter in range(1, max_iter + 1):
        coefficients, increase, definite = sweep_columns(s, penalty, w, coefficients, variance, tol, stale, fresh)
        if not definite:
            return 0.0, 0.0, 0, coefficients
        tol = next_tolerance(increase, variance, LOOSEST)
        if increase > target and n_iter < next_check:
            continue

        # the certificate, as in `sparse_certificate`
        edges = fill_precision(coefficients, variance, scratch)
        for a in range(variance.size):
            diagonal[a] = 1.0 / variance[a]
        logdet = log_determinant(edges, diagonal, scratch, neighbour)
        if logdet == -np.inf:
            return 0.0, 0.0, 0, coefficients
        linear, size, complementarity = linear_terms(s, penalty, w, edges, diagonal)
        square = small_residual_square(w, edges, diagonal, scratch)
        distance = np.sqrt(max(square, 0.0))
        reached = np.inf
        if distance < 1.0:
            bound = square * (0.5 + distance / (3.0 * (1.0 - distance)))  # see `sparse_certificate`
            reached = complementarity + bound + ROUNDING * size

        if reached <= gap:
            return linear - logdet, reached, n_iter, edges
        next_check = n_iter + CHECK_EVERY
        fresh = -1.0  # from here on every column
        target = 0.5 * increase * gap / reached if reached < np.inf else 0.1 * increase
    return 0.0, 0.0, 0, coefficients


@njit(error_model="numpy")
def next_tolerance(increase: float, variance: Array, loosest: float) -> float:
    """Return the tolerance of the next sweep's lassos: a small part of a typical step of the last."""
    smallest = variance[0]
    for a in range(1, variance.size):
        smallest = min(smallest, variance[a])
    tol: float = max(TIGHTEST, min(loosest, 0.03 * np.sqrt(increase / variance.size) * smallest))
    return tol


@njit(error_model="numpy")
def fill_penalty(S: Array, alpha: float, lift: float, L: Array) -> bool:
    """Fill L with alpha, and with `lift` on the diagonal.

    Returns whether S equals its transpose, is finite, and its diagonal plus `lift` is positive.
    """
    p, width = np.uint64(S.shape[0]), np.uint64(TILE)
    x, n_bad = S.ravel(), 0
    for top in range(np.uint64(0), p, width):
        bottom = min(top + width, p)
        for j in range(bottom):
            for i in range(top, bottom):
                n_bad += x[j * p + i] != x[i * p + j]
    for i in range(p):
        for j in range(p):  # without a branch, so that it compiles to vector instructions
            n_bad += abs(S[i, j]) == np.inf
            L[i, j] = alpha
        L[i, i] = lift
        n_bad += not S[i, i] + lift > 0.0
    return n_bad == 0


@njit(error_model="numpy", inline="always")
def list_edges(S: Array, L: Array):  # type: ignore[no-untyped-def]
    """Return the starts of the rows in a list of columns, and the off-diagonal columns where ``|S_ij| > L_ij``."""
    p = S.shape[0]
    start, column = np.zeros(p + 1, dtype=np.int64), np.empty(ROOM * p, dtype=np.int32)
    linked = np.zeros(-(-p // 8) * 8, dtype=np.uint8)
    eight = linked.view(np.uint64)  # most are zero, all at once
    n: int = 0

    for i in range(p):
        for j in range(p):  # without a branch, so that it compiles to vector instructions
            linked[j] = abs(S[i, j]) > L[i, j]
        linked[i] = 0

        if n + p > column.size:
            wider = np.empty(2 * column.size + p, dtype=np.int32)
            for e in range(n):
                wider[e] = column[e]
            column = wider

        for block in range(eight.size):
            if eight[block] == 0:
                continue
            for j in range(8 * block, min(8 * block + 8, p)):
                column[n] = j
                n += linked[j]
        start[i + 1] = n
    return start, column


@njit(error_model="numpy", inline="always")
def connected_components(start: Array, column: Array):  # type: ignore[no-untyped-def]
    """Return the vertices, component after component, each in ascending order, and where every component starts."""
    p = start.size - 1
    label, queue = np.empty(p, dtype=np.int64), np.empty(p, dtype=np.int64)
    for i in range(p):
        label[i] = -1
    first, n_components = np.zeros(p + 1, dtype=np.int64), 0
    for root in range(p):
        if label[root] >= 0:
            continue
        label[root], queue[0] = n_components, root
        head, tail = 0, 1
        while head < tail:
            i = queue[head]
            head += 1
            for e in range(start[i], start[i + 1]):
                j = column[e]
                if label[j] < 0:
                    label[j], queue[tail] = n_components, j
                    tail += 1
        n_components += 1
        first[n_components] = first[n_components - 1] + tail

    vertex, place = queue, first.copy()
    for i in range(p):
        vertex[place[label[i]]] = i
        place[label[i]] += 1
    return vertex, first[: n_components + 1]


@njit(error_model="numpy", inline="always")
def _gather_and_shrink(S: Array, L: Array, index: Array, scale: Array, s: Array, penalty: Array, w: Array) -> None:
    """Fill s and penalty with a component in standard form, and w with the matrix of its box nearest to zero."""
    k, n = np.uint64(index.size), np.uint64(S.shape[0])
    x, most, to = S.ravel(), L.ravel(), index.astype(np.uint64)  # see `_column_kernels`
    for a in range(k):
        row = to[a] * n
        for c in range(k):
            s[a, c], penalty[a, c] = x[row + to[c]], most[row + to[c]]
        for c in range(k):  # without a branch, so that it compiles to vector instructions
            factor = scale[a] * scale[c]
            own, width = s[a, c] * factor, penalty[a, c] * factor
            s[a, c], penalty[a, c] = own, width
            above, below = own - width, own + width
            nearest = above if above > 0.0 else 0.0
            w[a, c] = below if below < 0.0 else nearest
        s[a, a], penalty[a, a], w[a, a] = 1.0, 0.0, 1.0


@njit(error_model="numpy", inline="always")
def _edges_among(w: Array, start: Array, column: Array, place: Array, index: Array) -> SparseRows:
    """Return the entries of w on the edges of a component, which are all that are not zero off its diagonal."""
    k = index.size
    length, width = np.empty(k, dtype=np.int64), NARROW
    for a in range(k):
        length[a] = start[index[a] + 1] - start[index[a]]
        width = max(width, length[a])
    other, value = np.zeros((k, width), dtype=np.int32), np.zeros((k, width))
    for a in range(k):
        for e in range(length[a]):
            c = place[column[start[index[a]] + e]]
            other[a, e], value[a, e] = c, w[a, c]
    return SparseRows(other, value, length)


@njit(error_model="numpy", inline="always")
def _put_back(w: Array, index: Array, scale: Array, W: Array) -> None:
    """Overwrite the entries of W in these rows and columns with those of w, in their own units."""
    k, n = np.uint64(index.size), np.uint64(W.shape[0])
    x, to = W.ravel(), index.astype(np.uint64)  # see `_column_kernels`
    for a in range(k):
        row = to[a] * n
        for c in range(k):
            x[row + to[c]] = w[a, c] * ((1.0 / scale[a]) * (1.0 / scale[c]))
