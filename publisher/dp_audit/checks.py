"""A check's result, and what several attacks judge alike: guesses, signs of noise, and noise of whole releases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dp_audit.hypothesis_tests import correlated_signs, guessed_mu, n_repeats
from dp_bundle.base.errors import ParameterError
from dp_publish.accounting.conversions import SLACK

LEAST_RUNS, _MOST_RUNS = 1000, 1 << 20  # releases of a matrix
NOTHING_PROVED = "the coins were not guessed well enough to prove anything at this strength"


@dataclass(frozen=True)
class Check:
    """One check's result, in words that name the column where there is a fault."""

    name: str
    passed: bool
    detail: str


def runs_for(wanted: int | None, default: int) -> int:
    """Return how many releases are attacked; refuse a number that proves nothing, or takes for ever."""
    n = default if wanted is None else wanted
    if not LEAST_RUNS <= n <= _MOST_RUNS:
        raise ParameterError("canaries", f"from {LEAST_RUNS} to {_MOST_RUNS}", n)
    return n


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is none."""
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "in [0.5, 1), such as 0.9999", confidence)


@dataclass(frozen=True)
class Guesses:
    """Guesses at the coins of one unit, the mu that they prove, and the mu that is stated for it."""

    who: str
    correct: int
    total: int
    bound: float
    stated: float
    where: str = ""


def judge_guesses(guessed: Iterable[Guesses]) -> tuple[float, Check]:
    """Return the largest lower bound on mu that guesses prove, and the check that none exceeds what is stated."""
    best, faults, detail = 0.0, [], NOTHING_PROVED
    for each in guessed:
        if each.bound > best:
            share, best = each.correct / each.total, each.bound
            detail = f"{share:.1%} of {each.total} coins{each.where} guessed, which proves mu >= {best:.4g}"
        if each.bound > each.stated * SLACK:
            faults.append(f"{each.who} is told apart with mu >= {each.bound:.4g}, above the {each.stated:.4g} stated")
    return best, make_check("attack", faults, detail)


def check_guesses(correct: int, n: int, stated_mu: float, alpha: float) -> tuple[float, Check]:
    """Return the lower bound on mu that so many guesses of n coins prove, and the check that it is not too large."""
    bound = guessed_mu(correct, n, alpha)
    return judge_guesses([Guesses("a row", correct, n, bound, stated_mu)])


def check_signs(signs: Sequence[NDArray[np.int8]], alpha: float) -> Check:
    """Check that signs of noise are uncorrelated and that no stretch of noise occurs twice.

    Given are the signs of each run's noise, of shape (n_rows, n_columns).
    """
    repeats = n_repeats([part[:, index] for part in signs for index in range(part.shape[1])])
    faults = [f"{repeats} runs of 64 signs of noise occur again, as if random bits were used twice"] if repeats else []
    excess, where = correlated_signs(np.concatenate(signs), alpha)
    faults += [f"noise is correlated between cells {where}"] if excess > 1 else []
    return make_check(
        "independence", faults, "no correlation of signs between columns or rows, and no noise is used twice"
    )


def check_whole_releases(
    n: int, found: Iterable[tuple[str, float, int]], signs: Sequence[NDArray[np.int8]], alpha: float, around: str
) -> Check:
    """Check that so many whole releases carry noise of the stated size around exact sums, and that it is independent.

    Parameters
    ----------
    n : int
        The number of releases.
    found : iterable of (str, float, int)
        Where noise is, a sum over it that is chi-squared if it is of the stated size, and the degrees of freedom.
    signs : sequence of ndarray
        Those of noise whose parts are independent; one after another.
    alpha : float
        The chance of a false alarm.
    around : str
        The sums, in words.
    """
    found = list(found)
    share = alpha / (len(found) + len(signs))
    faults = [
        f"the noise {where} of whole releases has {total / freedom:.4g} times its stated size"
        for where, total, freedom in found
        if 2 * min(stats.chi2.cdf(total, freedom), stats.chi2.sf(total, freedom)) < share
    ]
    checks = [check_signs([part], share) for part in signs]
    faults += [check.detail for check in checks if not check.passed]
    return make_check("whole releases", faults, f"{n} whole releases carry the noise stated around {around}")


def make_check(name: str, faults: Sequence[str], detail: str) -> Check:
    """Return a check that fails with the first fault, if there is one."""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return Check(name, not faults, f"{faults[0]}{more}" if faults else detail)
