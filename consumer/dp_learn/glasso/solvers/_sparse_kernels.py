"""Compiled kernels on the few entries of a precision matrix: reading, symmetrising, bounding and adding them.

They work on the standard form of the problem (see `standard_form`): C-contiguous float64 arrays, unit diagonal, nothing
validated. Each says what it overwrites.

Legend: T precision matrix, M any matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.matrices.linalg import Array

MAX_SCALINGS = 100
MARGIN = 1.0 - 1e-6  # leaves room for rounding
TINY = 1e-100  # entries below are zero: numbers that underflow in products are slow
PENDING = 8  # rows or columns handled together: as many doubles as a cache line holds


class SparseRows(NamedTuple):
    """Rows of a matrix: row j has `value[j, a]` in column `column[j, a]` for a < length[j]."""

    column: Array
    value: Array
    length: Array


@njit(cache=True, nogil=True, error_model="numpy")
def off_diagonal_rows(M: Array) -> SparseRows:
    """Return the entries of a matrix that are not zero, without the diagonal; places beyond a row's count are zero."""
    p = M.shape[0]
    count, width = np.empty(p, dtype=np.int64), 0
    for i in range(p):
        n = 0
        for j in range(p):  # without a branch, so that it compiles to vector instructions
            n += M[i, j] != 0.0
        count[i] = n - (M[i, i] != 0.0)
        width = max(width, count[i])
    index, value = np.empty((p, width), dtype=np.int32), np.zeros((p, width))
    for i in range(p):
        n, left = 0, count[i]
        for j in range(p):
            if left == 0:
                break
            if M[i, j] != 0.0 and j != i:
                index[i, n], value[i, n] = j, M[i, j]
                n += 1
                left -= 1
    return SparseRows(index, value, count)


@njit(cache=True, nogil=True, error_model="numpy")
def is_dominant(edges: SparseRows, max_scalings: int = MAX_SCALINGS) -> bool:
    """Return whether a scale was found in which the matrix, of unit diagonal, is strictly diagonally dominant.

    That proves it positive definite (Gershgorin). The scale is a power iteration for the leading eigenvector of the
    absolute entries, in which all rows are equally dominant.
    """
    p = edges.length.size
    scale, total = np.ones(p), np.empty(p)
    for _ in range(max_scalings):
        dominant = True
        largest = 0.0
        for i in range(p):
            total[i] = 0.0
            for a in range(edges.length[i]):
                total[i] += abs(edges.value[i, a]) * scale[edges.column[i, a]]
            dominant = dominant and total[i] < MARGIN * scale[i]
            largest = max(largest, total[i] + scale[i])
        if dominant:
            return True
        for i in range(p):
            scale[i] = max((total[i] + scale[i]) / largest, TINY)
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def fill_precision(B: SparseRows, schur: Array, T: Array):  # type: ignore[no-untyped-def]
    """Fill T with the symmetrised precision matrix: an entry is kept where both columns agree on its sign.

    Returns its off-diagonal entries as rows.
    """
    index, value, count = B.column, B.value, B.length
    p = T.shape[0]
    for j in range(p):
        for i in range(p):
            T[j, i] = 0.0
    for j in range(p):
        for a in range(count[j]):
            T[j, index[j, a]] = -value[j, a] / schur[j]
    kept = SparseRows(np.empty(index.shape, np.int32), np.empty(value.shape), np.zeros(p, np.int64))
    for j in range(p):
        T[j, j] = 1.0 / schur[j]
        for a in range(count[j]):
            i = index[j, a]
            t = 0.5 * (T[i, j] + T[j, i]) if T[i, j] * T[j, i] > 0.0 else 0.0
            T[i, j] = t
            T[j, i] = t
            if t != 0.0:
                kept.column[j, kept.length[j]] = i
                kept.value[j, kept.length[j]] = t
                kept.length[j] += 1
    return kept


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def add_multiple(w: Array, b: float, row: Array) -> None:
    """Add ``b row`` to `w`."""
    for i in range(w.size):
        w[i] += b * row[i]
