"""The pooled covariance: the weighted mean of one or several debiased sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import ParameterError
from dp_learn.covariance.debias import NoisyCovariance, ReleasedCovariance
from dp_learn.matrices.linalg import FloatArray


@dataclass(frozen=True)
class PooledCovariance:
    """The debiased covariance S^ = sum_k w_k S^_k, and the sources that its error depends on.

    Attributes
    ----------
    columns : tuple of str
        The columns' names.
    covariance : ndarray of shape (n_features, n_features)
        S^, in data units; may be indefinite.
    sources : tuple of NoisyCovariance or ReleasedCovariance
        Where it came from.
    weights : tuple of float
        One per source; their sum is 1.
    same_rows : bool
        Whether the sources are releases of the same rows with independent noise, rather than of independent rows of
        the same population.
    """

    columns: tuple[str, ...]
    covariance: FloatArray
    sources: tuple[NoisyCovariance | ReleasedCovariance, ...]
    weights: tuple[float, ...] = (1.0,)
    same_rows: bool = False

    @property
    def n_rows(self) -> int:
        """The number of rows, those of several releases counted once."""
        counts = [source.n_rows for source in self.sources]
        return counts[0] if self.same_rows else sum(counts)

    @property
    def noise_share(self) -> FloatArray | None:
        """Each column's noise variance over its published variance, both pooled; None if not all sources are rows."""
        noise, published = np.zeros(len(self.columns)), np.zeros(len(self.columns))
        for source, weight in zip(self.sources, self.weights, strict=True):
            if not isinstance(source, NoisyCovariance):
                return None
            noise += weight * source.noise_variance
            published += weight * np.diagonal(source.covariance)
        share = np.divide(noise, published, out=np.ones_like(noise), where=published > 0.0)
        return np.minimum(share, 1.0)

    @property
    def sampling_factor(self) -> float:
        """The sampling variance of a correlation that is zero: 1 / (n - 1) for one source of n Gaussian rows."""
        return self.kurtosis * (1.0 / (self.sources[0].n_rows - 1) if self.same_rows else sum(self._shares))

    @property
    def kurtosis(self) -> float:
        """The factor by which sampling variances exceed those of Gaussian rows, as far as the sources tell.

        Releases of the same rows have one, the mean of what they tell.
        """
        told = [None if isinstance(source, NoisyCovariance) else source.kurtosis for source in self.sources]
        if self.same_rows:
            known = [each for each in told if each is not None]
            return sum(known) / len(known) if known else 1.0
        return sum((each or 1.0) * part for each, part in zip(told, self._shares, strict=True)) / sum(self._shares)

    @property
    def _shares(self) -> list[float]:
        """The parts of independent sources in the sampling variance of Gaussian rows."""
        return [w * w / (source.n_rows - 1) for source, w in zip(self.sources, self.weights, strict=True)]

    @property
    def has_errors(self) -> bool:
        """True if the errors of all sources are stated or estimated, rather than unknown."""
        return all(isinstance(source, NoisyCovariance) or source.noise is not None for source in self.sources)

    @property
    def has_error_law(self) -> bool:
        """True if the errors of all sources follow from stated noise, not only from estimates: intervals need that."""
        return self.has_errors and all(isinstance(each, NoisyCovariance) or not each.estimated for each in self.sources)

    @property
    def deviations(self) -> FloatArray:
        """Square roots of the debiased variances, which must be positive."""
        variances = np.diagonal(self.covariance)
        if not (variances > 0).all():
            names = [name for name, variance in zip(self.columns, variances, strict=True) if not variance > 0]
            raise ParameterError("covariance", "of columns with a positive debiased variance", names)
        return np.sqrt(variances)

    @property
    def correlation(self) -> FloatArray:
        """S^ with unit diagonal; entries may exceed 1 in size."""
        correlation = self.covariance / np.outer(self.deviations, self.deviations)
        np.fill_diagonal(correlation, 1.0)
        return correlation


def combine_sources(
    columns: Sequence[str],
    sources: Sequence[NoisyCovariance | ReleasedCovariance],
    weights: Sequence[float] = (1.0,),
    *,
    same_rows: bool = False,
) -> PooledCovariance:
    """Return the weighted mean of the sources' debiased covariances as pooled.

    Parameters
    ----------
    columns : sequence of str
        The columns, the same in every source.
    sources : sequence of NoisyCovariance or ReleasedCovariance
        At least one.
    weights : sequence of float
        One per source, not negative; they are divided by their sum.
    same_rows : bool
        As in `PooledCovariance`.

    Raises
    ------
    ParameterError
        The sources do not fit together.
    """
    if not sources or any(len(source.debiased) != len(columns) for source in sources):
        raise ParameterError("sources", f"one or more, each with {len(columns)} columns", len(sources))
    counted = {s.n_rows for s in sources if isinstance(s, NoisyCovariance) or s.exact_count}
    if same_rows and len(counted) > 1:
        raise ParameterError("sources", "of equal row counts if they hold the same rows", [s.n_rows for s in sources])
    w = np.asarray(weights, dtype=float)
    if w.shape != (len(sources),) or not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise ParameterError("weights", "one number per source, not negative, not all zero", list(weights))
    w = w / w.sum()
    covariance = sum(weight * source.debiased for source, weight in zip(sources, w, strict=True))
    return PooledCovariance(tuple(columns), np.asarray(covariance), tuple(sources), tuple(w.tolist()), same_rows)


def keep_columns(pooled: PooledCovariance, kept: npt.NDArray[np.int64]) -> PooledCovariance:
    """Return the pooled covariance of some of the columns, given by their positions."""
    if np.array_equal(kept, np.arange(len(pooled.columns))):  # matrices may be large
        return pooled
    names = tuple(pooled.columns[index] for index in kept)
    sources = tuple(source.keep(kept) for source in pooled.sources)
    return replace(pooled, columns=names, covariance=pooled.covariance[np.ix_(kept, kept)], sources=sources)
