"""Cross-validation: the alpha whose estimate from some rows agrees best with the others.

The noise is subtracted from the held-out matrix as well as from the one that is learnt from, so that either score
estimates the agreement with the rows before the noise.

References
----------
Friedman, Hastie & Tibshirani (2008), Sparse inverse covariance estimation with the graphical lasso, section 4.
Guo et al. (2025), Graph Structure Learning with Privacy Guarantees for Open Graph Data, appendix B.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_learn.covariance.sample import Split
from dp_learn.glasso.problem import Solution
from dp_learn.matrices.linalg import FloatArray, logdet
from dp_learn.selection.path import (
    PathOptions,
    Selection,
    check_path,
    choose_alpha,
    columns_within,
    solve_path,
    why_ended,
)

PATIENCE = 3  # so many alphas in a row without a better score end the walk
SHARP = 0.5  # the share of its whole fall by which the error has dropped sharply
CLEAR = 2.0  # a fall of no more than so many standard errors, over the folds, is none


def cross_validate(
    splits: Sequence[Split],
    alphas: Sequence[float] | FloatArray,
    *,
    score: str = "likelihood",
    patience: int | None = PATIENCE,
    **options: Unpack[PathOptions],
) -> Selection:
    """Choose alpha by the held-out rows.

    ``"likelihood"`` takes the alpha with the largest mean of ``logdet Theta - <S^_test, Theta>``: twice the Gaussian
    log-likelihood a row, up to a constant. A penalty on the diagonal inflates all variances, which would reward
    smaller alphas whatever the edges do: Theta is rescaled to the variances of the training rows first. The rule looks
    for the best fit, which needs more edges than the graph has.

    ``"mse"`` takes the largest alpha by which the mean squared difference between the implied covariance and S^_test,
    over pairs of columns (the penalty merely shifts the diagonal), has made half of its whole fall from the empty graph
    to its minimum; the empty graph, unless that fall exceeds twice its standard error over the folds. Guo et al. choose
    "where the error first drops sharply while the graph still has edges" and define no more; half its height is where
    one locates a smooth step. The steepest single step of the path, the other candidate, depends on how fine the path
    is and on the sampling error of two neighbouring values.

    Parameters
    ----------
    splits : sequence of Split
        One for every fold, at least two.
    alphas : sequence of float
        Decreasing, from `alpha_grid` of the whole matrix: at the first the graph is empty.
    score : {"likelihood", "mse"}
        The rule.
    patience : int or None
        The walk ends once so many alphas in a row have not improved the mean score, since both curves have one hump
        but for sampling error; None walks the whole path.
    **options
        As of `solve_path`; edges between nodes of several columns are counted by entries.

    Returns
    -------
    Selection
        Its scores are means over the folds: the likelihood's as above, and minus the squared difference. An alpha has
        none if it lacks a solution in any fold.

    Raises
    ------
    EstimationError
        Not even the first alpha has a solution in every fold.
    """
    if len(splits) < 2:
        raise ParameterError("splits", "at least two", len(splits))
    if score not in _SCORES:
        raise ParameterError("score", "one of " + ", ".join(_SCORES), score)
    alphas = check_path(alphas, patience)
    within = columns_within(options.get("groups"), len(splits[0].train))
    judge, title = _SCORES[score]

    # all folds' paths at once, until the score stops improving
    by_fold, n_edges = np.full((len(alphas), len(splits)), np.nan), np.full(len(alphas), np.nan)
    best, ended = 0, False
    paths = [solve_path(split.train, alphas, **options) for split in splits]
    for index, step in enumerate(zip(*paths, strict=True)):
        solutions = [solution for _, solution in step if solution is not None]
        ended = len(solutions) < len(splits)
        if ended:
            break
        n_edges[index] = np.mean([np.count_nonzero((each.precision != 0.0) & ~within) // 2 for each in solutions])
        by_fold[index] = [judge(solution, split, within) for solution, split in zip(solutions, splits, strict=True)]
        best = index if by_fold[index].mean() > by_fold[best].mean() else best
        if patience is not None and index - best >= patience:
            break

    scores: FloatArray = by_fold.mean(axis=1)
    if np.isnan(scores[0]):
        raise EstimationError(
            "no alpha of the path has a solution in every fold: the folds are too small for this noise, give --alpha"
        )
    index = int(np.nanargmax(scores))
    return choose_alpha(
        _sharp_drop(by_fold, index) if score == "mse" else index,
        f"{len(splits)}-fold cross-validation of the {title}",
        alphas,
        scores,
        n_edges,
        why_empty="no edge made the estimate agree better with the held-out rows",
        ended=why_ended([split.train for split in splits]) if ended else None,
    )


def _sharp_drop(scores: FloatArray, best: int) -> int:
    """Return the index of the alpha at which the error has made half of its fall from the first alpha to the best."""
    falls = scores[best] - scores[0]
    if falls.mean() <= CLEAR * falls.std(ddof=1) / np.sqrt(falls.size):
        return 0
    return int(np.argmax((scores - scores[0]).mean(axis=1) >= SHARP * falls.mean()))


def _likelihood(solution: Solution, split: Split, _: npt.NDArray[np.bool_]) -> float:
    implied, variance = solution.covariance.diagonal(), split.train.diagonal()
    unit = np.sqrt(implied / np.where(variance > 0.0, variance, implied))  # 1 where the diagonal is not penalised
    precision = solution.precision * np.outer(unit, unit)
    return logdet(precision) - float(np.vdot(split.test, precision))


def _minus_squared_difference(solution: Solution, split: Split, within: npt.NDArray[np.bool_]) -> float:
    difference = solution.covariance - split.test
    squares = float(np.vdot(difference, difference)) - float(np.square(difference[within]).sum())
    return -squares / float(within.size - np.count_nonzero(within))


_SCORES = {
    "likelihood": (_likelihood, "likelihood"),
    "mse": (_minus_squared_difference, "covariance error, at half its fall"),
}
