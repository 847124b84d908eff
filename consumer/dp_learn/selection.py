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

import numpy as np
import numpy.typing as npt

from dp_bundle.errors import EstimationError, ParameterError
from dp_learn.moments import Moments, merge_moments
from dp_learn.problem import make_problem
from dp_learn.solvers import solve

__all__ = ["Selection", "alpha_grid", "cross_validate"]

Floats = npt.NDArray[np.float64]
_PATH_TOL = 1e-4  # a score needs fewer digits than an estimate


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
        The path, largest first, and each alpha's score, larger being better; NaN where a fold has no solution.
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
    scores = np.full((len(folds), len(alphas)), np.nan)
    for held_out, fold in enumerate(folds):
        others = [other for index, other in enumerate(folds) if index != held_out]
        train = others[0]
        for other in others[1:]:
            train = merge_moments(train, other)
        scores[held_out] = _path_scores(
            debias(train.covariance), debias(fold.covariance), alphas, solver, penalize_diagonal=penalize_diagonal
        )
    mean = scores.mean(axis=0)
    if np.isnan(mean).all():
        raise EstimationError(
            "no alpha of the path has a solution in every fold: the folds are too small for this noise, give --alpha"
        )
    return Selection(float(alphas[int(np.nanargmax(mean))]), f"{len(folds)}-fold cross-validation", alphas, mean)


def _path_scores(train: Floats, test: Floats, alphas: Floats, solver: str, *, penalize_diagonal: bool) -> Floats:
    scores = np.full(len(alphas), np.nan)
    start = None
    for index, alpha in enumerate(alphas):
        problem = make_problem(train, float(alpha), penalize_diagonal=penalize_diagonal)
        start = solve(problem, solver=solver, tol=_PATH_TOL, start=start)
        if start is None:
            break  # a smaller penalty has none either
        logdet = np.linalg.slogdet(start.precision)[1]
        scores[index] = logdet - np.vdot(test, start.precision)
    return scores
