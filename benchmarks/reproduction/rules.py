"""What ranks the pairs of columns: the rules that the pages compare, all on one sample.

- ``fixed``: the graphical lasso at a given lambda, as the papers have it: penalised entries, covariances.
- ``paper``: the same, with lambda chosen by the drop of the cross-validated covariance error, and a graph with edges
  (Guo et al., app. B.2).
- ``default``: what `dp-learn` does: correlations, two stages or EBIC, entries fitted again without the penalty.
- ``evidence``: what `dp-learn` writes beside its graph for every pair: the desparsified estimate over its noise-aware
  standard error.
- ``neighbourhood``: `dp-learn --estimator neighborhood`: the lasso regression of every column on the others, with the
  penalty sqrt(2 log p) standard errors of a typical entry, noise included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dp_learn import DebiasedNeighborhoodSelection
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import keep_columns
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.inference.edges import score_pairs
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.selection import Selection
from dp_learn.pipeline.settings import Settings

Floats = NDArray[np.float64]
N_FOLDS = 5
EXACT = 1e-10  # edges that are nearly none are the same whatever kernels the linear algebra has


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of all pairs, the larger, the surer, and the graph behind them.

    Attributes
    ----------
    scores : ndarray of shape (p, p)
        0 for pairs with a column that is drowned in noise.
    precision : ndarray of shape (p, p)
        The estimate in data units; zeros where there is none.
    alpha : float
        Its penalty, on the scale of the rule.
    """

    scores: Floats
    precision: Floats
    alpha: float

    @property
    def edges(self) -> NDArray[np.bool_]:
        """The pairs that the graph links, above the diagonal."""
        found: NDArray[np.bool_] = above(self.precision) != 0.0
        return found


def read_rows(noisy: Floats, noise_variance: float, *, folds: bool = False) -> Sample:
    """Return noisy rows as a sample, with the noise subtracted from its covariance."""
    names = [f"x{index}" for index in range(noisy.shape[1])]
    return Sample([table_rows(noisy, names, noise_variance)], n_folds=N_FOLDS if folds else 1)


def rank(sample: Sample, rule: str, alpha: float | None = None) -> Ranking:
    """Rank the pairs of a sample's columns by one of the rules; `fixed` needs alpha."""
    p = len(sample.pooled.columns)
    if rule == "evidence":
        kept, _ = clear_columns(sample.pooled)
        scores = np.zeros((p, p))
        scores[np.ix_(kept, kept)] = score_pairs(keep_columns(sample.pooled, kept))
        return Ranking(scores, np.zeros((p, p)), np.nan)
    if rule == "neighbourhood":
        kept, _ = clear_columns(sample.pooled)
        found = DebiasedNeighborhoodSelection().fit_covariance(keep_columns(sample.pooled, kept), np.zeros(len(kept)))
        precision = np.zeros((p, p))
        precision[np.ix_(kept, kept)] = found.precision_
        return Ranking(np.abs(precision), precision, found.alpha_)

    settings = {
        "fixed": Settings(alpha=alpha, scale="covariance", refit=False, tol=EXACT),
        "paper": Settings(select="mse", scale="covariance", refit=False, solver="cd"),
        "default": Settings(),
    }[rule]
    fit = fit_graph(sample, settings)
    if rule == "paper" and fit.selection is not None:  # descent walks the folds' paths the fastest
        alpha = fit.selection.alpha if above(fit.precision).any() else _alpha_with_edges(fit.selection)
        fit = fit_graph(sample, replace(settings, alpha=alpha, solver="auto"))
    precision = np.zeros((p, p))
    precision[np.ix_(fit.kept, fit.kept)] = fit.precision
    return Ranking(np.abs(precision), precision, fit.solution.alpha)


def _alpha_with_edges(selection: Selection) -> float:
    """Return the largest alpha of a path with edges by which the error has made half of its fall.

    dp-learn returns the empty graph where the fall is within its error; the paper wants a graph with edges.
    """
    gains = selection.scores - selection.scores[0]
    index = int(np.argmax(gains[1:] >= 0.5 * np.nanmax(gains))) + 1
    return float(selection.alphas[index])


def above(matrix: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the entries above the diagonal, row by row."""
    return matrix[np.triu_indices(len(matrix), 1)]


def area_under_curve(truth: NDArray[np.bool_], scores: Floats) -> float:
    """Return the area under the ROC curve of the scores; NaN where all pairs are edges, or none is.

    That is the share of couples of an edge and another pair in which the edge has the larger score, ties counted half.
    """
    n_edges = int(truth.sum())
    n_others = truth.size - n_edges
    if not n_edges or not n_others:
        return np.nan
    ranks = rankdata(above(scores))[truth].sum()
    return float((ranks - n_edges * (n_edges + 1) / 2) / (n_edges * n_others))


def surest(scores: Floats, count: int) -> NDArray[np.bool_]:
    """Return which pairs, above the diagonal, are among the `count` with the largest scores."""
    each = above(scores)
    chosen = np.zeros(each.size, dtype=bool)
    chosen[np.argsort(-each, kind="stable")[:count]] = True
    return chosen
