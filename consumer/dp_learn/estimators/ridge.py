"""The ridge precision matrix: every eigenvalue in closed form, positive whatever the covariance's is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.estimators.base import CovarianceEstimator
from dp_learn.estimators.scaled import ScaledCovariance, universal_alpha
from dp_learn.matrices.checks import check_alpha, check_covariance
from dp_learn.matrices.linalg import FloatArray, eigendecomposition


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
    precision: FloatArray = (q / _inverse_eigenvalues(phi, check_alpha(alpha))) @ q.T
    return 0.5 * (precision + precision.T)


def universal_ridge_alpha(pooled: PooledCovariance, alpha: float | None = None) -> float:
    """Return the penalty that was given, or the one that moves a zero eigenvalue by the universal penalty t.

    The inverse of the estimate exceeds the covariance by ``(sqrt(phi^2 + 8 alpha) - phi) / 2``, at phi = 0 by
    sqrt(2 alpha), and less where phi is larger: with alpha = t^2 / 2, what is lost in the errors is lifted above them.
    """
    return universal_alpha(pooled) ** 2 / 2.0 if alpha is None else check_alpha(alpha)


def _inverse_eigenvalues(phi: FloatArray, alpha: float) -> FloatArray:
    """Return ``(phi + sqrt(phi^2 + 8 alpha)) / 2`` without the cancellation of a negative phi."""
    root = np.sqrt(phi * phi + 8.0 * alpha)
    inverse: FloatArray = np.where(phi > 0.0, phi + root, 8.0 * alpha / (root - np.minimum(phi, 0.0))) / 2.0
    return inverse


class DebiasedRidgePrecision(CovarianceEstimator):
    """Ridge precision matrix of the rows before the noise, which exists for any covariance, indefinite or not.

    Prefer it where a precision matrix is wanted rather than a graph: no entry is exactly zero.

    Parameters
    ----------
    alpha : float or None
        The penalty on the correlation scale, > 0; None for half the square of sqrt(2 log p) standard errors of a
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

    def __init__(self, alpha: float | None = None, *, noise_variance: npt.ArrayLike = 0.0) -> None:
        self.alpha = alpha
        self.noise_variance = noise_variance

    def _estimate(self, scaled: ScaledCovariance) -> None:
        self.alpha_ = universal_ridge_alpha(scaled.pooled, self.alpha)
        self._store(scaled, ridge_precision(scaled.matrix, self.alpha_))
        self.covariance_ = np.asarray(np.linalg.inv(self.precision_), dtype=np.float64)
