"""All sources together: their pooled covariance, the rows that it is worth, and resamples of their rows.

The weight of each source, and the number of rows without noise that all are worth, are on the correlation scale. There
the entry (i, j) is divided by sqrt(S^_ii S^_jj), so that no unit matters.

The first pass over the rows gives the covariance and the folds; subsamples and error bars take one more each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle import Bundle
from dp_bundle.base.errors import EstimationError
from dp_learn.covariance.draws import ErrorLaw
from dp_learn.covariance.estimate import (
    FormErrors,
    NoisyCovariance,
    PooledCovariance,
    ReleasedCovariance,
    combine_sources,
    keep_columns,
)
from dp_learn.covariance.levels import Levels, rare_gaps
from dp_learn.covariance.moments import Moments, merge_moments, row_errors, select_columns, subsample_moments
from dp_learn.covariance.shared_columns import bundle_sources
from dp_learn.covariance.sources import CovarianceSource, RowSource
from dp_learn.covariance.standard_errors import (
    at_least_model,
    clear_variances,
    combine_row_errors,
    entry_variances,
    form_errors,
    mechanism_entry_variances,
    sum_over_pairs,
)
from dp_learn.matrices.linalg import FloatArray, few_threads

DRAWS = 20261127  # the seed: the same release has the same draws


def pool_sources(
    columns: Sequence[str], sources: Sequence[NoisyCovariance | ReleasedCovariance], *, same_rows: bool = False
) -> PooledCovariance:
    """Return the weighted mean of the sources' debiased covariances whose mean squared error is least.

    With r_k the mean over i < j of Var S^_k,ij / (S^_ii S^_jj), the weights are w_k = (1/r_k) / sum_l (1/r_l). For
    releases of the same rows the sampling error is common to all whatever their weights, and r_k is the mechanism's
    part of the variance alone; sources without noise then share all the weight.

    The r_k need a first S^: the mean with weights n_k - 1, or one source alone if more columns stand clear of its
    noise. The mean over i < j leaves out the columns that are drowned in it.

    Parameters
    ----------
    columns : sequence of str
        The columns, the same in every source.
    sources : sequence of NoisyCovariance or ReleasedCovariance
        At least one.
    same_rows : bool
        Whether they are releases of the same rows with independent noise.
    """
    by_rows = combine_sources(columns, sources, [source.n_rows - 1 for source in sources], same_rows=same_rows)
    if len(sources) == 1:
        return by_rows
    alone = [combine_sources(columns, sources, one.tolist(), same_rows=same_rows) for one in np.eye(len(sources))]
    first = max([by_rows, *alone], key=lambda pooled: int(clear_variances(pooled).sum()))
    clear = clear_variances(first)
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


def effective_rows(pooled: PooledCovariance, precision: FloatArray | None = None) -> float:
    """Return the number of rows without noise that would give the entries of S^ the same mean squared error.

    It is ``1 + sum_{i<j} (1 + r_ij^2) / sum_{i<j} Var S^_ij / (S^_ii S^_jj)`` with the correlations r: the number of
    rows itself without noise, and less with it. At a model Theta it is the same of Theta S^ Theta with S^ varying about
    Theta^-1: the rows behind the likelihood of single edges, fewer where the other columns predict one well.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance.
    precision : ndarray of shape (n_features, n_features), optional
        Theta, positive definite, in inverse data units.

    Returns
    -------
    float
        From 1 to the number of rows.
    """
    if precision is not None:
        noiseless, total = sum_over_pairs(pooled, precision)
    else:
        correlation = np.clip(pooled.correlation, -1.0, 1.0)
        p = len(correlation)
        variances = entry_variances(pooled, correlation)
        noiseless = (p * (p - 2) + float(np.vdot(correlation, correlation))) / 2.0
        total = (float(variances.sum()) - float(variances.trace())) / 2.0
    return float(1.0 + noiseless / total)


@dataclass(frozen=True, eq=False)
class Split:
    """One fold held out: two debiased matrices on one scale, both of shape (p, p).

    Attributes
    ----------
    train : ndarray
        Of the other folds' rows.
    test : ndarray
        Of the rows held out.
    """

    train: FloatArray
    test: FloatArray


def draw_splits(pooled: PooledCovariance, n_folds: int) -> list[Split]:
    """Return matrices that vary as those of folds of the rows would, from a released covariance S^ alone.

    Let E_k be errors of the law of S^ whose sum over K folds is zero. Then S^ - sqrt(K - 1) E_k are uncorrelated, each
    with K times the error of S^, and have the mean S^. So have those of K folds of the rows. Each is held out from the
    mean of the others. The error of each is noise and sampling of Gaussian rows.

    References
    ----------
    Rasines & Young (2023), Splitting strategies for post-selection inference, Biometrika 110(3). Oliveira, Lei &
    Tibshirani (2024), Unbiased risk estimation in the normal means problem via coupled bootstrap techniques, Electronic
    Journal of Statistics 18.
    """
    errors = np.array(_draw_errors(pooled, n_folds))
    errors -= errors.mean(axis=0)
    errors *= math.sqrt(n_folds / (n_folds - 1))  # as large as before the mean was subtracted
    tests = [pooled.covariance - math.sqrt(n_folds - 1) * error for error in errors]
    return [Split((n_folds * pooled.covariance - test) / (n_folds - 1), test) for test in tests]


def _draw_errors(pooled: PooledCovariance, count: int) -> list[FloatArray]:
    """Return draws of the error of S^, in data units: sampling of Gaussian rows, times their kurtosis, and noise."""
    return list(ErrorLaw(pooled, pooled.covariance).draws(np.random.default_rng(DRAWS), count))


def read_samples(
    bundles: Sequence[Bundle], make: Callable[[list[RowSource | CovarianceSource]], list[Sample]], **options: Any
) -> tuple[list[Sample], list[str]]:
    """Return the samples made of the sources of bundles without gaps too few to inform, and sentences on those.

    The options are those of `bundle_sources`.
    """
    sources, notes = bundle_sources(bundles, **options)
    samples = make(sources)
    if rare := dict.fromkeys(name for each in samples for name in rare_gaps(each.pooled, each.levels)):
        sources, notes = bundle_sources(bundles, rare=rare, **options)
        samples = make(sources)
    return samples, notes


class Sample:
    """The pooled covariance of all sources, and resamples of it; every covariance is debiased and in data units.

    Parameters
    ----------
    sources : sequence of RowSource or CovarianceSource
        At least one, with the same columns.
    n_folds : int
        How many folds `splits` is to have; 1 for none.
    same_rows : bool
        Whether the sources are releases of the same rows.

    Attributes
    ----------
    moments : list of Moments
        Of every source; of a released covariance the means alone.
    pooled : PooledCovariance
        The pooled covariance and its sources.
    """

    def __init__(
        self, sources: Sequence[RowSource | CovarianceSource], *, n_folds: int = 1, same_rows: bool = False
    ) -> None:
        self.sources = tuple(sources)
        self.n_folds = n_folds
        with few_threads(len(sources[0].columns)):
            self._folds = [source.moments(n_folds) for source in sources]
        self.moments = [reduce(merge_moments, folds) for folds in self._folds]
        described = [source.describe(whole) for source, whole in zip(sources, self.moments, strict=True)]
        self.pooled: PooledCovariance = pool_sources(sources[0].columns, described, same_rows=same_rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle has of it: rows, which are in a bundle, by their moments."""
        each = zip(self.sources, self.moments, self.pooled.sources, strict=True)
        kept = [CovarianceSource(own.columns, moments.mean, known, own.levels) for own, moments, known in each]
        return {**vars(self), "sources": tuple(kept)}

    @property
    def levels(self) -> Levels:
        """What the columns indicate."""
        return self.sources[0].levels

    @property
    def has_rows(self) -> bool:
        """True if any source is rows: else folds and subsamples are drawn from the errors of what was released."""
        return any(isinstance(source, RowSource) for source in self.sources)

    @property
    def location(self) -> FloatArray:
        """The pooled column means."""
        weighted = zip(self.pooled.weights, self.moments, strict=True)
        return np.asarray(sum(weight * moments.mean for weight, moments in weighted))

    def forget_products(self) -> None:
        """Drop the cross products of the rows, as large as the covariance, where there are no folds of them."""
        if all(len(folds) <= 1 for folds in self._folds):
            nothing = np.empty((0, 0))
            self.moments = [replace(each, scatter=nothing) for each in self.moments]
            self._folds = [[replace(fold, scatter=nothing) for fold in folds] for folds in self._folds]

    def splits(self) -> list[Split]:
        """Return each fold's covariance, and that of the other folds; of released covariances as if of folds."""
        self._require_one_kind("held-out rows")
        if not self.has_rows:
            return draw_splits(self.pooled, self.n_folds)
        n_folds = len(self._folds[0])
        if min(fold.n_rows for fold in chain.from_iterable(self._folds)) < 2:
            raise EstimationError(
                f"there are too few rows for {n_folds} folds of at least two: choose alpha by EBIC, or give --alpha"
            )
        splits = []
        for out in range(n_folds):
            others = [reduce(merge_moments, [*folds[:out], *folds[out + 1 :]]) for folds in self._folds]
            splits.append(Split(self._pooled(others), self._pooled([folds[out] for folds in self._folds])))
        return splits

    def subsamples(self, count: int, share: float) -> list[FloatArray]:
        """Return the covariances of random subsamples of a share of the rows, or as if of these, in one more pass."""
        self._require_one_kind("subsamples")
        if not self.has_rows:
            # The covariance of a share of the rows varies about S^ as S^ itself does, times the square of this factor.
            factor = math.sqrt((1.0 - share) / share)
            return [self.pooled.covariance + factor * error for error in _draw_errors(self.pooled, count)]
        drawn = [
            subsample_moments(source.matrices(), len(source.columns), count, share)
            for source in self.sources
            if isinstance(source, RowSource)
        ]
        if any(moments.n_rows < 2 for moments in chain.from_iterable(drawn)):
            raise EstimationError("there are too few rows for subsamples: give --alpha, or choose by another rule")
        return [self._pooled([moments[index] for moments in drawn]) for index in range(count)]

    def row_errors(
        self, pooled: PooledCovariance, kept: npt.NDArray[np.int64], b: FloatArray, *, at_least: bool = True
    ) -> FormErrors:
        """Return the errors of forms of the kept columns, from the rows where there are any, in one more pass.

        For a released covariance they are those of Gaussian rows plus the known noise, and with rows no less. Where an
        event is so rare that no row shows it together with another, the rows' own variance is far too small.

        Parameters
        ----------
        pooled : PooledCovariance
            This sample's, on the kept columns.
        kept : ndarray of int
            Their positions.
        b : ndarray of shape (q, n_kept)
            One form per row.
        at_least : bool
            Whether each is at least that of Gaussian rows; otherwise rows alone tell it, where there are any.
        """
        each = []
        for source, moments, described in zip(self.sources, self.moments, pooled.sources, strict=True):
            if isinstance(source, RowSource):
                whole = len(kept) == len(source.columns)
                batches = source.matrices() if whole else select_columns(source.matrices(), kept)
                known = described.covariance if isinstance(described, NoisyCovariance) else None
                each.append(row_errors(batches, moments.mean[kept], b, known))
            else:
                each.append(form_errors(replace(pooled, sources=(described,), weights=(1.0,), same_rows=False), b))
        combined = combine_row_errors(pooled, b, each)
        return at_least_model(combined, pooled, b) if at_least else combined

    def _require_one_kind(self, wanted: str) -> None:
        if self.has_rows and not all(isinstance(source, RowSource) for source in self.sources):
            raise EstimationError(
                f"rows are pooled with a covariance release, which has none, and this rule needs {wanted} of all: "
                'choose alpha by EBIC (--select auto, or select="auto"), or give alpha'
            )

    def _pooled(self, moments: Sequence[Moments]) -> FloatArray:
        """Return the pooled debiased covariance of one part of every source's rows, at the weights of the whole."""
        described = [source.describe(part) for source, part in zip(self.sources, moments, strict=True)]
        return combine_sources(self.sources[0].columns, described, self.pooled.weights).covariance
