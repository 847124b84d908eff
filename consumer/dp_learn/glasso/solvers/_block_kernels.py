"""Compiled kernels on blocks of a matrix: finding connected components, and taking them out and putting them back.

Legend: S covariance, L penalties (entries may be 0 or inf), W dual matrix, M any matrix.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.matrices.linalg import Array

TILE = 8  # columns compared with rows at once: as many doubles as a cache line holds
ROOM = 16  # edges a row, for which there is room at first


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
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
            wider[:n] = column[:n]
            column = wider

        for block in range(eight.size):
            if eight[block] == 0:
                continue
            for j in range(8 * block, min(8 * block + 8, p)):
                column[n] = j
                n += linked[j]
        start[i + 1] = n
    return start, column


@njit(cache=True, nogil=True, error_model="numpy")
def connected_components(start: Array, column: Array):  # type: ignore[no-untyped-def]
    """Return the vertices, component after component, each in ascending order, and where every component starts."""
    p = start.size - 1
    label, queue = np.full(p, -1, dtype=np.int64), np.empty(p, dtype=np.int64)
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

    vertex, place = queue, first[:n_components].copy()
    for i in range(p):
        vertex[place[label[i]]] = i
        place[label[i]] += 1
    return vertex, first[: n_components + 1]


@njit(cache=True, nogil=True, error_model="numpy")
def gather_block(M: Array, index: Array, scale: Array, out: Array) -> None:
    """Fill `out` with ``scale_i M_ij scale_j`` over the rows and columns in `index`."""
    for a in range(index.size):
        row = M[index[a]]
        for c in range(index.size):
            out[a, c] = row[index[c]] * (scale[a] * scale[c])
