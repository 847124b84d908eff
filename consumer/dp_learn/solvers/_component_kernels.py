"""Block coordinate descent on every small or sparse component in one compiled loop.

Where a graph falls into many components, most of the time would go into the steps between compiled kernels. Here
components are found, brought into standard form, solved, certified and put back without leaving compiled code, by the
kernels that `block_descent` and `sparse_certificate` use. Whatever is not simple (a dense component of more than
`SMALL` columns, a start that is not positive definite, a lasso solved too loosely, too many sweeps) is left to them.

Legend: S covariance, L penalties (entries may be 0 or inf), W dual matrix, T precision matrix.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.kernels import njit
from dp_learn.solvers._block_kernels import gather_block, label_components, scatter_block
from dp_learn.solvers._certificate_kernels import linear_terms, small_residual_square
from dp_learn.solvers._elimination_kernels import log_determinant_in
from dp_learn.solvers._kernels import sweep_columns, widen
from dp_learn.solvers._sparse_kernels import SparseRows, fill_precision, is_dominant, off_diagonal_rows

__all__ = ["CHECK_EVERY", "FIRST_CHECK", "LOOSEST", "N_SQUARES", "TIGHTEST", "next_tolerance", "solve_components"]

Array = np.ndarray

LOOSEST, TIGHTEST = 1e-2, 1e-14  # tolerance of the lasso of one column
FRESH = 0.3  # gaps a column: where a square residual is below, the next sweep passes over
FIRST_CHECK = 40.0  # gaps: a sweep that gains less is followed by a certificate, as the gap is a hundredth of its gain
CHECK_EVERY = 10  # sweeps between two certificates at the latest
SMALL = 128  # columns of a component that may be dense
DEGREE = 16  # entries a column of a larger one, at most, on average
MAX_SWEEPS = 50
N_SQUARES = 6  # of as many columns as the largest component, to work in
NARROW = 6  # entries a row that there is room for at first
FEW_SCALINGS = 4  # of rows, before a factorisation decides
ROUNDING = 8.0 * 2.0**-52  # relative to the sizes of what is added up, as in `problem`


@njit(cache=True, nogil=True)
def solve_components(  # type: ignore[no-untyped-def]
    S: Array, L: Array, warm: bool, T0: Array, W0: Array, gap: float, largest: int, max_iter: int, T: Array, W: Array,
    work: Array,
):  # fmt: skip
    """Solve what is simple, to a gap of `gap` a column, overwriting its entries of T and W, which are zero.

    T0 and W0 are an earlier answer to start from, if `warm`. Returns the labels of the components, which of them are
    left (more than `largest` columns, or not simple), their number, or 0 where a variance is not positive, the
    objective and the gap of those solved, and the most sweeps.
    """
    p = S.shape[0]
    for i in range(p):
        if not S[i, i] + L[i, i] > 0.0:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), 0, 0.0, 0.0, 0
    labels = label_components(S, L)
    n_components = labels.max() + 1
    first = np.zeros(n_components + 1, dtype=np.int64)
    for i in range(p):
        first[labels[i] + 1] += 1
    for c in range(n_components):
        first[c + 1] += first[c]
    order, n_placed = np.empty(p, dtype=np.int64), np.zeros(n_components, dtype=np.int64)
    for i in range(p):
        order[first[labels[i]] + n_placed[labels[i]]] = i
        n_placed[labels[i]] += 1

    left = np.zeros(n_components, dtype=np.bool_)
    objective, reached, n_iter = 0.0, 0.0, 0
    for c in range(n_components):
        index = order[first[c] : first[c + 1]]
        k = index.size
        if k == 1:
            variance = S[index[0], index[0]] + L[index[0], index[0]]
            T[index[0], index[0]], W[index[0], index[0]] = 1.0 / variance, variance
            objective += np.log(variance) + 1.0
        elif k > largest or (warm and k > SMALL):
            left[c] = True
        else:
            scale = np.empty(k)
            for a in range(k):
                scale[a] = 1.0 / np.sqrt(S[index[a], index[a]] + L[index[a], index[a]])
            value, own_gap, sweeps = _solve_component(
                S, L, warm, T0, W0, index, scale, gap * k, min(max_iter, MAX_SWEEPS), T, W, work
            )
            left[c] = sweeps == 0
            if sweeps > 0:
                objective += value - 2.0 * np.log(scale).sum()
                reached += own_gap
                n_iter = max(n_iter, sweeps)
    return labels, np.flatnonzero(left), n_components, objective, reached, n_iter


@njit(cache=True, nogil=True)
def _solve_component(  # type: ignore[no-untyped-def]
    S: Array, L: Array, warm: bool, T0: Array, W0: Array, index: Array, scale: Array, gap: float, max_iter: int,
    T: Array, W: Array, work: Array,
):  # fmt: skip
    """Solve one component and put it into T and W; return objective and gap in standard form, and sweeps, or 0."""
    k = index.size
    s, penalty, w = _square(work, 0, k), _square(work, 1, k), _square(work, 2, k)
    scratch, start = _square(work, 3, k), _square(work, 4, k)
    neighbour = _square(work, 5, k).view(np.int32)
    variance = np.ones(k)
    edges = _gather_and_shrink(S, L, index, scale, s, penalty, w)
    started = False
    if warm:
        gather_block(W0, index, scale, start)
        start[:] = np.minimum(np.maximum(start, s - penalty), s + penalty)
        if log_determinant_in(off_diagonal_rows(start), variance, scratch, neighbour) > -np.inf:
            w[:] = start
            gather_block(T0, index, 1.0 / scale, start)
            edges = _coefficients(start, penalty, variance)
            started = True
    if not started:
        if k > SMALL and edges.length.sum() > DEGREE * k:
            return 0.0, 0.0, 0
        dominant = k > SMALL and is_dominant(edges, FEW_SCALINGS)  # a small factorisation takes no longer
        if not dominant and log_determinant_in(edges, variance, scratch, neighbour) == -np.inf:
            return 0.0, 0.0, 0
        for a in range(k):
            for e in range(edges.length[a]):
                if penalty[a, edges.column[a, e]] == 0.0:  # an unpenalised fit, which may have a closed form
                    return 0.0, 0.0, 0
    value, reached, sweeps, edges = _descend(s, penalty, w, edges, variance, gap, max_iter, scratch, neighbour)
    if sweeps > 0:
        scatter_block(w, index, 1.0 / scale, W)
        for a in range(k):
            i = index[a]
            T[i, i] = scale[a] * scale[a] / variance[a]
            for e in range(edges.length[a]):
                c = edges.column[a, e]
                T[i, index[c]] = edges.value[a, e] * (scale[a] * scale[c])
    return value, reached, sweeps


@njit(cache=True, nogil=True)
def _square(work: Array, place: int, k: int) -> Array:
    """Return a square array of so many columns in one place of the memory to work in."""
    return work[place * k * k : (place + 1) * k * k].reshape((k, k))


@njit(cache=True, nogil=True)
def _gather_and_shrink(  # type: ignore[no-untyped-def]
    S: Array, L: Array, index: Array, scale: Array, s: Array, penalty: Array, w: Array
):
    """Fill s and penalty with a component in standard form, and w with the matrix of its box nearest to zero.

    Returns the entries of w off its diagonal, row by row.
    """
    k = index.size
    column, value, length = np.empty((k, NARROW), dtype=np.int32), np.zeros((k, NARROW)), np.zeros(k, dtype=np.int64)
    for a in range(k):
        i = index[a]
        for c in range(k):
            j = index[c]
            s[a, c], penalty[a, c] = S[i, j], L[i, j]
        n_edges = _scale_and_shrink(s, penalty, w, scale, a)
        if n_edges > column.shape[1]:
            column, value = widen(column, value, n_edges)
        for c in range(k):
            if length[a] == n_edges:
                break
            if w[a, c] != 0.0 and c != a:
                column[a, length[a]], value[a, length[a]] = c, w[a, c]
                length[a] += 1
    return SparseRows(column, value, length)


@njit(cache=True, nogil=True)
def _scale_and_shrink(s: Array, penalty: Array, w: Array, scale: Array, a: int) -> int:
    """Bring row a into standard form; return how many entries of w, off the diagonal, are not zero."""
    n_nonzero: int = 0
    for c in range(scale.size):  # without a branch, so that it compiles to vector instructions
        factor = scale[a] * scale[c]
        own, most = s[a, c] * factor, penalty[a, c] * factor
        s[a, c], penalty[a, c] = own, most
        above, below = own - most, own + most
        nearest = above if above > 0.0 else 0.0
        shrunk = below if below < 0.0 else nearest
        w[a, c] = shrunk
        n_nonzero += shrunk != 0.0
    n_nonzero -= w[a, a] != 0.0
    s[a, a], penalty[a, a], w[a, a] = 1.0, 0.0, 1.0
    return n_nonzero


@njit(cache=True, nogil=True)
def _coefficients(theta: Array, penalty: Array, variance: Array) -> SparseRows:
    """Return the regression coefficients of a precision matrix, and overwrite the residual variances."""
    k = variance.size
    for a in range(k):
        for c in range(k):
            if penalty[a, c] == np.inf:
                theta[a, c] = 0.0
    edges = off_diagonal_rows(theta)
    for a in range(k):
        variance[a] = 1.0 / theta[a, a]
        for e in range(edges.length[a]):
            edges.value[a, e] *= -variance[a]
    return edges


@njit(cache=True, nogil=True)
def _descend(  # type: ignore[no-untyped-def]
    s: Array, penalty: Array, w: Array, coefficients: SparseRows, variance: Array, gap: float, max_iter: int,
    scratch: Array, neighbour: Array,
):  # fmt: skip
    """Sweep until the gap is proven, overwriting all but s and penalty; return objective, gap and sweeps, or 0 sweeps.

    Then come the entries of the precision matrix off its diagonal; those on it are the inverses of `variance`.
    """
    tol, target, next_check = LOOSEST, FIRST_CHECK * gap, CHECK_EVERY
    stale, fresh = np.full(variance.size, np.inf), FRESH * gap / variance.size
    for n_iter in range(1, max_iter + 1):
        coefficients, increase, definite = sweep_columns(s, penalty, w, coefficients, variance, tol, stale, fresh)
        if not definite:
            return 0.0, 0.0, 0, coefficients
        tol = next_tolerance(increase, variance, LOOSEST)
        if increase > target and n_iter < next_check:
            continue
        edges, diagonal = fill_precision(coefficients, variance, scratch), 1.0 / variance
        logdet = log_determinant_in(edges, diagonal, scratch, neighbour)
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


@njit(cache=True, nogil=True)
def next_tolerance(increase: float, variance: Array, loosest: float) -> float:
    """Return the tolerance of the next sweep's lassos: a small part of a typical step of the last."""
    tol: float = max(TIGHTEST, min(loosest, 0.03 * np.sqrt(increase / variance.size) * variance.min()))
    return tol
