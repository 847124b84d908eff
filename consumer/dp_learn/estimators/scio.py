"""SCIO: a sparse precision matrix whose columns are lasso problems on the covariance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dp_learn.estimators.columnwise import (
    RESIDUAL,
    ColumnwiseEstimator,
    check_semidefinite,
    check_variances,
    keep_smaller,
    no_column_solution,
    require_residuals,
    smallest_column_alpha,
)
from dp_learn.glasso.solvers.gram_lasso import solve_gram_lassos
from dp_learn.matrices.checks import check_alpha, check_covariance, check_weights
from dp_learn.matrices.labels import column_labels
from dp_learn.matrices.linalg import FloatArray, is_positive_definite


def scio_precision(
    covariance: npt.ArrayLike,
    alpha: float,
    *,
    weights: npt.ArrayLike | None = None,
    penalize_diagonal: bool = True,
) -> FloatArray:
    r"""Return the precision matrix whose columns solve a lasso each, symmetric by the smaller of each pair of entries.

    .. math:: \min_b \tfrac12 b^T S b - e_j^T b + \alpha \sum_i w_{ij} |b_i|

    Parameters
    ----------
    covariance : array-like of shape (p, p)
        S, symmetric and positive semidefinite: with a negative eigenvalue every column's problem is unbounded.
    alpha : float
        Strength of the penalty, > 0, without a unit: it bounds ``|S b - e_j|``, so that at 1 nothing is left of the
        estimate unless the diagonal is free.
    weights : array-like of shape (p, p), optional
        Symmetric and >= 0; 0 leaves an entry free, inf forbids the edge.
    penalize_diagonal : bool
        Whether the penalty includes the diagonal of the precision matrix, as in the paper.

    Returns
    -------
    ndarray of shape (p, p)
        Symmetric with a positive diagonal; not always positive definite.

    Raises
    ------
    ParameterError
        For a bad argument, an indefinite matrix among them.
    EstimationError
        The problem is unbounded at this alpha, because S is singular; or nothing is left of the estimate.
    NotConvergedError
        Rounding stopped coordinate descent.

    References
    ----------
    Liu & Luo (2015), Fast and adaptive sparse precision matrix estimation in high dimensions, Journal of Multivariate
    Analysis 135, eq. 3 to 5.
    """
    s = check_covariance(covariance)
    alpha = check_alpha(alpha)
    w = check_weights(weights, len(s), penalize_diagonal=penalize_diagonal, columns=column_labels(covariance))
    check_semidefinite(s)
    columns, residuals = solve_gram_lassos(s, np.eye(len(s)), alpha * w)
    converged = residuals.max() <= RESIDUAL * float(np.abs(s).max())
    if not converged and np.isfinite(w).all() and not is_positive_definite(s):  # else every alpha has a solution
        smallest = smallest_column_alpha(s, w)
        if alpha < smallest:
            raise no_column_solution(alpha, smallest, "SCIO")
    require_residuals(columns, residuals, s)
    precision = keep_smaller(columns)
    check_variances(precision, "SCIO")
    return precision


class DebiasedSCIO(ColumnwiseEstimator):
    """Sparse precision matrix of the rows before the noise, column by column.

    Prefer the graphical lasso for a graph: SCIO's changed more with the noise on real tables (docs/adr/0010).

    Parameters
    ----------
    alpha : float or None
        The penalty on the correlation scale, > 0; None for sqrt(2 log p) standard errors of a typical entry, noise
        included, or a tenth above the smallest alpha that has a solution where that is more.
    noise_variance : float or array-like of shape (n_features,)
        Variance of the independent noise on each column, in its unit squared. Leave it at 0 to fit a bundle.
    weights : {"equal", "noise"} or array-like of shape (n_features, n_features)
        As in `DebiasedGraphicalLasso`.
    penalize_diagonal : bool
        Whether the penalty includes the diagonal. Under noise alpha may approach 1, which would leave no diagonal.
    repair : {"maxnorm", "clip", "shrink", "none"}
        The repair of an indefinite matrix, on which the problem is unbounded: by default CoCoLasso's step, which at
        most doubles its largest error (Datta & Zou 2017). The repaired matrix is singular, and needs an alpha that is
        not too small.

    Attributes
    ----------
    precision_ : ndarray of shape (n_features, n_features)
        The estimate in data units; symmetric, not always positive definite.
    covariance_ : ndarray of shape (n_features, n_features)
        The repaired covariance that it was fitted to, in data units.
    edges_ : DataFrame
        source, target, partial_correlation, precision; strongest first.
    alpha_, repair_, smallest_eigenvalue_, location_, n_features_in_, feature_names_in_
        As in `DebiasedGraphicalLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]]
    >>> DebiasedSCIO(0.1).fit(rows).edges_[["source", "target"]].values.tolist()
    [['x0', 'x1']]
    """

    _solve = staticmethod(scio_precision)
