"""Errors of the debiased covariance S^: the variance of every bilinear form b_i' S^ b_j.

B = I gives the entries themselves, and B = Theta the first-order error of an inverse. The error has two independent
parts, and only the first depends on the distribution of the rows:

* the sampling error of the clean rows: for Gaussian rows with C = B Sigma B', (c_ii c_jj + c_ij^2) / (n - 1); * the
mechanism's: with N = B diag(v) B', (c_ii n_jj + c_jj n_ii + 2 c_ij n_ij + n_ii n_jj + n_ij^2) / (n - 1) for rows of any
distribution. To this comes sum_k b_ik^2 b_jk^2 kappa_k / n for noise with fourth cumulant kappa.

Both are exact for the sample covariance with divisor n - 1, whose noise has mean zero and no correlation with the rows.
Where noisy sums of second moments were released instead, `two_rounds` has the mechanism's part.

One more pass over the rows (`moments.row_errors`) gives the sum of both parts without assuming that the rows are
Gaussian.

Every law of errors is a covariance operator of entries, `ErrorTerms`: Isserlis' terms of pairs of covariances, a fourth
order, and single numbers. Rows, noisy sums in one round or two, what gaps and normal scores leave, are instances.

The variances of the entries of S^ are those at B = diag(1 / sqrt(S^_ii)), on the correlation scale. With r the
correlations, a_i = v_i / S^_ii the noise relative to the variance, and n rows, an off-diagonal entry has the variance

    ((1 + a_i) (1 + a_j) + r_ij^2) / (n - 1),

of which (1 + r_ij^2) / (n - 1) is the sampling error. What noise on a released sum adds is in
`two_rounds`.

The errors of entries that should be zero, on that scale, and the penalties that they call for, are from these.

References
----------
Isserlis (1918), On a formula for the product-moment coefficient, Biometrika 12. McCullagh (1987), Tensor Methods in
Statistics, section 4.2 (the covariances of k-statistics). White (1980), A heteroskedasticity-consistent covariance
matrix estimator, Econometrica 48(4).

How skewed a column is at least, by its mean, its deviation and its bounds, and what that does to sampling errors.

A variable that is d above its lower bound on average, with the standard deviation s, has the skewness

    g >= s / d - d / s,

with equality for two values of which one is the bound (Cauchy-Schwarz: E[y^2]^2 <= E[y] E[y^3] for y >= 0): of 0 and 1
with 5 % ones 4.1, of numbers that are mostly zero nearly as much. The mirror image is that of an upper bound.

Take two standardized columns with the correlation r. Let z_i^2 depend on z_i alone by its regression, 1 + g_i z_i,
which is exact for two values. Then E[z_i^2 z_j^2] = 1 + g_i g_j r. Elliptical rows with kurtosis 1 + kappa have (1 +
kappa) (1 + 2 r^2), which is less where linked events are rare: these vary together. By what is missing, the mean over
pairs of columns with weights b_ik^2 s_k^2 and b_jl^2 s_l^2, the sampling variance of b_i' S^ b_j is raised, in units of
c_ii c_jj. As a mean it stays within reason where columns are nearly collinear and b is large. Noise in r would raise it
on average, so r is shrunk by 1 - se^2 / r^2, not below zero.

Two columns of 0 and 1 that are nearly equal differ in few rows. The fourth cumulant of their difference is about v - 3
v^2, with its variance v. It counts with half of what a form has of one less the other. Of correlations of .8 to .98,
errors are then .97 to 1.01 of the simulated ones. They were .2 to .6 of them without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.noise import normal_quantile
from dp_learn.covariance.estimate import (
    AT_ONCE,
    ErrorTerms,
    FormErrors,
    Part,
    PooledCovariance,
    by_rows,
    in_slices,
    keep_columns,
)
from dp_learn.matrices.linalg import FloatArray, Mask, median_above_diagonal, normal_tails, sandwich, sparse_if_worth_it

if TYPE_CHECKING:
    from dp_bundle.data.latent import Steps

CHANCE_EDGES = 0.2  # in four of five tables of unrelated columns there is then none
_BINS = 256
_ALIKE = 0.7  # a correlation of columns of two values, from which on their difference is rarer than a normal one


def form_variances(pooled: PooledCovariance, b: FloatArray) -> FloatArray:
    """Return Var[b_i' S^ b_j] for Gaussian rows; the squared standard errors of the entries when b is the identity.

    Parameters
    ----------
    pooled : PooledCovariance
        The debiased covariance and what it came from.
    b : ndarray of shape (q, n_features)
        One linear form per row.

    Returns
    -------
    ndarray of shape (q, q)
        Not negative, also where S^ is indefinite.
    """
    part = _model_errors(pooled, b)
    return in_slices(len(b), lambda rows: part(rows).products)


def form_errors(pooled: PooledCovariance, b: FloatArray) -> FormErrors:
    """Return the errors of the forms for Gaussian rows: the sampling part plus the mechanism's."""
    return by_rows(len(b), _model_errors(pooled, b))


def at_least_model(errors: FormErrors, pooled: PooledCovariance, b: FloatArray) -> FormErrors:
    """Return the larger of the given errors, which are overwritten, and `form_errors`, for every pair."""
    model = _model_errors(pooled, b)
    return by_rows(len(b), lambda rows: errors.rows(rows).at_least(model(rows)), into=errors)


def _model_errors(pooled: PooledCovariance, b: FloatArray) -> Part:
    c = clean_forms(pooled, b)
    model = ErrorTerms(((pooled.sampling_factor, c, c),), _near_copies(pooled, b)) + _mechanism(pooled, c, b)
    excess = excess_products(pooled, b, c.diagonal(), entry_variances)

    def part(rows: slice) -> FormErrors:
        errors = model.errors(rows)
        return errors if excess is None else replace(errors, products=errors.products + excess(rows))

    return part


def mechanism_errors(pooled: PooledCovariance, b: FloatArray) -> FormErrors:
    """Return the noise's part of the forms' variances, for independent rows of any distribution."""
    return by_rows(len(b), _mechanism(pooled, clean_forms(pooled, b), b).errors)


def mechanism_variances(pooled: PooledCovariance, b: FloatArray, r: FloatArray) -> FloatArray:
    """Return `mechanism_errors(pooled, b).along(r)`."""
    mechanism = _mechanism(pooled, clean_forms(pooled, b), b)
    return in_slices(len(r), lambda rows: mechanism.errors(rows).along(r[rows]))


def _mechanism(pooled: PooledCovariance, c: Any, b: FloatArray) -> ErrorTerms:
    forms = sparse_if_worth_it(b)
    each = zip(pooled.sources, pooled.weights, strict=True)
    return reduce(add, [source.known_noise.terms(c, forms).times(weight * weight) for source, weight in each])


def combine_row_errors(pooled: PooledCovariance, b: FloatArray, errors: Sequence[FormErrors]) -> FormErrors:
    """Return the errors of the pooled forms from each source's `row_errors`.

    Variances of sources of independent rows add up, times their squared weights. Releases of the same rows share one
    sampling error, which counts once. Each release estimates it by its own error less the noise's part, which is known.
    These estimates are averaged by the squared weights, because they vary with the square of the noise's part.
    """
    squared = [weight * weight for weight in pooled.weights]
    if len(errors) == 1:
        return errors[0]
    if not pooled.same_rows:
        return reduce(add, [error.times(factor) for error, factor in zip(errors, squared, strict=True)])
    c = clean_forms(pooled, b)
    own = [source.known_noise.terms(c, sparse_if_worth_it(b)) for source in pooled.sources]
    mechanism = _mechanism(pooled, c, b)

    def combined(rows: slice) -> FormErrors:
        left = [
            (error.rows(rows) + terms.errors(rows).times(-1.0)).times(factor / sum(squared))
            for error, terms, factor in zip(errors, own, squared, strict=True)
        ]
        return _possible(reduce(add, left)) + mechanism.errors(rows)

    return by_rows(len(c), combined)


def _possible(errors: FormErrors) -> FormErrors:
    """Return the errors with every variance raised to zero or more: a difference of estimates may be negative."""
    products, squares = np.maximum(errors.products, 0.0), np.maximum(errors.squares, 0.0)
    most = 2.0 * np.sqrt(products * squares)
    return FormErrors(products, np.clip(errors.crossed, -most, most), squares)


def clean_forms(pooled: PooledCovariance, b: FloatArray) -> FloatArray:
    """Return B S^ B' with no variance below zero and no correlation above one.

    S^ may be indefinite. Every pair of forms gets a valid covariance matrix. Then every variance of this module is a
    sum of products of covariances of pairs, and so is not negative.
    """
    c = sandwich(b, pooled.covariance)
    d = np.maximum(np.diagonal(c), 0.0)
    root = np.sqrt(d)
    for start in range(0, len(c), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        bound = np.outer(root[rows], root)
        np.clip(c[rows], -bound, bound, out=c[rows])
    np.fill_diagonal(c, d)
    return c


def entry_variances(pooled: PooledCovariance, correlation: FloatArray | None = None) -> FloatArray:
    """Return the squared standard errors of the entries for Gaussian rows.

    Parameters
    ----------
    pooled : PooledCovariance
        All columns with a positive debiased variance.
    correlation : ndarray of shape (n_features, n_features), optional
        With a unit diagonal and no entry above 1 in size; by default no two columns are correlated.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric; on the diagonal, of the variances.
    """
    variances = mechanism_entry_variances(pooled, correlation)
    variances += pooled.sampling_factor
    variances[np.diag_indices_from(variances)] += pooled.sampling_factor
    if correlation is not None:
        squares = correlation * correlation
        np.fill_diagonal(squares, 0.0)
        squares *= pooled.sampling_factor
        variances += squares
    return variances


def mechanism_entry_variances(pooled: PooledCovariance, correlation: FloatArray | None = None) -> FloatArray:
    """Return the noise's part of these variances, for rows of any distribution."""
    deviations = pooled.deviations
    total = np.zeros((len(deviations), len(deviations)))
    for source, weight in zip(pooled.sources, pooled.weights, strict=True):
        part = source.known_noise.entry_variances(deviations, correlation)
        part *= weight * weight
        total += part
    return total


def unexplained_variances(pooled: PooledCovariance) -> FloatArray:
    """Return the variances, in data units to the fourth, of the debiased variances of columns of noise alone."""
    each = zip(pooled.sources, pooled.weights, strict=True)
    return np.asarray(np.sum([w * w * source.known_noise.variances_of_variances() for source, w in each], axis=0))


def clear_variances(pooled: PooledCovariance) -> Mask:
    """Return which variances are clearly positive.

    Simply positive is enough where the noise does not act entry by entry: nothing is subtracted there.
    """
    variances = np.diagonal(pooled.covariance)
    if not pooled.has_error_law:
        return np.asarray(variances > 0.0)
    with np.errstate(invalid="ignore"):  # of ten rows the estimate may be negative: no column is clear then
        return np.asarray(variances > 2.0 * np.sqrt(unexplained_variances(pooled)))


def sum_over_pairs(pooled: PooledCovariance, precision: FloatArray) -> tuple[float, float]:
    """Return the sums over i < j of ``1 + c_ij^2`` and of ``Var[b_i' S^ b_j]``, both of forms of unit variance.

    Parameters
    ----------
    pooled : PooledCovariance
        Its sources; S^ itself plays no part, and varies about Theta^-1.
    precision : ndarray of shape (n_features, n_features)
        Theta, positive definite, in inverse data units.
    """
    unit = 1.0 / np.sqrt(np.diagonal(precision))
    b = precision * unit[:, None]
    c = sparse_if_worth_it(b * unit)
    noiseless = ErrorTerms(((1.0, c, c),)).sum_over_pairs()
    return noiseless, pooled.sampling_factor * noiseless + _mechanism(pooled, c, b).sum_over_pairs()


def null_standard_errors(pooled: PooledCovariance) -> FloatArray:
    """Return the standard errors of the entries on the correlation scale where the columns are uncorrelated.

    For one source of rows, ``se_ij^2 = (1 + v_i / S^_ii) (1 + v_j / S^_jj) / (n - 1)``. On the diagonal, half of the
    variance's squared error takes its place, which is the same: a scale for penalties.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric, positive.
    """
    variances = entry_variances(pooled)
    np.fill_diagonal(variances, np.diagonal(variances) / 2.0)
    return np.sqrt(variances, out=variances)


def typical_errors(pooled: PooledCovariance) -> tuple[float, float] | None:
    """Return the median error of a correlation that is zero, as it is and as it would be without the noise.

    None where nothing is known of the noise, or fewer than two columns stand clear of it.
    """
    clear = np.flatnonzero(clear_variances(pooled))
    if not pooled.has_errors or len(clear) < 2:
        return None
    variances = entry_variances(keep_columns(pooled, clear))
    median = median_above_diagonal(variances)
    return math.sqrt(median), math.sqrt(pooled.sampling_factor)


def rows_without_noise(pooled: PooledCovariance) -> float | None:
    """Return n such that 1/n is the squared error of a correlation that is zero, the median; None if unknown.

    For software that knows no noise; `sample.effective_rows` is of all entries as they are, for choosing alpha.
    """
    errors = typical_errors(pooled)
    return None if errors is None else errors[0] ** -2.0


def universal_penalty(pooled: PooledCovariance) -> tuple[float, FloatArray]:
    """Return the universal penalty, sqrt(2 log p) standard errors of every entry, as alpha and weights.

    Of p independent normal errors, none is likely to exceed it, so hardly any edge is chosen for its noise alone. The
    weights are each entry's `null_standard_errors` divided by their off-diagonal median; with equal ones, alpha is as
    many standard errors of a typical entry. Noisier entries are penalised more, in proportion, and a typical entry as
    before, so that alpha keeps its meaning; without noise all weights are 1. The errors are those of uncorrelated
    columns because a penalty must exceed the error of an entry that should be zero. They depend on the diagonal alone:
    a weight that grew with the estimated correlation would punish a strong edge for being strong.

    References
    ----------
    Donoho & Johnstone (1994), Ideal spatial adaptation by wavelet shrinkage, Biometrika 81(3).
    """
    errors = null_standard_errors(pooled)
    typical = median_above_diagonal(errors)
    return math.sqrt(2.0 * math.log(len(errors))) * typical, errors / typical


def chance_alpha(errors: FloatArray, weights: FloatArray | None = None, n_edges: float = CHANCE_EDGES) -> float:
    """Return the alpha at which chance alone is expected to make a fifth of an edge among unrelated columns.

    The entry (i, j) exceeds alpha w_ij by chance with probability ``2 Phi(-alpha w_ij / se_ij)``, and alpha makes these
    sum to 0.2, or to `n_edges`. For equal errors it is nearly sqrt(2 log m) of them, m the number of pairs: the largest
    of m errors.

    Parameters
    ----------
    errors : ndarray of shape (n_features, n_features)
        `null_standard_errors`, on the scale of the penalty.
    weights : ndarray of shape (n_features, n_features), optional
        Of the penalty, ones by default; pairs with weight 0 or inf play no part.
    n_edges : float
        How many edges chance is to make, positive and at most half of all pairs.

    References
    ----------
    Donoho & Johnstone (1994), Ideal spatial adaptation by wavelet shrinkage, Biometrika 81(3).
    """
    penalised = ~np.eye(len(errors), dtype=bool)
    if weights is not None:
        penalised &= (weights > 0.0) & np.isfinite(weights)
        errors = np.divide(errors, weights, out=np.zeros_like(errors), where=penalised)
    each = errors[penalised]
    if not each.size:
        return 0.0
    limits = np.geomspace(each.min(), each.max() * (1.0 + 1e-9), _BINS + 1)
    counts = np.histogram(each, limits)[0] / 2.0  # each pair is there twice
    low, high = 0.0, -normal_quantile(n_edges / each.size) * limits[-1]
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        expected = float(counts @ normal_tails(middle / limits[1:])) * 2.0
        low, high = (middle, high) if expected > n_edges else (low, middle)
    return float(high)


def least_skewness(
    limits: Sequence[tuple[float, float]], mean: FloatArray, variance: FloatArray, n_rows: int
) -> FloatArray:
    """Return the least skewness in size that a column can have, zero where its limits say nothing.

    Parameters
    ----------
    limits : sequence of tuple
        The least and the largest value of each column, which may be infinite; see `limits_of`.
    mean, variance : ndarray of shape (n_features,)
        On the scale that is released; where noise puts the mean beyond a bound, the skewness is that of one row in all.
    n_rows : int
        The number of rows.
    """
    low, high = np.array(limits).T
    deviation = np.sqrt(np.maximum(variance, 0.0))
    floor = deviation / np.sqrt(n_rows)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = [deviation / np.maximum(distance, floor) for distance in (mean - low, high - mean)]
        above, below = (np.where(ratio > 1.0, ratio - 1.0 / ratio, 0.0) for ratio in ratios)
    return np.asarray(above - below)


def limits_of(column: Column, scores: Mapping[str, Steps]) -> tuple[float, float]:
    """Return the least and the largest value on the scale that is released; of scores those of its steps, if given."""
    if column.name in scores:
        return float(scores[column.name].values[0]), float(scores[column.name].values[-1])
    if column.block is not None and column.missing != "indicator":
        return 0.0, 1.0  # of a level, whatever the bounds
    if column.bounds is None or column.transform is not None:
        return -np.inf, np.inf
    return column.bounds


def _near_copies(pooled: PooledCovariance, b: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Return the fourth order of differences of columns of two values that are nearly equal, or opposite.

    A difference of -1, 0 or 1 with the variance v and a small mean has the fourth cumulant v - 3 v^2.
    """
    ones = pooled.sources[0].ones
    if ones is None:
        return ()
    two = np.flatnonzero(ones * np.diagonal(pooled.covariance) > 0.0)
    kept, units = keep_columns(pooled, two), np.sqrt(ones[two] * (1.0 - ones[two]))
    first, second = np.nonzero(np.triu(np.abs(kept.correlation) > _ALIKE, 1))
    if not len(first):
        return ()
    r, own = kept.correlation[first, second], b[:, two] * (kept.deviations / units)
    shared = 2.0 * np.minimum(np.abs(r), 1.0) * units[first] * units[second]
    v = np.maximum(units[first] ** 2 + units[second] ** 2 - shared, 1.0 / pooled.n_rows)
    fourth = np.maximum(v - 3.0 * v * v, 0.0) * (pooled.sampling_factor / pooled.kurtosis)
    return (((own[:, first] - np.sign(r) * own[:, second]) / 2.0, fourth),)


def excess_products(
    pooled: PooledCovariance, b: FloatArray, size: FloatArray, variances: Callable[[PooledCovariance], FloatArray]
) -> Callable[[slice], FloatArray] | None:
    """Return a function that gives rows of what skewed columns add to the variances of the forms; None if nothing.

    Parameters
    ----------
    pooled : PooledCovariance
        The debiased covariance and what it came from.
    b : ndarray of shape (q, n_features)
        One linear form per row.
    size : ndarray of shape (q,)
        The variances of the forms.
    variances : callable
        `standard_errors.entry_variances`.
    """
    kept = np.flatnonzero((pooled.skewness != 0.0) & (np.diagonal(pooled.covariance) > 0.0))
    if len(kept) < 2:
        return None
    of_kept, g = keep_columns(pooled, kept), pooled.skewness[kept]
    r = np.clip(of_kept.correlation, -1.0, 1.0)
    r *= np.maximum(1.0 - variances(of_kept) / np.maximum(r * r, 1e-300), 0.0)
    excess = np.maximum(1.0 + r * np.outer(g, g) - pooled.kurtosis * (1.0 + 2.0 * r * r), 0.0)
    np.fill_diagonal(excess, 0.0)
    if (ones := pooled.sources[0].ones) is not None:
        has_two = ones[kept] > 0.0
        excess[np.outer(has_two, has_two) & (np.abs(of_kept.correlation) > _ALIKE)] = 0.0  # as of `_near_copies`
    share = size / np.maximum(b * b @ np.maximum(np.diagonal(pooled.covariance), 0.0), 1e-300)
    weights = (b[:, kept] * of_kept.deviations) ** 2 * share[:, None]
    return lambda rows: weights[rows] @ excess @ weights.T * (pooled.sampling_factor / pooled.kurtosis)
