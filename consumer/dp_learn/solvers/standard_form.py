"""One connected component of the problem in standard form, and the way back.

With ``d_i = (S_ii + L_ii)^(-1/2)`` the problem in ``D^-1 Theta D^-1`` has a dual matrix of unit diagonal: at any
optimum ``W_ii = S_ii + L_ii``, so that penalising the diagonal is only a matter of scale. The duality gap is unchanged,
columns of different units become alike, and solvers know one kind of problem only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_learn.linalg import FloatArray
from dp_learn.problem import Problem
from dp_learn.solution import Solution, Status

__all__ = ["Answer", "Solver", "StandardForm", "Start", "standardize", "standardize_start"]


@dataclass(frozen=True, eq=False)
class StandardForm:
    """A component with unit diagonal.

    Attributes
    ----------
    covariance : ndarray, shape (k, k)
        D S D, with ones on the diagonal.
    penalty : ndarray, shape (k, k)
        D L D, with zeros on the diagonal.
    scale : ndarray, shape (k,)
        The diagonal of D.
    """

    covariance: FloatArray
    penalty: FloatArray
    scale: FloatArray

    def restore_precision(self, theta: FloatArray) -> FloatArray:
        """Return a precision matrix in the problem's own units."""
        return theta * np.outer(self.scale, self.scale)  # one product, so that it stays exactly symmetric

    def restore_covariance(self, w: FloatArray) -> FloatArray:
        """Return a dual matrix in the problem's own units."""
        return w / np.outer(self.scale, self.scale)


@dataclass(frozen=True, eq=False)
class Start:
    """Where a solver starts: a positive definite matrix in the box, and a precision matrix if one is known."""

    w: FloatArray
    theta: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """A certified pair in standard form: both positive definite, `w` in its box."""

    theta: FloatArray
    w: FloatArray
    objective: float
    duality_gap: float
    n_iter: int
    status: Status


class Solver(Protocol):
    """What every solver is: a function that stops once the duality gap is at most `gap`."""

    def __call__(self, form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
        """Return the best certified pair; `start` is not changed."""
        ...


def standardize(problem: Problem, index: NDArray[np.intp]) -> StandardForm:
    """Return the component with these columns in standard form; ``S_ii + L_ii`` must be positive."""
    whole = index.size == problem.n_features
    s = problem.covariance if whole else problem.covariance[np.ix_(index, index)]
    penalty = problem.penalty if whole else problem.penalty[np.ix_(index, index)]
    scale = 1.0 / np.sqrt(s.diagonal() + penalty.diagonal())
    outer = np.outer(scale, scale)
    covariance, penalty = s * outer, penalty * outer
    np.fill_diagonal(covariance, 1.0)
    np.fill_diagonal(penalty, 0.0)
    return StandardForm(covariance, penalty, scale)


def standardize_start(start: Solution, form: StandardForm, index: NDArray[np.intp]) -> Start:
    """Return an earlier solution in the standard form of this component; its `w` is not yet known to be feasible."""
    block = np.ix_(index, index)
    outer = np.outer(form.scale, form.scale)
    w = start.covariance[block] * outer
    np.clip(w, form.covariance - form.penalty, form.covariance + form.penalty, out=w)
    theta = np.where(np.isinf(form.penalty), 0.0, start.precision[block] / outer)
    return Start(w, theta)
