"""Tests of noise against what is stated of it; each holds back with a stated chance of a false alarm.

The distance between distribution functions, the correlation of signs and the search for repeated noise need no
approximation: they are bounds for finite samples, for continuous, discrete and sparse noise alike. The tests of the
variance and of low bits are normal and chi-squared approximations, and are passed over where these would be poor.

**A lower bound on mu** follows from the guesses that an attacker gets right who knows everything but one coin. A canary
unit (a cell, or a whole row) is put low or high by a fair coin, noise is added, and the attacker guesses the
coin from the best linear test, the log-likelihood ratio of Gaussian noise. Units carry independent noise, so the number
of correct guesses is binomial, and Clopper & Pearson's bound p holds for his chance of success.

Whatever is mu-GDP lets nobody succeed more often than Phi(mu / 2), so mu >= 2 Phi^-1(p). That supposes nothing about
the noise. The mu of discrete Gaussian noise is that of its best threshold, which over many columns no attacker reaches
all of, so that the bound is a little lower there.

References
----------
Clopper & Pearson (1934), The use of confidence or fiducial limits illustrated in the case of the binomial. Massart
(1990), The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality. Hoeffding (1963), Probability inequalities for
sums of bounded random variables. Mironov (2012), On significance of the least significant bits for differential
privacy. Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2.2. Steinke, Nasr & Jagielski
(2023), Privacy auditing with one (1) training run, arXiv 2305.08846.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from dp_bundle.manifest.columns import Column, Noise
from dp_bundle.privacy.discrete_mu import discrete_gaussian_mu

_TABULATED = 1e3  # standard deviations in steps; beyond, sums over the law are integrals to 1e-8
_TAIL = 10.0
_LEAST_EFFECTIVE = 1000  # sample size, for the normal approximation
_SMOOTH_SIGMA = 4.0  # in steps; from here on the residues modulo 4 are uniform to 1e-8
_COLUMN_LAGS, _ROW_LAGS = 64, 16
_MAX_WINDOWS = 1 << 22
_CHANCE_REPEATS = 8  # fewer equal windows of 64 signs are no evidence


class Law(NamedTuple):
    """A law on the integers: its variance, its fourth moment, and the probability that a value is at most so large."""

    variance: float
    fourth: float
    cdf: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def law_of(noise: Noise) -> Law:
    """Return the law of a column's noise, in whole steps."""
    sigma, variance = noise.sigma / noise.granularity, noise.variance / noise.granularity**2
    if noise.distribution == "rounded-gaussian" or sigma > _TABULATED:
        rounding = 0.5 * sigma**2 + 1 / 80 if noise.distribution == "rounded-gaussian" else 0.0
        return Law(variance, 3 * sigma**4 + rounding, lambda steps: np.asarray(special.ndtr((steps + 0.5) / sigma)))
    last = math.ceil(_TAIL * sigma) + 1
    support = np.arange(-last, last + 1, dtype=np.float64)
    weights = np.exp(-0.5 * (support / sigma) ** 2)
    weights /= weights.sum()
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    return Law(
        variance,
        float(weights @ support**4),
        lambda steps: np.asarray(sums[np.clip(steps + last + 1, 0, len(support)).astype(np.int64)]),
    )


def judge_noise(groups: Sequence[NDArray[np.float64]], law: Law, alpha: float) -> tuple[float, str]:
    """Return by how much the variance of noise differs from its law's, as a share of that, and what is wrong.

    Parameters
    ----------
    groups : sequence of ndarray
        The noise found, in whole steps; each group is compared with the law on its own as well.
    law : Law
        What is stated.
    alpha : float
        The chance of a false alarm, for the variance and for the distributions each.
    """
    ratio, chance = moment_ratio(np.concatenate(groups), law, alpha)
    if abs(ratio - 1) > chance:
        return abs(ratio - 1), f"has {ratio:.4g} times the variance stated"
    if any(cdf_excess(group, law.cdf, alpha / len(groups)) > 1 for group in groups if len(group)):
        return abs(ratio - 1), "does not have the distribution stated"
    return abs(ratio - 1), ""


def cdf_excess(
    residuals: NDArray[np.float64], cdf: Callable[[NDArray[np.float64]], NDArray[np.float64]], alpha: float
) -> float:
    """Return the largest distance between the distribution functions found and stated, over what chance allows.

    Values above 1 have probability at most `alpha` (Dvoretzky, Kiefer & Wolfowitz; Massart).

    Parameters
    ----------
    residuals : ndarray of shape (n,)
        The noise found, in whole steps; infinite where a value was not even finite.
    cdf : callable
        Returns the probability that a value is at most so large.
    alpha : float
        The chance of a false alarm.
    """
    values, counts = np.unique(residuals, return_counts=True)
    sums = np.cumsum(counts) / len(residuals)
    before = np.concatenate(([0.0], sums[:-1]))
    distance = max(np.max(abs(sums - cdf(values))), np.max(abs(before - cdf(values - 1))))
    return float(distance) / math.sqrt(math.log(2 / alpha) / (2 * len(residuals)))


def sample_excess(one: NDArray[np.float64], other: NDArray[np.float64], alpha: float) -> float:
    """Return the largest distance between two samples' distribution functions, over what chance allows at one law.

    Values above 1 have probability at most `alpha`, half of it for each sample.
    """
    if not len(one) or not len(other):
        return 0.0
    one, other = np.sort(one), np.sort(other)
    at_one = np.searchsorted(one, one, side="right") / len(one) - np.searchsorted(other, one, side="right") / len(other)
    before = np.searchsorted(one, one) / len(one) - np.searchsorted(other, one) / len(other)
    distance = max(np.max(abs(at_one)), np.max(abs(before)))
    allowed = math.sqrt(math.log(4 / alpha) / 2) * (1 / math.sqrt(len(one)) + 1 / math.sqrt(len(other)))
    return float(distance) / allowed


def moment_ratio(residuals: NDArray[np.float64], law: Law, alpha: float) -> tuple[float, float]:
    """Return the variance found over the one stated, and by how much chance makes it differ from 1.

    Where so little noise says nothing they are 1 and infinity.
    """
    variance, fourth, _ = law
    if len(residuals) * variance**2 < _LEAST_EFFECTIVE * fourth:
        return 1.0, math.inf
    deviation = math.sqrt((fourth - variance**2) / len(residuals)) / variance
    return float(np.mean(residuals**2)) / variance, float(special.ndtri(1 - alpha / 2)) * deviation


def least_chance(successes: ArrayLike, trials: int, alpha: float) -> NDArray[np.float64]:
    """Return Clopper & Pearson's lower bound on a chance, which is too high with probability at most `alpha`.

    Parameters
    ----------
    successes : array_like of int
        How often it came true.
    trials : int
        In how many trials.
    alpha : float
        The chance of an error.
    """
    k = np.asarray(successes)
    return np.where(k > 0, stats.beta.ppf(alpha, np.maximum(k, 1), trials - k + 1), 0.0)


def low_bits_p_value(before: NDArray[np.float64], after: NDArray[np.float64], noise: Noise) -> float:
    """Return the p-value of: whatever a value's last two bits were, those of the outcome are uniform."""
    if noise.sigma < _SMOOTH_SIGMA * noise.granularity:
        return 1.0
    pairs = 4 * np.remainder(before, 4) + np.remainder(after, 4)
    counts = np.bincount(pairs[np.isfinite(pairs)].astype(np.int64), minlength=16).reshape(4, 4)
    expected = counts.sum(axis=1, keepdims=True) / 4
    kept = expected[:, 0] > 50
    statistic = float(np.sum((counts[kept] - expected[kept]) ** 2 / expected[kept]))
    return float(stats.chi2.sf(statistic, 3 * np.count_nonzero(kept))) if kept.any() else 1.0


def correlated_signs(signs: NDArray[np.int8], alpha: float) -> tuple[float, str]:
    """Return the largest correlation of signs over what chance allows, and where it is.

    Compared are each column with the 64 that follow it, and each row with the 16 that follow it. Given which signs are
    zero, the products at one lag are independent coins, so the bound (Hoeffding) is exact at every size.

    Parameters
    ----------
    signs : ndarray of shape (n_rows, n_columns)
        Those of the noise found.
    alpha : float
        The chance of a false alarm, over all comparisons.
    """
    n_rows, n_columns = signs.shape
    column_lags, row_lags = range(1, min(_COLUMN_LAGS + 1, n_columns)), range(1, min(_ROW_LAGS + 1, n_rows))
    pairs = [("column", lag, signs[:, lag:], signs[:, :-lag]) for lag in column_lags]
    pairs += [("row", lag, signs[lag:], signs[:-lag]) for lag in row_lags]
    n_comparisons = n_columns * len(pairs)
    limit = math.sqrt(2 * math.log(2 * n_comparisons / alpha))
    worst, where = 0.0, ""
    for axis, lag, one, other in pairs:
        sums = abs(np.einsum("ij,ij->j", one, other, dtype=np.int64, casting="unsafe")) / math.sqrt(len(one))
        if sums.max() > worst * limit:
            worst, where = float(sums.max()) / limit, f"{lag} {axis}{'s' if lag > 1 else ''} apart"
    return worst, where


def n_repeats(signs: Sequence[NDArray[np.int8]]) -> int:
    """Return how many runs of 64 signs occur again anywhere in the same noise, as they do if random bits are reused.

    Signs, because they are alike even where the same bits make noise of another sigma. By chance a window equals one of
    n others with probability below n / 2^64; fewer than eight are taken for chance and give 0.

    Parameters
    ----------
    signs : sequence of ndarray
        Those of the noise found in one column and run, in the order of the rows.
    """
    total = sum(len(part) for part in signs)
    sampling = np.uint64(max(1, total // _MAX_WINDOWS))
    windows = np.concatenate([words[words % sampling == 0] for words in _windows(signs)] or [np.empty(0, np.uint64)])
    windows.sort()
    found = int(np.count_nonzero(windows[1:] == windows[:-1]))
    return found if found >= _CHANCE_REPEATS else 0


def _windows(signs: Sequence[NDArray[np.int8]]) -> Iterator[NDArray[np.uint64]]:
    for part in signs:
        words = (part[part != 0] > 0).astype(np.uint64)
        for width in (1, 2, 4, 8, 16, 32):
            words = (words[:-width] << np.uint64(width)) | words[width:]
        yield words


@dataclass(frozen=True)
class Attack:
    """The best linear test of one unit's coin.

    Parameters
    ----------
    columns : sequence of Column
        Those that hold the unit: one for a cell, all for a row.
    distances : ndarray of shape (n_columns,)
        How far apart the two canaries are in each column, in steps of the grid.
    """

    columns: Sequence[Column]
    distances: NDArray[np.float64]

    @property
    def mu(self) -> float:
        """The stated distinguishability at these distances: the root of the sum of squares over columns."""
        mus = [
            discrete_gaussian_mu(abs(round(distance)), sigma) if column.kind == "integer" else distance / sigma
            for column, distance, sigma in zip(
                self.columns, self.distances.tolist(), self._sigmas.tolist(), strict=True
            )
        ]
        return math.hypot(*mus)

    def count_correct(self, centred: NDArray[np.float64], coins: NDArray[np.bool_]) -> tuple[int, int]:
        """Return how many coins are guessed correctly, and of how many.

        Parameters
        ----------
        centred : ndarray of shape (n_units, n_columns)
            What came out, minus the middle of the two canaries, in steps.
        coins : ndarray of shape (n_units,)
            Whether each canary was the higher one.
        """
        scores = centred @ (self.distances / self._sigmas**2)
        return int(np.count_nonzero((scores > 0) == coins)), len(coins)

    @property
    def _sigmas(self) -> NDArray[np.float64]:
        return np.array([column.cell_noise.sigma / column.cell_noise.granularity for column in self.columns])


def guessed_mu(correct: int, total: int, alpha: float) -> float:
    """Return the lower bound on mu that so many correct guesses prove, whatever the noise is."""
    chance = float(least_chance(correct, total, alpha))
    return 2 * float(special.ndtri(chance)) if chance > 0.5 else 0.0
