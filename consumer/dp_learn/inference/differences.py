"""Differences of partial correlations between releases of different rows, with tests that hold their level.

*Tests of all pairs.* The largest difference in standard errors and a sum of squares are compared with draws of the
joint law of all errors: Gaussian errors of S^ with the covariance of sampling and noise, through the same forms. A
standard error from heavy-tailed rows goes with its own estimate, which biases a sum over many pairs. So squares are in
units of the model's errors times the mean ratio, and only the draws have each pair's own.

*Strengths of nodes.* The sum of the sizes of a node's links is biased by the noise. Compared is the sum over the links
that the weighted mean of all releases shows, each with the sign of that mean, which no difference has selected.

References
----------
Benjamini & Hochberg (1995), Controlling the false discovery rate, JRSS B 57(1). van Borkulo et al. (2023), Comparing
network structures on three aspects, Psychological Methods 28(6), for the questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dp_bundle.base.quoting import Brief
from dp_learn.inference.edges import least_rates
from dp_learn.inference.releases import Estimate, Masks, Places, Release, estimate_releases
from dp_learn.matrices.linalg import FloatArray, two_sided

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
class Differences(Brief):
    """All releases compared, two at a time.

    Attributes
    ----------
    pairs : tuple of ndarray of int
        The positions of the nodes of every pair, the first below the second.
    estimates : list of Estimate
        Of every release.
    is_comparable : ndarray of bool, shape (m,)
        Whether all releases are clear of a pair.
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

    pairs: tuple[Places, Places]
    estimates: list[Estimate]
    is_comparable: Masks
    is_link: Masks
    strengths: list[FloatArray]
    each: list[Difference]
    q_values: list[FloatArray]
    strength_q_values: list[FloatArray]
    largest: GlobalTest
    squares: GlobalTest


def find_differences(
    releases: Sequence[Release], labels: Places, *, fdr: float = 0.05, confidence: float = 0.95, n_draws: int
) -> Differences:
    """Compare every pair of nodes in every two releases.

    Parameters
    ----------
    releases : sequence of Release
        Two or more, of different rows, fitted on one graph.
    labels : ndarray of int, shape (n_features,)
        The node of each column.
    fdr : float
        The false discovery rate at which links of the mean count for strengths.
    confidence : float
        The level of the global tests' critical values.
    n_draws : int
        How many draws of all errors the global tests and the errors of strengths rest on.
    """
    n_nodes = int(labels.max()) + 1
    first, second = np.triu_indices(n_nodes, 1)
    estimates = estimate_releases(releases, labels, (first, second))
    comparable = np.all([each.is_clear for each in estimates], axis=0)
    precisions = [each.standard_error**-2.0 for each in estimates]
    precision = np.sum(precisions, axis=0)
    mean = np.sum([w * each.value for w, each in zip(precisions, estimates, strict=True)], axis=0) / precision
    p_of_link = np.where(comparable, two_sided(mean * np.sqrt(precision)), np.nan)
    is_link = np.nan_to_num(least_rates([p_of_link])[0], nan=1.0) <= fdr
    incidence = np.zeros((n_nodes, len(first)))
    for ends in (first, second):
        incidence[ends[is_link], np.flatnonzero(is_link)] = np.sign(mean[is_link])

    each, overall = _compare_all(estimates, comparable, incidence, confidence, n_draws)
    strength_p = [two_sided(_ratio(one.strength, one.strength_error)) for one in each]
    return Differences(
        (first, second),
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
    estimates: Sequence[Estimate], comparable: Masks, incidence: FloatArray, confidence: float, n_draws: int
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
