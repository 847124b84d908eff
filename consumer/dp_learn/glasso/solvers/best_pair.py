"""The best precision matrix and the best dual matrix met so far, which together are the certificate."""

from __future__ import annotations

import numpy as np

from dp_learn.glasso.problem import Problem, Status, objective, rounding_allowance
from dp_learn.glasso.solvers.standard_form import Answer, StandardForm, Start
from dp_learn.matrices.linalg import FloatArray, logdet


class Incumbent:
    """A certified pair that only improves: its halves may come from different iterations.

    Attributes
    ----------
    theta, w : ndarray, shape (p, p)
        Both positive definite, `w` in the box; at first the identity and the start's `w`.
    value, dual_value : float
        The objective at `theta`, and ``logdet w + p``.
    """

    def __init__(self, form: StandardForm, start: Start) -> None:
        self._problem = Problem(form.covariance, form.penalty, 1.0)
        self.theta: FloatArray = np.eye(start.w.shape[0])
        self.w = start.w
        self.value: float = objective(self._problem, self.theta)
        self._rounding = rounding_allowance(self._problem, self.theta)
        self.dual_value: float = logdet(start.w) + start.w.shape[0]

    @property
    def duality_gap(self) -> float:
        """The bound on the error of `value`, rounding included."""
        return self.value - self.dual_value + self._rounding

    def offer_theta(self, theta: FloatArray) -> float:
        """Keep `theta`, which must not be changed afterwards, if its objective is lower; return that objective."""
        value = objective(self._problem, theta)
        if value < self.value:
            self.theta, self.value = theta, value
            self._rounding = rounding_allowance(self._problem, theta)
        return value

    def offer_w(self, w: FloatArray) -> None:
        """Keep `w`, a matrix of the box that must not be changed afterwards, if its determinant is larger."""
        dual_value = logdet(w) + w.shape[0]
        if dual_value > self.dual_value:
            self.w, self.dual_value = w, dual_value

    def answer(self, n_iter: int, status: Status) -> Answer:
        """Return the pair as a solver's answer."""
        return Answer(self.theta, self.w, self.value, self.duality_gap, n_iter, status)
