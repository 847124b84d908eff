"""Tests of guesses and of noise against what is stated; each holds back with a stated chance of a false alarm.

**Guesses.** A fair coin decides which of two values, rows or tables is published, and an attacker who knows all else
guesses it. Whatever is mu-GDP lets nobody be right more often than Phi(mu / 2), whatever the noise is. Coins are
independent, so that the number of right guesses is binomial. More than chance allows at that rate refute what is
stated. Clopper & Pearson's bound p on the rate proves mu >= 2 Phi^-1(p).

**Noise.** The distance between distribution functions, the correlation of signs and the search for repeated noise need
no approximation. They are bounds for finite samples, for continuous, discrete and sparse noise alike. The tests of the
variance and of low bits are chi-squared approximations, and that of normal noise is exact. They are passed over where
they would be poor.

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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from dp_bundle.base.arrays import Floats
from dp_bundle.manifest.columns import Noise

_TABULATED = 1e3  # standard deviations in steps; beyond, sums over the law are integrals to 1e-8
_TAIL = 10.0
_LEAST_EFFECTIVE = 200  # sample size, for the chi-squared approximation
_SMOOTH_SIGMA = 4.0  # in steps; from here on the residues modulo 4 are uniform to 1e-8
_COLUMN_LAGS, _ROW_LAGS = 64, 16
_MAX_WINDOWS = 1 << 22
_CHANCE_REPEATS = 8  # fewer equal windows of 64 signs are no evidence


@dataclass(frozen=True)
class Check:
    """One check's result, in words that name the column where there is a fault."""

    name: str
    passed: bool
    detail: str


class Attacked(NamedTuple):
    """An attack's result.

    Attributes
    ----------
    n_coins : int
        How many were thrown.
    stated_mu, mu_lower : float
        What is stated of a unit of privacy, and the lower bound that is proved.
    checks : list of Check
        The results.
    published : Published
        A release that was attacked, of which the books are checked.
    """

    n_coins: int
    stated_mu: float
    mu_lower: float
    checks: list[Check]
    published: Any


def make_check(name: str, faults: Sequence[str], detail: str) -> Check:
    """Return a check that fails with the first fault, if there is one."""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return Check(name, not faults, f"{faults[0]}{more}" if faults else detail)


class Guesses(NamedTuple):
    """Guesses at the coins of one kind.

    Attributes
    ----------
    who : str
        What the coins decided.
    correct, total : int
        How many guesses were right, and of how many.
    stated_mu : float
        What is stated of what the coins tell apart.
    scale : float
        What mu of the whole is for each mu of that: more than 1 where coins tell close values apart.
    """

    who: str
    correct: int
    total: int
    stated_mu: float
    scale: float = 1.0


def judge_guesses(guessed: Sequence[Guesses], alpha: float) -> tuple[float, Check]:
    """Return the largest lower bound on mu that guesses prove, and the check that none are more than chance allows."""
    best, faults, detail = -1.0, [], ""
    for who, correct, total, stated_mu, scale in guessed:
        promised, share = float(special.ndtr(stated_mu / 2)), alpha / len(guessed)
        proved = scale * guessed_mu(correct, total, share)
        limit = int(stats.binom.isf(share, total, promised)) / total
        said = f"{correct / total:.1%} of {total:,} guesses {who} were right"
        if correct > limit * total:
            faults.append(f"{said}, above the {promised:.1%} stated and the {limit:.1%} of chance: mu >= {proved:.4g}")
        if proved > best:
            best, detail = proved, f"{said}; up to {limit:.1%} is chance at the {promised:.1%} stated"
    return max(best, 0.0), make_check("attack", faults, detail)


def guessed_mu(correct: int, total: int, alpha: float) -> float:
    """Return the lower bound on mu that so many right guesses prove, too high with probability at most `alpha`."""
    chance = float(stats.beta.ppf(alpha, correct, total - correct + 1)) if correct else 0.0
    return 2 * float(special.ndtri(chance)) if chance > 0.5 else 0.0


def judge_signs(signs: Sequence[Floats], alpha: float) -> Check:
    """Check that signs of noise are uncorrelated, and that no stretch of noise occurs twice.

    Parameters
    ----------
    signs : sequence of ndarray, shape (n_rows, n_columns)
        Those of each release; of what is no noise numbers in [-1, 1] with mean 0.
    alpha : float
        The chance of a false alarm.
    """
    repeats = n_repeats([column for part in signs for column in part.T])
    faults = [f"{repeats} runs of 64 signs of noise occur again, as if random bits were used twice"] if repeats else []
    excess, where = correlated_signs(np.concatenate(signs), alpha)
    faults += [f"noise is correlated between cells {where}"] if excess > 1 else []
    return make_check("independence", faults, "no correlation between columns or rows, and no noise is used twice")


class Law(NamedTuple):
    """A law on the integers: its variance, its fourth moment, and the probability that a value is at most so large."""

    variance: float
    fourth: float
    cdf: Callable[[Floats], Floats]


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


def judge_noise(groups: Sequence[Floats], law: Law, alpha: float) -> tuple[float, str]:
    """Return by how much the variance of noise differs from its law's, as a share of that, and what is wrong.

    Parameters
    ----------
    groups : sequence of ndarray
        The noise found, in whole steps; each group is compared with the law on its own as well.
    law : Law
        What is stated.
    alpha : float
        The chance of a false alarm, half for the variance and half for the distributions.
    """
    whole, (variance, fourth, cdf) = np.concatenate(groups), law
    ratio = float(np.mean(whole**2)) / variance
    if len(whole) * variance**2 < _LEAST_EFFECTIVE * fourth:  # so little noise, or so few values, say nothing
        ratio = 1.0
    off, freedom = abs(ratio - 1), 2 * len(whole) * variance**2 / (fourth - variance**2)
    tail = min(stats.chi2.cdf(ratio * freedom, freedom), stats.chi2.sf(ratio * freedom, freedom))
    if ratio != 1.0 and tail < alpha / 4:
        return off, f"has {ratio:.4g} times the variance stated"
    share = alpha / (2 * (1 + len(groups)))
    if any(cdf_excess(group, cdf, share) > 1 for group in (whole, *groups) if len(group)):
        return off, "does not have the distribution stated"
    return off, ""


def cdf_excess(residuals: Floats, cdf: Callable[[Floats], Floats], alpha: float) -> float:
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


def low_bits_p_value(before: Floats, after: Floats, noise: Noise) -> float:
    """Return the p-value of: whatever a value's last two bits were, those of the outcome are uniform."""
    if noise.sigma < _SMOOTH_SIGMA * noise.granularity:
        return 1.0
    pairs = 4 * np.remainder(before, 4) + np.remainder(after, 4)
    counts = np.bincount(pairs[np.isfinite(pairs)].astype(np.int64), minlength=16).reshape(4, 4)
    expected = counts.sum(axis=1, keepdims=True) / 4
    kept = expected[:, 0] > 50
    statistic = float(np.sum((counts[kept] - expected[kept]) ** 2 / expected[kept]))
    return float(stats.chi2.sf(statistic, 3 * np.count_nonzero(kept))) if kept.any() else 1.0


def correlated_signs(signs: Floats, alpha: float) -> tuple[float, str]:
    """Return the largest correlation of signs over what chance allows, and where it is.

    Compared are each column with the 64 that follow it, and each row with the 16 that follow it. The products at one
    lag are in [-1, 1] and have mean 0 given those before. So the bound (Hoeffding, Azuma) is exact at every size.

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
        sums = abs(np.einsum("ij,ij->j", one, other)) / math.sqrt(len(one))
        if sums.max() > worst * limit:
            worst, where = float(sums.max()) / limit, f"{lag} {axis}{'s' if lag > 1 else ''} apart"
    return worst, where


def n_repeats(signs: Sequence[Floats]) -> int:
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


def _windows(signs: Sequence[Floats]) -> Iterator[NDArray[np.uint64]]:
    for part in signs:
        words = (part[np.isin(part, (-1, 1))] > 0).astype(np.uint64)
        for width in (1, 2, 4, 8, 16, 32):
            words = (words[:-width] << np.uint64(width)) | words[width:]
        yield words
