"""The normal variables behind normal scores: their covariance, and its errors.

A column of scores is a step function of a standard normal variable Z. Their correlation is c, at most 1. Of a truth
value that is true in a fifth of the rows it is .7. To first order it is c Z and a rest that is independent of all other
columns, as noise on each row would be. So the variance of the rest comes off the diagonal, and errors are those of rows
with so much noise. Off the diagonal the exact series is inverted (`dp_bundle.data.latent`). A column that shows too
little of its Z, as one whose ones are rare, stays as it is.

Noise on the counts moves each score by d(Z), and what of d is not linear in Z takes from the correlation with Z. So a
part of the first coefficient is left that noisy shares state; where cells are many, the loss is of second order. Its
mean and variance follow from drawing the noise once more. The mean is divided out, and the variance is that of an error
of the column's variance. Noisy shares are rougher than the true ones, and noise takes less from them. In simulations
with many cells a half to three quarters of the loss was divided out, and a fifth of it with lognormal columns on equal
cells. The stated variance was larger than the true one.

Several releases have scores by their own histograms. A correlation of normal variables is about ranks, and may be
compared whatever the columns' distributions are. One release in place of several has equal scores for equal values, as
far as distributions agree.

References
----------
Liu, Lafferty & Wasserman (2009), The nonparanormal, JMLR 10. Lancaster (1957), Biometrika 44, for the series.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dp_bundle import Bundle
from dp_bundle.data.latent import Steps, latent_correlations, linear_coefficients
from dp_bundle.data.margin_summary import cell_ends, find_body
from dp_bundle.data.margins import Margin, middle_scores
from dp_bundle.manifest.columns import Column
from dp_learn.covariance.estimate import NoisyCovariance, ReleasedCovariance
from dp_learn.matrices.linalg import FloatArray, Mask

_LEAST_PART = 1e-9  # of a typical variance
_REACHED = 0.999  # of a correlation, beyond which the series has no inverse, and its first term is used
_LEAST_SHOWN = 0.3  # of a column's variance that is of its normal variable
_MOST_SHOWN = 0.95  # of that of a column of few values
_STRAIGHT = 0.9  # a correlation of values with their scores
_CLEAR = 4.0  # standard deviations of noise, of the count of either of two values, and of all others together
_N_DRAWS, _SEED = 16, 20261127  # the same release has the same draws
_BY_CHANCE = 0.01  # of equal distributions, of all columns together, are found to differ
_TOLERATED = 0.02  # between cumulative shares, where scores are a twentieth of a standard deviation apart


def behind_scores(
    bundle: Bundle, columns: Sequence[Column], released: ReleasedCovariance, as_scores: Collection[str]
) -> ReleasedCovariance:
    """Return the covariance of the normal variables behind a release's scores, in the units of these.

    Parameters
    ----------
    bundle : Bundle
        A release with columns of scores.
    columns : sequence of Column
        Its columns, in the order of the covariance.
    released : ReleasedCovariance
        Of the scores.
    as_scores : collection of str
        The columns that stay as they are, besides those that show too little.
    """
    steps = {name: found for name, found in steps_of(bundle).items() if name not in as_scores}
    margins, n = {margin.name: margin for margin in bundle.margins()}, released.n_rows
    coefficients = np.array(
        [steps[each.name].coefficients() if each.name in steps else linear_coefficients() for each in columns]
    )
    weak = _show_little(coefficients)
    coefficients[weak] = linear_coefficients()
    sigma = bundle.release.margin_variance**0.5
    left, spread = np.array(
        [
            (1.0, 0.0) if is_weak or each.name not in steps else part_left_by_noise(margins[each.source_name], n, sigma)
            for each, is_weak in zip(columns, weak, strict=True)
        ]
    ).T
    roots = coefficients[:, 0] * left

    variances = np.diagonal(released.debiased)
    is_shown = variances > _LEAST_PART * np.median(np.abs(variances))  # of the others nothing is seen but noise
    deviations = np.sqrt(np.where(is_shown, variances, 1.0))
    observed = released.debiased / np.outer(deviations * left, deviations * left)
    found = latent_correlations(observed, coefficients)
    linear = np.clip(observed / np.outer(coefficients[:, 0], coefficients[:, 0]), -1.0, 1.0)
    found = np.where(np.abs(found) < _REACHED, found, linear)
    latent = np.where(
        np.outer(is_shown, is_shown), found * np.outer(deviations * roots, deviations * roots), released.debiased
    )
    np.fill_diagonal(latent, np.where(is_shown, variances * roots**2, variances))

    rest = np.where(is_shown, variances * (1.0 - roots**2), 0.0)
    of_counts = n * spread * (2.0 * np.diagonal(latent)) ** 2
    noise = NoisyCovariance(n, latent, rest, of_counts)
    return replace(released, debiased=latent, noise=replace(released.known_noise, rest=noise))


def part_left_by_noise(margin: Margin, n_rows: int, sigma: float) -> tuple[float, float]:
    """Return the mean and the variance of the part that noise on the counts leaves of a first coefficient.

    Parameters
    ----------
    margin : Margin
        Of a column of scores, with noise.
    n_rows : int
        How many rows.
    sigma : float
        The standard deviation of the noise on a count.
    """
    rng, n_filled = np.random.default_rng(_SEED), margin.n_filled
    shares, parts = margin.shares(n_rows, sigma), list[float]()
    for _ in range(_N_DRAWS):
        counts = n_rows * shares + sigma * rng.standard_normal(len(shares))
        stated = replace(margin, counts=np.rint(counts).astype(np.int64)).shares(n_rows, sigma)[:n_filled]
        scores = middle_scores(stated, n_rows)
        own, told = (Steps.of_shares(each, scores).coefficients(1)[0] for each in (shares[:n_filled], stated))
        parts.append(float(own / told) if told > 0.0 else 1.0)
    return float(np.mean(parts)), float(np.var(parts))


def kept_steps(bundle: Bundle, as_scores: Collection[str] | None) -> dict[str, Steps]:
    """Return the step functions of these columns, None for all, and of those that show too little: scores that stay."""
    steps = steps_of(bundle)
    wanted = steps if as_scores is None else as_scores
    return {name: each for name, each in steps.items() if name in wanted or _show_little(each.coefficients())}


def latent_columns(bundle: Bundle, as_scores: Collection[str]) -> list[str]:
    """Return the columns of so few values that their correlations are much smaller than those behind their scores."""
    kept = kept_steps(bundle, as_scores)
    return [
        name
        for name, each in steps_of(bundle).items()
        if name not in kept and each.coefficients()[0] ** 2 < _MOST_SHOWN
    ]


def _show_little(coefficients: FloatArray) -> Mask:
    return coefficients[..., 0] ** 2 < _LEAST_SHOWN


def steps_of(bundle: Bundle) -> dict[str, Steps]:
    """Return the step function of every column of scores, by its name."""
    stated = bundle.release.margins
    if stated is None:
        return {}
    margins = {margin.name: margin for margin in bundle.margins()}
    found = {}
    for column in bundle.release.columns:
        if column.transform is not None:
            margin = margins[column.source_name]
            shares = margin.shares(bundle.release.n_rows, stated.sigma)[: margin.n_filled]
            found[column.name] = Steps.of_shares(shares, middle_scores(shares, bundle.release.n_rows))
    return found


def reaches_of(bundle: Bundle) -> dict[str, float]:
    """Return the largest correlations of columns with normal scores: those with their own, as histograms show them.

    They are 1 of scores. Values whose correlation is small, as of columns that have few of them, are left out.
    """
    release = bundle.release
    found = {column.name: 1.0 for column in release.columns if column.transform is not None}
    columns = release.first_columns
    for margin in bundle.margins() if release.margins is not None else ():
        ends = release.ends_of(columns[margin.name])
        if ends is None or margin.labels or not margin.edges.size:
            continue
        sigma = release.margin_variance**0.5
        shares, (start, end) = margin.shares(release.n_rows, sigma)[: margin.n_filled], find_body(margin.counts, sigma)
        shares[:start] = shares[end:] = 0.0
        middles = 0.5 * np.add(*cell_ends(margin.edges, None, is_whole=False))
        reach = float(Steps.of_shares(shares, np.clip(middles, *ends)).coefficients()[0])
        if _STRAIGHT < reach < 1.0:
            found[columns[margin.name].name] = reach
    return found


def share_of_ones(bundle: Bundle, names: Sequence[str]) -> FloatArray:
    """Return the share of the larger value of columns whose histograms show two alone, NaN of others."""
    least, found = _CLEAR * bundle.release.margin_variance**0.5, dict[str, float]()
    for margin in bundle.margins():
        clear = margin.counts > least
        if clear.sum() == 2 and abs(margin.counts[~clear].sum()) < least * len(clear) ** 0.5:
            found[margin.name] = margin.counts[clear][1] / margin.counts[clear].sum()
    return np.array([found.get(name, np.nan) for name in names])


class _Distribution(NamedTuple):
    """Cumulative shares of rows below ends, and a bound of the variance of their error, times four."""

    ends: FloatArray
    below: FloatArray
    labels: tuple[str, ...]
    variance: float


def find_differing(bundles: Sequence[Bundle], done: str) -> list[str]:
    """Return the raw columns of scores that stand for other values, or other levels, than in the first release.

    Parameters
    ----------
    bundles : sequence of Bundle
        Releases of which some columns are scores in all; the first is the one that others are held against.
    done : str
        As in `bundle_source`. Pooled releases need distributions that agree in all columns, others in those that stay
        as their scores: correlations of these depend on the distributions.
    """
    weak, found = weak_columns(bundles), dict[str, None]()
    first = _distributions(bundles[0])
    raw = {column.name: column.source_name for column in bundles[0].release.columns}
    for bundle in bundles[1:]:
        other = _distributions(bundle)
        common = [name for name in first if name in other]
        needed = [name for name in common if done == "pooled" or name in weak]
        for name in common:
            has_others = first[name].labels != other[name].labels  # in another order, signs are others as well
            if has_others or (name in needed and _apart(first[name], other[name], len(needed)) > 0.0):
                found[raw[name]] = None
    return [*found]


def weak_columns(bundles: Sequence[Bundle]) -> set[str]:
    """Return the columns that stay as their scores, rather than as normal variables, in any of several releases."""
    return {name for bundle in bundles for name in kept_steps(bundle, ())}


def _distributions(bundle: Bundle) -> Mapping[str, _Distribution]:
    """Return the distributions of the columns of scores."""
    stated, n_rows = bundle.release.margins, bundle.release.n_rows
    if stated is None:
        return {}
    together = bundle.release.guarantee.max_rows or 1  # rows of one person may be alike
    scored, found = steps_of(bundle), {}
    for margin in bundle.margins():
        columns = [column.name for column in bundle.release.columns if column.source_name == margin.name]
        for name in scored.keys() & columns:
            variance = together / n_rows + len(margin.counts) * stated.variance / n_rows**2
            found[name] = _Distribution(margin.edges, scored[name].ends, margin.labels, variance)
    return found


def _apart(first: _Distribution, second: _Distribution, n_tests: int) -> float:
    """Return by how much two distributions are farther apart than is allowed; not positive if they are not.

    Sampling, and the noise on counts whose sum is known, are Brownian bridges along the cells. Their largest value is
    beyond t with a probability of about 2 exp(-2 t² / variance), and less at cells alone.
    """
    variance = first.variance + second.variance
    allowed = math.sqrt(variance * math.log(2.0 * n_tests / _BY_CHANCE) / 2.0) + _TOLERATED
    return max(_least_distance(first, second), _least_distance(second, first)) - allowed


def _least_distance(first: _Distribution, second: _Distribution) -> float:
    """Return how far the second is at least from the first where the first is known, as it ascends between its ends."""
    known = np.concatenate([[0.0], second.below, [1.0]])
    low = known[np.searchsorted(second.ends, first.ends, side="right")]
    high = known[np.searchsorted(second.ends, first.ends, side="left") + 1]
    return float(np.maximum(first.below - high, low - first.below).max(initial=0.0))
