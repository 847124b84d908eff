"""Compiled kernels on blocks between nodes: their norms, balls around them, and the standard form of a component.

Legend: S covariance with the diagonal's penalty, Q eigenvectors of each node's own block, M any symmetric matrix.
"""

from __future__ import annotations

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.glasso.solvers._sparse_kernels import TINY
from dp_learn.matrices.linalg import Array

MAX_ROUNDS = 30  # of rotations
DIAGONAL, MARGIN = 1e-17, 1e-15  # relative to a block's trace: no rotation is needed, and no eigenvalue is positive


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def block_norms(M: Array, first: Array) -> Array:
    """Return the Frobenius norms of a symmetric matrix's blocks."""
    n_nodes = first.size - 1
    norms = np.zeros((n_nodes, n_nodes))
    for g in range(n_nodes):
        for h in range(g + 1):
            square = 0.0
            for i in range(first[g], first[g + 1]):
                for j in range(first[h], first[h + 1]):
                    square += M[i, j] * M[i, j]
            norms[g, h] = np.sqrt(square)
            norms[h, g] = norms[g, h]
    return norms


@njit(cache=True, nogil=True, error_model="numpy")
def pull_into_balls(s: Array, penalty: Array, first: Array, w: Array) -> None:
    """Move every block of w into its ball around that of s, and a node's own block onto it."""
    for g in range(first.size - 1):
        for h in range(g + 1):
            square = 0.0
            for i in range(first[g], first[g + 1]):
                for j in range(first[h], first[h + 1]):
                    excess = s[i, j] - w[i, j]
                    square += excess * excess
            most = penalty[g, h] if g != h else 0.0
            share = most / np.sqrt(square) if square > most * most else 1.0
            for i in range(first[g], first[g + 1]):
                for j in range(first[h], first[h + 1]):
                    new = w[i, j] if share == 1.0 else s[i, j] - share * (s[i, j] - w[i, j])
                    w[i, j], w[j, i] = new, new


@njit(cache=True, nogil=True, error_model="numpy")
def gather_turned(M: Array, index: Array, factor: Array, first: Array, turn: Array, scratch: Array, out: Array) -> None:
    """Fill `out` with ``F Q' M Q F`` over the rows and columns in `index`; overwrites `scratch`."""
    p = index.size
    for i in range(p):
        row = M[index[i]]
        for j in range(p):
            out[i, j] = row[index[j]] * (factor[i] * factor[j])
    _turn(out, first, turn, True, scratch)
    for i in range(p):
        for j in range(i + 1):
            out[i, j], out[j, i] = scratch[i, j], scratch[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def put_turned_back(m: Array, index: Array, factor: Array, first: Array, turn: Array, scratch: Array, M: Array) -> None:
    """Overwrite the entries of M in these rows and columns with ``F Q m Q' F``; overwrites `m` and `scratch`."""
    p = index.size
    _turn(m, first, turn, False, scratch)
    for i in range(p):
        for j in range(i + 1):
            new = scratch[i, j] * (factor[i] * factor[j])
            M[index[i], index[j]], M[index[j], index[i]] = new, new


@njit(cache=True, nogil=True, error_model="numpy")
def _turn(m: Array, first: Array, turn: Array, forward: bool, out: Array) -> None:
    """Overwrite `out` with ``Q' m Q`` of a symmetric m, or with ``Q m Q'`` unless `forward`; overwrites `m`."""
    p = m.shape[0]
    _turn_rows(m, first, turn, forward, out)
    for i in range(p):
        for j in range(p):
            m[i, j] = out[j, i]
    _turn_rows(m, first, turn, forward, out)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _turn_rows(m: Array, first: Array, turn: Array, forward: bool, out: Array) -> None:
    """Overwrite `out` with ``Q' m``, or with ``Q m`` unless `forward`."""
    p = m.shape[0]
    for g in range(first.size - 1):
        left, k = first[g], first[g + 1] - first[g]
        for c in range(k):
            for e in range(k):
                q = turn[left + e, c] if forward else turn[left + c, e]
                if e == 0:
                    for i in range(p):
                        out[left + c, i] = q * m[left, i]
                else:
                    for i in range(p):
                        out[left + c, i] += q * m[left + e, i]


@njit(cache=True, nogil=True, error_model="numpy")
def own_blocks(S: Array, first: Array, scale: Array, d: Array, Q: Array) -> bool:
    """Overwrite each node's factor, eigenvalues and eigenvectors; False unless all eigenvalues are positive."""
    for g in range(first.size - 1):
        left, k = first[g], first[g + 1] - first[g]
        own, trace = np.empty((k, k)), 0.0
        for c in range(k):
            for j in range(k):
                own[c, j] = S[left + c, left + j]
            trace += own[c, c]
        if not eigenpairs(own, d[left : left + k], Q[left : left + k, :k]):
            return False
        scale[g] = np.sqrt(k / trace)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
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
