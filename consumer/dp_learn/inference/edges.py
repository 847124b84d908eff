"""Estimates of all partial correlations with intervals, p-values and false discovery rates.

The graph that inference starts from is chosen by the graphical lasso, and fitted again without its penalty. A penalised
precision matrix is shrunk. Standard errors taken from it are too small for strong edges. What desparsifying leaves of
the bias is of second order in the penalty, which is larger than a standard error. The fit on the chosen graph alone is
a maximum likelihood estimate, and has neither fault.

From this fit Theta, T = 2 Theta - Theta S^ Theta removes the bias to first order. The error of T is
-Theta (S^ - Sigma) Theta, so that its standard errors are those of bilinear forms of S^, noise included. The choice of
the graph matters only to second order: T and its errors are given for every pair of columns, chosen or not.

*Weights of listed edges.* The fit on the graph has the least error where the graph is right. Where it is not, the fit
is off by what the graph leaves out. The desparsified estimates r^ suppose no graph, and have the noise of every pair.
Which of the two is better can be seen. Where the graph is right, r^ differs from the fit by no more than its error,
above all at pairs without an edge.

Where it differs by more, the weight is r^, shrunk by the error that the noise alone makes. The expectation of r given
r^ for r ~ N(0, t^2) is r^ t^2 / (t^2 + s^2). Here t^2 is estimated by the excess of the mean r^2 over the mean s^2 of
the edges. The fit on the graph limits the shrinkage: an edge is not shrunk beyond it, and not at all where it is larger
than r^. What the rows' own sampling adds to the errors is no reason to shrink: the weights describe these rows.

References
----------
Jankova & van de Geer (2015), Confidence intervals for high-dimensional inverse covariance estimation, Electronic
Journal of Statistics 9, eq. 4. Fieller (1954), Some problems in interval estimation, JRSS B 16(2). Benjamini & Hochberg
(1995), Controlling the false discovery rate, JRSS B 57(1). Zhou, Rutimann, Xu & Buhlmann (2011), High-dimensional
covariance estimation based on Gaussian graphical models, JMLR 12, section 2.2. Dempster (1972), Covariance selection,
Biometrics 28(1).
Efron & Morris (1972), Limiting the risk of Bayes and empirical Bayes estimators, JASA 67(337). Xie, Kou & Brown (2012),
SURE estimates for a heteroscedastic hierarchical model, JASA 107(500).

The evidence for an edge between each pair of columns: a score that ranks all pairs at any strength of the noise.

The score of a pair is ``|T_ij|`` over its standard error, T = 2 Theta - Theta S^ Theta. Theta is that of a graphical
lasso at twice the universal penalty, diagonal included, not refitted. That penalty is in proportion to the noise. With
little of it T is close to the inverse of S^, and the score to a test of the partial correlation. The more there is, the
closer Theta is to a diagonal matrix, and T to S^ itself. An unpenalised inverse multiplies the noise, and buries the
ranking. The score ranks, and does not test: what the penalty leaves of indirect links is in it.

The power of a test: the smallest partial correlation that it finds most of the time, and the rows for less.

A test of a partial correlation r with standard error s finds it, at level a, when |estimate| > z s. Here z is the
normal quantile of 1 - a/2. To first order s does not depend on r.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_bundle.base.errors import EstimationError, NotConvergedError, ParameterError
from dp_bundle.base.quoting import Brief
from dp_bundle.manifest.noise import normal_quantile
from dp_learn.covariance.estimate import FormErrors, NoisyCovariance, PooledCovariance, keep_columns
from dp_learn.covariance.standard_errors import form_errors, form_variances, mechanism_variances, universal_penalty
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Problem, Solution, make_problem
from dp_learn.glasso.solving import find_start, fit_on_graph, solve
from dp_learn.matrices.checks import check_covariance
from dp_learn.matrices.linalg import FloatArray, Places, is_positive_definite, normal_tails, sandwich, two_sided

FEWEST_ROWS = 50  # with fewer, nothing is normal: tests at 5 % found false edges in 12 % and more
Pairs = tuple[Places, ...]  # the positions of first columns, and of second ones
RowErrors = Callable[[FloatArray], FormErrors]  # of forms, as the rows have them where there are any
_BARS = ("standard_error", "ci_low", "ci_high", "p_value", "q_value")
_TOL = 1e-8  # the square root of the gap must be well below a standard error
_MARGIN = 1.05  # above the smallest penalty that has a solution, where the solution is still far from singular
MISFIT = 0.05  # the share of pairs; on sparse graphs it is none or one pair, and beyond 0.1 intervals miss strong edges
_DENSER = (0.25, 0.0625, 0.015625)  # of the universal penalty
LARGEST_SHARE = 0.3
_FEWEST = 60  # pairs without an edge that can tell whether a graph is right
_MOST_WITHOUT, _MOST_WITHIN = 1.2, 1.0  # mean squares, in standard errors, at pairs without an edge and with one
LARGEST_ERROR = 0.25  # of a diagonal entry of an inverse, relative to it: second-order errors are then small


@dataclass(frozen=True)
class EdgeInference(Brief):
    """Estimates, errors and tests for every pair of columns.

    Attributes
    ----------
    columns : tuple of str
        The columns' names.
    estimate : ndarray of shape (n_features, n_features)
        T, the desparsified precision matrix, in inverse data units: no entry is exactly zero.
    standard_error : ndarray of shape (n_features, n_features)
        Of T.
    partial_correlation : ndarray of shape (n_features, n_features)
        -T_ij / sqrt(T_ii T_jj), limited to [-1, 1]; NaN where T_ii or T_jj is not positive.
    errors : FormErrors
        Of -T_ij / sqrt(T_ii T_jj) and of what normalises it.
    noise_error : ndarray of shape (n_features, n_features) or None
        The standard error of the partial correlations that the noise alone makes, without the rows' sampling error.
    """

    columns: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    partial_correlation: FloatArray
    errors: FormErrors
    noise_error: FloatArray | None = None

    @property
    def scores(self) -> FloatArray:
        """The size of T_ij over its standard error, or zero where that is zero, as with very few rows."""
        return self._scores_at(np.s_[:])

    def _scores_at(self, pairs: Any) -> FloatArray:
        size, error = np.abs(self.estimate[pairs]), self.standard_error[pairs]
        scores: FloatArray = np.divide(size, error, out=np.zeros_like(size), where=error > 0.0)
        return scores

    def p_values_at(self, pairs: Pairs) -> FloatArray:
        """Return the p-values of some pairs, given by the positions of their columns."""
        return two_sided(self._scores_at(pairs))

    @property
    def p_values(self) -> FloatArray:
        """Two-sided p-values of no edge, normal for many rows; one on the diagonal, which is not tested."""
        values = two_sided(self.scores)
        np.fill_diagonal(values, 1.0)
        return values

    @property
    def q_values(self) -> FloatArray:
        """The smallest false discovery rate at which each pair would be listed (Benjamini and Hochberg)."""
        return pair_q_values(self.p_values)

    @property
    def partial_error(self) -> FloatArray:
        """The standard error of the partial correlations, to first order."""
        return np.sqrt(np.maximum(self.errors.along(self.partial_correlation), 0.0))

    def partial_intervals(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper ends of the intervals for the partial correlations, within [-1, 1].

        They contain all r for which T_ij + r sqrt(T_ii T_jj) is within its error of zero (Fieller), a quadratic
        inequality in r. So they exclude zero exactly when p < 1 - level. T_ii and T_jj may be so uncertain that the r
        in question are all but a gap around zero. Then, and where T_ii is not positive, the interval is [-1, 1].
        """
        low, high = self._partial_intervals(level, np.s_[:, :])
        np.fill_diagonal(low, 1.0)
        np.fill_diagonal(high, 1.0)
        return low, high

    def error_bars_at(self, pairs: Pairs) -> dict[str, FloatArray]:
        """Return standard_error, ci_low, ci_high, p_value and q_value of some pairs of different columns.

        The standard error is that under the hypothesis of no edge: the p-value tests the estimate divided by it.
        """
        low, high = self._partial_intervals(0.95, pairs)
        p_values = self.p_values_at(pairs)
        every = self.p_values_at(np.triu_indices(len(self.columns), 1))
        first, second = np.sort(pairs, axis=0)
        q_values = least_rates([every])[0][first * len(self.columns) - first * (first + 3) // 2 + second - 1]
        return dict(zip(_BARS, (np.sqrt(self.errors.products[pairs]), low, high, p_values, q_values), strict=True))

    def _partial_intervals(self, level: float, pairs: Any) -> tuple[FloatArray, FloatArray]:
        square = _quantile(level) ** 2
        r = normalized(self.estimate)[pairs]
        # (r - x)^2 <= square * (products + crossed x + squares x^2), sorted by powers of x
        a = 1.0 - square * self.errors.squares[pairs]
        b = -2.0 * r - square * self.errors.crossed[pairs]
        c = r * r - square * self.errors.products[pairs]
        return _solve_quadratic_inequality(a, b, c)


def require_testable(pooled: PooledCovariance) -> None:
    """Refuse tests of an estimate whose errors have no known law, or of too few rows.

    Raises
    ------
    EstimationError
        There are no error bars; the sentence says why.
    """
    if not pooled.has_error_law:
        raise EstimationError(
            "the distribution of a release's errors is not known, so there are no intervals and no tests"
        )
    fewest = min(source.n_rows for source in pooled.sources)
    if fewest < FEWEST_ROWS:
        raise EstimationError(f"error bars and tests need at least {FEWEST_ROWS} rows, and there are {fewest}")


def error_forms(pooled: PooledCovariance, precision: FloatArray) -> FloatArray:
    """Return B, the rows of Theta each divided by sqrt(T_ii), whose forms B S^ B' are the error of T on a unit scale.

    It is what `row_errors` needs for errors that do not suppose Gaussian rows.
    """
    return precision / _unit(desparsify(pooled, precision), precision)[:, None]


def infer_edges(pooled: PooledCovariance, precision: FloatArray, errors: FormErrors | None = None) -> EdgeInference:
    """Return the desparsified estimate T = 2 Theta - Theta S^ Theta with its errors.

    Parameters
    ----------
    pooled : PooledCovariance
        S^ and what it came from.
    precision : ndarray of shape (n_features, n_features)
        Theta, in inverse data units, as from `fit_for_inference`.
    errors : FormErrors, optional
        The errors of `error_forms(pooled, precision)` from the rows (`row_errors`, `combine_row_errors`), valid for
        independent rows of any distribution. By default those of Gaussian rows plus the known noise: what a
        covariance alone allows, and wrong for binary, coded or heavy-tailed columns.

    References
    ----------
    Jankova & van de Geer (2015), eq. 4 and theorem 1.
    """
    t = desparsify(pooled, precision)
    unit = _unit(t, precision)
    forms = precision / unit[:, None]
    if errors is None:
        errors = form_errors(pooled, forms)
    partial = np.clip(normalized(t), -1.0, 1.0)
    np.fill_diagonal(partial, 1.0)
    noise = np.sqrt(np.maximum(mechanism_variances(pooled, forms, partial), 0.0))
    return EdgeInference(pooled.columns, t, np.outer(unit, unit) * np.sqrt(errors.products), partial, errors, noise)


def desparsify(pooled: PooledCovariance, precision: FloatArray) -> FloatArray:
    """Return T = 2 Theta - Theta S^ Theta."""
    if precision.shape != pooled.covariance.shape:
        raise ParameterError("precision.shape", f"{pooled.covariance.shape}, like the covariance", precision.shape)
    if not (np.diagonal(precision) > 0.0).all():
        raise ParameterError("precision", "a matrix with a positive diagonal", np.diagonal(precision).tolist())
    t = 2.0 * precision - sandwich(precision, pooled.covariance)
    return (t + t.T) / 2.0


def normalized(t: FloatArray) -> FloatArray:
    """Return -T_ij / sqrt(T_ii T_jj), NaN where a column's variance given the others cannot be estimated."""
    d = np.diagonal(t)
    root = np.sqrt(np.where(d > 0.0, d, np.nan))
    normalized: FloatArray = 0.0 - t / np.outer(root, root)
    return normalized


def _unit(t: FloatArray, precision: FloatArray) -> FloatArray:
    """Return sqrt(T_ii), or sqrt(Theta_ii) where that is not a number."""
    d = np.diagonal(t)
    return np.sqrt(np.where(d > 0.0, d, np.diagonal(precision)))


def _solve_quadratic_inequality(a: FloatArray, b: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the smallest interval with every x in [-1, 1] for which a x^2 + b x + c <= 0.

    With a <= 0 these are the x outside two roots rather than between them, or all; where something is NaN, unknown.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(np.where(a > 0.0, np.maximum(b * b - 4.0 * a * c, 0.0), b * b - 4.0 * a * c))
        far = -(b + np.copysign(root, b)) / 2.0  # of the two roots, the one that does not cancel, times a
        first, second = np.fmin(far / a, c / far), np.fmax(far / a, c / far)
        between = (a > 0.0) & (first <= 1.0) & (second >= -1.0)
        above = (a < 0.0) & (first < -1.0) & (second <= 1.0)
        below = (a < 0.0) & (first >= -1.0) & (second > 1.0)
    low = np.where(between, first, np.where(above, second, -1.0))
    high = np.where(between, second, np.where(below, first, 1.0))
    return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)


def _quantile(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise ParameterError("level", "between 0 and 1", level)
    return normal_quantile((1.0 + level) / 2.0)


def least_rates(p_values: Sequence[FloatArray]) -> list[FloatArray]:
    """Return the least false discovery rates of Benjamini and Hochberg over all lists together, NaN for NaN.

    `scipy.stats` knows them, too, and takes 50 MB to import.
    """
    joined: Any = np.concatenate(p_values) if p_values else np.empty(0)
    known = np.flatnonzero(~np.isnan(joined))
    order = known[np.argsort(joined[known])]
    ranked = joined[order] * len(order) / np.arange(1, len(order) + 1)
    joined = np.full_like(joined, np.nan)
    joined[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return np.split(joined, np.cumsum([len(each) for each in p_values])[:-1]) if p_values else []


def pair_q_values(p_values: FloatArray) -> FloatArray:
    """Return the least rate at which each pair is found, 1 on the diagonal."""
    upper, q_values = np.triu_indices(len(p_values), 1), np.ones_like(p_values)
    (q_values[upper],) = least_rates([p_values[upper]])
    return np.minimum(q_values, q_values.T)


@dataclass(frozen=True)
class InferenceFit:
    """The precision matrix that inference starts from.

    Attributes
    ----------
    precision : ndarray of shape (n_features, n_features)
        Theta, in inverse data units.
    share : float
        Which share of the penalty was kept in the refit: 0 unless S^ is so indefinite on the chosen graph that it has
        no unpenalised fit. In simulations of chains, 95 % intervals of edges still covered 90 % or more up to a share
        of 0.1. Up to 0.3 they covered 85 to 90 %. They covered 65 to 75 % beyond, where false discoveries were above
        the stated rate too.
    misfit : float
        The share of pairs whose estimate would be off by more than half a standard error because the graph does not
        explain S^; see `misfit_of`.
    """

    precision: FloatArray
    share: float
    misfit: float = 0.0

    @property
    def is_reliable(self) -> bool:
        """True if intervals and tests may rest on it: the graph explains the covariance, and little penalty is left."""
        return self.misfit <= MISFIT and self.share <= LARGEST_SHARE


def fit_for_inference(pooled: PooledCovariance) -> InferenceFit:
    """Choose a graph at the universal penalty and fit the precision matrix on it without a penalty.

    S^ may be so indefinite that the unpenalised fit does not exist. Then the smallest share of the penalty with which
    it does is kept, and reported. Where the graph explains S^ badly, it is dense or columns are nearly collinear. The
    inverse of S^ then takes the fit's place if it is well determined. Else it is the fit on the first of the denser
    graphs of smaller penalties that explains S^.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance.

    Raises
    ------
    NotConvergedError
        The solver stopped before its tolerance at the universal penalty.
    """
    usual = _fit(pooled)
    if usual.misfit <= MISFIT:
        return usual
    if (inverse := well_determined_inverse(pooled)) is not None:
        return InferenceFit(inverse, 0.0)
    for factor in _DENSER:
        denser = _fit_denser(pooled, factor)
        if denser is None:
            break
        if denser.is_reliable:
            return denser
    return usual


def _fit(pooled: PooledCovariance) -> InferenceFit:
    """Return the fit on the graph of the universal penalty, or of the smallest larger one that has a solution."""
    penalty = _off_diagonal_penalty(pooled)
    chosen = _solve(pooled.correlation, penalty)
    if chosen is None:  # the noise is larger than the universal penalty allows for
        smallest = smallest_solvable_alpha(pooled.correlation, weights=penalty, penalize_diagonal=False)
        penalty = _MARGIN * smallest * penalty
        chosen = _solve(pooled.correlation, penalty)
    if chosen is None or not chosen.converged:
        raise NotConvergedError(
            "the fit that tests of the edges need did not converge: leave out columns that others determine", chosen
        )
    return _fit_on_chosen(pooled, chosen, penalty)


def _fit_denser(pooled: PooledCovariance, factor: float) -> InferenceFit | None:
    """Return the fit on the graph of a factor of the universal penalty; None if that has no solution."""
    penalty = factor * _off_diagonal_penalty(pooled)
    chosen = _solve(pooled.correlation, penalty)
    return _fit_on_chosen(pooled, chosen, penalty) if chosen is not None and chosen.converged else None


def _off_diagonal_penalty(pooled: PooledCovariance) -> FloatArray:
    """Return the universal penalty of every correlation."""
    alpha, penalty = universal_penalty(pooled)
    penalty *= alpha
    np.fill_diagonal(penalty, 0.0)
    return penalty


def _fit_on_chosen(pooled: PooledCovariance, chosen: Solution, penalty: FloatArray) -> InferenceFit:
    """Return the fit on a chosen graph in inverse data units, with the share of the penalty that it keeps."""
    d = pooled.deviations
    precision, share = _refit(pooled.correlation, chosen.precision, penalty)
    precision = precision / np.outer(d, d)
    return InferenceFit(precision, share, misfit_of(pooled, precision))


def _refit(correlation: FloatArray, chosen: FloatArray, penalty: FloatArray) -> tuple[FloatArray, float]:
    """Return the fit on the graph of a precision matrix, and the share of the penalty that it keeps."""
    refitted = fit_on_graph(correlation, chosen != 0.0, penalty, tol=_TOL)
    return (refitted.precision, refitted.share) if refitted else (chosen, 1.0)


def misfit_of(pooled: PooledCovariance, precision: FloatArray) -> float:
    """Return the share of pairs for which the second-order error left in T exceeds half a standard error.

    That error is ``D Sigma D`` with D the error of Theta. Of D, what Theta - Theta S^ Theta shows beyond sqrt(2 log p)
    standard errors is put in its place. That is nothing where the graph is right, but for chance.
    """
    s = pooled.covariance
    found = sandwich(precision, s)
    np.subtract(precision, found, out=found)
    error = form_variances(pooled, precision)
    np.sqrt(error, out=error)
    chance = math.sqrt(2.0 * math.log(len(s)))
    for own, limit in zip(found, error, strict=True):
        own[np.abs(own) <= chance * limit] = 0.0
    left = sandwich(found, s)
    n_off = sum(
        np.count_nonzero(np.abs(own[i + 1 :]) > 0.5 * limit[i + 1 :])
        for i, (own, limit) in enumerate(zip(left, error, strict=True))
    )
    return n_off / (len(s) * (len(s) - 1) / 2)


def infer_coefficients(
    pooled: PooledCovariance, target: int, errors_of: RowErrors
) -> tuple[FloatArray, FloatArray] | None:
    """Return the coefficients of a column on all others without a penalty, and their standard errors.

    Let E be the error of the covariance, u = (-w, 1) and A the inverse of the predictors' covariance. The error of the
    coefficients w is ``A E_o u`` to first order, those of forms of S^, noise included.

    Parameters
    ----------
    pooled : PooledCovariance
        The debiased covariance of predictors and target.
    target : int
        The position of the target.
    errors_of : callable
        As in `infer_nodes`.

    Returns
    -------
    tuple of ndarray of shape (n_features - 1,), or None
        In data units; None where errors have no known law, or the inverse is not well determined.
    """
    others = np.flatnonzero(np.arange(len(pooled.columns)) != target)
    inverse = well_determined_inverse(keep_columns(pooled, others)) if pooled.has_error_law else None
    if inverse is None:
        return None
    coefficients = inverse @ pooled.covariance[others, target]
    forms = np.zeros((len(others) + 1, len(others) + 1))
    forms[:-1, others], forms[-1, others], forms[-1, target] = inverse, -coefficients, 1.0
    fitted = pooled.n_rows / max(pooled.n_rows - len(forms), 1)  # coefficients make residuals smaller
    return coefficients, np.sqrt(errors_of(forms).products[:-1, -1] * fitted)


def infer_r_squared(
    pooled: PooledCovariance, target: int, errors_of: RowErrors, coefficients: FloatArray
) -> list[float]:
    """Return the ends of the 95 % interval of R^2 without a penalty.

    It has all R^2 for which the residuals' variance less 1 - R^2 times the target's is within its error of zero
    (Fieller). Both are forms of S^. Coefficients that are estimated make residuals smaller by chance. On average that
    is the sum of the error variances of the forms of residuals with uncorrelated predictors of unit variance, which is
    added back.

    Parameters
    ----------
    pooled, target, errors_of
        As in `infer_coefficients`.
    coefficients : ndarray of shape (n_features - 1,)
        Those of `infer_coefficients`.
    """
    others = np.flatnonzero(np.arange(len(pooled.columns)) != target)
    forms = np.zeros((len(others) + 2, len(others) + 1))
    forms[-2:, target], forms[-2, others] = 1.0, -coefficients
    forms[:-2, others] = np.linalg.inv(np.linalg.cholesky(pooled.covariance[np.ix_(others, others)]))
    left, whole = np.diagonal(sandwich(forms, pooled.covariance))[-2:]
    errors, square = errors_of(forms), _quantile(0.95) ** 2
    left = left + errors.products[:-2, -2].sum()
    own, all_of_it = np.diagonal(errors.products)[-2:]
    crossed = 2.0 * errors.squares[-2, -1] - (own + all_of_it) / 2.0

    # (left - x whole)^2 <= square * (own - 2 crossed x + all_of_it x^2), sorted by powers of x
    powers = whole**2 - square * all_of_it, 2.0 * (square * crossed - left * whole), left**2 - square * own
    low, high = _solve_quadratic_inequality(*np.array(powers)[:, None])
    return [min(1.0 - float(high[0]), 1.0), min(1.0 - float(low[0]), 1.0)]


def infer_discriminant(
    pooled: PooledCovariance, target: int, errors_of: RowErrors
) -> tuple[FloatArray, FloatArray] | None:
    """Return the coefficients of Fisher's discriminant without a penalty, and their standard errors.

    Let d = s_xy / v_y be the classes' difference in means, and S_w = S_xx - s_xy s_xy' / v_y their common covariance.
    The coefficients ``S_w^-1 d`` are those of the regression on the class over its residual variance. That is the
    column -Theta_xy of the inverse Theta of the joint covariance. An error E of that changes them by ``(Theta E
    Theta)_xy``.

    Parameters
    ----------
    pooled, target, errors_of
        As in `infer_coefficients`; the target holds the classes 0 and 1.

    Returns
    -------
    tuple of ndarray of shape (n_features - 1,), or None
        As in `infer_coefficients`.
    """
    inverse = well_determined_inverse(pooled) if pooled.has_error_law else None
    if inverse is None:
        return None
    others = np.flatnonzero(np.arange(len(inverse)) != target)
    fitted = pooled.n_rows / max(pooled.n_rows - len(inverse), 1)
    return -inverse[others, target], np.sqrt(errors_of(inverse).products[others, target] * fitted)


def tabulate_unpenalised(estimate: FloatArray, error: FloatArray) -> dict[str, FloatArray]:
    """Return the columns of unpenalised estimates: themselves, standard_error, ci_low and ci_high (95 %)."""
    half = _quantile(0.95) * error
    return {"unpenalised": estimate, "standard_error": error, "ci_low": estimate - half, "ci_high": estimate + half}


def well_determined_inverse(pooled: PooledCovariance) -> FloatArray | None:
    """Return the inverse of S^, unless S^ is indefinite or leaves any diagonal entry of it uncertain."""
    if not is_positive_definite(pooled.correlation):
        return None
    inverse = np.asarray(np.linalg.inv(pooled.covariance), dtype=np.float64)
    error = np.sqrt(np.diagonal(form_variances(pooled, inverse)))
    return inverse if (error <= LARGEST_ERROR * np.diagonal(inverse)).all() else None


def _solve(correlation: FloatArray, penalty: FloatArray) -> Solution | None:
    """Return the penalised fit; None if there is none."""
    start = None if is_positive_definite(correlation) else find_start(correlation, penalty)
    problem = Problem(check_covariance(correlation, copy=False), penalty, 1.0)
    return solve(problem, solver="auto", tol=_TOL, start=start)


def shrink_weights(inference: EdgeInference, edges: Pairs, fitted: FloatArray) -> FloatArray | None:
    """Return better partial correlations of edges than the fit on their graph, or None where that is best.

    Parameters
    ----------
    inference : EdgeInference
        The desparsified estimates of all pairs, and their errors.
    edges : tuple of ndarray of int
        The positions of the edges' ends, the first below the second.
    fitted : ndarray of shape (n_edges,)
        The partial correlations of the fit on the graph.

    Returns
    -------
    ndarray of shape (n_edges,) or None
        None too where the noise's own error is unknown; no weight is zero unless its estimate is.
    """
    if inference.noise_error is None or not len(fitted) or _is_graph_right(inference, edges, fitted):
        return None
    estimate, error = inference.partial_correlation[edges], inference.noise_error[edges]
    known = np.isfinite(estimate) & np.isfinite(error)
    if not known.any():
        return None
    square = error[known] ** 2
    excess = float(np.mean(estimate[known] ** 2) - np.mean(square))
    variance = max(excess, float(np.mean(square)) / len(square))  # the excess may be negative, by chance
    shrunk = estimate[known] * (variance / (variance + square) if variance > 0.0 else 1.0)
    weights = fitted.copy()
    weights[known] = np.median([shrunk, fitted[known], estimate[known]], axis=0)
    return weights


def _is_graph_right(inference: EdgeInference, edges: Pairs, fitted: FloatArray) -> bool:
    """Return whether the desparsified estimates differ from the fit on the graph by no more than their errors."""
    scores = inference.scores
    n_columns = len(scores)
    n_without = n_columns * (n_columns - 1) // 2 - len(fitted)
    if n_without < _FEWEST:
        return False
    squares = (np.vdot(scores, scores) - np.sum(np.diagonal(scores) ** 2)) / 2.0 - np.sum(scores[edges] ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        within = (inference.partial_correlation[edges] - fitted) / inference.partial_error[edges]
    return bool(squares <= _MOST_WITHOUT * n_without and np.mean(within**2) <= _MOST_WITHIN)


FACTOR = 2.0  # of the universal penalty; of 1 to 4, about the best at every strength of the noise, with the diagonal
_TOL_OF_EVIDENCE = 1e-6


def score_pairs(pooled: PooledCovariance, *, solver: str = "auto") -> FloatArray:
    """Return the evidence for an edge between every pair of columns: the larger, the surer.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance, and errors that are known or estimated.
    solver : {"cd", "admm", "auto"}
        As in `graphical_lasso`.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric, not negative, zero on the diagonal.
    """
    alpha, _ = universal_penalty(pooled)
    solution = solve(make_problem(pooled.correlation, FACTOR * alpha), solver=solver, tol=_TOL_OF_EVIDENCE)
    theta = np.eye(len(pooled.columns)) if solution is None or not solution.converged else solution.precision
    return scores_from(pooled, theta / np.outer(pooled.deviations, pooled.deviations))


def scores_from(pooled: PooledCovariance, theta: FloatArray) -> FloatArray:
    """Return ``|T_ij|`` over its standard error for Gaussian rows, zero on the diagonal, from a Theta in data units."""
    size, error = np.abs(desparsify(pooled, theta)), np.sqrt(form_variances(pooled, theta))
    scores = np.divide(size, error, out=np.zeros_like(size), where=error > 0.0)
    np.fill_diagonal(scores, 0.0)
    return scores


POWER = 0.8
LEVEL = 0.05


def detection_power(size: FloatArray, standard_error: float) -> FloatArray:
    """Return the probability that a two-sided test of no edge, at the usual level, finds partial correlations.

    Parameters
    ----------
    size : ndarray
        The partial correlations.
    standard_error : float
        Of their estimate, positive.
    """
    z = normal_quantile(1.0 - LEVEL / 2.0)
    shift = size / standard_error
    return normal_tails(z - shift) + normal_tails(z + shift)


def smallest_visible(standard_error: float, level: float = LEVEL) -> float:
    """Return the partial correlation that a test finds in `POWER` of cases: (z_{1 - a/2} + z_power) standard errors.

    The test that finds it with the wrong sign has no part in the power here. It has a probability below 1e-6 at the
    usual levels.
    """
    return (normal_quantile(1.0 - level / 2.0) + normal_quantile(POWER)) * standard_error


def rows_to_see(pooled: PooledCovariance, standard_error: float, size: float) -> float | None:
    """Return about how many rows, published with the same noise, would show a partial correlation.

    The noise on rows adds to the variance of their covariance like further rows of another kind: all of it falls as
    1/n. The noise of a covariance release is on sums over rows, whatever their number: its part falls as 1/n^2, the
    sampling error's as 1/n.

    Parameters
    ----------
    pooled : PooledCovariance
        What was learned from, of n rows.
    standard_error : float
        Of a partial correlation in it.
    size : float
        The partial correlation that the test is to find.

    Returns
    -------
    float or None
        None for rows pooled with covariance releases, whose noise falls in both ways.
    """
    wanted = (size / smallest_visible(1.0)) ** 2
    n_rows, variance = pooled.n_rows, standard_error**2
    of_rows = {isinstance(source, NoisyCovariance) for source in pooled.sources}
    if of_rows == {True}:
        return n_rows * variance / wanted
    if of_rows == {True, False}:
        return None
    sampling = min(pooled.sampling_factor, variance)
    linear, square = n_rows * sampling, n_rows**2 * (variance - sampling)
    return (linear + math.sqrt(linear**2 + 4.0 * square * wanted)) / (2.0 * wanted)
