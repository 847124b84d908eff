"""Sparse covariances: entries that do not stand out from their own standard error, noise included, are zero."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from dp_bundle.base.errors import ParameterError
from dp_learn.covariance.standard_errors import form_variances
from dp_learn.estimators.base import CovarianceEstimator, ScaledCovariance
from dp_learn.matrices.checks import align_numbers, check_alpha, check_covariance, check_weights, column_labels
from dp_learn.matrices.linalg import FloatArray
from dp_learn.matrices.repair import repair_covariance


def threshold_covariance(covariance: npt.ArrayLike, thresholds: npt.ArrayLike, *, soft: bool = False) -> FloatArray:
    """Return the covariance with every entry off the diagonal set to zero that does not exceed its threshold in size.

    Parameters
    ----------
    covariance : array-like of shape (p, p)
        S, symmetric.
    thresholds : float or array-like of shape (p, p)
        One for all entries or one for each, >= 0; those on the diagonal have no effect.
    soft : bool
        Whether the entries that are left move towards zero by their thresholds, rather than stay.

    Returns
    -------
    ndarray of shape (p, p)
        Symmetric; not always positive semidefinite (see `repair_covariance` and its "clip").

    References
    ----------
    Bickel & Levina (2008), Covariance regularization by thresholding, Annals of Statistics 36(6). Cai & Liu (2011),
    Adaptive thresholding for sparse covariance matrix estimation, JASA 106(494).
    """
    s = check_covariance(covariance)
    limit = align_numbers("thresholds", thresholds, column_labels(covariance))
    if limit.ndim == 0:
        limit = np.full(s.shape, limit)
    limit = check_weights(limit, len(s), penalize_diagonal=False)
    sizes = np.abs(s)
    kept = np.sign(s) * (sizes - limit) if soft else s
    return np.where((sizes > limit) | np.eye(len(s), dtype=bool), kept, 0.0)


@dataclass(eq=False, repr=False)
class DebiasedThresholdedCovariance(CovarianceEstimator):
    """Sparse covariance matrix of the rows before the noise: the graph of the columns that are correlated at all.

    Every debiased entry is compared with its own standard error, which includes the known noise; then negative
    eigenvalues are set to zero. Prefer it for marginal correlations; the others estimate partial ones.

    Parameters
    ----------
    alpha : float or None
        The threshold in standard errors of each entry, > 0; None for 2 sqrt(log p), which no entry without
        correlation is likely to exceed.
    noise_variance : float or array-like of shape (n_features,)
        Variance of the independent noise on each column, in its unit squared. Leave it at 0 to fit a bundle.
    soft : bool
        Whether entries also move towards zero by their thresholds.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The estimate, positive semidefinite, in data units. Where eigenvalues had to be clipped it has no exact zeros.
    thresholded_ : ndarray of shape (n_features, n_features)
        The same before clipping: exactly zero where there is no edge.
    edges_ : DataFrame
        source, target, correlation, its standard_error, covariance; surest first. An edge is a correlation here, not
        a partial one.
    alpha_ : float
        The threshold in standard errors.
    repair_ : str
        "clip" where eigenvalues were clipped, else "none".
    location_, smallest_eigenvalue_, n_features_in_, feature_names_in_
        As in `DebiasedGraphicalLasso`.

    References
    ----------
    Wang, Xu & He, Estimating sparse covariance matrix under differential privacy via thresholding, algorithm 1. The
    standard error that the metadata give replaces the two unknown terms of its threshold.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]]
    >>> DebiasedThresholdedCovariance().fit(rows).edges_[["source", "target"]].values.tolist()
    [['x0', 'x1']]
    """

    alpha: float | None = None
    _: KW_ONLY
    noise_variance: npt.ArrayLike = 0.0
    soft: bool = False

    def score(self, X: Any, y: None = None) -> float:  # noqa: ARG002
        """Return minus the mean squared difference of the estimate from other rows' debiased correlations.

        The noise of other rows adds the same to the scores of all thresholds, on average.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame or Bundle
            As in `DebiasedGraphicalLasso.score`.
        y : None
            Ignored.

        References
        ----------
        Bickel & Levina (2008), section 4.
        """
        check_is_fitted(self)
        deviations = np.sqrt(np.diagonal(self.thresholded_))
        difference = (self._second_moments(X) - self.covariance_) / np.outer(deviations, deviations)
        return -float(np.mean(difference**2))

    def _estimate(self, scaled: ScaledCovariance) -> None:
        if not isinstance(self.soft, bool | np.bool_):
            raise ParameterError("soft", "true or false", self.soft)
        pooled, p = scaled.pooled, len(scaled.matrix)
        self.alpha_ = 2.0 * math.sqrt(math.log(p)) if self.alpha is None else check_alpha(self.alpha)
        errors = np.sqrt(form_variances(pooled, np.eye(p))) / scaled.units
        thresholded = threshold_covariance(scaled.matrix, self.alpha_ * errors, soft=bool(self.soft))
        clipped = repair_covariance(thresholded, "clip")
        self.repair_ = clipped.method.value
        self.thresholded_ = thresholded * scaled.units
        self.covariance_ = clipped.covariance * scaled.units

        first, second = np.nonzero(np.triu(thresholded, 1))
        correlation, error = thresholded[first, second], errors[first, second]
        ends = {
            "source": [pooled.columns[index] for index in first],
            "target": [pooled.columns[index] for index in second],
        }
        numbers = {"correlation": correlation, "standard_error": error, "covariance": self.thresholded_[first, second]}
        surest = np.argsort(-np.abs(correlation) / error, kind="stable")
        self.edges_ = pd.DataFrame(ends | numbers).iloc[surest].reset_index(drop=True)
