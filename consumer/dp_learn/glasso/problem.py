"""The penalised problem of entries or of blocks, checked once: its objective, the certificate of an answer, its status.

    minimise  -logdet Theta + <S, Theta> + sum_ij L_ij |Theta_ij|    over positive definite Theta, L = alpha * weights
    maximise   logdet W + p                                         over positive definite W in the box |W - S| <= L

The difference between the two at any feasible pair bounds the error of both, whatever produced them.

Where columns belong together, the problem is one of the blocks of a matrix, the group problem:

    minimise  -logdet Theta + <S, Theta> + sum_{g != h} L_gh ||Theta_gh||_F + sum_i D_i |Theta_ii|
    maximise   logdet W + p    over positive definite W with ||W_gh - S_gh||_F <= L_gh and W_gg = S_gg + diag(D_g)

The first sum counts every pair of nodes twice, as the scalar problem counts both triangles. A node's own block is free
off its diagonal. Where every node is one column this is the problem above.

References
----------
Yuan & Lin (2006), Model selection and estimation in regression with grouped variables, JRSS B 68(1), for the norm.
Banerjee, El Ghaoui and d'Aspremont (2008), eq. 4, for the dual.

Units in which a group penalty does not depend on how the columns of a node were chosen.

A category of m levels may leave any one of them out. The columns with another level left out are an invertible linear
map of these, ``x_g -> A_g x_g``, which changes the norm of a block. Divided by a root of its own covariance, a node is
the same up to a rotation whatever A_g was. Rotations change no Frobenius norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import Brief
from dp_learn.matrices.checks import (
    align,
    check_alpha,
    check_covariance,
    check_free_diagonal,
    check_weights,
    column_labels,
)
from dp_learn.matrices.linalg import FEW, Anderson, FloatArray, Mask, Places, inverse_step, logdet


class Status(StrEnum):
    """The way a solver ended; `message` is a sentence."""

    OPTIMAL = "optimal"
    MAX_ITER = "max_iter"
    STALLED = "stalled"
    NO_SOLUTION = "no_solution"

    @property
    def message(self) -> str:
        """The status as a sentence for people."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.OPTIMAL: "the duality gap proves the estimate optimal within the tolerance",
    Status.MAX_ITER: "the solver used up its iterations before the duality gap fell to the tolerance: raise max_iter, "
    "alpha or tol, or pass this solution as start",
    Status.STALLED: "rounding stopped the solver before the duality gap fell to the tolerance: raise alpha or tol",
    Status.NO_SOLUTION: "no positive definite matrix lies within the penalty of the covariance, so the problem is "
    "unbounded: raise alpha or repair the covariance",
}


@dataclass(frozen=True, eq=False)
class Solution(Brief):
    """The answer to one graphical lasso problem.

    Attributes
    ----------
    precision : ndarray, shape (p, p)
        The estimate: symmetric, positive definite, exactly zero where there is no edge.
    covariance : ndarray, shape (p, p)
        The dual matrix W behind the certificate, positive definite and within the penalty of the input covariance. It
        is the inverse of `precision` up to what the gap allows.
    objective : float
        ``-logdet Theta + <S, Theta> + sum_ij alpha w_ij |Theta_ij|`` at `precision`.
    duality_gap : float
        Objective minus dual value, an upper bound on how much a better estimate could lower the objective.
    n_iter : int
        Sweeps over all columns, or iterations; the most that any connected component took.
    status : Status
        How it ended; `status.message` is the sentence.
    alpha : float
        The penalty.
    solver : str
        The solver's name.
    n_components : int
        Connected components that were solved independently.
    """

    precision: FloatArray
    covariance: FloatArray
    objective: float
    duality_gap: float
    n_iter: int
    status: Status
    alpha: float
    solver: str
    n_components: int

    @property
    def converged(self) -> bool:
        """True if the certificate meets the tolerance."""
        return self.status is Status.OPTIMAL


ROUNDING = 8.0 * 2.0**-52  # relative to the sizes of what is added up, logarithms of determinants included
BOX_TOLERANCE = 1e-10  # a dual matrix this far outside its box, relative to the largest entry, is still rounding


@dataclass(frozen=True, eq=False)
class Problem:
    """A graphical lasso problem that has passed every check.

    Attributes
    ----------
    covariance : ndarray, shape (p, p)
        S, exactly symmetric, possibly indefinite; it may be the caller's, and is only read.
    penalty : ndarray, shape (p, p)
        L = alpha * weights; zero where an entry is free, inf where an edge is forbidden.
    alpha : float
        The penalty's strength.
    """

    covariance: FloatArray
    penalty: FloatArray
    alpha: float
    search_iter: ClassVar[float] = math.inf  # without a definite dual matrix after these, there is no solution

    @property
    def n_features(self) -> int:
        """The number of columns p."""
        return len(self.covariance)

    @property
    def n_nodes(self) -> int:
        """The number of nodes: here the columns."""
        return self.n_features

    @property
    def is_scalar(self) -> bool:
        """True if every node is one column, and a block one entry."""
        return True

    def at(self, alpha: float) -> Problem:
        """Return the problem with a penalty of another strength."""
        return Problem(self.covariance, (alpha / self.alpha) * self.penalty, alpha)

    @property
    def variances(self) -> FloatArray:
        """The diagonal of every dual feasible matrix."""
        variances: FloatArray = self.covariance.diagonal() + self.penalty.diagonal()
        return variances

    @property
    def has_choice(self) -> bool:
        """True if the penalty decides which entries are zero, as any of it is neither zero nor infinite."""
        return bool(((self.penalty > 0.0) & np.isfinite(self.penalty)).any())

    @property
    def entries(self) -> FloatArray:
        """S, as iterations have it."""
        return self.covariance

    @property
    def identity(self) -> FloatArray:
        """What iterations start from where nothing is known."""
        return np.eye(self.n_features)

    @property
    def linked(self) -> Mask:
        """Which nodes a block of S links that is larger than its penalty: others may only be linked through these."""
        linked: Mask = self.norms(self.covariance) > self.penalty
        return linked

    def norms(self, matrix: FloatArray) -> FloatArray:
        """Return the Frobenius norms of a matrix's blocks."""
        return np.abs(matrix)

    def unlinked(self) -> FloatArray:
        """Return the precision matrix without a link."""
        return np.diag(1.0 / self.variances)

    def restrict(self, nodes: Places) -> tuple[Problem, Places]:
        """Return the problem of some nodes, and the positions of their columns."""
        place = np.ix_(nodes, nodes)
        return Problem(self.covariance[place], self.penalty[place], self.alpha), nodes

    def in_even_units(self) -> tuple[Problem, FloatArray]:
        """Return the problem in units in which variances are one, and the columns' factors."""
        d = 1.0 / np.sqrt(self.variances)
        outer = np.outer(d, d)
        s, penalty = self.covariance * outer, self.penalty * outer
        np.fill_diagonal(s, 1.0)
        np.fill_diagonal(penalty, 0.0)
        return Problem(s, penalty, self.alpha), d

    def project(self, w: FloatArray) -> FloatArray:
        """Return the dual feasible matrix nearest to a symmetric one."""
        return np.minimum(np.maximum(w, self.covariance - self.penalty), self.covariance + self.penalty)

    def shrink(self, matrix: FloatArray, rho: float) -> FloatArray:
        """Return the matrix with every block lowered by its penalty over rho, and by no more than to zero."""
        most = self.penalty / rho
        shrunk: FloatArray = matrix - np.clip(matrix, -most, most)
        return shrunk

    def step(self, m: FloatArray, rho: float) -> FloatArray:
        """Return the positive definite X with ``rho X - X^-1 = M``."""
        return inverse_step(m, rho)

    def accelerate(self) -> Anderson:
        """Return what accelerates a fixed-point iteration on matrices."""
        return Anderson(self.n_features)

    def linear_term(self, theta: FloatArray) -> tuple[float, float]:
        """Return ``<S, Theta> + sum L |Theta|``, and the same of absolute values: the size of what is added up.

        Where the first is not positive, multiples of a positive definite Theta lower the objective for ever. Only
        entries that are not zero count: inf times zero is zero here.
        """
        support = np.flatnonzero(theta)
        t, own = theta.ravel()[support], self.covariance.ravel()[support]
        penalties = float(self.penalty.ravel()[support] @ np.abs(t))
        return float(own @ t) + penalties, float(np.abs(own) @ np.abs(t)) + penalties

    def certify(self, theta: FloatArray, w: FloatArray) -> tuple[float, float]:
        """Return the objective at `theta` and its gap to the dual value at `w`, which the caller knows to be feasible.

        Both are inf when `theta` is not positive definite; the gap also when `w` is not. The gap includes what rounding
        may have taken from it: where `theta` is huge, the objective is a small difference of large numbers.
        """
        linear, size = self.linear_term(theta)
        value = linear - logdet(theta)
        logdet_w = logdet(w) if value < math.inf else -math.inf
        return value, value - logdet_w - self.n_features + ROUNDING * size


def make_problem(
    covariance: ArrayLike,
    alpha: float,
    *,
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    groups: Groups | None = None,
) -> Problem:
    """Check everything and return the problem: that of groups unless every node is one column.

    Parameters
    ----------
    covariance : array, shape (p, p)
        Symmetric; it need not be positive definite.
    alpha : float
        Strength of the penalty, > 0.
    weights : array, shape (p, p), optional
        Symmetric and non-negative; 0 leaves an entry free, inf forbids the edge (not on the diagonal).
    penalize_diagonal : bool
        Whether the diagonal of the precision matrix is penalised as well.
    groups : Groups, optional
        The node of every column; weights are then as in `make_group_problem`.

    Raises
    ------
    ParameterError
        Naming the argument, what is allowed and what came.
    """
    if groups is not None and not groups.are_scalar:
        return make_group_problem(covariance, alpha, groups, weights=weights, penalize_diagonal=penalize_diagonal)
    s = check_covariance(covariance, copy=False)
    alpha = check_alpha(alpha)
    columns = None if weights is None else column_labels(covariance)
    penalty = check_weights(weights, s.shape[0], penalize_diagonal=penalize_diagonal, columns=columns)
    check_free_diagonal(s, penalty)
    penalty *= alpha
    return Problem(s, penalty, alpha)


def duality_gap(problem: Problem, theta: FloatArray, w: FloatArray) -> float:
    """Return primal minus dual at a precision matrix and a dual matrix, inf unless both are feasible.

    The gap bounds how far `theta` is from the optimum, ``objective(theta) - optimum <= gap``, and through strong
    convexity its entries: ``||theta - optimum||_F <= sqrt(2 gap) lambda``, lambda the largest eigenvalue in between.

    Parameters
    ----------
    problem : Problem
        Covariance and penalties.
    theta, w : ndarray, shape (p, p)
        A symmetric precision matrix, and a matrix in the box ``|w - S| <= L`` (up to rounding).

    References
    ----------
    Banerjee, El Ghaoui and d'Aspremont (2008), eq. 4.
    """
    slack = BOX_TOLERANCE * float(np.abs(w).max())
    if (np.abs(w - problem.covariance) > problem.penalty + slack).any():
        return math.inf
    return problem.certify(theta, w)[1]


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
    labels: Places

    @property
    def sizes(self) -> Places:
        """The number of columns of each node."""
        return np.bincount(self.labels, minlength=len(self.names))

    @property
    def order(self) -> Places:
        """The columns, those of one node after those of another."""
        return np.argsort(self.labels, kind="stable")

    @property
    def are_scalar(self) -> bool:
        """True if every node is one column."""
        return len(self.names) == len(self.labels)

    def columns(self, node: int) -> Places:
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
    raised : ndarray, shape (p,), or float
        D.
    order : ndarray of int, shape (p,), or None
        The position that every column has among those of the caller; None where that is its own.
    """

    first: Places
    raised: FloatArray | float = 0.0
    order: Places | None = None

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.first)

    def at(self, alpha: float) -> GroupProblem:
        """Return the problem with a penalty of another strength."""
        factor, s = alpha / self.alpha, self.covariance.copy()
        s.ravel()[:: len(s) + 1] += (factor - 1.0) * self.raised
        return replace(self, covariance=s, penalty=factor * self.penalty, alpha=alpha, raised=factor * self.raised)

    @property
    def is_scalar(self) -> bool:
        """True if every node is one column, and a block one entry."""
        return len(self.first) == self.n_features

    @property
    def variances(self) -> FloatArray:
        """The diagonal of every dual feasible matrix."""
        return self.covariance.diagonal()

    @cached_property
    def sizes(self) -> Places:
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

    def restrict(self, nodes: Places) -> tuple[GroupProblem, Places]:
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
    """Check everything and return the problem, its columns in the order of `groups.order`; see `make_problem`.

    Weights have the shape (G, G): off the diagonal of each pair of nodes, on it of the columns' own entries. They are
    by default ``sqrt(k_g k_h)`` for nodes of k_g and k_h columns, and 1 on the diagonal.
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

    order = None if (groups.labels[1:] >= groups.labels[:-1]).all() else groups.order
    s = s.copy(order="C") if order is None else np.ascontiguousarray(s[np.ix_(order, order)])
    diagonal = penalty.diagonal().repeat(sizes)
    if not diagonal.min() > 0.0:
        check_free_diagonal(s, np.diag(diagonal))
    s.ravel()[:: len(s) + 1] += diagonal
    np.fill_diagonal(penalty, 0.0)
    return GroupProblem(s, penalty, alpha, np.concatenate(([0], np.cumsum(sizes)[:-1])), diagonal, order)


def split_components(linked: Mask) -> list[Places]:
    """Return the nodes of each connected component of a graph, given which two are linked, shape (G, G)."""
    if len(linked) <= FEW:  # whose users do without scipy
        linked = linked | np.eye(len(linked), dtype=bool)
        while not np.array_equal(further := linked @ linked, linked):  # twice as far every time
            linked = further
        label = np.unique(linked.argmax(axis=1), return_inverse=True)[1]
    else:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        label = connected_components(csr_array(linked.astype(np.int8)), directed=False)[1].astype(np.intp)
    order = np.argsort(label, kind="stable")
    return np.split(order, np.cumsum(np.bincount(label))[:-1])


SMALLEST = 1e-12  # eigenvalue of a node's own block, relative to its largest


def whiten_nodes(covariance: ArrayLike, groups: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the covariance in which every node's own block is the identity, and the matrix that leads to it.

    With ``R`` block diagonal and ``R_g = S_gg^-1/2``, the covariance becomes ``R S R``. A precision matrix ``Theta``
    found there is ``R Theta R`` in the units of `covariance`, with zeros in the same blocks. For a node of one column
    this is the division by its standard deviation.

    Parameters
    ----------
    covariance : array, shape (p, p)
        Symmetric; only its nodes' own blocks need be positive definite.
    groups : sequence of length p
        The node of each column, by name or number.

    Returns
    -------
    whitened : ndarray, shape (p, p)
        Without unit.
    root : ndarray, shape (p, p)
        R, in one over the units of the columns.

    Raises
    ------
    ParameterError
        Where a node's own block is not positive definite, as where noise exceeds what varies within a category.
    """
    s = check_covariance(covariance)
    nodes = make_groups(groups, len(s))
    root = np.zeros_like(s)
    for node, name in enumerate(nodes.names):
        place = np.ix_(nodes.columns(node), nodes.columns(node))
        values, vectors = np.linalg.eigh(s[place])
        if not values[0] > SMALLEST * values[-1]:  # by its units, as of millions beside their gaps, or by what it is
            unit = np.sqrt(np.maximum(np.diagonal(s[place]), np.finfo(float).tiny))
            alike = s[place] / np.outer(unit, unit)
            if not np.linalg.eigvalsh(alike)[0] > SMALLEST * len(unit):
                allowed = f"a positive definite block for node {name!r}: leave it out, or merge rare levels"
                raise ParameterError("covariance", allowed, f"an eigenvalue of {values[0]:.3g}")
            vectors, roots, _ = np.linalg.svd(unit[:, None] * np.linalg.cholesky(alike))  # whose small values are exact
            values = roots**2
        root[place] = (vectors / np.sqrt(values)) @ vectors.T

    whitened = root @ s @ root
    whitened = (whitened + whitened.T) / 2.0
    own = np.equal.outer(nodes.labels, nodes.labels)
    whitened[own] = np.eye(len(s))[own]
    return whitened, root
