"""CLIME: the precision matrix of least size whose product with the covariance is nearly the identity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import ParameterError
from dp_learn.estimators.columnwise import (
    ColumnwiseEstimator,
    check_variances,
    keep_smaller,
    no_column_solution,
    smallest_column_alpha,
    solve_linear_programme,
)
from dp_learn.matrices.checks import check_alpha, check_covariance, check_weights
from dp_learn.matrices.labels import column_labels
from dp_learn.matrices.linalg import FloatArray


def clime_precision(
    covariance: npt.ArrayLike,
    alpha: float,
    *,
    weights: npt.ArrayLike | None = None,
    penalize_diagonal: bool = True,
) -> FloatArray:
    r"""Return the precision matrix whose columns are the smallest that the constraints allow.

    .. math:: \min_b \|b\|_1 \quad\text{subject to}\quad |S b - e_j|_i \le \alpha w_{ij}

    Each column is a linear programme, and of each pair of entries the smaller in size is kept.

    Parameters
    ----------
    covariance : array-like of shape (p, p)
        S, symmetric. It may be indefinite: the guarantee of the paper asks only that alpha exceed its largest error,
        times the l1 norm of the true precision matrix.
    alpha : float
        How far the product may be from the identity, > 0, without a unit.
    weights : array-like of shape (p, p), optional
        Symmetric, finite and >= 0: a tolerance per entry, in units of alpha.
    penalize_diagonal : bool
        Whether the diagonal of the product has a tolerance too, as in the paper. At 1 it allows the zero matrix.

    Returns
    -------
    ndarray of shape (p, p)
        Symmetric with a positive diagonal; not always positive definite.

    Raises
    ------
    ParameterError
        For a bad argument.
    EstimationError
        No matrix meets the constraints, because S is singular: the sentence names the smallest alpha. Or the estimate
        has a diagonal entry that is not positive.

    References
    ----------
    Cai, Liu & Luo (2011), A constrained l1 minimization approach to sparse precision matrix estimation, JASA 106(494),
    eq. 2 to 4 and theorem 6.
    """
    s = check_covariance(covariance)
    alpha = check_alpha(alpha)
    w = check_weights(weights, len(s), penalize_diagonal=penalize_diagonal, columns=column_labels(covariance))
    if np.isinf(w).any():
        raise ParameterError("weights", "finite, as they are tolerances of a product", np.inf)
    columns = np.empty_like(s)
    for j, tolerance in enumerate(alpha * w):
        column = _column(s, j, tolerance)
        if column is None:
            raise no_column_solution(alpha, smallest_column_alpha(s, w), "CLIME")
        columns[j] = column
    precision = keep_smaller(columns)
    check_variances(precision, "CLIME")
    return precision


def _column(s: FloatArray, j: int, tolerance: FloatArray) -> FloatArray | None:
    """Return the smallest b with ``|S b - e_j| <= tolerance`` as the difference of two non-negative vectors."""
    p = len(s)
    unit = np.eye(p)[j]
    rows = np.block([[s, -s], [-s, s]])
    limits = np.concatenate((tolerance + unit, tolerance - unit))
    found = solve_linear_programme(np.ones(2 * p), rows, limits, 0.0)
    return None if found is None else found[:p] - found[p:]


class DebiasedCLIME(ColumnwiseEstimator):
    """Sparse precision matrix of the rows before the noise, by linear programmes on the debiased correlations.

    Prefer the graphical lasso for many columns: CLIME is slow, and was no better on few (docs/adr/0010).

    Parameters
    ----------
    alpha : float or None
        How far the product with the debiased correlations may be from the identity, > 0; None for sqrt(2 log p)
        standard errors of a typical entry, noise included, or a tenth above the smallest that has a solution where
        that is more.
    noise_variance : float or array-like of shape (n_features,)
        Variance of the independent noise on each column, in its unit squared. Leave it at 0 to fit a bundle.
    weights : {"equal", "noise"} or array-like of shape (n_features, n_features)
        Tolerances in proportion to these.
    penalize_diagonal : bool
        Whether the diagonal has a tolerance too. Under noise alpha may approach 1, which would leave no diagonal.
    repair : {"maxnorm", "clip", "shrink", "none"}
        The repair of an indefinite matrix. Without it the programmes have a solution, but one that follows the negative
        eigenvalues: by default CoCoLasso's step, which at most doubles the largest error (Datta & Zou 2017).

    Attributes
    ----------
    precision_ : ndarray of shape (n_features, n_features)
        The estimate in data units; symmetric, not always positive definite.
    covariance_ : ndarray of shape (n_features, n_features)
        The covariance that it was fitted to, in data units.
    edges_ : DataFrame
        source, target, partial_correlation, precision; strongest first.
    alpha_, repair_, smallest_eigenvalue_, location_, n_features_in_, feature_names_in_
        As in `DebiasedGraphicalLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]]
    >>> DebiasedCLIME(0.1).fit(rows).edges_[["source", "target"]].values.tolist()
    [['x0', 'x1']]
    """

    _solve = staticmethod(clime_precision)
