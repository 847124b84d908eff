"""One connected component of the problem in standard form, and the way back.

With ``d_i = (S_ii + L_ii)^(-1/2)`` the problem in ``D^-1 Theta D^-1`` has a dual matrix of unit diagonal: at any
optimum ``W_ii = S_ii + L_ii``, so that penalising the diagonal is only a matter of scale. The duality gap is unchanged,
columns of different units become alike, and solvers know one kind of problem only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_learn.glasso.problem import ROUNDING, Problem, Solution, Status
from dp_learn.matrices.linalg import FloatArray, logdet

ROWS = 32  # multiplied at once, which a cache holds


@dataclass(frozen=True, eq=False)
class StandardForm(Problem):
    """A component with unit diagonal: D S D, D L D with zeros on the diagonal, and the diagonal of D as its `scale`."""

    scale: FloatArray


@dataclass(frozen=True, eq=False)
class Start:
    """The start of a solver: a positive definite matrix in the box, and a precision matrix if one is known."""

    w: FloatArray
    theta: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """A certified pair in standard form: both positive definite, `w` in its box; and who found it, if several might."""

    theta: FloatArray
    w: FloatArray
    objective: float
    duality_gap: float
    n_iter: int
    status: Status
    solvers: tuple[str, ...] = ()


class Incumbent:
    """A certified pair that only improves: its halves may come from different iterations.

    Attributes
    ----------
    theta, w : ndarray, shape (p, p), or None
        Both positive definite, `w` dual feasible; None until one was offered.
    value, dual_value : float
        The objective at `theta`, and ``logdet w + p``.
    unbounded : bool
        True if `theta` proves that there is no lowest objective.
    """

    def __init__(self, problem: Problem, start: Start | None = None) -> None:
        self._problem = problem
        self.theta: FloatArray | None = None
        self.w: FloatArray | None = None
        self.value, self.dual_value, self._rounding, self.unbounded = math.inf, -math.inf, 0.0, False
        if start is not None:
            self.offer_theta(np.eye(problem.n_features))
            self.offer_w(start.w)

    @property
    def duality_gap(self) -> float:
        """The bound on the error of `value`, rounding included."""
        return self.value - self.dual_value + self._rounding

    def offer_theta(self, theta: FloatArray) -> float:
        """Keep `theta`, which must not be changed afterwards, if its objective is lower; return that objective."""
        linear, size = self._problem.linear_term(theta)
        value = linear - logdet(theta)
        if value < self.value:
            self.theta, self.value, self._rounding = theta, value, ROUNDING * size
            self.unbounded = linear <= -ROUNDING * size
        return value

    def offer_w(self, w: FloatArray) -> None:
        """Keep `w`, a dual feasible matrix that must not be changed afterwards, if its determinant is larger."""
        dual_value = logdet(w) + w.shape[0]
        if dual_value > self.dual_value:
            self.w, self.dual_value = w, dual_value

    def answer(self, n_iter: int, status: Status) -> Answer:
        """Return the pair, of which both halves were offered, as a solver's answer."""
        assert self.theta is not None and self.w is not None  # noqa: S101, PT018
        return Answer(self.theta, self.w, self.value, self.duality_gap, n_iter, status)


class Solver(Protocol):
    """The signature of every solver: a function that stops once the duality gap is at most `gap`."""

    def __call__(self, form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
        """Return the best certified pair; `start` is not changed."""
        ...


def standardize(problem: Problem, index: NDArray[np.intp]) -> StandardForm:
    """Return the component with these columns in standard form; ``S_ii + L_ii`` must be positive."""
    scale = 1.0 / np.sqrt(problem.covariance.diagonal()[index] + problem.penalty.diagonal()[index])
    covariance, penalty = (gathered(matrix, index, scale) for matrix in (problem.covariance, problem.penalty))
    np.fill_diagonal(covariance, 1.0)
    np.fill_diagonal(penalty, 0.0)
    return StandardForm(covariance, penalty, problem.alpha, scale)


def restore_units(
    form: StandardForm, answer: Answer, index: NDArray[np.intp], precision: FloatArray, w: FloatArray
) -> None:
    """Overwrite the component's entries of a precision and a dual matrix with the answer, in the problem's own units.

    Where the component is everything, they may be the answer's own matrices.
    """
    for block, scale, matrix in ((answer.theta, form.scale, precision), (answer.w, 1.0 / form.scale, w)):
        whole = index.size == len(matrix)
        for rows in _few_at_once(index.size):
            own = block[rows] * np.multiply.outer(scale[rows], scale)
            matrix[rows if whole else np.ix_(index[rows], index)] = own


def standardize_start(start: Solution, form: StandardForm, index: NDArray[np.intp], *, feasible: bool = False) -> Start:
    """Return an earlier solution in the standard form of this component, its `w` in the box, whether definite or not.

    Where that is known to be `feasible`, it stays as it is.
    """
    w, theta = gathered(start.covariance, index, form.scale), gathered(start.precision, index, 1.0 / form.scale)
    if not feasible:
        np.clip(w, form.covariance - form.penalty, form.covariance + form.penalty, out=w)
        theta[np.isinf(form.penalty)] = 0.0
    return Start(w, theta)


def gathered(matrix: FloatArray, index: NDArray[np.intp], scale: FloatArray) -> FloatArray:
    """Return ``scale_i M_ij scale_j`` of some rows and columns; large ones need no more memory."""
    block = np.empty((index.size, index.size))
    for rows in _few_at_once(index.size):
        own = matrix[rows] if index.size == len(matrix) else matrix.take(index[rows], axis=0).take(index, axis=1)
        np.multiply(own, np.multiply.outer(scale[rows], scale), out=block[rows])
    return block


def _few_at_once(n_rows: int) -> Iterator[slice]:
    return (slice(first, first + ROWS) for first in range(0, n_rows, ROWS))
