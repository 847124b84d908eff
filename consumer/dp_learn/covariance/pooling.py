"""What the errors of the entries decide: how much each source, each penalty and each row counts.

All on the correlation scale, where the entry (i, j) is divided by sqrt(S^_ii S^_jj), so that no unit matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dp_bundle.errors import DrownedColumnError
from dp_bundle.privacy import normal_quantile
from dp_bundle.quoting import quote_name
from dp_learn.covariance.entry_variances import entry_variances, mechanism_entry_variances, unexplained_variances
from dp_learn.covariance.estimate import Evidence, MomentSource, Source, combine_sources, keep_columns
from dp_learn.covariance.pair_sums import sum_over_pairs
from dp_learn.matrices import FloatArray, median_above_diagonal, normal_tails

__all__ = [
    "chance_alpha",
    "clear_columns",
    "effective_rows",
    "null_standard_errors",
    "penalty_weights",
    "pool_sources",
    "typical_errors",
]

CHANCE_EDGES = 0.2  # in four of five tables of unrelated columns there is then none
_BINS = 256


def pool_sources(
    columns: Sequence[str], sources: Sequence[Source | MomentSource], *, same_rows: bool = False
) -> Evidence:
    """Return the weighted mean of the sources' debiased covariances whose mean squared error is least.

    With r_k the mean over i < j of Var S^_k,ij / (S^_ii S^_jj), the weights are w_k = (1/r_k) / sum_l (1/r_l). For
    releases of the same rows the sampling error is common to all whatever their weights, and r_k is the mechanism's
    part of the variance alone; sources without noise then share all the weight. S^ is first taken with weights n_k - 1,
    or from one source if more columns stand clear of its noise, and columns that the noise drowns in it are left out of
    the mean.

    Parameters
    ----------
    columns : sequence of str
        The columns, the same in every source.
    sources : sequence of Source or MomentSource
        At least one.
    same_rows : bool
        Whether they are releases of the same rows with independent noise.

    Raises
    ------
    ParameterError
        The sources do not fit together.
    """
    by_rows = combine_sources(columns, sources, [source.n_rows - 1 for source in sources], same_rows=same_rows)
    if len(sources) == 1:
        return by_rows
    alone = [combine_sources(columns, sources, one.tolist(), same_rows=same_rows) for one in np.eye(len(sources))]
    first = max([by_rows, *alone], key=lambda evidence: int(_is_clear(evidence).sum()))
    clear = _is_clear(first)
    if clear.sum() < 2:
        return first
    shown = keep_columns(first, np.flatnonzero(clear))
    correlation = np.clip(shown.correlation, -1.0, 1.0)
    costs = []
    for source in shown.sources:
        own = replace(shown, sources=(source,), weights=(1.0,))
        found = mechanism_entry_variances(own, correlation) if same_rows else entry_variances(own, correlation)
        costs.append((float(found.sum()) - float(found.trace())) / (len(found) * (len(found) - 1)))
    cost = np.array(costs)
    weights = 1.0 / cost if (cost > 0).all() else (cost == 0).astype(float)
    return combine_sources(columns, sources, weights.tolist(), same_rows=same_rows)


def effective_rows(evidence: Evidence, precision: FloatArray | None = None) -> float:
    """Return the number of rows without noise that would give the entries of S^ the same mean squared error.

    It is ``1 + sum_{i<j} (1 + r_ij^2) / sum_{i<j} Var S^_ij / (S^_ii S^_jj)`` with the correlations r: the number of
    rows itself without noise, and less with it. At a model Theta it is the same of Theta S^ Theta with S^ varying about
    Theta^-1: the rows behind the likelihood of single edges, fewer where the other columns predict one well.

    Parameters
    ----------
    evidence : Evidence
        At least two columns, all with a positive debiased variance.
    precision : ndarray of shape (n_features, n_features), optional
        Theta, positive definite, in inverse data units.

    Returns
    -------
    float
        From 1 to the number of rows.
    """
    if precision is not None:
        noiseless, total = sum_over_pairs(evidence, precision)
    else:
        correlation = np.clip(evidence.correlation, -1.0, 1.0)
        p = len(correlation)
        variances = entry_variances(evidence, correlation)
        noiseless = (p * (p - 2) + float(np.vdot(correlation, correlation))) / 2.0
        total = (float(variances.sum()) - float(variances.trace())) / 2.0
    return float(1.0 + noiseless / total)


def null_standard_errors(evidence: Evidence) -> FloatArray:
    """Return the standard errors of the entries on the correlation scale where the columns are uncorrelated.

    For one source of rows, ``se_ij^2 = (1 + v_i / S^_ii) (1 + v_j / S^_jj) / (n - 1)``; on the diagonal, half of the
    variance's squared error takes its place, which is the same: a scale for penalties.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric, positive.
    """
    variances = entry_variances(evidence)
    np.fill_diagonal(variances, np.diagonal(variances) / 2.0)
    return np.sqrt(variances, out=variances)


def chance_alpha(errors: FloatArray, weights: FloatArray | None = None) -> float:
    """Return the alpha at which chance alone is expected to make a fifth of an edge among unrelated columns.

    The entry (i, j) exceeds alpha w_ij by chance with probability ``2 Phi(-alpha w_ij / se_ij)``, and alpha makes these
    sum to 0.2. For equal errors it is nearly sqrt(2 log m) of them, m the number of pairs: the largest of m errors.

    Parameters
    ----------
    errors : ndarray of shape (n_features, n_features)
        `null_standard_errors`, on the scale of the penalty.
    weights : ndarray of shape (n_features, n_features), optional
        Of the penalty, ones by default; pairs with weight 0 or inf play no part.

    References
    ----------
    Donoho & Johnstone (1994), Ideal spatial adaptation by wavelet shrinkage, Biometrika 81(3).
    """
    penalised = ~np.eye(len(errors), dtype=bool)
    if weights is not None:
        penalised &= (weights > 0.0) & np.isfinite(weights)
        errors = np.divide(errors, weights, out=np.zeros_like(errors), where=penalised)
    each = errors[penalised]
    if not each.size:
        return 0.0
    limits = np.geomspace(each.min(), each.max() * (1.0 + 1e-9), _BINS + 1)
    counts = np.histogram(each, limits)[0] / 2.0  # each pair is there twice
    low, high = 0.0, -normal_quantile(CHANCE_EDGES / each.size) * limits[-1]
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        expected = float(counts @ normal_tails(middle / limits[1:])) * 2.0
        low, high = (middle, high) if expected > CHANCE_EDGES else (low, middle)
    return float(high)


def typical_errors(evidence: Evidence) -> tuple[float, float] | None:
    """Return the median error of a correlation that is zero, as it is and as it would be without the noise.

    None where nothing is known of the noise, or fewer than two columns stand clear of it.
    """
    clear = np.flatnonzero(_is_clear(evidence))
    if not evidence.has_errors or len(clear) < 2:
        return None
    variances = entry_variances(keep_columns(evidence, clear))
    median = median_above_diagonal(variances)
    return math.sqrt(median), math.sqrt(evidence.sampling_factor)


def penalty_weights(evidence: Evidence) -> FloatArray:
    """Return each entry's `null_standard_errors` divided by their median off the diagonal, as weights of the penalty.

    Entries that the noise blurs more are penalised more, in proportion, and a typical entry as before, so that alpha
    keeps its meaning; without noise all weights are 1. The errors are those of uncorrelated columns because what a
    penalty must exceed is the error of an entry that should be zero, and because they depend on the diagonal alone: a
    weight that grew with the estimated correlation would punish an entry for the evidence in its favour.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric, positive.
    """
    errors = null_standard_errors(evidence)
    return errors / median_above_diagonal(errors)


def clear_columns(evidence: Evidence) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return the positions of the columns whose debiased variance is clearly positive, and the names of the others.

    The debiased variance of a column of noise alone has a standard error, for one source v sqrt(2 / (n - 1)) unless the
    noise is discrete: what does not exceed twice that is not positive beyond doubt, and dividing by its root would
    swamp every other column. Such a column is *drowned*.

    Raises
    ------
    DrownedColumnError
        Fewer than two columns are left.
    """
    clear = _is_clear(evidence)
    kept = np.flatnonzero(clear)
    drowned = tuple(name for name, seen in zip(evidence.columns, clear, strict=True) if not seen)
    if len(evidence.columns) < 2:
        raise DrownedColumnError([], "a graph needs at least two columns, and there is one")
    if len(kept) < 2:
        named = ", ".join(map(quote_name, drowned[:8])) + (" and others" if len(drowned) > 8 else "")
        which = "all but one of the columns" if len(kept) else "all columns"
        raise DrownedColumnError(
            list(drowned),
            f"the noise drowns {which} ({named}): their variance is no larger than the noise's; learn from a bundle "
            "with more rows or less noise",
        )
    return kept, drowned


def _is_clear(evidence: Evidence) -> npt.NDArray[np.bool_]:
    """Return which variances are clearly positive.

    Simply positive is enough where the noise does not act entry by entry: nothing is subtracted there.
    """
    variances = np.diagonal(evidence.covariance)
    if not evidence.has_error_law:
        return np.asarray(variances > 0.0)
    return np.asarray(variances > 2.0 * np.sqrt(unexplained_variances(evidence)))
