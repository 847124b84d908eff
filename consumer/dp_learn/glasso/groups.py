"""Columns that belong together: blocks of a matrix, and the group problem on them.

    minimise  -logdet Theta + <S, Theta> + sum_{g != h} L_gh ||Theta_gh||_F + sum_i D_i |Theta_ii|
    maximise   logdet W + p    over positive definite W with ||W_gh - S_gh||_F <= L_gh and W_gg = S_gg + diag(D_g)

The first sum counts every pair of nodes twice, as the scalar problem counts both triangles, and a node's own block is
free off its diagonal. Where every node is one column this is the problem of `problem`.

References
----------
Yuan & Lin (2006), Model selection and estimation in regression with grouped variables, JRSS B 68(1), for the norm.
Banerjee, El Ghaoui and d'Aspremont (2008), eq. 4, for the dual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_bundle.base.errors import ParameterError
from dp_learn.glasso.problem import Problem
from dp_learn.matrices.checks import check_alpha, check_covariance, check_free_diagonal, check_weights
from dp_learn.matrices.labels import align
from dp_learn.matrices.linalg import FloatArray

IndexArray = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Groups:
    """The nodes that the columns of a matrix belong to.

    Attributes
    ----------
    names : tuple
        The nodes, in the order in which they first come.
    labels : ndarray of int, shape (p,)
        The position in `names` of every column's node.
    """

    names: tuple[Any, ...]
    labels: IndexArray

    @property
    def sizes(self) -> IndexArray:
        """The number of columns of each node."""
        return np.bincount(self.labels, minlength=len(self.names))

    @property
    def order(self) -> IndexArray:
        """The columns, those of one node after those of another."""
        return np.argsort(self.labels, kind="stable")

    @property
    def are_scalar(self) -> bool:
        """True if every node is one column."""
        return len(self.names) == len(self.labels)

    def columns(self, node: int) -> IndexArray:
        """Return the positions of a node's columns."""
        return np.flatnonzero(self.labels == node)


def make_groups(groups: ArrayLike, n_features: int, columns: Sequence[str] | None = None) -> Groups:
    """Return the nodes, given one name or number for each column, by the labels of the columns if it has labels.

    Raises
    ------
    ParameterError
        Unless there is one for each column.
    """
    groups = align("groups", groups, columns)
    listed = groups.tolist() if isinstance(groups, np.ndarray) else groups
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise ParameterError("groups", "one name or number for each column", groups)
    if len(listed) != n_features:
        raise ParameterError("groups", f"the node of each of {n_features} columns", f"{len(listed)} of them")
    try:
        places = {name: place for place, name in enumerate(dict.fromkeys(listed))}
    except TypeError as error:
        raise ParameterError("groups", "one name or number for each column", listed) from error
    return Groups(tuple(places), np.array([places[name] for name in listed], dtype=np.intp))


@dataclass(frozen=True, eq=False)
class GroupProblem(Problem):
    """A group problem that has passed every check, the columns of each node beside each other.

    Attributes
    ----------
    covariance : ndarray, shape (p, p)
        S with the diagonal's penalty D added to it; possibly indefinite.
    penalty : ndarray, shape (G, G)
        L, with a zero diagonal; inf where an edge is forbidden.
    alpha : float
        The penalty's strength.
    first : ndarray of int, shape (G,)
        The first column of each node.
    """

    first: IndexArray

    @property
    def is_scalar(self) -> bool:
        """True if every node is one column, and a block one entry."""
        return len(self.first) == self.n_features

    @property
    def variances(self) -> FloatArray:
        """The diagonal of every dual feasible matrix."""
        return self.covariance.diagonal()

    @cached_property
    def sizes(self) -> IndexArray:
        """The number of columns of each node."""
        return np.diff(np.append(self.first, len(self.covariance)))

    def norms(self, matrix: FloatArray) -> FloatArray:
        """Return the Frobenius norms of a matrix's blocks, shape (G, G)."""
        squares = np.add.reduceat(np.add.reduceat(matrix * matrix, self.first, axis=0), self.first, axis=1)
        norms: FloatArray = np.sqrt(squares)
        return norms

    def unlinked(self) -> FloatArray:
        """Return the precision matrix without a link between nodes."""
        inverse = np.linalg.inv(np.where(self.spread(np.eye(len(self.first), dtype=bool)), self.covariance, 0.0))
        return (inverse + inverse.T) / 2.0

    def spread(self, factors: NDArray[Any]) -> NDArray[Any]:
        """Return a (G, G) matrix as the (p, p) matrix that is constant in every block."""
        return factors.repeat(self.sizes, axis=0).repeat(self.sizes, axis=1)

    def shrink(self, matrix: FloatArray, rho: float) -> FloatArray:
        """Return the matrix with every block's norm lowered by its penalty over rho, and by no more than to zero."""
        step = 1.0 / rho
        norms = self.norms(matrix)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = np.where(self.penalty > 0.0, np.maximum(1.0 - step * self.penalty / norms, 0.0), 1.0)
        kept[norms == 0.0] = 1.0  # of nothing
        kept[np.isinf(self.penalty)] = 0.0
        shrunk: FloatArray = matrix * self.spread(kept) + 0.0  # no negative zeros
        return shrunk

    def project(self, w: FloatArray) -> FloatArray:
        """Return the dual feasible matrix nearest to a symmetric one."""
        excess = w - self.covariance
        norms = self.norms(excess)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(norms > self.penalty, self.penalty / norms, 1.0)
        projected: FloatArray = self.covariance + excess * self.spread(share)
        return projected

    def linear_term(self, theta: FloatArray) -> tuple[float, float]:
        """Return ``<S, Theta> + sum L ||Theta_gh||``, and the same of absolute values.

        Where the first is not positive, multiples of a positive definite Theta lower the objective for ever.
        """
        norms = self.norms(theta)
        used = norms > 0.0
        penalties = float(self.penalty[used] @ norms[used])
        products = self.covariance * theta
        return float(products.sum()) + penalties, float(np.abs(products).sum()) + penalties

    def restrict(self, nodes: IndexArray) -> tuple[GroupProblem, IndexArray]:
        """Return the problem of some nodes, and the positions of their columns."""
        sizes = self.sizes[nodes]
        index = np.concatenate([np.arange(self.first[g], self.first[g] + self.sizes[g]) for g in nodes])
        first = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        place = np.ix_(index, index)
        part = GroupProblem(self.covariance[place], self.penalty[np.ix_(nodes, nodes)], self.alpha, first)
        return part, index

    def in_even_units(self) -> tuple[GroupProblem, FloatArray]:
        """Return the problem in units in which every node's mean variance is one, and the columns' factors.

        One factor for a node leaves its norms what they are.
        """
        variances = np.add.reduceat(self.covariance.diagonal(), self.first) / self.sizes
        d = 1.0 / np.sqrt(variances)
        columns = d.repeat(self.sizes)
        scaled = self.covariance * np.outer(columns, columns)
        return GroupProblem(scaled, self.penalty * np.outer(d, d), self.alpha, self.first), columns


def make_group_problem(
    covariance: ArrayLike,
    alpha: float,
    groups: Groups,
    *,
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
) -> GroupProblem:
    """Check everything and return the problem, its columns in the order of `groups.order`.

    Parameters
    ----------
    covariance : array, shape (p, p)
        Symmetric; it need not be positive definite.
    alpha : float
        Strength of the penalty, > 0.
    groups : Groups
        The node of every column.
    weights : array, shape (G, G), optional
        Symmetric and non-negative; off the diagonal of each pair of nodes, on it of the columns' own entries. By
        default ``sqrt(k_g k_h)`` for nodes of k_g and k_h columns, and 1 on the diagonal.
    penalize_diagonal : bool
        Whether the diagonal of the precision matrix is penalised as well.

    Raises
    ------
    ParameterError
        Naming the argument, what is allowed and what came.
    """
    s, alpha, sizes = check_covariance(covariance, copy=False), check_alpha(alpha), groups.sizes
    if weights is None:  # which needs no check, and of few columns a check takes as long as the solution
        root = np.sqrt(sizes)
        penalty = (alpha * root)[:, None] * root
        np.fill_diagonal(penalty, alpha if penalize_diagonal else 0.0)
    else:
        names = [str(name) for name in groups.names]
        checked = check_weights(weights, len(sizes), penalize_diagonal=penalize_diagonal, columns=names, what="nodes")
        penalty = alpha * checked

    order = groups.order
    diagonal = penalty.diagonal().repeat(sizes)
    s = (
        s.copy(order="C")
        if (groups.labels[1:] >= groups.labels[:-1]).all()
        else np.ascontiguousarray(s[np.ix_(order, order)])
    )
    if not diagonal.min() > 0.0:
        check_free_diagonal(s, np.diag(diagonal))
    s.ravel()[:: len(s) + 1] += diagonal
    np.fill_diagonal(penalty, 0.0)
    return GroupProblem(s, penalty, alpha, np.concatenate(([0], np.cumsum(sizes)[:-1])))
