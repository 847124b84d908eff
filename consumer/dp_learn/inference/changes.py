"""Changes of partial correlations over time, or between one release and all others, with tests that hold their level.

A contrast is the mean of some releases less that of others, weighted by what each knows. In time there is one for every
place, and for windows of 1, 2, 4, ... periods to either side of it, up to all. As in `differences`, the largest change
in standard errors and the sum of squares of all are compared with draws. These are of the joint law of all errors. Here
these are the largest of all contrasts. So chance makes any change point at all in no more than the stated share of
series.

The clearest contrast is the first change point. Windows that reach across it say nothing more; of those left the
clearest is the next one. Without an order the release that differs most clearly from all others is set aside, and the
others are compared again, until none does. What changed is told by the means of all periods between change points, or
better by the estimates from all their rows together. Their false discovery rate is over all pairs and places, as the
clearest pairs are what chose the places.

References
----------
Westfall & Young (1993), Resampling-Based Multiple Testing, for the largest of all. Fryzlewicz (2014), Wild binary
segmentation for multiple change-point detection, Annals of Statistics 42(6). Benjamini & Hochberg (1995), Controlling
the false discovery rate, JRSS B 57(1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dp_learn.inference.edges import least_rates
from dp_learn.inference.releases import SEED, Estimate, Estimates
from dp_learn.matrices.linalg import FloatArray, Mask, two_sided

Periods = tuple[int, ...]
Sides = tuple[Periods, Periods]  # before and after
Statistics = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Change:
    """Two sets of periods compared, the second less the first.

    Attributes
    ----------
    before, after : tuple of int
        The periods.
    largest, squares : float
        Of the contrast that showed it, in standard deviations from what chance makes. The first is the largest absolute
        difference of any pair in standard errors, the second the sum of squares of all in common errors.
    corrected : float
        How often chance makes any contrast as clear as that one, by the clearer of the two.
    before_value, after_value : ndarray of shape (m,)
        The weighted mean partial correlations of every pair of columns; NaN where the pair cannot be compared.
    standard_error, p_value, q_value : ndarray of shape (m,)
        Of the difference; the false discovery rate is over the pairs of all places where there might be a change.
    """

    before: Periods
    after: Periods
    largest: float
    squares: float
    corrected: float
    before_value: FloatArray
    after_value: FloatArray
    standard_error: FloatArray
    p_value: FloatArray
    q_value: FloatArray

    @property
    def difference(self) -> FloatArray:
        """The second less the first."""
        return self.after_value - self.before_value


@dataclass(frozen=True, eq=False)
class Changes(Estimates):
    """What changed.

    Attributes
    ----------
    pairs, estimates, is_comparable
        As of `Estimates`, of periods.
    evidence : ndarray of shape (K - 1,) or (K,)
        The corrected p-value at every place between neighbours, of the clearest contrast that does not reach across a
        change point elsewhere. Without an order, that of every period against all that do not differ.
    found : list of Change
        At the change points in the order of time; without an order, those that differ, each against all that do not.
    """

    evidence: FloatArray
    found: list[Change]


@dataclass(frozen=True, eq=False)
class _Tested:
    """Both statistics of every contrast, the squares standardised by draws, and the corrected p-values."""

    largest: FloatArray
    squares: FloatArray
    corrected: FloatArray

    def of(self, contrast: int) -> Statistics:
        """Return the numbers of one."""
        return float(self.largest[contrast]), float(self.squares[contrast]), float(self.corrected[contrast])

    def rank(self, contrast: int) -> tuple[float, float, int]:
        """Return what is least for the clearest contrast, of two alike the later one."""
        return self.corrected[contrast], -max(self.largest[contrast], self.squares[contrast]), -contrast


@dataclass(frozen=True, eq=False)
class _Contrasts:
    """Sets of periods, and what is compared between them, of the m pairs that can be; C of them.

    `weights` and `values`, shape (K, m), are those of periods.
    """

    before: FloatArray
    after: FloatArray
    weights: FloatArray

    def means(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weighted means of both sides, shape (C, m)."""
        weighted = self.weights * values
        return (self.before @ weighted) / (self.before @ self.weights), (self.after @ weighted) / (
            self.after @ self.weights
        )

    def variances(self, variances: FloatArray) -> FloatArray:
        """Return the variances of the differences of independent periods."""
        own, total = self.weights * self.weights * variances, np.zeros((len(self.before), self.weights.shape[1]))
        for side in (self.before, self.after):
            total += (side @ own) / (side @ self.weights) ** 2
        return total


def find_changes(of: Estimates, *, in_time: bool, level: float = 0.05, n_draws: int) -> Changes:
    """Find the change points of a series, or what is different in each of several releases without an order.

    Parameters
    ----------
    of : Estimates
        Of all pairs, in two releases or more.
    in_time : bool
        Whether they have an order.
    level : float
        How often chance may make any change point at all.
    n_draws : int
        How many draws of all errors that rests on.
    """
    estimates, comparable, n_periods = of.estimates, of.is_comparable, len(of.estimates)
    of_each = [(e.value[comparable], e.standard_error[comparable], e.common_error[comparable]) for e in estimates]
    values, errors, common = (np.array(each) for each in zip(*of_each, strict=True))
    if not comparable.any():
        return Changes(of.pairs, estimates, comparable, np.ones(n_periods - in_time), [])

    def test(sets: Sequence[Sides]) -> _Tested:
        contrasts = _contrast(sets, common)
        return _test_contrasts(contrasts, values, errors, common, estimates, comparable, n_draws)

    if in_time:
        sets, shown, evidence = _find_change_points(n_periods, test, level)
    else:
        sets, shown, evidence = _set_aside(n_periods, test, level)
    found = _describe(sets, values, errors, common, comparable)
    q_values = _rates_over_places([each[3] for each in found], len(evidence))
    changes = [
        Change(*one, *statistics, *numbers, q)
        for one, statistics, numbers, q in zip(sets, shown, found, q_values, strict=True)
    ]
    return Changes(of.pairs, estimates, comparable, evidence, changes)


def compare_pooled(found: Changes, pooled: Estimates, sides: Sequence[tuple[int, int]]) -> Changes:
    """Return changes with the estimates of pooled periods in place of means over them, which are less certain.

    Parameters
    ----------
    found : Changes
        With means.
    pooled : Estimates
        Of the same pairs, from periods that were pooled.
    sides : sequence of tuple of int
        Which of these are before and after every change.
    """
    estimates, comparable = pooled.estimates, pooled.is_comparable
    numbers = []
    for before, after in sides:
        first, second = (np.where(comparable, estimates[k].value, np.nan) for k in (before, after))
        error = np.where(
            comparable, np.hypot(estimates[before].standard_error, estimates[after].standard_error), np.nan
        )
        numbers.append((first, second, error, two_sided((second - first) / error)))
    q_values = _rates_over_places([each[3] for each in numbers], len(found.evidence))
    changes = [
        Change(one.before, one.after, one.largest, one.squares, one.corrected, *own, q)
        for one, own, q in zip(found.found, numbers, q_values, strict=True)
    ]
    return replace(found, is_comparable=comparable, found=changes)


def _rates_over_places(p_values: Sequence[FloatArray], n_places: int) -> list[FloatArray]:
    """Return the least false discovery rates over the pairs of all places, of which those without a change claim none.

    A pair may have been what made a place a change point: its p-value there is the best of many.
    """
    return [np.minimum(each * (n_places / len(p_values)), 1.0) for each in least_rates(p_values)]


def _find_change_points(
    n_periods: int, test: Callable[[Sequence[Sides]], _Tested], level: float
) -> tuple[list[Sides], list[Statistics], FloatArray]:
    """Return the periods on both sides of every change point, what showed it, and the evidence at every place."""
    sets = _windows(n_periods)
    tested = test(sets)
    chosen: list[int] = []
    left = list(range(len(sets)))
    while left and tested.corrected[best := min(left, key=tested.rank)] <= level:
        chosen.append(best)
        place = sets[best][1][0]
        left = [c for c in left if sets[c][1][-1] < place or sets[c][0][0] >= place]
    chosen.sort(key=lambda c: sets[c][1][0])

    evidence = np.ones(n_periods - 1)
    for c in (*chosen, *left):
        place = sets[c][1][0] - 1
        evidence[place] = min(evidence[place], tested.corrected[c])
    cuts = [0, *(sets[c][1][0] for c in chosen), n_periods]
    between = [tuple(range(first, last)) for first, last in pairwise(cuts)]
    return list(pairwise(between)), [tested.of(c) for c in chosen], evidence


def _set_aside(
    n_periods: int, test: Callable[[Sequence[Sides]], _Tested], level: float
) -> tuple[list[Sides], list[Statistics], FloatArray]:
    """Return those that differ, each after all that do not, what showed it, and the evidence for each."""
    alike, shown, evidence = list(range(n_periods)), dict[int, Statistics](), np.ones(n_periods)
    while len(alike) > 1:
        tested = test([(tuple(k for k in alike if k != one), (one,)) for one in alike])
        evidence[alike] = tested.corrected
        best = min(range(len(alike)), key=tested.rank)
        if tested.corrected[best] > level:
            break
        shown[alike[best]] = tested.of(best)
        del alike[best]
    order = sorted(shown)
    return [(tuple(alike), (k,)) for k in order], [shown[k] for k in order], evidence


def _windows(n_periods: int) -> list[Sides]:
    """Return the periods on both sides of every place, for windows of 1, 2, 4, ... periods and for all."""
    found: dict[Sides, None] = {}
    for place in range(1, n_periods):
        for width in (*(2**k for k in range(n_periods.bit_length())), n_periods):
            before = tuple(range(max(place - width, 0), place))
            found[before, tuple(range(place, min(place + width, n_periods)))] = None
    return list(found)


def _contrast(sets: Sequence[Sides], common: FloatArray) -> _Contrasts:
    """Return the contrasts of some sets of periods, with weights by the common errors, shape (K, m)."""
    before, after = np.zeros((2, len(sets), len(common)))
    for row, (first, second) in enumerate(sets):
        before[row, list(first)] = after[row, list(second)] = 1.0
    return _Contrasts(before, after, common**-2.0)


def _test_contrasts(
    contrasts: _Contrasts,
    values: FloatArray,
    errors: FloatArray,
    common: FloatArray,
    estimates: Sequence[Estimate],
    comparable: Mask,
    n_draws: int,
) -> _Tested:
    """Return the tests of all contrasts."""
    error = np.sqrt(contrasts.variances(errors * errors))
    unit = contrasts.variances(common * common)

    def statistics(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        before, after = contrasts.means(values)
        apart = after - before
        return np.abs(apart / error).max(axis=1), (apart * apart / unit).sum(axis=1)

    rng = np.random.default_rng(SEED)
    drawn = [statistics(errors * np.array([each.draw(rng)[comparable] for each in estimates])) for _ in range(n_draws)]
    largest, squares = (np.array(each) for each in zip(*drawn, strict=True))
    center, spread = squares.mean(axis=0), squares.std(axis=0)
    seen = statistics(values)
    clearest = seen[0], (seen[1] - center) / spread
    extremes = largest.max(axis=1), ((squares - center) / spread).max(axis=1)
    each = [
        (1.0 + np.count_nonzero(extreme >= one[:, None], axis=1)) / (1.0 + n_draws)
        for one, extreme in zip(clearest, extremes, strict=True)
    ]
    return _Tested(*clearest, np.minimum(2.0 * np.minimum(*each), 1.0))


def _describe(
    sets: Sequence[Sides], values: FloatArray, errors: FloatArray, common: FloatArray, comparable: Mask
) -> list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
    """Return both means, the standard error and the p-value of every pair for each two sets, NaN where unknown."""
    if not sets:
        return []
    contrasts = _contrast(sets, common)
    before, after = contrasts.means(values)
    error = np.sqrt(contrasts.variances(errors * errors))
    p_values = two_sided((after - before) / error)

    def spread(numbers: FloatArray) -> FloatArray:
        whole = np.full(len(comparable), np.nan)
        whole[comparable] = numbers
        return whole

    columns = zip(before, after, error, p_values, strict=True)
    return [(spread(b), spread(a), spread(e), spread(p)) for b, a, e, p in columns]
