"""All sources together: their pooled covariance, and resamples of their rows.

The first pass over the rows gives the covariance and the folds; subsamples and error bars take one more each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import EstimationError
from dp_learn.covariance.bilinear_forms import FormErrors
from dp_learn.covariance.debias import NoisyCovariance, ReleasedCovariance
from dp_learn.covariance.estimate import PooledCovariance, combine_sources
from dp_learn.covariance.levels import Levels
from dp_learn.covariance.moments import Moments, merge_moments, subsample_moments
from dp_learn.covariance.pooling import pool_sources
from dp_learn.covariance.row_errors import row_errors
from dp_learn.covariance.row_passes import select_columns
from dp_learn.covariance.sources import CovarianceSource, RowSource
from dp_learn.covariance.standard_errors import at_least_model, combine_row_errors, form_errors
from dp_learn.matrices.linalg import FloatArray, few_threads


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
    moments : list of Moments or None
        Of every source that has rows.
    pooled : PooledCovariance
        The pooled covariance and its sources.
    """

    def __init__(
        self, sources: Sequence[RowSource | CovarianceSource], *, n_folds: int = 1, same_rows: bool = False
    ) -> None:
        self.sources = tuple(sources)
        with few_threads(len(sources[0].columns)):
            self._folds = [source.moments(n_folds) if isinstance(source, RowSource) else [] for source in sources]
        self.moments = [reduce(merge_moments, folds) if folds else None for folds in self._folds]
        described = [_describe(source, whole) for source, whole in zip(sources, self.moments, strict=True)]
        self.pooled: PooledCovariance = pool_sources(sources[0].columns, described, same_rows=same_rows)

    @property
    def levels(self) -> Levels:
        """What the columns indicate."""
        return self.sources[0].levels

    @property
    def location(self) -> FloatArray:
        """The pooled column means."""
        means = [_mean_of(source, moments) for source, moments in zip(self.sources, self.moments, strict=True)]
        return np.asarray(sum(weight * mean for weight, mean in zip(self.pooled.weights, means, strict=True)))

    def forget_products(self) -> None:
        """Drop the cross products of the rows, as large as the covariance, where there are no folds of them."""
        if all(len(folds) <= 1 for folds in self._folds):
            nothing = np.empty((0, 0))
            self.moments = [None if each is None else replace(each, scatter=nothing) for each in self.moments]
            self._folds = [[replace(fold, scatter=nothing) for fold in folds] for folds in self._folds]

    def splits(self) -> list[Split]:
        """Return each fold's covariance, and that of the other folds."""
        self._require_rows("held-out rows")
        n_folds = len(self._folds[0])
        smallest = min((fold.n_rows for folds in self._folds for fold in folds), default=0)
        if smallest < 2:
            raise EstimationError(
                f"there are too few rows for {n_folds} folds of at least two: choose alpha by EBIC, or give --alpha"
            )
        splits = []
        for held_out in range(n_folds):
            others = [
                reduce(merge_moments, [fold for index, fold in enumerate(folds) if index != held_out])
                for folds in self._folds
            ]
            splits.append(Split(self._pooled(others), self._pooled([folds[held_out] for folds in self._folds])))
        return splits

    def subsamples(self, count: int, share: float) -> list[FloatArray]:
        """Return the covariances of random subsamples of a share of the rows, in one more pass."""
        self._require_rows("subsamples of the rows")
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

        For a released covariance they are those of Gaussian rows plus the known noise, and with rows no less: where an
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
        for index, (source, moments) in enumerate(zip(self.sources, self.moments, strict=True)):
            if isinstance(source, RowSource) and moments is not None:
                whole = len(kept) == len(source.columns)
                batches = source.matrices() if whole else select_columns(source.matrices(), kept)
                described = pooled.sources[index]
                known = described.covariance if isinstance(described, NoisyCovariance) else None
                each.append(row_errors(batches, moments.mean[kept], b, known))
            else:
                alone = replace(pooled, sources=(pooled.sources[index],), weights=(1.0,), same_rows=False)
                each.append(form_errors(alone, b))
        combined = combine_row_errors(pooled, b, each)
        return at_least_model(combined, pooled, b) if at_least else combined

    def _require_rows(self, wanted: str) -> None:
        if not all(isinstance(source, RowSource) for source in self.sources):
            raise EstimationError(
                f"a covariance release has no rows, and this rule needs {wanted}: choose alpha by EBIC "
                '(--select ebic, or select="ebic"), or give alpha'
            )

    def _pooled(self, moments: Sequence[Moments]) -> FloatArray:
        """Return the pooled debiased covariance of one part of every source's rows, at the weights of the whole."""
        described = [_describe(source, part) for source, part in zip(self.sources, moments, strict=True)]
        return combine_sources(self.sources[0].columns, described, self.pooled.weights).covariance


def _describe(source: RowSource | CovarianceSource, moments: Moments | None) -> NoisyCovariance | ReleasedCovariance:
    """Return the covariance of a source, or of a part of its rows, with its noise."""
    if isinstance(source, CovarianceSource):
        return source.released
    moments = moments if moments is not None else reduce(merge_moments, source.moments())
    return source.describe(moments)


def _mean_of(source: RowSource | CovarianceSource, moments: Moments | None) -> FloatArray:
    if isinstance(source, CovarianceSource):
        return source.mean
    return np.zeros(len(source.columns)) if moments is None else moments.mean
