"""Partial correlations of releases that are compared, along the same forms in all, with their errors and draws of them.

All releases are fitted on one graph, without a penalty, and desparsified: T = 2 Theta - Theta S^ Theta. With D = Theta
- Sigma^-1, T errs by exactly -Theta (S^ - Sigma) Theta - D Sigma D. The first term has the known errors of bilinear
forms of S^, noise included. Where the networks are the same, what the graph leaves out is the same in the second term
of every release. It drops out of their difference whatever the noise of each.

*Pairs of columns.* The partial correlation is -T_ij / sqrt(T_ii T_jj), with the first-order error of that ratio.

*Pairs of nodes with several columns.* With K_gh = T_gg^(-1/2) T_gh T_hh^(-1/2), the number that is compared is -u' K_gh
v. Here u and v are the first singular vectors of the mean of all releases' blocks, weighted by their precision. That
mean and the differences are uncorrelated, so that choosing u and v by it does not select differences.

*Errors.* Rows tell the variance of each form without assuming that they are Gaussian, and vary about it. The ratio to
the Gaussian rows' variance is shrunk to its mean over pairs by as much as it varies by chance alone. It is at least 1.

References
----------
Jankova & van de Geer (2015), Electronic Journal of Statistics 9, eq. 4, for T. White (1980), Econometrica 48(4), for
errors from rows. Efron & Morris (1972), JASA 67(337), for the shrinkage.

Differences of partial correlations between releases of different rows, with tests that hold their level.

*Tests of all pairs.* The largest difference in standard errors and a sum of squares are compared with draws of the
joint law of all errors: Gaussian errors of S^ with the covariance of sampling and noise, through the same forms. A
standard error from heavy-tailed rows goes with its own estimate, which biases a sum over many pairs. So squares are in
units of the model's errors times the mean ratio, and only the draws have each pair's own.

*Strengths of nodes.* The sum of the sizes of a node's links is biased by the noise. Compared is the sum over the links
that the weighted mean of all releases shows. Each has the sign of that mean, which no difference has selected.

References
----------
Benjamini & Hochberg (1995), Controlling the false discovery rate, JRSS B 57(1). van Borkulo et al. (2023), Comparing
network structures on three aspects, Psychological Methods 28(6), for the questions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations

import numpy as np

from dp_bundle.base.quoting import Brief
from dp_learn.covariance.estimate import NoiseLaw, NoisyCovariance, PooledCovariance, root_of
from dp_learn.covariance.standard_errors import form_errors
from dp_learn.inference.edges import LARGEST_ERROR, Pairs, RowErrors, desparsify, least_rates
from dp_learn.inference.nodes import whiten_blocks
from dp_learn.matrices.linalg import FloatArray, Mask, Places, draw_symmetric, sandwich, two_sided

_MOST_FORMS = 1000  # whose errors are computed at once
_VARIATION = 8.0  # over n: of the variance of a product of two unrelated Gaussian numbers, relative to it
ErrorDraw = Callable[[np.random.Generator], FloatArray]
_Part = tuple[FloatArray, float, float, NoiseLaw | None]  # of an error: root, factor and weight of a source, its noise


@dataclass(frozen=True, eq=False)
class Release:
    """A release that is compared.

    Attributes
    ----------
    pooled : PooledCovariance
        Of the common columns.
    precision : ndarray of shape (n_features, n_features)
        Theta, fitted on the common graph, in inverse data units.
    row_errors : callable
        Returns the errors of forms as the rows have them, or as the release states them where it has none.
    weights : ndarray of shape (G, G)
        One over the squared error of each pair of nodes, up to a factor that all releases share.
    """

    pooled: PooledCovariance
    precision: FloatArray
    row_errors: RowErrors
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Estimate:
    """The partial correlations of one release, of m pairs of nodes.

    Attributes
    ----------
    value : ndarray of shape (m,)
        The partial correlations; between nodes of several columns along the common directions.
    standard_error : ndarray of shape (m,)
        Sampling and noise.
    common_error : ndarray of shape (m,)
        The same if rows are further from Gaussian ones by the same factor in all pairs.
    is_clear : ndarray of bool, shape (m,)
        Whether both ends have little enough error for a ratio to be normal.
    draw : callable
        Returns draws of the errors in standard errors, shape (m,), from a generator.
    """

    value: FloatArray
    standard_error: FloatArray
    common_error: FloatArray
    is_clear: Mask
    draw: Callable[[np.random.Generator], FloatArray]


@dataclass(frozen=True, eq=False)
class Estimates(Brief):
    """The partial correlations of all releases.

    Attributes
    ----------
    pairs : tuple of ndarray of int
        The positions of the nodes of every pair, the first below the second.
    estimates : list of Estimate
        Of every release.
    is_comparable : ndarray of bool, shape (m,)
        Whether all releases are clear of a pair.
    """

    pairs: Pairs
    estimates: list[Estimate]
    is_comparable: Mask


@dataclass(frozen=True, eq=False)
class _Forms:
    """The forms of all pairs: rows of a matrix on the whitened columns, and which two each pair has."""

    rows: FloatArray
    first: Places
    second: Places

    @cached_property
    def are_columns(self) -> bool:
        """True if the forms are the columns themselves."""
        return self.rows.shape[0] == self.rows.shape[1] and np.array_equal(self.rows, np.eye(len(self.rows)))

    def between(self, matrix: FloatArray) -> FloatArray:
        """Return u' M v of every pair."""
        if self.are_columns or len(self.rows) <= 2 * len(matrix):
            whole = matrix if self.are_columns else sandwich(self.rows, matrix)
            return np.asarray(whole[self.first, self.second])
        return np.asarray(np.sum((self.rows[self.first] @ matrix) * self.rows[self.second], axis=1))

    def within(self, matrix: FloatArray) -> FloatArray:
        """Return the sum of u' M u and v' M v of every pair."""
        own = np.diagonal(matrix) if self.are_columns else np.sum((self.rows @ matrix) * self.rows, axis=1)
        both: FloatArray = own[self.first] + own[self.second]
        return both

    def errors(self, errors_of: RowErrors, b: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first-order variances of the partial correlations r, and the larger of each pair's own forms.

        Where nodes of several columns make many forms, some pairs at a time save memory.
        """
        n_pairs = len(r)
        at_once = n_pairs if len(self.rows) <= max(_MOST_FORMS, len(b)) else _MOST_FORMS // 2
        variances, own = np.empty(n_pairs), np.empty(n_pairs)
        for start in range(0, n_pairs, at_once):
            part = slice(start, start + at_once)
            used, places = np.unique([self.first[part], self.second[part]], return_inverse=True)
            first, second = places.reshape(2, -1)
            found = errors_of(self.rows[used] @ b)
            at, some = (first, second), r[part]
            variances[part] = found.products[at] + some * found.crossed[at] + some * some * found.squares[at]
            diagonal = np.diagonal(found.products)
            own[part] = np.maximum(diagonal[first], diagonal[second])
        return variances, own


def estimate_releases(releases: Sequence[Release], labels: Places, pairs: Pairs = ()) -> Estimates:
    """Return the partial correlations of pairs of nodes in every release, along the same directions.

    Parameters
    ----------
    releases : sequence of Release
        Of different rows, fitted on one graph.
    labels : ndarray of int, shape (n_features,)
        The node of each column.
    pairs : tuple of ndarray of int
        The positions of the nodes of every pair, m of them; by default all.
    """
    pairs = pairs or np.triu_indices(int(labels.max()) + 1, 1)
    whitened = [_whiten(release, labels) for release in releases]
    forms = _choose_directions([k for k, _ in whitened], [each.weights for each in releases], labels, pairs)
    found = [_estimate(release, k, b, forms) for release, (k, b) in zip(releases, whitened, strict=True)]
    return Estimates(pairs, found, np.all([each.is_clear for each in found], axis=0))


def _whiten(release: Release, labels: Places) -> tuple[FloatArray, FloatArray]:
    """Return K, which is T with identity blocks on the diagonal, and the forms B whose B E B' is its error."""
    t = desparsify(release.pooled, release.precision)
    root = whiten_blocks(t, release.precision, labels)
    return sandwich(root, t), root @ release.precision


def _choose_directions(
    blocks: Sequence[FloatArray], weights: Sequence[FloatArray], labels: Places, pairs: Pairs
) -> _Forms:
    """Return the forms of all pairs: columns themselves, or the directions in which the mean block is largest."""
    columns = [np.flatnonzero(labels == node) for node in range(int(labels.max()) + 1)]
    rows: list[FloatArray] = []
    place_of: dict[int, int] = {}

    def add(node: int, direction: FloatArray | None) -> int:
        if direction is None and node in place_of:
            return place_of[node]
        row = np.zeros(len(labels))
        row[columns[node]] = 1.0 if direction is None else direction
        rows.append(row)
        if direction is None:
            place_of[node] = len(rows) - 1
        return len(rows) - 1

    ends = np.empty((2, len(pairs[0])), dtype=np.intp)
    for place, (g, h) in enumerate(zip(*(each.tolist() for each in pairs), strict=True)):
        left: FloatArray | None = None
        right: FloatArray | None = None
        if len(columns[g]) > 1 or len(columns[h]) > 1:
            at = np.ix_(columns[g], columns[h])
            mean = sum(weight[g, h] * block[at] for weight, block in zip(weights, blocks, strict=True))
            u, _, v = np.linalg.svd(-np.asarray(mean), full_matrices=False)
            left, right = u[:, 0], v[0]
        ends[:, place] = add(g, left), add(h, right)
    return _Forms(np.array(rows), *ends)


def _estimate(release: Release, k: FloatArray, b: FloatArray, forms: _Forms) -> Estimate:
    """Return the partial correlations of a release along the forms, with their errors."""
    value = np.clip(-forms.between(k), -1.0, 1.0)
    model, own_model = forms.errors(lambda scaled: form_errors(release.pooled, scaled), b, value)
    seen, own_seen = forms.errors(release.row_errors, b, value)
    model = np.maximum(model, np.finfo(float).tiny)
    ratio, mean_ratio = _shrink(seen / model, release.pooled)
    model_error = np.sqrt(model)
    return Estimate(
        value,
        model_error * np.sqrt(ratio),
        model_error * math.sqrt(mean_ratio),
        np.maximum(own_model, own_seen) <= LARGEST_ERROR**2,
        partial(_draw, _error_law(release.pooled, b), forms, value, model_error),
    )


def _draw(
    draw_error: ErrorDraw, forms: _Forms, value: FloatArray, model_error: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return a draw of the errors of partial correlations, in standard errors."""
    error = draw_error(rng)
    drawn: FloatArray = (forms.between(error) + value * forms.within(error) / 2.0) / model_error
    return drawn


def _shrink(ratio: FloatArray, pooled: PooledCovariance) -> tuple[FloatArray, float]:
    """Return ratios of variances shrunk to their mean by the share of their variance that chance makes, and the mean.

    All are 1 or more.

    The mean over pairs is known far better than one pair's ratio, and is the same for all where rows are elliptical.
    """
    mean = max(float(np.mean(ratio)), 1.0)
    by_chance = mean * mean * _VARIATION / pooled.n_rows
    variance = float(np.var(ratio))
    kept = 1.0 - min(by_chance / variance, 1.0) if variance > 0.0 else 0.0
    return np.maximum(mean + kept * (ratio - mean), 1.0), mean


def _error_law(pooled: PooledCovariance, b: FloatArray) -> ErrorDraw:
    """Return a function that draws the error of B S^ B': sampling of Gaussian rows, and noise."""
    parts: list[_Part] = []
    for source, weight in zip(pooled.sources, pooled.weights, strict=True):
        covariance, factor, noise = pooled.covariance, 1.0, None
        if isinstance(source, NoisyCovariance):
            covariance = source.covariance  # whose sampling error holds that of the noise
        else:
            factor, noise = source.kurtosis or 1.0, source.known_noise
        parts.append((root_of(covariance), weight * math.sqrt(factor / (source.n_rows - 1)), weight, noise))
    return partial(_draw_error, pooled.covariance, b, parts)


def _draw_error(covariance: FloatArray, b: FloatArray, parts: Sequence[_Part], rng: np.random.Generator) -> FloatArray:
    error = np.zeros_like(b)
    for root, factor, weight, noise in parts:
        error += factor * sandwich(b @ root, draw_symmetric(rng, len(root)))
        if noise is not None:
            error += weight * sandwich(b, noise.draw(rng, covariance, root))
    return error


N_DRAWS = 2000
SEED = 20261127  # the same releases have the same draws


@dataclass(frozen=True, eq=False)
class GlobalTest:
    """A test of all pairs at once: the statistic, the value that chance exceeds at the level, and the p-value."""

    statistic: float
    critical: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Difference:
    """Two releases compared, the second less the first.

    Attributes
    ----------
    first, second : int
        Which releases.
    difference, standard_error, p_value : ndarray of shape (m,)
        Of every pair of nodes; NaN where the pair cannot be compared.
    largest, squares : GlobalTest
        The largest absolute difference in standard errors, and the sum of squares of all in common errors.
    strength, strength_error : ndarray of shape (G,)
        The difference of the nodes' strengths, and its standard error.
    """

    first: int
    second: int
    difference: FloatArray
    standard_error: FloatArray
    p_value: FloatArray
    largest: GlobalTest
    squares: GlobalTest
    strength: FloatArray
    strength_error: FloatArray


@dataclass(frozen=True, eq=False)
class Differences(Estimates):
    """All releases compared, two at a time.

    Attributes
    ----------
    pairs, estimates, is_comparable
        As of `Estimates`.
    is_link : ndarray of bool, shape (m,)
        Whether the weighted mean of all releases shows a link, at the false discovery rate.
    strengths : list of ndarray of shape (G,)
        Of the nodes, over these links, in every release.
    each : list of Difference
        For every two releases.
    q_values, strength_q_values : list of ndarray
        The false discovery rates at which each would be found, over all comparisons together.
    largest, squares : GlobalTest
        Over all comparisons.
    """

    is_link: Mask
    strengths: list[FloatArray]
    each: list[Difference]
    q_values: list[FloatArray]
    strength_q_values: list[FloatArray]
    largest: GlobalTest
    squares: GlobalTest


def find_differences(of: Estimates, *, fdr: float = 0.05, confidence: float = 0.95, n_draws: int) -> Differences:
    """Compare every pair of nodes in every two releases.

    Parameters
    ----------
    of : Estimates
        Of all pairs, in two releases or more.
    fdr : float
        The false discovery rate at which links of the mean count for strengths.
    confidence : float
        The level of the global tests' critical values.
    n_draws : int
        How many draws of all errors the global tests and the errors of strengths rest on.
    """
    estimates, comparable = of.estimates, of.is_comparable
    precisions = [each.standard_error**-2.0 for each in estimates]
    precision = np.sum(precisions, axis=0)
    mean = np.sum([w * each.value for w, each in zip(precisions, estimates, strict=True)], axis=0) / precision
    p_of_link = np.where(comparable, two_sided(mean * np.sqrt(precision)), np.nan)
    is_link = np.nan_to_num(least_rates([p_of_link])[0], nan=1.0) <= fdr
    incidence = np.zeros((int(np.max(of.pairs)) + 1, len(comparable)))
    for ends in of.pairs:
        incidence[ends[is_link], np.flatnonzero(is_link)] = np.sign(mean[is_link])

    each, overall = _compare_all(estimates, comparable, incidence, confidence, n_draws)
    strength_p = [two_sided(_ratio(one.strength, one.strength_error)) for one in each]
    return Differences(
        of.pairs,
        estimates,
        comparable,
        is_link,
        [incidence @ estimate.value for estimate in estimates],
        each,
        least_rates([one.p_value for one in each]),
        least_rates(strength_p),
        *overall,
    )


def _compare_all(
    estimates: Sequence[Estimate], comparable: Mask, incidence: FloatArray, confidence: float, n_draws: int
) -> tuple[list[Difference], tuple[GlobalTest, GlobalTest]]:
    """Return every two releases compared, and the tests over all comparisons."""
    rng = np.random.default_rng(SEED)
    places = list(combinations(range(len(estimates)), 2))
    errors = [np.hypot(estimates[k].standard_error, estimates[n].standard_error) for k, n in places]
    units = [np.hypot(estimates[k].common_error, estimates[n].common_error) for k, n in places]
    largest, squares = np.zeros((2, n_draws, len(places)))
    strengths = np.zeros((n_draws, len(places), len(incidence)))
    for number in range(n_draws):
        drawn = [each.standard_error * each.draw(rng) for each in estimates]
        for place, (k, n) in enumerate(places):
            apart = drawn[n] - drawn[k]
            largest[number, place] = np.abs(apart / errors[place])[comparable].max(initial=0.0)
            squares[number, place] = np.sum((apart / units[place])[comparable] ** 2)
            strengths[number, place] = incidence @ apart

    each, seen = [], []
    for place, (k, n) in enumerate(places):
        apart = np.where(comparable, estimates[n].value - estimates[k].value, np.nan)
        error = np.where(comparable, errors[place], np.nan)
        most = float(np.abs(apart / error)[comparable].max(initial=0.0))
        total = float(np.sum((apart / units[place])[comparable] ** 2))
        seen.append((most, total))
        each.append(
            Difference(
                first=k,
                second=n,
                difference=apart,
                standard_error=error,
                p_value=two_sided(apart / error),
                largest=_test(most, largest[:, place], confidence),
                squares=_test(total, squares[:, place], confidence),
                strength=incidence @ (estimates[n].value - estimates[k].value),
                strength_error=strengths[:, place].std(axis=0),
            )
        )
    over_all = (
        _test(max(most for most, _ in seen), largest.max(axis=1), confidence),
        _test(sum(total for _, total in seen), squares.sum(axis=1), confidence),
    )
    return each, over_all


def _test(statistic: float, drawn: FloatArray, confidence: float) -> GlobalTest:
    beyond = int(np.count_nonzero(drawn >= statistic))
    return GlobalTest(statistic, float(np.quantile(drawn, confidence)), (1 + beyond) / (1 + len(drawn)))


def _ratio(size: FloatArray, error: FloatArray) -> FloatArray:
    """Return sizes over their errors, NaN where there is no error as there is nothing to compare."""
    return np.divide(size, error, out=np.full_like(size, np.nan), where=error > 0.0)
