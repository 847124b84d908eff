"""Compiled kernels on the regression of every node on the others, and the precision matrix that it stands for.

Legend: S covariance in standard form, L penalties of pairs of nodes, W dual matrix, T precision matrix, C eigenvalues
and Q eigenvectors of the covariances of nodes given the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dp_bundle.base.kernels import njit
from dp_learn.glasso.solvers._node_kernels import eigenpairs
from dp_learn.matrices.linalg import Array


class NodeCoefficients(NamedTuple):
    """The regression of every node on the others; node g has nodes ``near[g, e]``, ``e < degree[g]``, in its own.

    Its rows of `link` are the coefficients times the inverse of its covariance given the others: minus its precision.
    """

    link: Array
    near: Array
    degree: Array
    variance: Array
    basis: Array


@njit(cache=True, nogil=True, error_model="numpy")
def no_coefficients(S: Array, first: Array, width: int) -> NodeCoefficients:
    """Return the regression in which nothing depends on anything; no node has more than `width` columns."""
    p, n_nodes = S.shape[0], first.size - 1
    basis, variance = np.zeros((p, width)), np.empty(p)
    for g in range(n_nodes):
        for j in range(first[g], first[g + 1]):
            basis[j, j - first[g]] = 1.0
            variance[j] = S[j, j]
    near, degree = np.empty((n_nodes, n_nodes), dtype=np.int32), np.zeros(n_nodes, dtype=np.int64)
    return NodeCoefficients(np.zeros((p, p)), near, degree, variance, basis)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
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


@njit(cache=True, nogil=True, error_model="numpy")
def regress_on_precision(t: Array, penalty: Array, first: Array, regression: NodeCoefficients) -> bool:
    """Overwrite the regression with that of a precision matrix; False where its own blocks are not definite."""
    n_nodes = first.size - 1
    for g in range(n_nodes):
        left, k = first[g], first[g + 1] - first[g]
        C, Q, own = regression.variance[left : left + k], regression.basis[left : left + k, :k], np.empty((k, k))
        for c in range(k):
            for j in range(k):
                own[c, j] = t[left + c, left + j]
        if not eigenpairs(own, C, Q):
            return False
        for c in range(k):
            C[c] = 1.0 / C[c]
        regression.degree[g] = 0
        for h in range(n_nodes):
            if h == g or penalty[g, h] == np.inf:
                continue
            zero = True
            for i in range(first[h], first[h + 1]):
                for c in range(k):
                    regression.link[left + c, i] = -t[left + c, i]
                    zero = zero and t[left + c, i] == 0.0
            if not zero:
                regression.near[g, regression.degree[g]] = h
                regression.degree[g] += 1
    return True


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def turn(Q: Array, B: Array, U: Array, begin: int, m: int) -> None:
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
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
