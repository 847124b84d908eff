"""The alternating direction method of multipliers, for one matrix or several, and problems solved by it alone.

For blocks their norms take the place of absolute values.

    Z <- soft(H, L / rho),   U <- H - Z                       Z is the sparse iterate, which is returned
    X <- argmin -logdet X + <S, X> + rho/2 ||X - Z + U||^2    one eigendecomposition
    H <- a X + (1 - a) Z + U

In every step ``S + rho U`` lies in the box ``|W - S| <= L``: the dual matrix of the certificate costs nothing. The
iteration is a map of H alone, so that Anderson acceleration applies to it. Near the boundary of solvability some
columns of Theta are far larger than others. A change to units in which Theta and W have the same diagonal, made ever
more rarely, lets one rho serve all.

For few nodes it runs in plain numpy. Loading the compiled kernels of the other solvers takes several times as long as a
whole path of such problems, and compiling them a minute. A column is a node of one.

The start of a solver, its answer, and the certified pair that it improves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dp_learn.glasso.problem import ROUNDING, Problem, Status
from dp_learn.matrices.linalg import FloatArray, balancing_factor, is_positive_definite, logdet


@dataclass(frozen=True, eq=False)
class Start:
    """The start of a solver: a positive definite matrix in the box, and a precision matrix if one is known."""

    w: FloatArray
    theta: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """A certified pair: both positive definite, `w` dual feasible; and who found it, if several might."""

    theta: FloatArray
    w: FloatArray
    objective: float
    duality_gap: float
    n_iter: int
    status: Status
    solvers: tuple[str, ...] = ()

    def restored(self, units: FloatArray) -> Answer:
        """Return the answer of a problem in the units that it had before its columns were multiplied by these."""
        outer = np.outer(units, units)
        value = self.objective - 2.0 * float(np.log(units).sum())
        return replace(self, theta=self.theta * outer, w=self.w / outer, objective=value)


class Halves(ABC):
    """A certified pair that only improves: its halves may come from different iterations.

    Attributes
    ----------
    theta, w : ndarray, or None
        Precision matrices and dual matrices, of shape (p, p), or of several periods together; all positive definite,
        `w` dual feasible; None until one was offered.
    value, dual_value : float
        The objective at `theta`, and that of the dual at `w`.
    unbounded : bool
        True if `theta` proves that there is no lowest objective.
    """

    theta: FloatArray | None = None
    w: FloatArray | None = None
    value, dual_value, _rounding, unbounded = math.inf, -math.inf, 0.0, False

    @property
    def duality_gap(self) -> float:
        """The bound on the error of `value`, rounding included."""
        return self.value - self.dual_value + self._rounding

    @abstractmethod
    def offer(self, theta: FloatArray, w: FloatArray) -> None:
        """Offer both halves, as an iteration has them."""


class Incumbent(Halves):
    """The certified pair of one problem; its dual value is ``logdet w + p``."""

    def __init__(self, problem: Problem, start: Start | None = None) -> None:
        self._problem = problem
        if start is not None:
            self.offer_theta(np.eye(problem.n_features))
            self.offer_w(start.w)

    def offer_theta(self, theta: FloatArray) -> None:
        """Keep `theta`, which must not be changed afterwards, if its objective is lower."""
        linear, size = self._problem.linear_term(theta)
        value = linear - logdet(theta)
        if value < self.value:
            self.theta, self.value, self._rounding = theta, value, ROUNDING * size
            self.unbounded = linear <= -ROUNDING * size

    def offer_w(self, w: FloatArray) -> None:
        """Keep `w`, a dual feasible matrix that must not be changed afterwards, if its determinant is larger."""
        dual_value = logdet(w) + w.shape[0]
        if dual_value > self.dual_value:
            self.w, self.dual_value = w, dual_value

    def offer(self, theta: FloatArray, w: FloatArray) -> None:
        """Offer both halves, of which `w` may be outside the blocks' balls."""
        self.offer_theta(theta)
        self.offer_w(w if self._problem.is_scalar else self._problem.project(w))

    def answer(self, n_iter: int, status: Status) -> Answer:
        """Return the pair, of which both halves were offered, as a solver's answer."""
        assert self.theta is not None and self.w is not None  # noqa: S101, PT018
        return Answer(self.theta, self.w, self.value, self.duality_gap, n_iter, status)


class Solver(Protocol):
    """The signature of every solver: a function that stops once the duality gap is at most `gap`."""

    def __call__(self, form: Problem, start: Start, *, gap: float, max_iter: int) -> Answer:
        """Return the best certified pair of a problem of unit variances; `start` is not changed."""
        ...


RELAXATION = 1.6
CHECK_EVERY = 5  # iterations between two certificates
FEW_MORE = 40  # iterations
PATIENCE, LITTLE = 1000, 0.9  # so many iterations must lower the gap by a tenth: rounding stops what does not
BALANCE_EVERY = 10  # iterations between two changes of rho
FIRST_CHANGE_OF_UNITS = 10  # the next at twice as many iterations; blocks stay in those in which nodes are alike
LARGEST = 1e12  # in units in which variances are one
CLOSE = 1e-13  # of a gap for each column, which tells the edges, where a few more iterations come to it
SEARCH_ITER = 500  # for a feasible matrix, where there is no answer


def solve_admm(form: Problem, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the first pair with a duality gap of at most `gap`, or the best one met.

    References
    ----------
    Boyd, Parikh, Chu, Peleato and Eckstein (2011), sections 3.4 and 6.5; Zhang, O'Donoghue and Boyd (2020) for the
    acceleration.
    """
    best = Incumbent(form, start)
    return best.answer(*improve(form, best, start, gap=gap, max_iter=max_iter))


def improve(
    problem: Any,
    best: Halves,
    start: Start,
    *,
    gap: float,
    max_iter: int,
    feasible_only: bool = False,
    close: float = math.inf,
) -> tuple[int, Status]:
    """Improve a certified pair until its gap is reached or no solution exists; return the iterations, and the end.

    It needs no feasible start: in every step ``S + rho U`` is dual feasible, and positive definite before long if there
    is a solution. A problem of several periods has the members of `Problem` that are used here, on entries in place of
    matrices. With `feasible_only` the search ends at the first matrix that is both. A few more iterations may
    bring the gap as `close`.
    """
    anderson, now, s = problem.accelerate(), problem, problem.entries
    outer = np.ones_like(s)  # takes a dual matrix to the units of now
    rho, balance_until, next_change, before, enough = 1.0, max_iter // 2, FIRST_CHANGE_OF_UNITS, math.inf, max_iter

    def change_units(theta: FloatArray, w: FloatArray) -> FloatArray:
        """Go to the units in which both diagonals, given in the present ones, agree; return the factor of W."""
        nonlocal now, s, outer
        root = (theta.diagonal() / w.diagonal()) ** 0.25
        factor: FloatArray = np.outer(root, root)
        s, outer = s * factor, outer * factor
        now = Problem(s, now.penalty * factor, 1.0)
        return factor

    theta, w = start.theta, start.w
    if theta is None:
        theta = problem.identity
    elif problem.is_scalar:
        factor = change_units(theta, w)
        theta, w = theta / factor, w * factor
    h = theta + (w - s) / rho

    for n_iter in range(1, max_iter + 1):
        z = now.shrink(h, rho)
        u = h - z

        if n_iter % CHECK_EVERY == 1 or n_iter == max_iter:
            best.offer(z * outer, (s + rho * u) / outer)
            if best.duality_gap <= gap:
                enough = min(enough, n_iter + FEW_MORE)
                if best.duality_gap <= close or n_iter >= enough:
                    return n_iter, Status.OPTIMAL
            if best.unbounded or (best.w is None and n_iter > problem.search_iter):
                return n_iter, Status.NO_SOLUTION
            if feasible_only and best.w is not None:
                return n_iter, Status.STALLED
        if n_iter % PATIENCE == 0:
            if best.duality_gap > LITTLE * before:
                return n_iter, Status.STALLED
            before = best.duality_gap

        x = now.step(rho * (z - u) - s, rho)
        h = anderson.next_point(h, RELAXATION * x + (1.0 - RELAXATION) * z + u)
        if not np.abs(h).max() < LARGEST:  # which only goes on where there is no solution
            return n_iter, Status.STALLED

        if n_iter % BALANCE_EVERY == 0 and n_iter <= balance_until:
            after = now.shrink(h, rho)
            multiple = balancing_factor(x - z, z, after - z, h - after)
            if problem.is_scalar and n_iter >= next_change:
                next_change *= 2
                factor = change_units(x, s + rho * (h - after))
                h = after / factor + (h - after) * factor
                anderson.forget()
            elif multiple != 1.0:
                rho *= multiple
                h = after + (h - after) / multiple
                anderson.forget()
    return max_iter, Status.MAX_ITER


def solve_at_once(problem: Problem, start: Start | None, *, gap: float, max_iter: int) -> Answer | None:
    """Return the answer of ADMM in units in which nodes are alike; None where no dual matrix was found definite."""
    scaled, units = problem.in_even_units()
    outer = np.outer(units, units)
    if (inverse := _invert(scaled, gap=gap)) is not None:
        return inverse.restored(units)

    best = Incumbent(scaled)
    theta = scaled.unlinked()
    best.offer_theta(theta)
    if start is not None:
        best.offer_w(scaled.project(start.w * outer))
        theta = theta if start.theta is None else start.theta / outer

    close, first = CLOSE * scaled.n_features if scaled.has_choice else math.inf, scaled.covariance
    begin = Start(first if best.w is None else best.w, theta)
    n_iter, status = improve(scaled, best, begin, gap=gap, max_iter=max_iter, close=close)
    if best.w is None and not best.unbounded:  # too few iterations, or no solution
        improve(scaled, best, Start(first, best.theta), gap=0.0, max_iter=SEARCH_ITER, feasible_only=True)
    if best.w is None or best.theta is None or best.unbounded:
        return None
    return best.answer(n_iter, status).restored(units)


def _invert(form: Problem, *, gap: float) -> Answer | None:
    """Return the fit of a problem without any penalty, however nearly singular S is; None of others.

    Its status is `stalled` where rounding alone keeps the gap from being proven: no iteration could do better.
    """
    if form.penalty.any() or not is_positive_definite(form.covariance):
        return None
    theta = np.linalg.inv(form.covariance)
    theta = 0.5 * (theta + theta.T)
    value, reached = form.certify(theta, form.covariance)
    if not np.isfinite(reached):
        return None
    return Answer(theta, form.covariance, value, reached, 1, Status.OPTIMAL if reached <= gap else Status.STALLED)
