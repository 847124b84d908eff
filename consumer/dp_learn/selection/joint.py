"""The extended Bayesian information criterion of several graphs together: their penalty, and how they are coupled.

What each period knows are the weights of its likelihood, of its entries and of differences.

The graph is chosen in two stages. Absolute values shrink strong links, which drags indirect ones in, and large changes,
which spreads them over time. In the second stage each penalty is divided by one plus the square of what the first stage
found there, in units of its penalty: a step (Candes, Wakin & Boyd) towards a penalty that levels off, the arctangent.

References
----------
Candes, Wakin & Boyd (2008), Enhancing sparsity by reweighted l1 minimization, J. Fourier Analysis and Applications 14.
Foygel & Drton (2010), Extended Bayesian information criteria for Gaussian graphical models. Tibshirani & Taylor (2012),
Degrees of freedom in lasso problems, Annals of Statistics 40(2): of a fused fit, its distinct values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_bundle.base.errors import EstimationError, NoSolutionError
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.sample import effective_rows
from dp_learn.covariance.standard_errors import chance_alpha, null_standard_errors
from dp_learn.glasso.joint import joint_graphical_lasso, refit_jointly
from dp_learn.glasso.joint_problem import JointSolution, Kind
from dp_learn.matrices.linalg import FloatArray, logdet, median_above_diagonal
from dp_learn.selection.criteria import near_definite

FIRST_GAMMA, GAMMA = 0.1, 0.15  # of the two stages: what the first misses the second hardly finds
N_NEAR = 12  # alphas of the second stage
PATIENCE = 3  # different graphs in a row without a better score end a walk
TOL, MAX_ITER = 1e-5, 300  # a fit that takes longer is next to singular
N_ALPHAS = 14
RATIOS = {  # of the coupling to the penalty of an entry
    Kind.FUSED: (0.5, 1.0, 2.0, 4.0, 8.0),
    Kind.SMOOTH: (5.0, 20.0, 80.0),
    Kind.PAIRS: (0.5, 1.0, 2.0, 4.0),
    Kind.GROUP: (0.5, 1.0, 2.0, 4.0),
}


@dataclass(frozen=True, eq=False)
class Periods:
    """What a joint estimate is made from.

    Attributes
    ----------
    matrices : ndarray, shape (K, p, p)
        The debiased correlations, possibly indefinite.
    rows : ndarray, shape (K,)
        How many rows without noise each is worth.
    weights : ndarray, shape (K, p, p)
        Of the penalty.
    difference_weights : ndarray, shape (p, p) or (K - 1, p, p)
        Of the coupling.
    kind : Kind
        The coupling.
    penalize_diagonal : bool
        Whether alpha penalises diagonals.
    """

    matrices: FloatArray
    rows: FloatArray
    weights: FloatArray
    difference_weights: FloatArray
    kind: Kind
    penalize_diagonal: bool = True

    def solve(
        self,
        alpha: float,
        coupling: float,
        *,
        tol: float = TOL,
        max_iter: int = 5000,
        start: JointSolution | None = None,
    ) -> JointSolution:
        """Return the joint estimate; errors as of `joint_graphical_lasso`."""
        return joint_graphical_lasso(
            self.matrices,
            alpha,
            coupling,
            kind=self.kind,
            weights=self.weights,
            difference_weights=self.difference_weights,
            period_weights=self.rows,
            penalize_diagonal=self.penalize_diagonal,
            tol=tol,
            max_iter=max_iter,
            start=start,
        )

    def refit(self, chosen: JointSolution, coupling: float, matrices: FloatArray | None = None) -> JointSolution | None:
        """Return the fit of these or other matrices without alpha's penalty; see `refit_jointly`."""
        squares = coupling * self.difference_weights if self.kind == Kind.SMOOTH else None
        given = self.matrices if matrices is None else matrices
        return refit_jointly(given, chosen, self.rows, squares=squares, tol=TOL, max_iter=MAX_ITER)

    def sharpen(self, precisions: FloatArray, alpha: float) -> Periods:
        """Return the periods with smaller weights where the first stage found links and changes."""
        unit = 1.0 / np.sqrt(np.diagonal(precisions, axis1=1, axis2=2))
        partial = precisions * unit[:, :, None] * unit[:, None, :]
        weights = self.weights / (1.0 + (partial / (alpha * self.weights)) ** 2)
        diagonal = np.arange(partial.shape[1])
        weights[:, diagonal, diagonal] = weights.min()
        apart = self.difference_weights
        if self.kind in {Kind.FUSED, Kind.SMOOTH}:
            apart = apart / (1.0 + (np.diff(partial, axis=0) / alpha) ** 2)
        return replace(self, weights=weights, difference_weights=apart)


def weigh_periods(pooled: Sequence[PooledCovariance], kind: Kind) -> Periods:
    """Return the periods' correlations with all weights.

    The likelihood of a period counts as its effective rows n_k. An entry's penalty is in proportion to its standard
    error s_kij where it is zero, in units of the typical one. A difference has the rows ``n_k n_l / (n_k + n_l)``, and
    the standard error ``sqrt(s_kij^2 + s_lij^2)``: the penalty on it is their product, so that of as many equal periods
    as there may be all differences have the weight of an entry. The strength of squares goes with the squared error,
    as what is known worse has more to gain from its neighbours.

    Parameters
    ----------
    pooled : sequence of PooledCovariance
        Of the same columns, with known errors.
    kind : Kind
        Of the coupling.
    """
    errors = np.array([null_standard_errors(each) for each in pooled])
    typical = float(np.median([median_above_diagonal(each) for each in errors]))
    rows = np.array([effective_rows(each) for each in pooled])
    n = rows / rows.mean()
    squares = (errors / typical) ** 2
    if kind in {Kind.FUSED, Kind.SMOOTH}:
        shared = 2.0 * n[:-1] * n[1:] / (n[:-1] + n[1:])
        apart = (squares[:-1] + squares[1:]) / 2.0
        weights = shared[:, None, None] * (apart if kind == Kind.SMOOTH else np.sqrt(apart))
    else:
        weights = np.sqrt(np.tensordot(n, squares, 1) / len(n))
        weights *= 2.0 / len(n) if kind == Kind.PAIRS else np.sqrt(len(n))
    return Periods(np.array([each.correlation for each in pooled]), rows, errors / typical, weights, kind)


def joint_alphas(periods: Periods, pooled: Sequence[PooledCovariance]) -> FloatArray:
    """Return alphas from where no period has a link of its own down to half of what chance makes in all together."""
    sizes = np.abs(periods.matrices) / periods.weights
    largest = float(sizes[:, ~np.eye(sizes.shape[1], dtype=bool)].max())
    chance = min(chance_alpha(null_standard_errors(each), w) for each, w in zip(pooled, periods.weights, strict=True))
    return np.geomspace(largest, min(0.5 * chance / np.sqrt(len(pooled)), 0.5 * largest), N_ALPHAS)


@dataclass(frozen=True)
class JointScore:
    """An alpha and a coupling, the score of the graphs there, larger being better, and how many values they hold."""

    alpha: float
    coupling: float
    score: float
    n_values: int


@dataclass(frozen=True, eq=False)
class JointSelection:
    """A choice in two stages.

    Attributes
    ----------
    periods : Periods
        With the weights of the second stage.
    alpha, coupling : float
        What was chosen there.
    scores : list of JointScore
        Of the grid of the second stage, the best first.
    """

    periods: Periods
    alpha: float
    coupling: float
    scores: list[JointScore]


def select_in_stages(periods: Periods, alphas: Sequence[float] | FloatArray, ratios: Sequence[float]) -> JointSelection:
    """Choose on one grid, and then once more near the choice with sharper weights; see `select_jointly`."""
    first = select_jointly(periods, alphas, ratios, gamma=FIRST_GAMMA)[0]
    solution = periods.solve(first.alpha, first.coupling)
    fitted = periods.refit(solution, first.coupling) or solution
    sharper, ratio = periods.sharpen(fitted.precisions, first.alpha), first.coupling / first.alpha
    near = np.geomspace(4.0 * first.alpha, first.alpha / 2.0, N_NEAR)
    scores = select_jointly(sharper, near, [ratio / 2.0, ratio, 2.0 * ratio])
    return JointSelection(sharper, scores[0].alpha, scores[0].coupling, scores)


def select_jointly(
    periods: Periods, alphas: Sequence[float] | FloatArray, ratios: Sequence[float], *, gamma: float = GAMMA
) -> list[JointScore]:
    r"""Return the scores of a grid, the best first.

    With n_k the effective rows, N their sum and d the number of distinct values of the entries, those of variances
    beyond one each included, the largest

    .. math:: \sum_k n_k (\log\det\Theta_k - \langle \hat S_k, \Theta_k\rangle) - d (\log N + 4 \gamma \log p)

    is chosen. The Theta_k are fitted without alpha's penalty to what is not zero, equal where it is fused. Squared
    differences fuse nothing, and stay: there a value counts as the share that its neighbours leave free.

    Parameters
    ----------
    periods : Periods
        Of all.
    alphas : sequence of float
        Decreasing.
    ratios : sequence of float
        Of the coupling to alpha.
    gamma : float
        As of `select_ebic`.

    Raises
    ------
    EstimationError
        Nothing of the grid has a solution and a fit.
    """
    judge = np.array([near_definite(matrix) for matrix in periods.matrices])
    scores: list[JointScore] = []
    for ratio in ratios:
        start = None
        best, n_worse, last = -math.inf, 0, math.nan
        for alpha in map(float, alphas):
            try:
                start = periods.solve(alpha, ratio * alpha, max_iter=MAX_ITER, start=start)
            except NoSolutionError:
                break
            fit = periods.refit(start, ratio * alpha, judge)
            n_values = _count_values(start, ratio * alpha, periods)
            score = -math.inf if fit is None else _likelihood(judge, fit.precisions, periods.rows)
            score -= n_values * (math.log(periods.rows.sum()) + 4.0 * gamma * math.log(judge.shape[1]))
            if score > -math.inf:
                scores.append(JointScore(alpha, ratio * alpha, score, round(n_values)))

            n_worse = 0 if score > best else n_worse + (n_values != last)  # graphs seen before say nothing
            best, last = max(best, score), n_values
            if n_worse >= PATIENCE:
                break
    if not scores:
        raise EstimationError(
            "no penalty of the grid has a joint estimate, as the debiased matrices are too indefinite: leave out the "
            "noisiest bundles, or give alpha and the strength of the coupling"
        )
    return sorted(scores, key=lambda each: -each.score)


def _likelihood(matrices: FloatArray, precisions: FloatArray, rows: FloatArray) -> float:
    each = zip(rows.tolist(), matrices, precisions, strict=True)
    likelihood: float = math.fsum(n * (logdet(theta) - float(np.vdot(s, theta))) for n, s, theta in each)
    return likelihood


def _count_values(solution: JointSolution, coupling: float, periods: Periods) -> float:
    """Return the number of free values, without the first of each variance."""
    n_periods, p = (int(size) for size in solution.precisions.shape[:2])
    upper = np.triu_indices(p)
    if periods.kind != Kind.SMOOTH:
        return int(solution.ties.max(axis=0)[upper].sum()) - p
    waves = 2.0 - 2.0 * np.cos(np.pi * np.arange(n_periods) / n_periods)  # eigenvalues of a chain's Laplacian
    strength = coupling * periods.difference_weights.mean(axis=0)[upper]
    free = (1.0 / (1.0 + np.multiply.outer(strength, waves))).mean(axis=1)
    n_nonzero = np.count_nonzero(solution.precisions, axis=0)[upper]
    n_free: float = math.fsum((free * n_nonzero).tolist())
    return n_free - p
