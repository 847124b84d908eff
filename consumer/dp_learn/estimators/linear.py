"""Linear estimators: a precision matrix in closed form, the regression of any column on others, and discriminants.

The precision matrix has every eigenvalue positive, whatever the covariance's is. Of the regression it is told how much
the noise costs it.

Discriminant analysis is from second moments, too: the labels of classes are columns of the release, noisy or not. With
them coded 0 and 1 in a column per class, the class means and the covariance within classes follow exactly from the
joint moments. No row has to be known to be in a class.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from dp_bundle.base.errors import EstimationError, NotConvergedError, ParameterError
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import NoisyCovariance, PooledCovariance, keep_columns
from dp_learn.covariance.standard_errors import form_variances, mechanism_errors
from dp_learn.estimators.base import (
    CovarianceEstimator,
    ScaledCovariance,
    Target,
    TargetEstimator,
    no_variance_left,
    universal_alpha,
)
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.matrices.checks import align_rows, check_alpha, check_covariance
from dp_learn.matrices.linalg import FloatArray, eigendecomposition, is_positive_definite, smallest_eigenvalue

_DOUBT = 8.0  # standard errors
_TOLERATED = 0.1  # of the variance
_FILLED = 0.05  # of the labels, missing and put at the midpoint, where each takes a fourth off the variance


def ridge_precision(covariance: npt.ArrayLike, alpha: float) -> FloatArray:
    r"""Return the precision matrix with a penalty on its squared Frobenius norm.

    .. math:: \min_{\Theta \succ 0} -\log\det\Theta + \langle S, \Theta\rangle + \alpha \|\Theta\|_F^2

    It has the eigenvectors of S and the eigenvalues ``2 / (phi + sqrt(phi^2 + 8 alpha))``, phi those of S.

    Parameters
    ----------
    covariance : array-like of shape (p, p)
        S, symmetric, possibly indefinite.
    alpha : float
        Strength of the penalty, > 0, in the units of the covariance squared.

    Returns
    -------
    ndarray of shape (p, p)
        Positive definite, without zeros.

    Raises
    ------
    ParameterError
        For a bad argument.

    References
    ----------
    Witten & Tibshirani (2009), Covariance-regularized regression and classification, JRSS B 71(3). Su et al.,
    Differentially private precision matrix estimation, algorithm 1.
    """
    phi, q = eigendecomposition(check_covariance(covariance))
    alpha = check_alpha(alpha)
    root = np.sqrt(phi * phi + 8.0 * alpha)
    # without the cancellation of a negative phi
    inverse = np.where(phi > 0.0, phi + root, 8.0 * alpha / (root - np.minimum(phi, 0.0))) / 2.0
    precision: FloatArray = (q / inverse) @ q.T
    return 0.5 * (precision + precision.T)


def universal_ridge_alpha(pooled: PooledCovariance, alpha: float | None) -> float:
    """Return the penalty that was given, or the one that moves a zero eigenvalue by the universal penalty t.

    The inverse of the estimate exceeds the covariance by ``(sqrt(phi^2 + 8 alpha) - phi) / 2``. At phi = 0 that is
    sqrt(2 alpha), and it is less where phi is larger. With alpha = t^2 / 2, what is lost in the errors is lifted above
    them.
    """
    return universal_alpha(pooled) ** 2 / 2.0 if alpha is None else check_alpha(alpha)


@dataclass(eq=False, repr=False)
class DebiasedRidgePrecision(CovarianceEstimator):
    """Ridge precision matrix of the rows before the noise, which exists for any covariance, indefinite or not.

    Prefer it where a precision matrix is wanted rather than a graph: no entry is exactly zero.

    Parameters
    ----------
    alpha : float or None
        The penalty on the correlation scale, > 0. None stands for half the square of sqrt(2 log p) standard errors of a
        typical entry, noise included (see `universal_ridge_alpha`).
    noise_variance : float or array-like of shape (n_features,)
        Variance of the independent noise on each column, in its unit squared. Leave it at 0 to fit a bundle.

    Attributes
    ----------
    precision_, covariance_ : ndarray of shape (n_features, n_features)
        The estimate, and its inverse, in data units.
    edges_ : DataFrame
        Every pair of columns, strongest first: source, target, partial_correlation, precision.
    alpha_ : float
        The penalty.
    location_, smallest_eigenvalue_, n_features_in_, feature_names_in_
        As in `DebiasedGraphicalLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]]
    >>> DebiasedRidgePrecision().fit(rows).edges_[["source", "target"]].values.tolist()[0]
    ['x0', 'x1']
    """

    alpha: float | None = None
    _: KW_ONLY
    noise_variance: npt.ArrayLike = 0.0

    def _estimate(self, scaled: ScaledCovariance) -> None:
        self.alpha_ = universal_ridge_alpha(scaled.pooled, self.alpha)
        self._store(scaled, ridge_precision(scaled.matrix, self.alpha_))
        self.covariance_ = np.asarray(np.linalg.inv(self.precision_), dtype=np.float64)


def ridge_regression(covariance: npt.ArrayLike, target: int, alpha: float) -> FloatArray:
    r"""Return the coefficients of one column on the others.

    .. math:: \min_w \; (-w, 1)^T C (-w, 1) + \alpha \|w\|^2, \qquad w = (C_{oo} + \alpha I)^{-1} C_{ot}

    Parameters
    ----------
    covariance : array-like of shape (p, p)
        C, symmetric, possibly indefinite.
    target : int
        The position of the column to predict.
    alpha : float
        Strength of the penalty, >= 0, in the units of the covariance; scikit-learn's alpha over the number of rows
        that C was divided by.

    Returns
    -------
    ndarray of shape (p - 1,)
        One for each other column, in order.

    Raises
    ------
    ParameterError
        For a bad argument.
    EstimationError
        The problem is unbounded, as the other columns' matrix plus alpha is not positive definite: the sentence names
        the smallest alpha.

    References
    ----------
    Amin, Dick, Kulesza, Munoz Medina & Vassilvitskii (2019), Differentially private covariance estimation, section 1.1.
    """
    c = check_covariance(covariance)
    if not (isinstance(target, int | np.integer) and 0 <= target < len(c)) or len(c) < 2:
        raise ParameterError("target", f"the position of one of {len(c)} columns, of at least two", target)
    alpha = _check_ridge(alpha)
    others = np.arange(len(c)) != target
    gram = c[np.ix_(others, others)]
    shifted = gram + alpha * np.eye(len(gram))
    least = smallest_eigenvalue(gram)
    # numerically singular is as unusable as indefinite: coefficients would be rounding errors
    if least + alpha <= len(gram) * np.finfo(float).eps * float(np.abs(gram).max()) or not is_positive_definite(
        shifted
    ):
        raise EstimationError(
            f"the regression has no solution at alpha = {alpha:.6g}, because the other columns' covariance has the "
            f"eigenvalue {least:.3g}: alpha must be larger than {max(-least, 0.0):.6g}"
        )
    solution: FloatArray = cho_solve(cho_factor(shifted), c[others, target])
    return solution


def gradient_error(
    pooled: PooledCovariance, target: int, coefficients: FloatArray, units: FloatArray | None = None
) -> float:
    r"""Return the root mean square of what the mechanism adds to half the gradient at the coefficients.

    With the error E of the covariance, and u = (-w, 1), that is ``E |E_o u|^2``. At coefficients w that solve the
    noisy problem, half the gradient of the problem without noise, C in place of S^, is exactly ``E_o u``. Its objective
    F is quadratic with curvature of at least alpha, so that

    .. math:: F(w) - \min F \le |E_o u|^2 / \alpha, \qquad |w - \arg\min F| \le |E_o u| / \alpha.

    Parameters
    ----------
    pooled : PooledCovariance
        The debiased covariance.
    target : int
        The position of the target.
    coefficients : ndarray of shape (n_features - 1,)
        w, in data units.
    units : ndarray of shape (n_features,), optional
        What a coefficient is multiplied by before it is penalised; ones by default. The target's has no effect.

    Notes
    -----
    Lemma 1 of Amin et al. (2019) answers the same question, the price of the noise for a ridge regression, for their
    own mechanisms and by the spectral norm of E. This bound is derived afresh for noise of known variance. It is of the
    second order in E, and needs no bound on the unknown optimum.
    """
    p = len(pooled.columns)
    residual = np.zeros(p)
    residual[target] = 1.0
    residual[np.arange(p) != target] = -coefficients
    forms = np.vstack((np.eye(p) if units is None else np.diag(1.0 / units), residual))
    variances = mechanism_errors(pooled, forms).products[:-1, -1]
    return math.sqrt(float(np.delete(variances, target).sum()))


def _check_ridge(alpha: Any) -> float:
    try:
        value = float(alpha)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0.0) or isinstance(alpha, bool | np.bool_):
        raise ParameterError("alpha", "a finite number >= 0", alpha)
    return value


class _ScoredByIndex:
    """Scores as scikit-learn does, of rows that pandas may have put into another order."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R squared of a regression, and of classes the share of rows whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or DataFrame
            As in `predict`.
        y, sample_weight : array-like of shape (n_rows,)
            The target, and optional weights of the rows; by their index if they and X have one.
        """
        weight = align_rows("sample_weight", sample_weight, X)
        return float(super().score(X, align_rows("y", y, X), sample_weight=weight))  # type: ignore[misc]


@dataclass(eq=False, repr=False)
class DebiasedRidgeRegression(_ScoredByIndex, RegressorMixin, TargetEstimator):  # type: ignore[misc]
    """Ridge regression of one column on the others of the rows before the noise.

    Prefer it to a regression on the noisy rows themselves, whose coefficients the noise shrinks towards zero.

    Parameters
    ----------
    target : str, int or None
        The column to predict; None where it comes as the y of `fit`, without noise.
    alpha : float or None
        The penalty on the correlation scale, >= 0. None stands for 2 sqrt(p) times the root mean square error that the
        noise leaves in the correlations. That is about the spectral norm of this error (Wigner), and 0 without noise.
    noise_variance : float or array-like of shape (n_columns,)
        Variance of the independent noise on each column of X, in its unit squared. Leave it at 0 to fit a bundle.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        In data units.
    alpha_ : float
        The penalty.
    r_squared_ : float
        Of rows without noise, estimated from the debiased moments that were fitted.
    excess_bound_ : float
        An upper bound on how far the objective on the rows without noise exceeds its minimum, averaged over the noise
        (see `gradient_error`). The objective is the mean squared error plus the penalty: alpha times the squared
        coefficients of standardised predictors, times the target's variance. By Markov's inequality the excess is more
        than 20 times the bound with a chance of at most 5 %. It is inf where alpha is 0 and there is noise, and NaN for
        a release that states no variance of its noise.
    drowned_ : tuple of str
        Columns whose variance cannot be distinguished from the noise: their coefficients are zero.
    n_features_in_, feature_names_in_
        The predictors.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(100_000, 2))
    >>> rows = np.column_stack((rows, rows @ [2.0, -1.0])) + rng.normal(size=(100_000, 3))
    >>> DebiasedRidgeRegression(target=2, alpha=0, noise_variance=1.0).fit(rows).coef_.round(1).tolist()
    [2.0, -1.0]
    """

    target: Target | None = None
    _: KW_ONLY
    alpha: float | None = None
    noise_variance: npt.ArrayLike = 0.0

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted target of rows without noise.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or DataFrame
            The columns predicted from; a DataFrame may have the target as well.
        """
        predicted: FloatArray = self._predictors(X) @ self.coef_ + self.intercept_
        return predicted

    def _code(self, y: Any) -> FloatArray:
        try:
            return np.asarray(y, dtype=np.float64)[:, None]
        except (TypeError, ValueError) as error:
            raise ParameterError("y", "numbers", type(y).__name__) from error

    def _estimate(self, pooled: PooledCovariance, location: FloatArray, n_targets: int) -> None:
        if n_targets != 1:
            raise ParameterError("target", "one column", self.target)
        kept, drowned = clear_columns(pooled)
        if kept[-1] != len(pooled.columns) - 1:
            raise no_variance_left(pooled.columns[-1:])
        clear = keep_columns(pooled, kept)
        d, correlation = clear.deviations, clear.correlation
        self.alpha_ = _spectral_error(clear) if self.alpha is None else _check_ridge(self.alpha)
        w = ridge_regression(correlation, len(d) - 1, self.alpha_)
        residual = np.append(-w, 1.0)
        coefficients = w * d[-1] / d[:-1]
        self.drowned_ = drowned
        self.r_squared_ = 1.0 - float(residual @ correlation @ residual)
        self.excess_bound_ = self._bound_excess(clear, coefficients, d)
        self.coef_ = np.zeros(len(pooled.columns) - 1)
        self.coef_[kept[:-1]] = coefficients
        self.intercept_ = float(location[-1] - location[:-1] @ self.coef_)

    def _bound_excess(self, pooled: PooledCovariance, coefficients: FloatArray, units: FloatArray) -> float:
        if not pooled.has_error_law:
            return math.nan
        error = gradient_error(pooled, len(units) - 1, coefficients, units)
        return 0.0 if error == 0.0 else error * error / self.alpha_ if self.alpha_ > 0.0 else math.inf


def _spectral_error(pooled: PooledCovariance) -> float:
    d = pooled.deviations
    variances = mechanism_errors(pooled, np.diag(1.0 / d)).products
    pairs = np.triu_indices(len(d), 1)
    return 2.0 * math.sqrt(len(d) * float(variances[pairs].mean()))


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
class DebiasedLDA(_ScoredByIndex, ClassifierMixin, TargetEstimator):  # type: ignore[misc]
    """Linear discriminant analysis of the rows before the noise, with a regularised precision matrix.

    The default ridge precision exists at any noise; prefer the graphical lasso where the precision matrix within
    classes is sparse.

    Parameters
    ----------
    target : str, int, sequence of these or None
        The column of labels, coded with two numbers (see `classes`), or one 0/1 column per class. It is None where the
        labels come as the y of `fit`, without noise.
    classes : sequence of two numbers
        The two values of a single column of labels before the noise.
    precision : {"ridge", "graphical-lasso"}
        How the covariance within classes is inverted.
    alpha : float or None
        The penalty on the scale of the correlations within classes, > 0. None stands for the default of
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
        Columns whose variance cannot be distinguished from the noise, so that they predict nothing: their entries of
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

        The variance is smaller where missing labels took the midpoint. So it is where several tables with different
        shares were pooled, as it is then that within tables.
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
