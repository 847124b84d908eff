"""Stability selection of the penalty (StARS): the densest graph that the sampling error does not shake.

References
----------
Liu, Roeder & Wasserman (2010), Stability approach to regularization selection for high dimensional graphical models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

import numpy as np

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_learn.matrices.linalg import FloatArray
from dp_learn.selection.path import PathOptions, Selection, check_path, choose_alpha, solve_path, why_ended

SPARSE = 0.5  # up to this share of all pairs of columns
LARGEST_SHARE = 0.8  # of the rows, where ten times their root is nearly all of them


def stars_subsample_share(n_effective: float) -> float:
    """Return the share of the rows that a subsample holds: ``10 sqrt(n)`` of n, or 0.8 where that is more.

    n is the number of rows without noise that would fix the correlations as well: noise makes every row worth less,
    and a subsample of the same size as without it would see nothing but sampling error.

    Parameters
    ----------
    n_effective : float
        How many, at least 1; see `effective_rows`.

    References
    ----------
    Liu, Roeder & Wasserman (2010), section 4.
    """
    if not n_effective >= 1.0:
        raise ParameterError("n_effective", "at least 1", n_effective)
    return min(LARGEST_SHARE, 10.0 / math.sqrt(n_effective))


def select_stars(
    subsamples: Sequence[FloatArray],
    alphas: Sequence[float] | FloatArray,
    *,
    threshold: float = 0.05,
    **options: Unpack[PathOptions],
) -> Selection:
    """Choose the smallest alpha at which the graphs of random subsamples agree.

    With theta the share of the subsamples whose graph has an edge, the instability is the mean of
    ``2 theta (1 - theta)`` over all pairs of columns. It is small again where nearly all pairs are edges,
    so the walk ends where it exceeds the threshold and more than half of all pairs are edges. (In the paper it ends as
    soon as the threshold is exceeded. On a few columns that is at the very first alphas, where the true edges appear,
    each in some subsamples before it does in all.)

    Parameters
    ----------
    subsamples : sequence of ndarray, each of shape (p, p)
        Debiased matrices of subsamples of the rows, on one scale; 20 are usual, at least two.
    alphas : sequence of float
        Decreasing, from `alpha_grid` of the whole matrix: at the first the graph of all rows is empty.
    threshold : float
        The most instability, in (0, 0.5); 0.05 in the paper.
    **options
        As of `solve_path`.

    Returns
    -------
    Selection
        Its scores are the instability with the sign turned.

    Raises
    ------
    EstimationError
        Not even the first alpha has a solution in every subsample.

    References
    ----------
    Liu, Roeder & Wasserman (2010), section 3.
    """
    if len(subsamples) < 2:
        raise ParameterError("subsamples", "at least two", len(subsamples))
    if not 0.0 < threshold < 0.5:
        raise ParameterError("threshold", "in (0, 0.5)", threshold)
    alphas = check_path(alphas)

    groups = options.get("groups")
    labels = np.arange(len(subsamples[0])) if groups is None else np.asarray(groups)
    first = np.unique(labels, return_index=True)[1]  # column of each node, as a block is zero as a whole or not at all
    scores, n_edges = np.full(len(alphas), np.nan), np.full(len(alphas), np.nan)
    ended = False

    for index, step in enumerate(zip(*(solve_path(matrix, alphas, **options) for matrix in subsamples), strict=True)):
        graphs = [solution.precision[np.ix_(first, first)] != 0.0 for _, solution in step if solution is not None]
        ended = len(graphs) < len(step)
        if ended:
            break
        shares = np.sum(graphs, axis=0)[np.triu_indices(len(first), 1)] / len(graphs) if len(first) > 1 else np.zeros(1)
        n_edges[index] = shares.sum()
        scores[index] = -float(np.mean(2.0 * shares * (1.0 - shares)))
        if scores[index] < -threshold and shares.mean() > SPARSE:
            break

    if np.isnan(scores[0]):
        raise EstimationError(
            "no alpha of the path has a solution in every subsample: the subsamples are too small for this noise, "
            "give --alpha"
        )

    stable = np.flatnonzero(scores >= -threshold)
    return choose_alpha(
        int(stable[-1]) if stable.size else 0,
        f"the stability of the graph over {len(subsamples)} subsamples (threshold {threshold:g})",
        alphas,
        scores,
        n_edges,
        why_empty="the edges of any larger graph change from subsample to subsample",
        ended=why_ended(subsamples) if ended else None,
    )
