"""The start of a solver, its answer, and the certified pair that it improves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dp_learn.glasso.problem import ROUNDING, Problem, Status
from dp_learn.matrices.linalg import FloatArray, logdet


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
