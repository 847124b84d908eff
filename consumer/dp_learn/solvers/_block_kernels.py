"""Compiled kernels on blocks of a matrix: finding connected components, and taking them out and putting them back.

Legend: S covariance, L penalties (entries may be 0 or inf), W dual matrix, M any matrix.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.kernels import njit

__all__ = ["gather_block", "label_components", "scatter_block", "shrink_into_box"]

Array = np.ndarray


@njit(cache=True, nogil=True)
def label_components(S: Array, L: Array) -> Array:
    """Label the connected components of the graph with an edge wherever ``|S_ij| > L_ij``."""
    p = S.shape[0]
    labels = np.full(p, -1, dtype=np.int64)
    queue = np.empty(p, dtype=np.int64)
    linked = np.zeros(-(-p // 8) * 8, dtype=np.uint8)
    eight = linked.view(np.uint64)  # most are zero, all at once
    n_components = 0
    for root in range(p):
        if labels[root] >= 0:
            continue
        labels[root] = n_components
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            i = queue[head]
            head += 1
            for j in range(p):  # without a branch, so that it compiles to vector instructions
                linked[j] = abs(S[i, j]) > L[i, j]
            for block in range(eight.size):
                if eight[block] == 0:
                    continue
                for j in range(8 * block, 8 * block + 8):
                    if linked[j] and labels[j] < 0:
                        labels[j] = n_components
                        queue[tail] = j
                        tail += 1
        n_components += 1
    return labels


@njit(cache=True, nogil=True)
def gather_block(M: Array, index: Array, scale: Array, out: Array) -> None:
    """Fill `out` with ``scale_i M_ij scale_j`` over the rows and columns in `index`."""
    for a in range(index.size):
        row = M[index[a]]
        for c in range(index.size):
            out[a, c] = row[index[c]] * (scale[a] * scale[c])


@njit(cache=True, nogil=True)
def scatter_block(block: Array, index: Array, scale: Array, M: Array) -> None:
    """Overwrite the entries of M in these rows and columns with ``scale_i block_ij scale_j``."""
    for a in range(index.size):
        row = M[index[a]]
        for c in range(index.size):
            row[index[c]] = block[a, c] * (scale[a] * scale[c])


@njit(cache=True, nogil=True)
def shrink_into_box(S: Array, L: Array, W: Array) -> None:
    """Fill W with the matrix of the box that is nearest to zero."""
    p = W.shape[0]
    for i in range(p):
        for j in range(p):
            nearest = S[i, j] if S[i, j] < L[i, j] else L[i, j]
            W[i, j] = S[i, j] - (nearest if nearest > -L[i, j] else -L[i, j])
