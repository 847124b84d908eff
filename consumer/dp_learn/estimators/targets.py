"""Base of the estimators that predict columns from the others; the target is a column, or given separately."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dp_bundle import Bundle
from dp_bundle.base.errors import ParameterError
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import CovarianceSource, RowSource, table_rows
from dp_learn.estimators.base import stated_source
from dp_learn.matrices.labels import align_rows, column_labels
from dp_learn.matrices.linalg import FloatArray, few_threads

Target = str | int | Sequence[str | int]


class TargetEstimator(BaseEstimator, ABC):  # type: ignore[misc]
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
            self._refuse_doubtful(list(getattr(X, "columns", ())))
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

    def _refuse_doubtful(self, labels: list[Any]) -> None:
        """Refuse a number as the target where columns are called by other numbers than their positions."""
        for each in self._wanted():
            if isinstance(each, int | np.integer) and each in labels and labels.index(each) != each:
                raise ParameterError("target", f"a name in quotes, as column {each} is not the one called {each}", each)

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
