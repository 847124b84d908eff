"""What the estimators share: reading noisy rows, bringing what is left of their covariance to one scale, scoring."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.covariance import log_likelihood
from sklearn.utils.validation import check_is_fitted, validate_data

from dp_bundle import Bundle
from dp_bundle.errors import DrownedColumnError, ParameterError
from dp_bundle.quoting import quote_name
from dp_learn.covariance import (
    CovarianceSource,
    Evidence,
    RowSource,
    Sample,
    bundle_source,
    clear_columns,
    null_standard_errors,
    penalty_weights,
    table_rows,
)
from dp_learn.graph import GraphEstimate
from dp_learn.matrices import (
    FloatArray,
    Repair,
    RepairMethod,
    check_alpha,
    few_threads,
    median_above_diagonal,
    nearest_psd_max_norm,
    repair_covariance,
    smallest_eigenvalue,
)

__all__ = [
    "CovarianceEstimator",
    "NoisyRowsEstimator",
    "ScaledEvidence",
    "no_variance_left",
    "scale_evidence",
    "universal_alpha",
]

REPAIR_RTOL = 1e-3  # of the distance to the repaired matrix, as `repair_covariance` by default


@dataclass(frozen=True, eq=False)
class ScaledEvidence:
    """A debiased covariance on the correlation scale, where no unit matters.

    Attributes
    ----------
    evidence : Evidence
        In data units.
    matrix : ndarray of shape (n_features, n_features)
        The debiased correlations, repaired.
    units : ndarray of shape (n_features, n_features)
        What an entry is multiplied by to be in data units.
    weights : ndarray of shape (n_features, n_features) or None
        Of a penalty on the entries of the matrix.
    repair : Repair
        What was done to it.
    smallest_eigenvalue : float
        Before the repair.
    """

    evidence: Evidence
    matrix: FloatArray
    units: FloatArray
    weights: FloatArray | None
    repair: Repair
    smallest_eigenvalue: float


def scale_evidence(
    evidence: Evidence, *, repair: str = "none", weights: str | npt.ArrayLike | None = None
) -> ScaledEvidence:
    """Return evidence on the correlation scale, repaired, with the weights of a penalty.

    Raises
    ------
    ParameterError
        An unknown repair or weights.
    DrownedColumnError
        A column has no variance left.
    """
    _, drowned = clear_columns(evidence)
    if drowned:
        raise no_variance_left(drowned)
    if isinstance(weights, str) and weights not in {"equal", "noise"}:
        raise ParameterError("weights", "equal, noise, or a matrix", weights)
    correlation = evidence.correlation
    repaired = _repair_correlation(correlation, repair)
    if isinstance(weights, str):
        chosen = penalty_weights(evidence) if weights == "noise" else None
    else:
        chosen = None if weights is None else np.asarray(weights, dtype=float)
    units = np.outer(evidence.deviations, evidence.deviations)
    return ScaledEvidence(evidence, repaired.covariance, units, chosen, repaired, smallest_eigenvalue(correlation))


def _repair_correlation(correlation: FloatArray, method: str) -> Repair:
    """Repair as `repair_covariance`, but keep the unit diagonal in the max norm.

    The true correlations have it too, so that the nearest such matrix is no further away than they are. Without it a
    variance of which the noise leaves little may end next to zero, and its inverse anywhere.
    """
    if method != RepairMethod.MAXNORM or smallest_eigenvalue(correlation) >= 0.0:
        return repair_covariance(correlation, method)
    projection = nearest_psd_max_norm(correlation, fix_diagonal=True, rtol=REPAIR_RTOL)
    return Repair(projection.matrix, RepairMethod.MAXNORM, projection.distance, projection.lower_bound)


def universal_alpha(evidence: Evidence, alpha: float | None = None) -> float:
    """Return the penalty that was given, or the universal one: sqrt(2 log p) standard errors of a typical entry.

    Of p independent normal errors, none is likely to exceed it. With the weights "noise" it is that many standard
    errors of every entry.

    References
    ----------
    Donoho & Johnstone (1994), Ideal spatial adaptation by wavelet shrinkage, Biometrika 81(3).
    """
    if alpha is not None:
        return check_alpha(alpha)
    errors = null_standard_errors(evidence)
    typical = median_above_diagonal(errors)
    return math.sqrt(2.0 * math.log(len(errors))) * typical


def no_variance_left(columns: tuple[str, ...]) -> DrownedColumnError:
    """Return the error for columns that nothing can be learned about."""
    return DrownedColumnError(
        list(columns),
        f"no variance is left in {', '.join(map(quote_name, columns))}, constant or drowned by the noise: leave it out",
    )


class NoisyRowsEstimator(BaseEstimator):  # type: ignore[misc]
    """Reads noisy rows, or a bundle's, and scores other rows by their likelihood."""

    noise_variance: npt.ArrayLike

    def score(self, X: Any, y: None = None) -> float:  # noqa: ARG002
        """Return the mean Gaussian log-likelihood of other rows under the estimate, with their noise subtracted.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame or Bundle
            Rows with the noise that `fit` was told of, or a bundle, which says itself what noise it has.
        y : None
            Ignored.

        Returns
        -------
        float
            Natural logarithm, per row, of the density in data units; -inf under a precision matrix that is not
            positive definite, as a column-wise estimate may be.
        """
        check_is_fitted(self)
        return float(log_likelihood(self._second_moments(X), self.precision_))

    def _second_moments(self, X: Any) -> FloatArray:
        """Return the debiased second moments of other rows about the fitted location."""
        return self._read(X, reset=False).second_moments_about(self.location_)

    def _read(self, X: Any, *, reset: bool) -> RowSource | CovarianceSource:
        """Check the rows, or open the bundle's, and note or compare their columns as scikit-learn does."""
        if isinstance(X, str | Path):
            raise ParameterError("X", "rows or a Bundle, which dp_bundle.open_bundle makes of a file's name", str(X))
        if not isinstance(X, Bundle):
            least = 2 if reset else 1
            values = validate_data(
                self, X, reset=reset, dtype=np.float64, ensure_min_samples=least, ensure_min_features=least
            )
            names = getattr(self, "feature_names_in_", [f"x{index}" for index in range(values.shape[1])])
            return table_rows(values, [str(name) for name in names], self.noise_variance)
        if not (np.ndim(self.noise_variance) == 0 and self.noise_variance == 0.0):
            raise ParameterError(
                "noise_variance", "left at 0 for a bundle, which states its noise", self.noise_variance
            )
        rows = bundle_source(X)
        if reset:
            self.n_features_in_ = len(rows.columns)
            self.feature_names_in_ = np.array(rows.columns, dtype=object)
        elif list(getattr(self, "feature_names_in_", [])) != list(rows.columns):
            raise ParameterError("X", "a bundle with the columns that were fitted", list(rows.columns))
        return rows


class CovarianceEstimator(NoisyRowsEstimator, ABC):
    """An estimator that needs nothing but a debiased covariance and its errors."""

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002
        """Learn from noisy rows or from a bundle.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame or Bundle
            At least two rows and two columns.
        y : None
            Ignored.
        """
        sample = Sample([self._read(X, reset=True)])
        return self.fit_evidence(sample.evidence, sample.location)

    def fit_evidence(self, evidence: Evidence, location: FloatArray) -> Self:
        """Learn from a debiased covariance, of one source or of several pooled.

        Parameters
        ----------
        evidence : Evidence
            All columns with a debiased variance that is clearly positive.
        location : ndarray of shape (n_features,)
            The column means.

        Raises
        ------
        DrownedColumnError
            A column has no variance left.
        EstimationError
            There is no estimate.
        """
        scaled = scale_evidence(
            evidence, repair=getattr(self, "repair", "none"), weights=getattr(self, "weights", None)
        )
        self.location_ = location
        self.repair_ = scaled.repair.method.value
        self.smallest_eigenvalue_ = scaled.smallest_eigenvalue
        with few_threads(len(scaled.matrix)):
            self._estimate(scaled)
        return self

    def _store(self, scaled: ScaledEvidence, precision: FloatArray) -> None:
        """Store an estimate on the correlation scale, and its graph, in data units."""
        self.precision_ = precision / scaled.units
        self.covariance_ = scaled.matrix * scaled.units
        self.edges_ = GraphEstimate(scaled.evidence.columns, self.precision_, scaled.evidence.covariance).edges()

    @abstractmethod
    def _estimate(self, scaled: ScaledEvidence) -> None:
        """Find the estimate and store it."""
