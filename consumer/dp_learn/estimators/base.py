"""Bases of the estimators: reading noisy rows or a bundle, fitting their debiased covariance, predicting and scoring.

Where columns are predicted from the others, the target is a column, or given separately.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.covariance import log_likelihood
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dp_bundle import Bundle
from dp_bundle.base.errors import DrownedColumnError, ParameterError
from dp_bundle.base.quoting import name_columns, quote_name
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import CovarianceSource, RowSource, bundle_source, table_rows
from dp_learn.covariance.standard_errors import universal_penalty
from dp_learn.matrices.checks import align_numbers, align_rows, check_alpha, column_labels
from dp_learn.matrices.choices import RepairMethod
from dp_learn.matrices.linalg import FloatArray, few_threads, smallest_eigenvalue
from dp_learn.matrices.repair import nearest_psd_max_norm, repair_covariance
from dp_learn.pipeline.driver import Given, opened
from dp_learn.pipeline.graph import GraphEstimate

_SCALED = 1e-6  # how near to 0 and 1 means and variances are that a scaler made
_CLEAR = 4.0  # standard errors of a variance
REPAIR_RTOL = 1e-3  # of the distance to the repaired matrix, as `repair_covariance` by default
Target = str | int | Sequence[str | int]


class BundleEstimator(BaseEstimator):  # type: ignore[misc]
    """Learns from a bundle, too."""

    @classmethod
    def from_bundle(cls, bundle: Given, **settings: Any) -> Self:
        """Return the estimator with these settings, fitted to a bundle.

        Parameters
        ----------
        bundle : Bundle, str or Path
            Open, or where it lies, and then verified first.
        **settings
            The parameters of the class.

        Raises
        ------
        BundleError
            The bundle cannot be trusted.
        EstimationError
            There is no estimate.
        """
        with opened(bundle) as (one,):
            return cls(**settings).fit(one)  # type: ignore[no-any-return]


class NoisyRowsEstimator(BundleEstimator):
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
            Natural logarithm, per row, of the density in data units. It is -inf under a precision matrix that is not
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
            if reset:
                self._labels = column_labels(X)
            elif self._labels and isinstance(X, pd.DataFrame) and (labels := [*map(str, X.columns)]) != self._labels:
                allowed = f"a table with the columns that were fitted, in the order {self._labels}"
                raise ParameterError("X", allowed, labels)
            own = self._labels or [f"x{index}" for index in range(values.shape[1])]
            names = getattr(self, "feature_names_in_", own)
            source = table_rows(values, [str(name) for name in names], self.noise_variance)
            if reset and np.any(source.noise_variance):
                _require_same_scale(values, source, one_for_all=np.ndim(self.noise_variance) == 0)
            return source

        rows = stated_source(X, self.noise_variance)
        if reset:
            self._labels = list(rows.columns)
            self.n_features_in_ = len(rows.columns)
            self.feature_names_in_ = np.array(rows.columns, dtype=object)
        elif list(getattr(self, "feature_names_in_", [])) != list(rows.columns):
            raise ParameterError("X", "a bundle with the columns that were fitted", list(rows.columns))
        return rows


class CovarianceEstimator(NoisyRowsEstimator, ABC):
    """An estimator that needs nothing but a debiased covariance and its errors."""

    weights: str | npt.ArrayLike | None = None
    repair: str = "none"

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
        ParameterError
            An unknown repair or weights.
        DrownedColumnError
            A column has no variance left.
        EstimationError
            There is no estimate.
        """
        _, drowned = clear_columns(pooled)
        if drowned:
            raise no_variance_left(drowned)
        if isinstance(self.weights, str) and self.weights not in {"equal", "noise"}:
            raise ParameterError("weights", "equal, noise, or a matrix", self.weights)
        correlation, units = pooled.correlation, np.outer(pooled.deviations, pooled.deviations)
        self.location_ = location
        self.smallest_eigenvalue_ = smallest_eigenvalue(correlation)

        # The true correlations have a unit diagonal, so that the nearest such matrix is no further away than they are.
        # Else a variance of which the noise leaves little may end next to zero, and its inverse anywhere.
        if self.repair == RepairMethod.MAXNORM and self.smallest_eigenvalue_ < 0.0:
            matrix = nearest_psd_max_norm(correlation, fix_diagonal=True, rtol=REPAIR_RTOL).matrix
            self.repair_ = RepairMethod.MAXNORM.value
        else:
            repaired = repair_covariance(correlation, self.repair)
            matrix, self.repair_ = repaired.covariance, repaired.method.value

        weights = None
        if isinstance(self.weights, str):
            weights = universal_penalty(pooled)[1] if self.weights == "noise" else None
        elif self.weights is not None:
            weights = align_numbers("weights", self.weights, pooled.columns)
        with few_threads(len(matrix)):
            self._estimate(ScaledCovariance(pooled, matrix, units, weights))
        return self

    def _store(self, scaled: ScaledCovariance, precision: FloatArray) -> None:
        """Store an estimate on the correlation scale, and its graph, in data units."""
        self.precision_ = precision / scaled.units
        self.covariance_ = scaled.matrix * scaled.units
        self.edges_ = GraphEstimate(scaled.pooled.columns, self.precision_, scaled.pooled.covariance).edges()

    @abstractmethod
    def _estimate(self, scaled: ScaledCovariance) -> None:
        """Find the estimate and store it."""


def _require_same_scale(values: FloatArray, source: RowSource, *, one_for_all: bool) -> None:
    """Refuse noise in other units than the rows: a scaler before the estimator rescales the noise as well."""
    variances, n_rows = values.var(axis=0), len(values)
    varied = variances > 0.0
    is_scaled = varied.any() and bool(np.all(np.abs(variances[varied] - 1.0) < _SCALED))
    is_scaled = is_scaled and bool(np.all(np.abs(values.mean(axis=0)[varied]) < _SCALED))
    if is_scaled and one_for_all:
        raise ParameterError(
            "noise_variance",
            "one number per column for rows whose columns all have variance 1, as StandardScaler makes them: the "
            "noise's variances divided by scaler.scale_ ** 2",
            float(source.noise_variance[0]),
        )
    too_noisy = varied & (source.noise_variance > variances * (1.0 + _CLEAR * np.sqrt(2.0 / n_rows)))
    if not too_noisy.any():
        return

    columns = [name for name, is_one in zip(source.columns, too_noisy, strict=True) if is_one]
    named = name_columns(columns)
    why = f"it is more than all that varies in {named}: give it in the units of these rows, and if a scaler comes"
    remedy = "before the estimator, divided by scaler.scale_ ** 2"
    if is_scaled:
        why = f"all columns have variance 1, as StandardScaler makes them, and the noise of {named} alone more:"
        remedy = "divide noise_variance by scaler.scale_ ** 2"
    raise DrownedColumnError(columns, f"noise_variance is not on the scale of the rows: {why} {remedy}")


def stated_source(bundle: Bundle, noise_variance: npt.ArrayLike) -> RowSource | CovarianceSource:
    """Return the rows or the moments of a bundle, which is to be left to state its noise."""
    if np.ndim(noise_variance) != 0 or noise_variance != 0.0:
        raise ParameterError("noise_variance", "left at 0 for a bundle, which states its noise", noise_variance)
    return bundle_source(bundle)


@dataclass(frozen=True, eq=False)
class ScaledCovariance:
    """A debiased covariance on the correlation scale, where no unit matters.

    Attributes
    ----------
    pooled : PooledCovariance
        In data units.
    matrix : ndarray of shape (n_features, n_features)
        The debiased correlations, repaired.
    units : ndarray of shape (n_features, n_features)
        What an entry is multiplied by to be in data units.
    weights : ndarray of shape (n_features, n_features) or None
        Of a penalty on the entries of the matrix.
    """

    pooled: PooledCovariance
    matrix: FloatArray
    units: FloatArray
    weights: FloatArray | None


def universal_alpha(pooled: PooledCovariance, alpha: float | None = None) -> float:
    """Return the penalty that was given, checked, or by default the alpha of `universal_penalty`."""
    return universal_penalty(pooled)[0] if alpha is None else check_alpha(alpha)


def no_variance_left(columns: tuple[str, ...]) -> DrownedColumnError:
    """Return the error for columns that nothing can be learned about."""
    return DrownedColumnError(
        list(columns),
        f"no variance is left in {', '.join(map(quote_name, columns))}: constant or drowned by the noise; leave it out",
    )


class TargetEstimator(BundleEstimator, ABC):
    """Learns from the joint second moments of predictors and target, both of them noisy or not."""

    target: Target | None
    noise_variance: npt.ArrayLike

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from noisy rows or from a bundle.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns), DataFrame or Bundle
            With the target among its columns where `target` names it; else the predictors alone.
        y : array-like of shape (n_rows,), optional
            The target without noise, where it is not a column of X; by its index if it and X have one.
        """
        named = isinstance(X, Bundle | pd.DataFrame)
        source: RowSource | CovarianceSource
        if isinstance(X, Bundle):
            if y is not None or self.target is None:
                raise ParameterError("target", "the name of a column of the bundle, without y", self.target)
            source = stated_source(X, self.noise_variance)
        elif self.target is None:
            source, n_targets = self._rows_with_target(X, y)
            sample = Sample([source])
            self._estimate(sample.pooled, sample.location, n_targets)
            return self
        else:
            if y is not None:
                raise ParameterError("y", "left out where target names a column of X", type(y).__name__)
            values = check_array(X, dtype=np.float64, ensure_min_samples=2, ensure_min_features=2)
            names = [str(name) for name in X.columns] if named else [f"x{index}" for index in range(values.shape[1])]
            labels = list(getattr(X, "columns", ()))
            for each in self._wanted():  # columns may be called by other numbers than their positions
                if isinstance(each, int | np.integer) and each in labels and labels.index(each) != each:
                    allowed = f"a name in quotes, as column {each} is not the one called {each}"
                    raise ParameterError("target", allowed, each)
            source = table_rows(values, names, self.noise_variance)
        sample = Sample([source])
        self.fit_covariance(sample.pooled, sample.location)
        if not named:
            del self.feature_names_in_
        return self

    def fit_covariance(self, pooled: PooledCovariance, location: FloatArray) -> Self:
        """Learn from a debiased covariance that has the target among its columns, of one source or several pooled.

        Parameters
        ----------
        pooled : PooledCovariance
            Predictors and target.
        location : ndarray of shape (n_columns,)
            The column means.

        Raises
        ------
        ParameterError
            The target is not among the columns, or nothing else is.
        EstimationError
            There is no estimate.
        """
        targets = self._positions(pooled.columns)
        predictors = [index for index in range(len(pooled.columns)) if index not in targets]
        order = np.array(predictors + targets)
        self.n_features_in_ = len(predictors)
        self.feature_names_in_ = np.array([pooled.columns[index] for index in predictors], dtype=object)
        self._target_names = [pooled.columns[index] for index in targets]
        with few_threads(len(order)):
            self._estimate(keep_columns(pooled, order), location[order], len(targets))
        return self

    def _rows_with_target(self, X: Any, y: Any) -> tuple[RowSource, int]:
        """Return predictors and the coded target in one table, the target without noise."""
        values, y = validate_data(self, X, align_rows("y", y, X), dtype=np.float64, ensure_min_samples=2)
        coded = self._code(y)
        names = [f"x{index}" for index in range(values.shape[1])]
        variance = table_rows(values, column_labels(X) or names, self.noise_variance).noise_variance
        n_targets = coded.shape[1]
        self._target_names = [f"y{index}" for index in range(n_targets)]
        noise = np.append(variance, np.zeros(n_targets))
        return table_rows(np.column_stack((values, coded)), names + self._target_names, noise), n_targets

    def _wanted(self) -> list[str | int]:
        return [self.target] if isinstance(self.target, str | int | np.integer) else list(self.target or [])

    def _positions(self, columns: Sequence[str]) -> list[int]:
        """Return the positions of the target's columns."""
        found = []
        for each in self._wanted():
            if isinstance(each, str) and each in columns:
                found.append(list(columns).index(each))
            elif isinstance(each, int | np.integer) and 0 <= each < len(columns):
                found.append(int(each))
            else:
                shown = ", ".join(columns[:8]) + (" and others" if len(columns) > 8 else "")
                raise ParameterError("target", f"one of the columns ({shown})", each)
        if not found or len(set(found)) < len(found) or len(found) >= len(columns):
            raise ParameterError("target", "one or more different columns, with at least one left over", self.target)
        return found

    def _predictors(self, X: Any) -> FloatArray:
        """Check rows to predict from.

        A table may still have the target among its columns, which are called by text; those of the fit are to be in
        their order.
        """
        check_is_fitted(self)
        if isinstance(X, pd.DataFrame):
            if X.shape[1] != self.n_features_in_:
                X = X.loc[:, [str(name) not in self._target_names for name in X.columns]]
            labels, known = [str(name) for name in X.columns], list(getattr(self, "feature_names_in_", ()))
            if sorted(labels) == sorted(known):
                if labels != known:
                    raise ParameterError("X", f"a table with the columns in the order of the fit, {known}", labels)
                X = X.set_axis(labels, axis=1)
        values: FloatArray = validate_data(self, X, reset=False, dtype=np.float64)
        return values

    @abstractmethod
    def _code(self, y: Any) -> FloatArray:
        """Return the target as columns of numbers."""

    @abstractmethod
    def _estimate(self, pooled: PooledCovariance, location: FloatArray, n_targets: int) -> None:
        """Learn from a pooled covariance whose last columns are the target's."""
