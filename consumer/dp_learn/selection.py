"""The penalty: a path of alphas, and the rule that chooses on it.

Cross-validation scores each alpha by the Gaussian log-likelihood of the held-out rows, with the noise subtracted from
the held-out covariance as well, so that the score estimates the fit to the rows before the noise:
logdet Theta - tr(S^_test Theta).

References
----------
Friedman, Hastie & Tibshirani (2008), section 4; Guo et al. (2025), appendix B.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from dp_bundle.errors import EstimationError, ParameterError
from dp_learn.moments import Moments, merge_moments
from dp_learn.problem import make_problem
from dp_learn.solution import Solution
from dp_learn.solvers import solve

__all__ = ["Selection", "alpha_grid", "cross_validate"]

Floats = npt.NDArray[np.float64]
_PATH_TOL = 1e-4  # a score needs fewer digits than an estimate
_PATIENCE = 3  # so many alphas in a row without a better score end the path


@dataclass(frozen=True)
class Selection:
    """An alpha and why it was chosen.

    Attributes
    ----------
    alpha : float
        The chosen penalty.
    rule : str
        The name of the rule.
    alphas, scores : ndarray of shape (n_alphas,)
        The path, largest first, and each alpha's score, larger being better; NaN where a fold has no solution, and
        after the path has ended because scores no longer improved.
    """

    alpha: float
    rule: str
    alphas: Floats
    scores: Floats


def alpha_grid(correlation: Floats, n_alphas: int = 20, ratio: float = 0.01) -> Floats:
    """Return alphas from the smallest that empties the graph down to `ratio` of it, evenly spaced in the logarithm."""
    largest = float(np.max(np.abs(correlation - np.diag(np.diagonal(correlation)))))
    if not largest > 0:
        raise EstimationError("no two columns are correlated at all: there is no graph to select")
    return np.geomspace(largest, largest * ratio, n_alphas)


def cross_validate(
    folds: Sequence[Moments],
    debias: Callable[[Floats], Floats],
    alphas: Floats,
    *,
    solver: str = "cd",
    penalize_diagonal: bool = True,
) -> Selection:
    """Choose alpha by K-fold cross-validation on the debiased held-out likelihood.

    Parameters
    ----------
    folds : sequence of Moments
        The rows' folds, at least two.
    debias : callable
        Turns a fold's covariance into the debiased matrix that the estimate will be made from.
    alphas : ndarray of shape (n_alphas,)
        Decreasing; each fold's path is warm-started along it.
    solver, penalize_diagonal
        As in `graphical_lasso`.

    Raises
    ------
    EstimationError
        No alpha has a solution in every fold.
    """
    if len(folds) < 2:
        raise ParameterError("folds", "at least two", len(folds))
    paths = [_HeldOut(folds, index, debias, solver, penalize_diagonal=penalize_diagonal) for index in range(len(folds))]
    scores = np.full(len(alphas), np.nan)
    for index, alpha in enumerate(alphas):
        each = [path.score(float(alpha)) for path in paths]
        if any(score is None for score in each):
            break  # a smaller penalty has no solution either
        scores[index] = np.mean([score for score in each if score is not None])
        if index - int(np.nanargmax(scores)) >= _PATIENCE:
            break
    if np.isnan(scores).all():
        raise EstimationError(
            "no alpha of the path has a solution in every fold: the folds are too small for this noise, give --alpha"
        )
    return Selection(float(alphas[int(np.nanargmax(scores))]), f"{len(folds)}-fold cross-validation", alphas, scores)


class _HeldOut:
    """One fold's path: the other folds are solved for one alpha after the other, each from the last answer."""

    def __init__(
        self,
        folds: Sequence[Moments],
        index: int,
        debias: Callable[[Floats], Floats],
        solver: str,
        *,
        penalize_diagonal: bool,
    ) -> None:
        others = [fold for position, fold in enumerate(folds) if position != index]
        self._train = debias(reduce(merge_moments, others).covariance)
        self._test = debias(folds[index].covariance)
        self._solver, self._penalize_diagonal = solver, penalize_diagonal
        self._last: Solution | None = None

    def score(self, alpha: float) -> float | None:
        """Return the held-out log-likelihood at the next alpha, or None where the other folds have no solution."""
        problem = make_problem(self._train, alpha, penalize_diagonal=self._penalize_diagonal)
        self._last = solve(problem, solver=self._solver, tol=_PATH_TOL, start=self._last)
        if self._last is None:
            return None
        precision = self._last.precision
        return float(np.linalg.slogdet(precision)[1] - np.vdot(self._test, precision))
