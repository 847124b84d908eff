"""The answer of a solver: an estimate, its certificate, and a status."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dp_learn.matrices.linalg import FloatArray


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
class Solution:
    """The answer to one graphical lasso problem.

    Attributes
    ----------
    precision : ndarray, shape (p, p)
        The estimate: symmetric, positive definite, exactly zero where there is no edge.
    covariance : ndarray, shape (p, p)
        The dual matrix W behind the certificate: positive definite, within the penalty of the input covariance, and
        the inverse of `precision` up to what the gap allows.
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
