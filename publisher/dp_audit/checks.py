"""The five checks of noise, each at a stated chance of a false alarm.

Every function takes canaries that went through the mechanism and returns a `Check`: passed with what was seen, or
failed with what is wrong and where. A fault is reported under the check that it belongs to: the bounds check compares
canaries outside the bounds with those at them, not with the stated noise, which is the noise check's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dp_audit.canaries import OUTSIDE, Canaries, Unit, middle_of
from dp_audit.hypothesis_tests import (
    Attack,
    correlated_signs,
    guessed_mu,
    judge_noise,
    law_of,
    low_bits_p_value,
    n_repeats,
    sample_excess,
)
from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.columns import Column
from dp_publish.accounting.conversions import SLACK, unit_mu

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


def judge_canaries(
    columns: Sequence[Column],
    unit: Unit,
    attacked: Sequence[Canaries],
    within: Sequence[Canaries],
    beyond: Canaries,
    signs: Sequence[NDArray[np.int8]],
    empty: Callable[[Column, NDArray[np.float64], float], str],
    alpha: float,
    rng: np.random.Generator,
    *,
    claim: float = math.inf,
    rows: int = 1,
    edges: Sequence[Canaries] = (),
    from_outside: bool = True,
) -> tuple[float, list[Check]]:
    """Return the lower bound on mu, and the five checks.

    Parameters
    ----------
    columns, unit, attacked, alpha, rng, claim
        As for `check_attack`; with the rows of a unit side by side in what is attacked, `rows` of them.
    within : sequence of Canaries
        Those within their bounds; the first are at them.
    beyond, empty
        As for `check_bounds`.
    signs : sequence of ndarray
        As for `check_signs`.
    edges : sequence of Canaries
        More noise to compare with its law.
    from_outside : bool
        Whether canaries outside the bounds are attacked as well.
    """
    mu_lower, attack = check_attack([*columns] * rows, unit, attacked, alpha, rng, claim)
    bounds = check_bounds(columns, within[0], beyond, alpha, empty)
    if attack.passed and bounds.passed and from_outside:  # all columns of a row together may show what each alone hides
        _, outside = check_attack(columns, unit, [beyond], alpha / 2, rng, claim)
        if not outside.passed:
            bounds = make_check("bounds", [f"with values outside the bounds, {outside.detail}"], "")
    independence = check_signs(signs, alpha)
    grid = check_grid(columns, within, alpha, low_bits=independence.passed)
    return mu_lower, [attack, bounds, grid, check_noise(columns, [*within, *edges], alpha), independence]


@dataclass(frozen=True)
class Guesses:
    """Guesses at the coins of one unit, the mu that they prove, and the mu that is stated for it."""

    who: str
    correct: int
    total: int
    bound: float
    stated: float
    proof: str  # in words, after "which"
    where: str = ""

    @property
    def detail(self) -> str:
        """The guesses in words."""
        return f"{self.correct / self.total:.1%} of {self.total} coins{self.where} guessed, which {self.proof}"


def judge_guesses(guessed: Iterable[Guesses], above: str = "the {:.4g} stated") -> tuple[float, Check]:
    """Return the largest lower bound on mu that guesses prove, and the check that none exceeds what is stated."""
    best, faults, detail = 0.0, [], NOTHING_PROVED
    for each in guessed:
        if each.bound > best:
            best, detail = each.bound, each.detail
        if each.bound > each.stated * SLACK:
            faults.append(f"{each.who} is told apart with mu >= {each.bound:.4g}, above {above.format(each.stated)}")
    return best, make_check("attack", faults, detail)


def check_guesses(correct: int, n: int, stated_mu: float, alpha: float) -> tuple[float, Check]:
    """Return the lower bound on mu that so many guesses of n coins prove, and the check that it is not too large."""
    bound = guessed_mu(correct, n, alpha)
    return judge_guesses([Guesses("a row", correct, n, bound, stated_mu, f"proves mu >= {bound:.4g}")])


def check_attack(
    columns: Sequence[Column],
    unit: Unit,
    attacked: Sequence[Canaries],
    alpha: float,
    rng: np.random.Generator,
    claim: float = math.inf,
) -> tuple[float, Check]:
    """Return the largest lower bound on mu of any unit, and the check that none exceeds what is stated for it.

    What is stated is what bounds and noise come to, or, where that is less, the claim: what the policy asked for.
    """
    units = [[index] for index in range(len(columns))] if unit == "cell" else [list(range(len(columns)))]
    guessed = []
    for indices in units:
        cells = [columns[index] for index in indices]
        stated = min(claim, unit_mu(unit, [column.cell_mu for column in cells]))
        widest = Attack(cells, attacked[0].high[indices] - attacked[0].low[indices])
        name = f"a cell of column {cells[0].name!r}" if unit == "cell" else "a row"

        for canaries in attacked:
            low, high = canaries.low[indices], canaries.high[indices]
            test, where = (widest, "") if canaries is attacked[0] else (Attack(cells, high - low), " of close canaries")
            centred = canaries.noisy[:, indices] - 0.5 * (low + high)
            correct, total = test.count_correct(centred, canaries.coins[:, indices[0]], rng)
            # by proportion where canaries are close, as noise does not depend on the value
            bound = test.mu_bound(correct, total, alpha / (len(units) * len(attacked)))
            bound *= 1.0 if test is widest else widest.mu / test.mu
            guessed.append(Guesses(name, correct, total, bound, stated, test.describe_bound(bound), where))
    return judge_guesses(guessed)


def check_bounds(
    columns: Sequence[Column],
    widest: Canaries,
    beyond: Canaries,
    alpha: float,
    empty: Callable[[Column, NDArray[np.float64], float], str],
) -> Check:
    """Check that canaries outside the bounds come out like those at them, and empty cells as the policy says.

    `empty` returns what is wrong with the treatment of a column's empty cells, or nothing; it is given the column, its
    usual noise, and a chance of a false alarm.
    """
    share, faults = alpha / (4 * len(columns)), []
    at_bounds, outside = widest.residuals, beyond.residuals
    for index, column in enumerate(columns):
        for high in (False, True):
            usual = at_bounds[widest.coins[:, index] == high, index]
            for turn, where in enumerate(OUTSIDE):
                group = outside[turn :: len(OUTSIDE), index][beyond.coins[turn :: len(OUTSIDE), index] == high]
                if sample_excess(group, usual, share / (2 * len(OUTSIDE))) > 1:
                    faults.append(
                        f"values of column {column.name!r} {where} its bounds come out as if they were not clipped"
                    )
        faults += [fault] if (fault := empty(column, at_bounds[:, index], share)) else []
    return make_check(
        "bounds", faults, "values outside come out like values at the bounds, empty cells as the policy says"
    )


def not_in_the_middle(column: Column, steps: NDArray[np.float64], usual: NDArray[np.float64], alpha: float) -> str:
    """Return what is wrong with cells that were empty, and should have come to the middle of the bounds."""
    excess = sample_excess(np.rint(steps) - middle_of(column), usual, alpha)
    return "" if excess <= 1 else f"column {column.name!r} does not bring empty cells to the middle of its bounds"


def check_grid(columns: Sequence[Column], within: Sequence[Canaries], alpha: float, *, low_bits: bool) -> Check:
    """Check that what comes out is on the grid and, where asked, that its low bits do not depend on the raw ones."""
    faults = []
    expected = np.concatenate([canaries.expected for canaries in within])
    noisy = np.concatenate([canaries.noisy for canaries in within])
    for index, column in enumerate(columns):
        off = np.count_nonzero(noisy[:, index] != np.rint(noisy[:, index]))
        if off:
            faults.append(
                f"{off / len(noisy):.1%} of column {column.name!r} is off its grid, as floating-point noise is"
            )
        elif low_bits and low_bits_p_value(expected[:, index], noisy[:, index], column.cell_noise) < alpha / len(
            columns
        ):
            faults.append(f"the low bits of column {column.name!r} depend on the raw value's")
    return make_check(
        "grid", faults, f"all {noisy.size} values are on the grid, with low bits independent of the raw ones"
    )


def check_noise(columns: Sequence[Column], within: Sequence[Canaries], alpha: float) -> Check:
    """Check variance and distribution of the noise, the latter for low, high and other canaries apart."""
    faults, worst = [], 0.0
    for index, column in enumerate(columns):
        noise = [(canaries.residuals[:, index], canaries.coins[:, index]) for canaries in within]
        groups = [residuals[coins == high] for residuals, coins in noise for high in (False, True)]
        off, fault = judge_noise(groups, law_of(column.cell_noise), alpha / (2 * len(columns)))
        worst = max(worst, off)
        faults += [f"the noise on column {column.name!r} {fault}"] if fault else []
    return make_check("noise", faults, f"distributed as stated, variances within {worst:.2%}")


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
