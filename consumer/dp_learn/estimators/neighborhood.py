"""Neighbourhood selection: the lasso regression of every column on all others, from a covariance alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import ParameterError
from dp_learn.estimators.base import CovarianceEstimator
from dp_learn.estimators.columnwise import check_semidefinite, keep_smaller, require_residuals
from dp_learn.estimators.scaled import ScaledCovariance, universal_alpha
from dp_learn.glasso.solvers.gram_lasso import solve_gram_lassos
from dp_learn.matrices.checks import check_alpha, check_covariance, check_weights
from dp_learn.matrices.labels import column_labels
from dp_learn.matrices.linalg import FloatArray


@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """The lasso regressions of all columns, and the graph that they make.

    Attributes
    ----------
    coefficients : ndarray of shape (p, p)
        Row j predicts column j from the others; zero on the diagonal.
    edges : ndarray of bool, shape (p, p)
        The graph by the rule.
    precision : ndarray of shape (p, p)
        Zero exactly where there is no edge; symmetric, not always positive definite. Regression j gives the entries
        1 / t_j and -b_ji / t_j with the variance left t_j = s_jj - s_j'b_j; of each pair it is the smaller in size
        under the rule "and", the larger under "or".
    """

    coefficients: FloatArray
    edges: npt.NDArray[np.bool_]
    precision: FloatArray


def neighborhood_selection(
    covariance: npt.ArrayLike, alpha: float, *, rule: str = "or", weights: npt.ArrayLike | None = None
) -> Neighborhoods:
    r"""Return the neighbours of every column: those with a coefficient in its lasso regression.

    .. math:: \min_b \tfrac12 b^T S_{-j,-j} b - b^T s_j + \alpha \sum_i w_{ij} |b_i|

    Parameters
    ----------
    covariance : array-like of shape (p, p)
        S, symmetric and positive semidefinite: the problems of an indefinite matrix are unbounded or have many local
        solutions, so that it has to be repaired first.
    alpha : float
        Strength of the penalty, > 0, in the units of the covariance.
    rule : {"or", "and"}
        Whether one of the two regressions is enough for an edge, or both must have it.
    weights : array-like of shape (p, p), optional
        Symmetric and >= 0; 0 leaves an entry free, inf forbids the edge.

    Raises
    ------
    ParameterError
        For a bad argument, an indefinite matrix among them.
    NotConvergedError
        Rounding stopped coordinate descent.

    References
    ----------
    Meinshausen & Buhlmann (2006), High-dimensional graphs and variable selection with the lasso, Annals of Statistics
    34(3), eq. 3 to 7. van de Geer, Buhlmann, Ritov & Dezeure (2014), Annals of Statistics 42(3), eq. 9, for t_j.
    """
    s = check_covariance(covariance)
    if rule not in {"or", "and"}:
        raise ParameterError("rule", "or, and", rule)
    columns = column_labels(covariance)
    penalty = check_alpha(alpha) * check_weights(weights, len(s), penalize_diagonal=False, columns=columns)
    np.fill_diagonal(penalty, np.inf)
    check_semidefinite(s)
    coefficients, residuals = solve_gram_lassos(s, s, penalty)
    require_residuals(coefficients, residuals, s)
    left = s.diagonal() - (coefficients * s).sum(axis=1)
    if not (left > 0.0).all():
        raise ParameterError("alpha", "larger where columns determine each other without error", alpha)
    rows = -coefficients / left[:, None]
    np.fill_diagonal(rows, 1.0 / left)
    smaller = keep_smaller(rows)
    precision = smaller if rule == "and" else rows + rows.T - smaller
    return Neighborhoods(coefficients, (precision != 0.0) & ~np.eye(len(s), dtype=bool), precision)


class DebiasedNeighborhoodSelection(CovarianceEstimator):
    """The graph of the rows before the noise by the lasso regression of every column on the others.

    Its graphs are as good as the graphical lasso's where the noise is alike in all columns. Prefer the graphical lasso
    where it differs, which makes false edges here (docs/adr/0010), or where there are too many columns for a repair.

    Parameters
    ----------
    alpha : float or None
        The penalty on the correlation scale, > 0; None for sqrt(2 log p) standard errors of a typical entry, noise
        included.
    noise_variance : float or array-like of shape (n_features,)
        Variance of the independent noise on each column, in its unit squared. Leave it at 0 to fit a bundle.
    rule : {"or", "and"}
        As in `neighborhood_selection`.
    weights : {"equal", "noise"} or array-like of shape (n_features, n_features)
        As in `DebiasedGraphicalLasso`.
    repair : {"maxnorm", "clip", "shrink", "none"}
        The repair of an indefinite matrix, for which the lasso is unbounded: by default CoCoLasso's step, which at
        most doubles its largest error (Datta & Zou 2017).

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_features, n_features)
        Row j predicts column j from the others, in data units.
    edges_ : DataFrame
        source, target, partial_correlation, precision; strongest first.
    precision_ : ndarray of shape (n_features, n_features)
        As `Neighborhoods.precision`, in data units.
    covariance_ : ndarray of shape (n_features, n_features)
        The repaired covariance that it was fitted to, in data units.
    alpha_, repair_, smallest_eigenvalue_, location_, n_features_in_, feature_names_in_
        As in `DebiasedGraphicalLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]]
    >>> DebiasedNeighborhoodSelection(0.1).fit(rows).edges_[["source", "target"]].values.tolist()
    [['x0', 'x1']]
    """

    def __init__(
        self,
        alpha: float | None = None,
        *,
        noise_variance: npt.ArrayLike = 0.0,
        rule: str = "or",
        weights: str | npt.ArrayLike = "equal",
        repair: str = "maxnorm",
    ) -> None:
        self.alpha = alpha
        self.noise_variance = noise_variance
        self.rule = rule
        self.weights = weights
        self.repair = repair

    def _estimate(self, scaled: ScaledCovariance) -> None:
        self.alpha_ = universal_alpha(scaled.pooled, self.alpha)
        found = neighborhood_selection(scaled.matrix, self.alpha_, rule=self.rule, weights=scaled.weights)
        d = scaled.pooled.deviations
        self.coefficients_ = found.coefficients * np.outer(d, 1.0 / d)
        self._store(scaled, found.precision)
