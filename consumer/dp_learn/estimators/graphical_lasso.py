"""The graphical lasso on noisy rows, as scikit-learn estimators: at a given alpha, or at one chosen from the data."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import ParameterError
from dp_learn.covariance.sample import Sample, Split
from dp_learn.covariance.sources import CovarianceSource, RowSource, table_rows
from dp_learn.estimators.base import NoisyRowsEstimator, no_variance_left
from dp_learn.matrices.checks import check_alpha
from dp_learn.matrices.linalg import FloatArray, few_threads, smallest_eigenvalue
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.graph import GraphEstimate, Variables, graph_of_nodes
from dp_learn.pipeline.settings import Fit, Settings


@dataclass(eq=False, repr=False, kw_only=True)
class _GraphicalLassoEstimator(NoisyRowsEstimator):
    """Base of both estimators: it fits, and stores what was learned."""

    noise_variance: npt.ArrayLike = 0.0
    weights: str | npt.ArrayLike = "auto"
    scale: str = "correlation"
    repair: str = "none"
    refit: bool = False
    penalize_diagonal: bool = True
    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 10_000

    def _learn(self, X: Any, cv: Any, **choice: Any) -> Self:
        common = [each.name for each in fields(_GraphicalLassoEstimator) if each.name != "noise_variance"]
        settings = Settings(**choice, **{name: getattr(self, name) for name in common})
        rows = self._read(X, reset=True)
        if isinstance(cv, int):
            sample = Sample([rows], n_folds=cv if settings.needs_folds else 1)
        else:
            sample = _SplitSample(rows, cv)
        with few_threads(len(rows.columns)):
            fit = fit_graph(sample, settings)
        if fit.drowned:
            raise no_variance_left(fit.drowned)
        self.location_ = sample.location[fit.kept]
        self.precision_ = fit.precision
        self.covariance_ = np.linalg.inv(fit.precision)
        self.columns_ = fit.pooled.columns
        self._kept = fit.kept
        self.edges_ = _graph_of(fit).edges()
        self.penalty_share_ = fit.share
        self.alpha_ = fit.solution.alpha
        self.duality_gap_ = fit.solution.duality_gap
        self.n_iter_ = fit.solution.n_iter
        self.solver_ = fit.solution.solver
        self.repair_ = fit.repair.method.value
        self.smallest_eigenvalue_ = smallest_eigenvalue(fit.debiased)
        self.selection_ = fit.selection
        return self


class _SplitSample(Sample):
    """Rows of a table, and how a splitter of scikit-learn, or a list of pairs of places, splits them."""

    def __init__(self, rows: RowSource | CovarianceSource, cv: Any) -> None:
        super().__init__([rows])
        if not isinstance(rows, RowSource) or rows.granularity is not None:
            raise ParameterError("cv", "a number of folds for a bundle, whose rows are not split otherwise", cv)
        self._rows, self._cv = rows, cv

    def splits(self) -> list[Split]:
        """Return the covariances of both parts of each split."""
        from sklearn.model_selection import check_cv  # slow to import, and seldom used

        (batch,) = self._rows.matrices()
        values = batch.read()
        splits = check_cv(self._cv).split(values)
        return [Split(*(self._covariance(values[part]) for part in parts)) for parts in splits]

    def _covariance(self, values: FloatArray) -> FloatArray:
        part = table_rows(values, self._rows.columns, self._rows.noise_variance)
        return part.describe(*part.moments()).debiased


def _graph_of(fit: Fit) -> GraphEstimate:
    """Return the graph of a fit, between categories and numbers where there are categories."""
    if fit.nodes.are_numbers:
        return GraphEstimate(fit.pooled.columns, fit.precision, fit.pooled.covariance)
    variables = Variables(fit.pooled.columns, fit.nodes.labels, fit.precision, fit.pooled.covariance, {"effect": []})
    return graph_of_nodes(fit.nodes.names, variables)


@dataclass(eq=False, repr=False)
class DebiasedGraphicalLasso(_GraphicalLassoEstimator):
    """Sparse precision matrix of the rows before the noise, at a given penalty.

    The known variance of the noise is subtracted from the covariance. The graphical lasso is solved on the result,
    indefinite or not, to a certified duality gap. Prefer `DebiasedGraphicalLassoCV` unless you know the penalty.

    Parameters
    ----------
    alpha : float
        The penalty, on the chosen scale, > 0.
    noise_variance : float or array-like of shape (n_features,)
        Variance of the independent noise on each column, in its unit squared; labels, if any, are the names of columns.
        Leave it at 0 to fit a bundle.
    weights : {"auto", "equal", "noise"} or array-like of shape (n_features, n_features)
        Equal penalties, penalties in proportion to each entry's standard error, or a matrix: 0 leaves an entry
        unpenalised, inf forbids an edge; its labels, if any, are the names of columns. By "auto" it is noise for a
        bundle with categories, and else equal.
    scale : {"correlation", "covariance"}
        The scale on which the penalty is applied.
    repair : {"none", "maxnorm", "clip", "shrink"}
        The method that makes an indefinite matrix positive semidefinite before solving.
    refit : bool
        Whether the precision matrix is refitted on the graph without the penalty, which shrinks it: `dp-learn` does so,
        scikit-learn's GraphicalLasso does not.
    penalize_diagonal, solver, tol, max_iter
        As in `graphical_lasso`.

    Attributes
    ----------
    precision_, covariance_ : ndarray of shape (n_features, n_features)
        The estimate, and its inverse, in data units.
    penalty_share_ : float
        The share of the penalty that the estimate keeps: 1 unless it is refitted, and then 0 wherever an unpenalised
        fit exists.
    location_ : ndarray of shape (n_features,)
        The column means.
    columns_ : tuple of str
        What the rows of `precision_` stand for: of a bundle's categories all levels but the most frequent one.
    edges_ : DataFrame
        source, target, partial_correlation, precision; strongest first. Of a bundle with categories it is between the
        columns of the raw table, and without the precision.
    duality_gap_ : float
        An upper bound on how far the objective is from its optimum.
    alpha_, n_iter_, solver_, repair_, smallest_eigenvalue_
        How it was found; `smallest_eigenvalue_` is that of the debiased matrix on the chosen scale.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `fit` raises a DpGraphError, one sentence, where there is no estimate: NoSolutionError (with the smallest alpha that
    has one), NotConvergedError, or DrownedColumnError (columns without variance).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]] + rng.normal(size=(2000, 3))
    >>> DebiasedGraphicalLasso(alpha=0.2, noise_variance=1.0).fit(rows).edges_[["source", "target"]].values.tolist()
    [['x0', 'x1']]
    """

    alpha: float = 0.1

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002
        """Learn from noisy rows or from a bundle.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame or Bundle
            At least two rows and two columns.
        y : None
            Ignored.
        """
        return self._learn(X, 1, alpha=check_alpha(self.alpha))


@dataclass(eq=False, repr=False, kw_only=True)
class DebiasedGraphicalLassoCV(_GraphicalLassoEstimator):
    """Sparse precision matrix of the rows before the noise, at a penalty chosen from the data.

    Prefer ``select="auto"`` for the graph and "cv" for prediction, which keeps more edges than the graph has.

    Parameters
    ----------
    alphas : int or sequence of float
        The number of alphas between the one that empties the graph and a hundredth of it, or the alphas themselves.
    select : {"cv", "mse", "auto", "ebic", "stars"}
        The rule: the extended Bayesian information criterion, in two stages where the noise is small or always in one.
        Or cross-validated likelihood, the drop of the cross-validated error, or the stability of the graph over
        subsamples.
    cv : int, splitter of scikit-learn, or iterable of pairs of places
        The number of folds; or how the rows of a table are split, such as ``GroupKFold(5).split(rows, groups=groups)``.
    noise_variance, weights, scale, repair, refit, penalize_diagonal, solver, tol, max_iter
        As in `DebiasedGraphicalLasso`.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    selection_ : Selection
        The path, its scores, the rule, and a note where the choice needs one.
    cv_results_ : dict of str to ndarray
        alphas, mean_test_score, and of a rule with folds std_test_score and split0_test_score onwards, all of shape
        (n_alphas,); NaN where an alpha was not tried.
    precision_, covariance_, location_, edges_, duality_gap_, ...
        As in `DebiasedGraphicalLasso`.
    """

    alphas: int | Sequence[float] = 20
    select: str = "cv"
    cv: Any = 5

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002
        """Choose alpha and learn, from noisy rows or from a bundle; as `DebiasedGraphicalLasso.fit`."""
        cv = int(self.cv) if isinstance(self.cv, int | np.integer) else self.cv
        if cv is None or isinstance(cv, float | str) or (isinstance(cv, int) and cv < 2):
            raise ParameterError("cv", "a number of folds, at least 2, or how to split", self.cv)
        self._learn(X, cv, alphas=self.alphas, select=self.select)

        selection: Any = self.selection_
        self.cv_results_ = {"alphas": selection.alphas, "mean_test_score": selection.scores}
        if selection.by_fold is not None:
            self.cv_results_["std_test_score"] = selection.by_fold.std(axis=1)
            of_folds = enumerate(selection.by_fold.T)
            self.cv_results_ |= {f"split{fold}_test_score": scores for fold, scores in of_folds}
        return self
