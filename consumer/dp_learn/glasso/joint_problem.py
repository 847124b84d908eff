"""Several precision matrices that are penalised together: the couplings, the problem and the certificate.

    minimise  sum_k w_k (-logdet Theta_k + <S_k, Theta_k> + sum_ij L_kij |Theta_kij|) + C(Theta_1, ..., Theta_K)
    maximise  sum_k w_k (logdet W_k + p) - C*(Y)        over W_k = S_k + R_k + Y_k / w_k,  |R_k| <= L_k

C couples the periods of one entry, and C* is its conjugate: zero where Y is feasible, for all but squares. An entry of
all periods is in a column of matrices of shape (K, M), M = p (p + 1) / 2, upper triangle row by row.

References
----------
Danaher, Wang & Witten (2014), The joint graphical lasso for inverse covariance estimation across multiple classes, JRSS
B 76(2). Hallac, Park, Boyd & Leskovec (2017), Network inference via the time-varying graphical lasso, KDD.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dp_bundle.base.quoting import Brief
from dp_learn.glasso.problem import ROUNDING, Status
from dp_learn.glasso.solvers.answers import Halves
from dp_learn.matrices.linalg import Anderson, FloatArray, inverse_step, logdet

Ties = npt.NDArray[np.int64]


class Kind(StrEnum):
    """What a coupling penalises: neighbours' differences, their squares, all pairs' differences, or norms of all."""

    FUSED = "fused"
    SMOOTH = "smooth"
    PAIRS = "pairs"
    GROUP = "group"


class Coupling(Protocol):
    """A penalty on the periods of each entry together with their absolute values."""

    @property
    def is_gauge(self) -> bool:
        """True if it is linear in multiples, so that its conjugate is zero."""

    def shrink(self, a: FloatArray, c: FloatArray, absolute: FloatArray, rho: float) -> FloatArray:
        """Return the z, shape (K, M), of least ``sum c/2 (z - a)^2 + (absolute |z| + C(z)) / rho``, c over rho."""

    def values(self, z: FloatArray) -> FloatArray:
        """Return C of every entry, shape (M,)."""

    def restrict(self, entries: npt.NDArray[np.intp]) -> Coupling:
        """Return the coupling of some entries."""


@dataclass(frozen=True, eq=False)
class Chain:
    """``strength |z_k - z_k+1|`` of neighbours, or half of the strength times its square; strengths (K - 1, M)."""

    strength: FloatArray
    squared: bool = False

    @property
    def is_gauge(self) -> bool:
        """True for differences."""
        return not self.squared

    def shrink(self, a: FloatArray, c: FloatArray, absolute: FloatArray, rho: float) -> FloatArray:
        """Return the nearest point at this price."""
        from dp_learn.glasso.solvers._joint_kernels import shrink_chain

        strength = np.divide(self.strength, rho, order="C")
        return _by_rows(shrink_chain, a, c, np.divide(absolute, rho, order="C"), strength, self.squared)

    def values(self, z: FloatArray) -> FloatArray:
        """Return what every entry costs."""
        steps = np.abs(np.diff(z, axis=0))
        costs: FloatArray = (self.strength * (steps * steps / 2.0 if self.squared else steps)).sum(axis=0)
        return costs

    def restrict(self, entries: npt.NDArray[np.intp]) -> Chain:
        """Return the coupling of some entries."""
        return Chain(self.strength[:, entries], self.squared)


@dataclass(frozen=True, eq=False)
class Pairs:
    """``strength |z_k - z_l|`` of all pairs k < l; strengths (M,)."""

    strength: FloatArray
    is_gauge: bool = True

    def shrink(self, a: FloatArray, c: FloatArray, absolute: FloatArray, rho: float) -> FloatArray:
        """Return the nearest point at this price."""
        from dp_learn.glasso.solvers._joint_kernels import shrink_pairs

        return _by_rows(shrink_pairs, a, c, np.divide(absolute, rho, order="C"), self.strength / rho)

    def values(self, z: FloatArray) -> FloatArray:
        """Return what every entry costs."""
        sums = sum((np.abs(z[k] - z[n]) for k, n in combinations(range(len(z)), 2)), np.zeros(z.shape[1]))
        return np.asarray(self.strength * sums)

    def restrict(self, entries: npt.NDArray[np.intp]) -> Pairs:
        """Return the coupling of some entries."""
        return Pairs(self.strength[entries])


@dataclass(frozen=True, eq=False)
class Group:
    """``strength sqrt(sum_k w_k z_k^2)``; strengths (M,), w the weights of the periods."""

    strength: FloatArray
    weights: FloatArray
    is_gauge: bool = True

    def shrink(self, a: FloatArray, c: FloatArray, absolute: FloatArray, rho: float) -> FloatArray:
        """Return the nearest point at this price; c must be the weights."""
        limit = absolute / (rho * c[:, None])
        kept = a - np.clip(a, -limit, limit)
        norms = np.sqrt(c @ (kept * kept))
        shrunk: FloatArray = kept * np.maximum(1.0 - self.strength / (rho * np.maximum(norms, 1e-300)), 0.0)
        return shrunk

    def values(self, z: FloatArray) -> FloatArray:
        """Return what every entry costs."""
        return self.strength * np.sqrt(self.weights @ (z * z))

    def restrict(self, entries: npt.NDArray[np.intp]) -> Group:
        """Return the coupling of some entries."""
        return Group(self.strength[entries], self.weights)


@dataclass(frozen=True, eq=False)
class Tied:
    """Nothing is penalised: periods of an entry with one number above 0 are equal, and zero where it is 0; (K, M)."""

    ties: Ties
    is_gauge: bool = True

    def shrink(self, a: FloatArray, c: FloatArray, absolute: FloatArray, rho: float) -> FloatArray:  # noqa: ARG002
        """Return the nearest point that is so tied."""
        place = self.ties * a.shape[1] + np.arange(a.shape[1])
        weights = np.broadcast_to(c[:, None], a.shape)
        totals, sizes = (np.bincount(place.ravel(), each.ravel()) for each in (weights * a, weights))
        return np.where(self.ties > 0, totals[place] / sizes[place], 0.0)

    def values(self, z: FloatArray) -> FloatArray:
        """Return nothing."""
        return np.zeros(z.shape[1])

    def restrict(self, entries: npt.NDArray[np.intp]) -> Tied:
        """Return the ties of some entries."""
        return Tied(np.ascontiguousarray(self.ties[:, entries]))


def _by_rows(kernel: Callable[..., None], a: FloatArray, *parameters: object) -> FloatArray:
    """Return what a kernel makes of `a`, in the order of `a`; it takes rows of numbers, so that it is compiled once."""
    out = np.empty(a.shape)
    kernel(np.ascontiguousarray(a), *parameters, out)
    return out if a.flags.c_contiguous else np.asfortranarray(out)


@dataclass(frozen=True, eq=False)
class JointProblem:
    """A problem that has passed every check.

    Attributes
    ----------
    covariances : ndarray, shape (K, p, p)
        S_k, exactly symmetric, possibly indefinite.
    penalty : ndarray, shape (K, M)
        L_k, finite.
    weights : ndarray, shape (K,)
        w_k, positive.
    coupling : Coupling
        C.
    """

    covariances: FloatArray
    penalty: FloatArray
    weights: FloatArray
    coupling: Coupling

    search_iter: ClassVar[int] = 500  # without positive definite dual matrices after these, there is no solution
    is_scalar: ClassVar[bool] = False

    @property
    def n_features(self) -> int:
        """The number of columns p."""
        return int(self.covariances.shape[1])

    @property
    def entries(self) -> FloatArray:
        """S_k, shape (K, M)."""
        return self.pack(self.covariances)

    @property
    def identity(self) -> FloatArray:
        """What iterations start from where nothing is known."""
        return self.pack(np.broadcast_to(np.eye(self.n_features), self.covariances.shape))

    def step(self, m: FloatArray, rho: float) -> FloatArray:
        """Return the positive definite X with ``rho X - X^-1 = M`` of every period."""
        return self.pack(np.array([inverse_step(each, rho) for each in self.unpack(m)]))

    def accelerate(self) -> Anderson:
        """Return what accelerates a fixed-point iteration on entries."""
        return Anderson(1, packed=self.penalty.shape)

    @cached_property
    def upper(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The places of the entries."""
        return np.triu_indices(self.n_features)

    @cached_property
    def counts(self) -> FloatArray:
        """How often each entry is in a matrix: once on the diagonal."""
        return np.where(self.upper[0] == self.upper[1], 1.0, 2.0)

    def pack(self, matrices: FloatArray) -> FloatArray:
        """Return symmetric matrices, shape (K, p, p), as entries, shape (K, M)."""
        return matrices[:, self.upper[0], self.upper[1]]

    def unpack(self, entries: FloatArray) -> FloatArray:
        """Return entries as symmetric matrices."""
        matrices = np.empty((len(entries), self.n_features, self.n_features))
        matrices[:, self.upper[0], self.upper[1]] = entries
        matrices[:, self.upper[1], self.upper[0]] = entries
        return matrices

    def shrink(self, points: FloatArray, rho: float) -> FloatArray:
        """Return the entries of least penalty over rho and half of the weighted squared distance from some points."""
        return self.coupling.shrink(points, self.weights, self.weights[:, None] * self.penalty, rho)

    def linear_term(self, z: FloatArray) -> tuple[float, float]:
        """Return the objective without determinants, and the size of what was added up."""
        traces = self.weights[:, None] * self.pack(self.covariances) * z
        costs = float(self.counts @ (self.weights @ (self.penalty * np.abs(z)) + self.coupling.values(z)))
        return float(traces.sum(axis=0) @ self.counts) + costs, float(np.abs(traces).sum(axis=0) @ self.counts) + costs


@dataclass(frozen=True, eq=False)
class JointSolution(Brief):
    """The answer to a joint problem.

    Attributes
    ----------
    precisions : ndarray, shape (K, p, p)
        Positive definite, exactly zero where there is no edge, and exactly equal where periods are fused.
    covariances : ndarray, shape (K, p, p)
        The dual matrices W_k behind the certificate.
    objective, duality_gap : float
        Of all periods together; the gap bounds how much any others could lower the objective.
    n_iter : int
        Iterations.
    status : Status
        How it ended.
    """

    precisions: FloatArray
    covariances: FloatArray
    objective: float
    duality_gap: float
    n_iter: int
    status: Status

    @property
    def converged(self) -> bool:
        """True if the certificate meets the tolerance."""
        return self.status is Status.OPTIMAL

    @cached_property
    def ties(self) -> Ties:
        """The distinct values of each entry in order of the periods, numbered from 1, and 0 for zero; (K, p, p)."""
        numbers, highest = (
            np.zeros(self.precisions.shape, dtype=np.int64),
            np.zeros(self.precisions.shape[1:], np.int64),
        )
        for k, own in enumerate(self.precisions):
            for earlier in range(k):
                same = (numbers[k] == 0) & (own == self.precisions[earlier])
                numbers[k][same] = numbers[earlier][same]
            fresh = (own != 0.0) & (numbers[k] == 0)
            highest[fresh] += 1
            numbers[k][fresh] = highest[fresh]
        return numbers


class JointIncumbent(Halves):
    """The best half of each kind, of all periods together."""

    def __init__(self, problem: JointProblem) -> None:
        self._problem = problem

    def offer_theta(self, z: FloatArray) -> None:
        """Keep entries if their objective is lower."""
        problem, matrices = self._problem, self._problem.unpack(z)
        determinant = _sum_logdets(matrices, problem.weights)
        if determinant == -math.inf:
            return
        linear, size = problem.linear_term(z)
        if linear - determinant < self.value:
            self.theta, self.value, self._rounding = matrices, linear - determinant, ROUNDING * size
            self.unbounded = problem.coupling.is_gauge and linear <= -ROUNDING * size

    def offer_w(self, w: FloatArray, z: FloatArray) -> None:
        """Keep dual matrices that belong to the shrunk entries z if their dual value is higher."""
        problem = self._problem
        determinant = _sum_logdets(w, problem.weights)
        conjugate = 0.0 if problem.coupling.is_gauge else float(problem.counts @ problem.coupling.values(z))
        value = determinant + problem.n_features * float(problem.weights.sum()) - conjugate
        if value > self.dual_value:
            self.w, self.dual_value = w, value

    def offer(self, z: FloatArray, w: FloatArray) -> None:
        """Offer both halves, as entries."""
        self.offer_theta(z)
        self.offer_w(self._problem.unpack(w), z)


def _sum_logdets(matrices: FloatArray, weights: FloatArray) -> float:
    total = 0.0
    for matrix, weight in zip(matrices, weights.tolist(), strict=True):
        total += weight * logdet(matrix)
        if total == -math.inf:
            break
    return total
