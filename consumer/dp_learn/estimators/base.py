"""Bases of the estimators: reading noisy rows or a bundle, fitting their debiased covariance, scoring other rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.covariance import log_likelihood
from sklearn.utils.validation import check_is_fitted, validate_data

from dp_bundle import Bundle
from dp_bundle.base.errors import ParameterError
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import CovarianceSource, RowSource, bundle_source, table_rows
from dp_learn.estimators.scaled import ScaledCovariance, scale_covariance
from dp_learn.matrices.labels import column_labels, labels_of
from dp_learn.matrices.linalg import FloatArray, few_threads
from dp_learn.pipeline.graph import GraphEstimate


class NoisyRowsEstimator(BaseEstimator):  # type: ignore[misc]
    """Reads noisy rows, or a bundle's, and scores other rows by their likelihood."""

    noise_variance: npt.ArrayLike
    _labels: list[str] | None

    def score(self, X: Any, y: None = None) -> float:  # noqa: ARG002
        """Return the mean Gaussian log-likelihood of other rows under the estimate, with their noise subtracted.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame or Bundle
            Rows with noise of the variance given as `noise_variance`, or a bundle, which states its own.
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
        rows, kept = self._read(X, reset=False), getattr(self, "_kept", None)
        if kept is None:
            return rows.second_moments_about(self.location_)
        location = np.zeros(len(rows.columns))
        location[kept] = self.location_
        return rows.second_moments_about(location)[np.ix_(kept, kept)]

    def _read(self, X: Any, *, reset: bool) -> RowSource | CovarianceSource:
        """Check the rows, or open the bundle's, and note or compare their columns as scikit-learn does."""
        if isinstance(X, str | Path):
            raise ParameterError("X", "rows or a Bundle: open the file with dp_bundle.open_bundle first", str(X))

        if not isinstance(X, Bundle):
            least = 2 if reset else 1
            values = validate_data(
                self, X, reset=reset, dtype=np.float64, ensure_min_samples=least, ensure_min_features=least
            )
            labels = column_labels(X)
            if reset:
                self._labels = labels
            elif self._labels is not None and (labels := labels_of(X, 1, numbered=True)) not in (None, self._labels):
                raise ParameterError(
                    "X", f"a table with the columns that were fitted, in the order {self._labels}", labels
                )
            own = labels or [f"x{index}" for index in range(values.shape[1])]
            names = getattr(self, "feature_names_in_", own)
            return table_rows(values, [str(name) for name in names], self.noise_variance)

        if not (np.ndim(self.noise_variance) == 0 and self.noise_variance == 0.0):
            raise ParameterError(
                "noise_variance", "left at 0 for a bundle, which states its noise", self.noise_variance
            )

        rows = bundle_source(X)
        if reset:
            self._labels = list(rows.columns)
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
        return self.fit_covariance(sample.pooled, sample.location)

    def fit_covariance(self, pooled: PooledCovariance, location: FloatArray) -> Self:
        """Learn from a debiased covariance, of one source or of several pooled.

        Parameters
        ----------
        pooled : PooledCovariance
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
        scaled = scale_covariance(
            pooled, repair=getattr(self, "repair", "none"), weights=getattr(self, "weights", None)
        )
        self.location_ = location
        self.repair_ = scaled.repair.method.value
        self.smallest_eigenvalue_ = scaled.smallest_eigenvalue
        with few_threads(len(scaled.matrix)):
            self._estimate(scaled)
        return self

    def _store(self, scaled: ScaledCovariance, precision: FloatArray) -> None:
        """Store an estimate on the correlation scale, and its graph, in data units."""
        self.precision_ = precision / scaled.units
        self.covariance_ = scaled.matrix * scaled.units
        self.edges_ = GraphEstimate(scaled.pooled.columns, self.precision_, scaled.pooled.covariance).edges()

    @abstractmethod
    def _estimate(self, scaled: ScaledCovariance) -> None:
        """Find the estimate and store it."""
