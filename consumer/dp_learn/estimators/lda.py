"""Linear discriminant analysis from second moments: classes whose labels are columns of the release, noisy or not.

With the labels coded 0 and 1 in a column per class, the class means and the covariance within classes follow exactly
from the joint moments: no row has to be known to be in a class.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from dp_bundle.base.errors import EstimationError, NotConvergedError, ParameterError
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import NoisyCovariance, PooledCovariance, keep_columns
from dp_learn.covariance.standard_errors import form_variances
from dp_learn.estimators.base import no_variance_left, universal_alpha
from dp_learn.estimators.ridge import ridge_precision, universal_ridge_alpha
from dp_learn.estimators.targets import Target, TargetEstimator
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.matrices.labels import align_rows
from dp_learn.matrices.linalg import FloatArray

_DOUBT = 8.0  # standard errors
_TOLERATED = 0.1  # of the variance
_FILLED = 0.05  # of the labels, missing and put at the midpoint, where each takes a fourth off the variance


def class_moments(
    covariance: FloatArray, cross: FloatArray, priors: FloatArray, n_rows: int
) -> tuple[FloatArray, FloatArray]:
    r"""Return class means, less the mean of all rows, and the covariance within classes, from joint second moments.

    .. math:: m_k = \frac{n-1}{n} \frac{\mathrm{Cov}(x, y_k)}{\pi_k}, \qquad
              S_\mathrm{within} = S - \frac{n}{n-1} \sum_k \pi_k m_k m_k^T

    Parameters
    ----------
    covariance : ndarray of shape (n_features, n_features)
        S, divisor n_rows - 1.
    cross : ndarray of shape (n_features, n_classes)
        Covariances with the labels, 1 in the class and 0 outside, with the same divisor.
    priors : ndarray of shape (n_classes,)
        The share of every class, > 0; their sum is 1.
    n_rows : int
        How many rows.

    Returns
    -------
    ndarray of shape (n_classes, n_features), ndarray of shape (n_features, n_features)
        The means, and the covariance with divisor n_rows - 1.
    """
    shrink = (n_rows - 1) / n_rows
    means = shrink * (cross / priors).T
    within = covariance - (means.T * priors) @ means / shrink
    return means, 0.5 * (within + within.T)


@dataclass(eq=False, repr=False)
class DebiasedLDA(ClassifierMixin, TargetEstimator):  # type: ignore[misc]
    """Linear discriminant analysis of the rows before the noise, with a regularised precision matrix.

    The default ridge precision exists at any noise; prefer the graphical lasso where the precision matrix within
    classes is sparse.

    Parameters
    ----------
    target : str, int, sequence of these or None
        The column of labels, coded with two numbers (see `classes`), or one 0/1 column per class; None where the
        labels come as the y of `fit`, without noise.
    classes : sequence of two numbers
        The two values of a single column of labels before the noise.
    precision : {"ridge", "graphical-lasso"}
        How the covariance within classes is inverted.
    alpha : float or None
        The penalty on the scale of the correlations within classes, > 0; None for the default of
        `DebiasedRidgePrecision`, or sqrt(2 log p) standard errors for the graphical lasso.
    noise_variance : float or array-like of shape (n_columns,)
        Variance of the independent noise on each column of X, in its unit squared. Leave it at 0 to fit a bundle.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The values of y or of the column of labels, or the names of the columns of labels.
    priors_ : ndarray of shape (n_classes,)
        The share of each class.
    means_ : ndarray of shape (n_classes, n_features)
    covariance_, precision_ : ndarray of shape (n_features, n_features)
        Within classes: debiased, with divisor n_rows - 1; and the regularised inverse of that.
    coef_, intercept_ : ndarray of shape (n_classes, n_features), and of shape (n_classes,)
        Of the score of each class, a log-posterior up to a term that all classes share.
    alpha_ : float
        The penalty.
    drowned_ : tuple of str
        Columns whose variance cannot be told from the noise, so that they predict nothing: their entries of
        `precision_` and `coef_` are zero.
    n_features_in_, feature_names_in_
        The predictors.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), The Elements of Statistical Learning, section 4.3. Su et al., Differentially
    private precision matrix estimation, section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 2, size=20_000)
    >>> rows = np.column_stack((labels, rng.normal(size=(20_000, 2)) + 4 * labels[:, None])) + 0.0
    >>> noisy = rows + rng.normal(size=rows.shape)
    >>> DebiasedLDA(target=0, noise_variance=1.0).fit(noisy).predict([[0, 0], [4, 4]]).tolist()
    [0, 1]
    """

    target: Target | None = None
    _: KW_ONLY
    classes: Sequence[float] = (0, 1)
    precision: str = "ridge"
    alpha: float | None = None
    noise_variance: npt.ArrayLike = 0.0

    def decision_function(self, X: Any) -> FloatArray:
        """Return the score of every class, or with two classes that of the second less that of the first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or DataFrame
            The columns predicted from, without noise; a DataFrame may have the labels as well.
        """
        scores: FloatArray = self._predictors(X) @ self.coef_.T + self.intercept_
        return scores if len(self.classes_) > 2 else scores[:, 1] - scores[:, 0]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the likeliest class of every row."""
        scores = self.decision_function(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0.0).astype(int)
        predicted: npt.NDArray[Any] = self.classes_[best]
        return predicted

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or DataFrame
            As in `decision_function`.
        y, sample_weight : array-like of shape (n_rows,)
            The classes, and optional weights of the rows; by their index if they and X have one.
        """
        weight = align_rows("sample_weight", sample_weight, X)
        return float(super().score(X, align_rows("y", y, X), sample_weight=weight))

    def _code(self, y: Any) -> FloatArray:
        check_classification_targets(y)
        self.classes_, member = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ParameterError("y", "labels of at least two classes", f"one class, {self.classes_[0]!r}")
        return np.eye(len(self.classes_))[member]

    def _estimate(self, pooled: PooledCovariance, location: FloatArray, n_targets: int) -> None:
        if self.precision not in {"ridge", "graphical-lasso"}:
            raise ParameterError("precision", "ridge or graphical-lasso", self.precision)
        p = len(location) - n_targets
        cross, priors = self._labels(pooled.covariance[:p, p:], location[p:])
        self._check_priors(pooled, priors)
        rows = [source.n_rows for source in pooled.sources]
        n_rows = rows[0] if pooled.same_rows else sum(rows)
        means, covariance = class_moments(pooled.covariance[:p, :p], cross, priors, n_rows)
        within = replace(keep_columns(pooled, np.arange(p)), covariance=covariance)
        if p > 1:
            kept, self.drowned_ = clear_columns(within)
        elif within.covariance[0, 0] > 0.0:
            kept, self.drowned_ = np.array([0]), ()
        else:
            raise no_variance_left(within.columns)
        self.precision_ = np.zeros((p, p))
        self.alpha_, self.precision_[np.ix_(kept, kept)] = self._invert(keep_columns(within, kept))
        self.priors_ = priors
        self.means_ = location[:p] + means
        self.covariance_ = covariance
        self.coef_ = self.means_ @ self.precision_
        self.intercept_ = np.log(priors) - 0.5 * (self.coef_ * self.means_).sum(axis=1)

    def _labels(self, cross: FloatArray, location: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return covariances with one 0/1 label per class, and the shares of the classes."""
        if self.target is None:
            return cross, location
        if cross.shape[1] > 1:  # noise moves the sum of the shares a little from 1
            self.classes_ = np.array(self._target_names, dtype=object)
            return cross, location / max(float(location.sum()), np.finfo(float).tiny)
        first, second = self._two_classes()
        self.classes_ = np.array([first, second])
        share = float(location[0] - first) / (second - first)
        unit = cross / (second - first)
        return np.hstack((-unit, unit)), np.array([1.0 - share, share])

    def _two_classes(self) -> tuple[float, float]:
        allowed = "two different numbers, the values of the column of labels"
        try:
            first, second = self.classes
            if first != second and np.isfinite([first, second]).all():
                return first, second
        except (TypeError, ValueError) as error:
            raise ParameterError("classes", allowed, self.classes) from error
        raise ParameterError("classes", allowed, self.classes)

    def _check_priors(self, pooled: PooledCovariance, priors: FloatArray) -> None:
        """Refuse classes without rows, and shares that no labels of this coding have."""
        rare = [str(name) for name, share in zip(self.classes_, priors, strict=True) if not share > 0.0]
        if rare:
            raise EstimationError(
                f"the estimated share of class {', '.join(rare)} is not positive: either the labels are not coded as 0 "
                f"and 1 (or as `classes` says), or the noise drowns the class in {pooled.sources[0].n_rows} rows"
            )
        if self.target is not None and len(self._target_names) == 1 and pooled.has_errors:
            self._check_coding(pooled, float(priors[1]))

    def _check_coding(self, pooled: PooledCovariance, share: float) -> None:
        """Refuse a column whose variance is not that of two values with this share, beyond what the noise explains.

        The variance is smaller where missing labels took the midpoint, and where several tables with different shares
        were pooled, as it is then that within tables.
        """
        sources = pooled.sources
        first, second = self._two_classes()
        unit = (second - first) ** 2

        # two standard errors add up: that of the variance, and that of share * (1 - share)
        form = np.eye(len(pooled.columns))[-1:]
        shares_error = sum(
            weight * weight * source.noise_variance[-1] / source.n_rows
            for source, weight in zip(sources, pooled.weights, strict=True)
            if isinstance(source, NoisyCovariance)
        )
        squared = float(form_variances(pooled, form)[0, 0]) / unit**2 + (1 - 2 * share) ** 2 * shares_error / unit

        expected, found = share * (1.0 - share), float(pooled.covariance[-1, -1]) / unit
        tolerated = max(_DOUBT * float(np.sqrt(squared)), _TOLERATED * expected)
        several_tables = len(sources) > 1 and not pooled.same_rows
        if found - expected > tolerated or (not several_tables and expected - found > max(tolerated, 0.25 * _FILLED)):
            raise EstimationError(
                f"column {self._target_names[0]!r} does not hold only {first:g} and {second:g}: its variance is "
                f"{found:.3g} in these units, where such labels would have {expected:.3g}"
            )

    def _invert(self, within: PooledCovariance) -> tuple[float, FloatArray]:
        if len(within.columns) == 1:  # nothing to regularise
            return 0.0, 1.0 / within.covariance
        correlation = within.correlation
        units = np.outer(within.deviations, within.deviations)
        if self.precision == "ridge":
            alpha = universal_ridge_alpha(within, self.alpha)
            return alpha, ridge_precision(correlation, alpha) / units
        alpha = universal_alpha(within, self.alpha)
        solution = graphical_lasso(correlation, alpha, solver="auto")
        if not solution.converged:
            raise NotConvergedError(f"the graphical lasso did not converge: {solution.status.message}", solution)
        return alpha, solution.precision / units
