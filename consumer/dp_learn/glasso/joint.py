"""The joint graphical lasso: checks, screening into components, and the certified answer for all periods.

ADMM for several precision matrices that are penalised together, over-relaxed, balanced and accelerated.

    Z <- prox(H),   U <- H - Z                                       exact, entry by entry; Z is what is returned
    X_k <- argmin -logdet X + <S_k, X> + rho/2 ||X - Z_k + U_k||^2   one eigendecomposition a period
    H <- a X + (1 - a) Z + U

In units of the periods' weights the first step is the single graph's. What it subtracts is a subgradient of the
penalties at Z. So ``S_k + rho U_k`` is dual feasible in every step, and the certificate costs nothing.

Several precision matrices that are penalised together: the couplings, the problem and the certificate.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from dp_bundle.base.errors import NoSolutionError, ParameterError
from dp_bundle.base.quoting import Brief
from dp_learn.glasso.admm import Halves, Start, improve
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import ROUNDING, Solution, Status, split_components
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.matrices.checks import align, check_alpha, check_covariance, check_weights, column_labels
from dp_learn.matrices.linalg import Anderson, FloatArray, Places, few_threads, inverse_step, logdet


class Kind(StrEnum):
    """What a coupling penalises: neighbours' differences, their squares, all pairs' differences, or norms of all."""

    FUSED = "fused"
    SMOOTH = "smooth"
    PAIRS = "pairs"
    GROUP = "group"


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
        from dp_learn.glasso._joint_kernels import shrink_chain

        strength = np.divide(self.strength, rho, order="C")
        return _by_rows(shrink_chain, a, c, np.divide(absolute, rho, order="C"), strength, self.squared)

    def values(self, z: FloatArray) -> FloatArray:
        """Return what every entry costs."""
        steps = np.abs(np.diff(z, axis=0))
        costs: FloatArray = (self.strength * (steps * steps / 2.0 if self.squared else steps)).sum(axis=0)
        return costs

    def restrict(self, entries: Places) -> Chain:
        """Return the coupling of some entries."""
        return Chain(self.strength[:, entries], self.squared)


@dataclass(frozen=True, eq=False)
class Pairs:
    """``strength |z_k - z_l|`` of all pairs k < l; strengths (M,)."""

    strength: FloatArray
    is_gauge: bool = True

    def shrink(self, a: FloatArray, c: FloatArray, absolute: FloatArray, rho: float) -> FloatArray:
        """Return the nearest point at this price."""
        from dp_learn.glasso._joint_kernels import shrink_pairs

        return _by_rows(shrink_pairs, a, c, np.divide(absolute, rho, order="C"), self.strength / rho)

    def values(self, z: FloatArray) -> FloatArray:
        """Return what every entry costs."""
        sums = sum((np.abs(z[k] - z[n]) for k, n in combinations(range(len(z)), 2)), np.zeros(z.shape[1]))
        return np.asarray(self.strength * sums)

    def restrict(self, entries: Places) -> Pairs:
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

    def restrict(self, entries: Places) -> Group:
        """Return the coupling of some entries."""
        return Group(self.strength[entries], self.weights)


@dataclass(frozen=True, eq=False)
class Tied:
    """Nothing is penalised: periods of an entry with one number above 0 are equal, and zero where it is 0; (K, M)."""

    ties: Places
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

    def restrict(self, entries: Places) -> Tied:
        """Return the ties of some entries."""
        return Tied(np.ascontiguousarray(self.ties[:, entries]))


Coupling = Chain | Pairs | Group | Tied  # `is_gauge`: linear in multiples, so that its conjugate is zero


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
    def upper(self) -> tuple[Places, Places]:
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
    def ties(self) -> Places:
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


_FORBIDDEN = 1e3  # no entry is worth as much, in units in which variances are about one


def joint_graphical_lasso(
    covariances: ArrayLike,
    alpha: float,
    coupling: float,
    *,
    kind: str = "fused",
    weights: ArrayLike | None = None,
    difference_weights: ArrayLike | None = None,
    period_weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    tol: float = 1e-6,
    max_iter: int = 5000,
    start: JointSolution | None = None,
) -> JointSolution:
    r"""Return the precision matrices of several covariances, which may be indefinite, with a certificate for all.

    .. math:: \min \sum_k n_k \Bigl(-\log\det\Theta_k + \langle S_k, \Theta_k\rangle
              + \alpha \sum_{ij} w_{kij} |\Theta_{kij}|\Bigr) + \beta\, C(\Theta_1, \dots, \Theta_K)

    Parameters
    ----------
    covariances : array, shape (K, p, p)
        Symmetric, in the order of the periods, on a common scale on which variances are about one.
    alpha : float
        Strength of the penalty of every matrix, > 0.
    coupling : float
        Strength beta, from 0 to inf: at 0 each is the single graph, and at inf all are that of the mean.
    kind : {"fused", "smooth", "pairs", "group"}
        C, without the diagonal: the absolute differences of neighbours ``sum v_kij |Theta_kij - Theta_k+1,ij|``, or
        half of their squares. Or the absolute differences of all pairs, or the norm ``sum v_ij sqrt(sum_k n_k
        Theta_kij^2)``.
    weights : array, shape (p, p) or (K, p, p), optional
        w, finite. Ones by default.
    difference_weights : array, shape (p, p), or (K - 1, p, p) of neighbours, optional
        v, finite. Ones by default.
    period_weights : array, shape (K,), optional
        n, positive; divided by their mean.
    penalize_diagonal : bool
        Whether alpha penalises diagonals.
    tol : float
        The answer is optimal once the duality gap is at most ``tol * p * K``.
    max_iter : int
        Most iterations.
    start : JointSolution, optional
        An earlier answer. It changes the time taken, not the optimum.

    Raises
    ------
    NoSolutionError
        The problem is unbounded at this alpha; at its `smallest_alpha` every period has a solution of its own.
    ParameterError
        For an argument that is not allowed.

    References
    ----------
    Danaher, Wang & Witten (2014). Hallac, Park, Boyd & Leskovec (2017).
    """
    s, alpha = check_periods(covariances), check_alpha(alpha)
    n_periods, p = s.shape[:2]
    unit = np.ones((n_periods, p, p)) if weights is None else np.broadcast_to(np.asarray(weights, float), s.shape)
    unit = np.array([check_weights(each, p, penalize_diagonal=penalize_diagonal) for each in unit])
    n = _period_weights(period_weights, n_periods)
    if not (isinstance(coupling, int | float | np.floating) and coupling >= 0.0):
        raise ParameterError("coupling", "a number >= 0, or inf", coupling)
    if kind not in list(Kind):
        raise ParameterError("kind", "one of " + ", ".join(Kind), kind)
    if not np.isfinite(unit).all():
        raise ParameterError("weights", "finite", float(unit.max()))

    if coupling == 0.0:
        found = [
            graphical_lasso(own, alpha, solver="auto", weights=w, tol=tol, max_iter=max_iter)
            for own, w in zip(s, unit, strict=True)
        ]
        return _together(found, n)
    if math.isinf(coupling):
        if kind == Kind.GROUP:
            raise ParameterError("coupling", "finite for a group norm", coupling)
        mean, w = (np.tensordot(n, each, 1) / n_periods for each in (s, unit))
        return _together(
            [graphical_lasso(mean, alpha, solver="auto", weights=w, tol=tol, max_iter=max_iter)] * n_periods, n
        )

    problem = JointProblem(s, alpha * _pack(unit), n, _coupling(kind, coupling, difference_weights, n, p))
    solution = solve_jointly(problem, tol=tol, max_iter=max_iter, start=start)
    if solution is None:
        pairs = zip(s, unit, strict=True)
        raise NoSolutionError(alpha, lambda: max(smallest_solvable_alpha(c, weights=w) for c, w in pairs))
    return solution


def refit_jointly(
    covariances: FloatArray,
    chosen: JointSolution,
    period_weights: FloatArray,
    *,
    squares: FloatArray | None = None,
    tol: float,
    max_iter: int = 500,
) -> JointSolution | None:
    """Return the fit without alpha's penalty on the entries that are not zero, equal where they are fused.

    Parameters
    ----------
    covariances : ndarray, shape (K, p, p)
    chosen : JointSolution
        What says which these are.
    period_weights, tol, max_iter
        As of `joint_graphical_lasso`.
    squares : ndarray, shape (K - 1, p, p), optional
        The strength of the squared differences of neighbours, which then stay, while nothing is fused.

    Returns
    -------
    JointSolution or None
        None where there is no such fit.
    """
    n = _period_weights(period_weights, len(covariances))
    ties = np.ascontiguousarray(_pack(chosen.ties))
    coupling: Coupling = Tied(ties) if squares is None else Chain(np.ascontiguousarray(_pack(squares)), squared=True)
    penalty = np.where((ties == 0) & (squares is not None), _FORBIDDEN, 0.0)
    found = solve_jointly(JointProblem(covariances, penalty, n, coupling), tol=tol, max_iter=max_iter)
    return found if found is not None and found.converged else None


def solve_jointly(
    problem: JointProblem, *, tol: float, max_iter: int, start: JointSolution | None = None
) -> JointSolution | None:
    """Solve a checked problem by its connected components; None if it has no solution."""
    n_periods, p = problem.covariances.shape[:2]
    precisions, duals = np.zeros(problem.covariances.shape), np.zeros(problem.covariances.shape)
    objective, gap, longest, status = 0.0, 0.0, 0, Status.OPTIMAL
    place = np.zeros((p, p), dtype=np.intp)
    place[problem.upper] = np.arange(len(problem.upper[0]))
    with few_threads(p):
        for columns in _components(problem):
            rows, others = np.triu_indices(len(columns))
            entries, block = place[columns[rows], columns[others]], np.ix_(np.arange(n_periods), columns, columns)
            part = JointProblem(
                np.ascontiguousarray(problem.covariances[block]),
                np.ascontiguousarray(problem.penalty[:, entries]),
                problem.weights,
                problem.coupling.restrict(entries),
            )
            best = JointIncumbent(part)
            first = Start(part.entries)
            if start is not None:
                first = Start(part.pack(start.covariances[block]), part.pack(start.precisions[block]))
            n_iter, ended = improve(part, best, first, gap=tol * len(columns) * n_periods, max_iter=max_iter)
            if best.w is None or best.theta is None or ended is Status.NO_SOLUTION:
                return None

            precisions[block], duals[block] = best.theta, best.w
            objective, gap, longest = objective + best.value, gap + best.duality_gap, max(longest, n_iter)
            status = ended if ended is not Status.OPTIMAL else status
    return JointSolution(precisions, duals, objective, gap, longest, status)


def check_periods(covariances: ArrayLike) -> FloatArray:
    """Return the covariances of at least two periods as one symmetric array, by labels in the first one's order."""
    if not isinstance(covariances, np.ndarray) and isinstance(covariances, Sequence) and len(covariances):
        columns = column_labels(covariances[0])
        if columns is not None:
            covariances = [align("covariances", each, columns) for each in covariances]
    s = np.asarray(covariances, dtype=float)
    if s.ndim != 3 or len(s) < 2:
        raise ParameterError("covariances.shape", "(K, p, p) with K >= 2", s.shape)
    return np.array([check_covariance(each) for each in s])


def _components(problem: JointProblem) -> list[Places]:
    """Return the columns of each connected component, and all columns without a link together.

    Zeros between two sets of columns are optimal exactly where the covariances there are within the penalties. That is
    where the nearest point of least penalty is zero.
    """
    shrunk = problem.unpack(problem.shrink(problem.pack(problem.covariances), 1.0))
    parts = split_components(np.any(shrunk != 0.0, axis=0))
    alone = [part for part in parts if len(part) == 1]
    return [part for part in parts if len(part) > 1] + ([np.concatenate(alone)] if alone else [])


def _coupling(kind: str, strength: float, weights: ArrayLike | None, n: FloatArray, p: int) -> Coupling:
    """Return the coupling with its strength in every entry."""
    chain = kind in {Kind.FUSED, Kind.SMOOTH}
    shape = (len(n) - 1, p, p) if chain else (p, p)
    given = np.ones(shape) if weights is None else np.asarray(weights, dtype=float)
    if given.shape not in {shape, (p, p)} or not (np.isfinite(given).all() and (given >= 0.0).all()):
        raise ParameterError("difference_weights", f"finite, not negative, of shape {shape}", given.shape)
    v = strength * np.ascontiguousarray(_pack(np.broadcast_to(given, shape) if chain else given[None]))
    if chain:
        return Chain(v, kind == Kind.SMOOTH)
    if kind == Kind.PAIRS:
        return Pairs(v[0])
    rows, columns = np.triu_indices(p)
    return Group(np.where(rows == columns, 0.0, v[0]), n)


def _pack(matrices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rows, columns = np.triu_indices(matrices.shape[-1])
    packed: npt.NDArray[Any] = matrices[:, rows, columns]
    return packed


def _period_weights(weights: ArrayLike | None, n_periods: int) -> FloatArray:
    n = np.ones(n_periods) if weights is None else np.asarray(weights, dtype=float)
    if n.shape != (n_periods,) or not (np.isfinite(n).all() and (n > 0.0).all()):
        raise ParameterError("period_weights", f"{n_periods} positive numbers", n.tolist())
    scaled: FloatArray = n / n.mean()
    return scaled


def _together(found: list[Solution], n: FloatArray) -> JointSolution:
    """Return single graphs as one solution."""
    return JointSolution(
        np.array([each.precision for each in found]),
        np.array([each.covariance for each in found]),
        float(n @ [each.objective for each in found]),
        float(n @ [each.duality_gap for each in found]),
        max(each.n_iter for each in found),
        next((each.status for each in found if not each.converged), Status.OPTIMAL),
    )
