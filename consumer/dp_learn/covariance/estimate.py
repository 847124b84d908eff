"""What a covariance was learned from: one or several noisy sources, and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dp_bundle.errors import EstimationError, ParameterError
from dp_bundle.manifest import Column
from dp_bundle.privacy import discrete_gaussian_fourth_cumulant, rounded_gaussian_fourth_cumulant
from dp_learn.covariance.debias import debias_covariance
from dp_learn.matrices import FloatArray

__all__ = ["Evidence", "MomentSource", "Source", "combine_sources", "keep_columns", "noise_fourth_cumulants"]


@dataclass(frozen=True)
class Source:
    """The second moments of one table of noisy rows.

    Attributes
    ----------
    n_rows : int
        How many rows.
    covariance : ndarray of shape (n_features, n_features)
        Sample covariance of the noisy rows, divisor n_rows - 1, in data units.
    noise_variance : ndarray of shape (n_features,)
        The exact variance of each column's noise.
    noise_fourth_cumulant : ndarray of shape (n_features,)
        Its fourth cumulant, zero for Gaussian noise; see `noise_fourth_cumulants`.
    """

    n_rows: int
    covariance: FloatArray
    noise_variance: FloatArray
    noise_fourth_cumulant: FloatArray

    def __post_init__(self) -> None:
        p = len(self.covariance)
        if self.n_rows < 2:
            raise ParameterError("n_rows", "at least 2", self.n_rows)
        if self.covariance.shape != (p, p):
            raise ParameterError("covariance.shape", "(p, p)", self.covariance.shape)
        for name in ("noise_variance", "noise_fourth_cumulant"):
            shape = getattr(self, name).shape
            if shape != (p,):
                raise ParameterError(f"{name}.shape", f"({p},), like the covariance", shape)

    @property
    def debiased(self) -> FloatArray:
        """The covariance less the noise's part, in data units."""
        return debias_covariance(self.covariance, self.noise_variance)

    def keep(self, kept: npt.NDArray[np.int64]) -> Source:
        """Return the source on some of its columns."""
        block = self.covariance[np.ix_(kept, kept)]
        return Source(self.n_rows, block, self.noise_variance[kept], self.noise_fourth_cumulant[kept])


@dataclass(frozen=True)
class MomentSource:
    """A covariance that was released itself: from a noisy sum of (z, c)(z, c)^T over rows, z the scaled columns.

    Attributes
    ----------
    n_rows : int
        How many rows, as stated or as read from the release.
    debiased : ndarray of shape (n_features, n_features)
        The covariance less what the noise adds on average, divisor n_rows - 1, in data units.
    half_widths : ndarray of shape (n_features,)
        Of the columns' bounds: one unit of z, in data units.
    scaled_mean : ndarray of shape (n_features,)
        The mean of z.
    constant : float
        c; 0 if the sum was released without a constant coordinate.
    diagonal_variance, off_diagonal_variance : float or None
        The variance of the noise on the sum, uncorrelated between entries; None if nothing is known of it.
    exact_count : bool
        Whether the constant's own entry, which counts the rows, is exact.
    estimated : bool
        Whether the noise does not act entry by entry, and its variances are the publisher's estimates of the mean
        squared errors: good enough to choose by, but of no known law.
    """

    n_rows: int
    debiased: FloatArray
    half_widths: FloatArray
    scaled_mean: FloatArray
    constant: float
    diagonal_variance: float | None
    off_diagonal_variance: float | None
    exact_count: bool = True
    estimated: bool = False

    @property
    def sum_variances(self) -> tuple[float, float]:
        """The variance of the noise on the sum's entries off and on the diagonal.

        Raises
        ------
        EstimationError
            Nothing is known of it.
        """
        t, u = self.off_diagonal_variance, self.diagonal_variance
        if t is None or u is None:
            raise EstimationError(
                "the release states no noise for single entries, nor an estimate of it, so there are no standard "
                "errors, nor what rests on them: EBIC (give --alpha), --fdr, --weights noise, and pooling"
            )
        return t, u

    def keep(self, kept: npt.NDArray[np.int64]) -> MomentSource:
        """Return the source on some of its columns."""
        return replace(
            self,
            debiased=self.debiased[np.ix_(kept, kept)],
            half_widths=self.half_widths[kept],
            scaled_mean=self.scaled_mean[kept],
        )


@dataclass(frozen=True)
class Evidence:
    """The debiased covariance S^ = sum_k w_k S^_k, and the sources that its error depends on.

    Attributes
    ----------
    columns : tuple of str
        The columns' names.
    covariance : ndarray of shape (n_features, n_features)
        S^, in data units; may be indefinite.
    sources : tuple of Source or MomentSource
        Where it came from.
    weights : tuple of float
        One per source; their sum is 1.
    same_rows : bool
        Whether the sources are releases of the same rows with independent noise, rather than of independent rows of
        the same population.
    """

    columns: tuple[str, ...]
    covariance: FloatArray
    sources: tuple[Source | MomentSource, ...]
    weights: tuple[float, ...] = (1.0,)
    same_rows: bool = False

    @property
    def n_rows(self) -> int:
        """How many rows there are, those of several releases counted once."""
        counts = [source.n_rows for source in self.sources]
        return counts[0] if self.same_rows else sum(counts)

    @property
    def noise_share(self) -> FloatArray | None:
        """Each column's noise variance over its published variance, both pooled; None if not all sources are rows."""
        noise, published = np.zeros(len(self.columns)), np.zeros(len(self.columns))
        for source, weight in zip(self.sources, self.weights, strict=True):
            if not isinstance(source, Source):
                return None
            noise += weight * source.noise_variance
            published += weight * np.diagonal(source.covariance)
        share = np.divide(noise, published, out=np.ones_like(noise), where=published > 0.0)
        return np.minimum(share, 1.0)

    @property
    def sampling_factor(self) -> float:
        """The sampling variance of a correlation that is zero: 1 / (n - 1) for one source of n rows."""
        if self.same_rows:
            return 1.0 / (self.sources[0].n_rows - 1)
        return sum(w * w / (source.n_rows - 1) for source, w in zip(self.sources, self.weights, strict=True))

    @property
    def has_errors(self) -> bool:
        """Whether the errors of all sources are stated or estimated, rather than unknown."""
        return all(source.diagonal_variance is not None for source in self._released)

    @property
    def has_error_law(self) -> bool:
        """Whether the errors of all sources are stated, rather than estimated or unknown: intervals need that."""
        return self.has_errors and not any(source.estimated for source in self._released)

    @property
    def _released(self) -> list[MomentSource]:
        return [source for source in self.sources if isinstance(source, MomentSource)]

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
    sources: Sequence[Source | MomentSource],
    weights: Sequence[float] = (1.0,),
    *,
    same_rows: bool = False,
) -> Evidence:
    """Return the weighted mean of the sources' debiased covariances as evidence.

    Parameters
    ----------
    columns : sequence of str
        The columns, the same in every source.
    sources : sequence of Source or MomentSource
        At least one.
    weights : sequence of float
        One per source, not negative; they are divided by their sum.
    same_rows : bool
        As in `Evidence`.

    Raises
    ------
    ParameterError
        The sources do not fit together.
    """
    if not sources or any(len(source.debiased) != len(columns) for source in sources):
        raise ParameterError("sources", f"one or more, each with {len(columns)} columns", len(sources))
    counted = {s.n_rows for s in sources if isinstance(s, Source) or s.exact_count}
    if same_rows and len(counted) > 1:
        raise ParameterError("sources", "of equal row counts if they hold the same rows", [s.n_rows for s in sources])
    w = np.asarray(weights, dtype=float)
    if w.shape != (len(sources),) or not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise ParameterError("weights", "one number per source, not negative, not all zero", list(weights))
    w = w / w.sum()
    covariance = sum(weight * source.debiased for source, weight in zip(sources, w, strict=True))
    return Evidence(tuple(columns), np.asarray(covariance), tuple(sources), tuple(w.tolist()), same_rows)


def keep_columns(evidence: Evidence, kept: npt.NDArray[np.int64]) -> Evidence:
    """Return the evidence on some of the columns, given by their positions."""
    if np.array_equal(kept, np.arange(len(evidence.columns))):  # matrices may be large
        return evidence
    names = tuple(evidence.columns[index] for index in kept)
    sources = tuple(source.keep(kept) for source in evidence.sources)
    return replace(evidence, columns=names, covariance=evidence.covariance[np.ix_(kept, kept)], sources=sources)


def noise_fourth_cumulants(columns: Sequence[Column]) -> FloatArray:
    """Return the exact fourth cumulant of each column's noise, in its unit to the fourth power."""
    return np.array([_fourth_cumulant(column) for column in columns])


def _fourth_cumulant(column: Column) -> float:
    noise = column.cell_noise
    if noise.distribution == "discrete-gaussian":
        return discrete_gaussian_fourth_cumulant(noise.sigma)
    return noise.granularity**4 * rounded_gaussian_fourth_cumulant(noise.sigma / noise.granularity)
