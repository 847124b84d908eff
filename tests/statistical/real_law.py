"""The exact law of what tells two tables apart, by first principles: a judge that shares nothing with the accountant.

Whoever knows all but one unit of a table sees a draw from P or from Q. A `Law` is such a pair: outcomes with their
probabilities under both, beside an independent N(0, 1) that moves by `shift`. Independent parts of a release multiply
(`times`). Outcomes whose likelihood ratios are close are put together where there are too many: what is computed from
such outcomes cannot tell the tables apart better than all of the release does, so that every figure here is at most
the real one, and a stated figure below it is false.

With the outcomes in the order of their ratios, the tests "ratio at least t" are all that matters (Neyman & Pearson):
mu is the largest difference of the normal quantiles of their two errors, delta at epsilon the expectation of
(1 - e^(epsilon - L))^+, a right guess half of one plus the total variation.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
MOST_OUTCOMES = 1500
_FAR = 12.0  # standard deviations of continuous noise that thresholds reach
_TAIL = 1e-60  # a probability that is still exact, where laws end at 1e-280
_ORDERS = (1.0 + 1e-6, 1.25, 1.5, 2.0, 3.0, 5.0, 9.0, 17.0, 33.0)  # of Renyi's divergence
_GAUSSIAN_FROM = 400.0  # sigma, from which on discrete noise is told from rounded noise by nobody
_FAR_APART = 19.0  # sigmas of a movement from which on float64 has no number for how unlikely it is


@dataclass(frozen=True, eq=False)
class Law:
    """Outcomes under two tables, beside a normal number that moves by `shift`.

    Attributes
    ----------
    p, q : ndarray of float64
        Probabilities of the outcomes, in descending order of p / q.
    shift : float
        In standard deviations.
    is_far : bool
        Some probabilities are too small for float64, so that the rho alone is right: that of continuous noise.
    """

    p: Floats = field(default_factory=lambda: np.ones(1))
    q: Floats = field(default_factory=lambda: np.ones(1))
    shift: float = 0.0
    is_far: bool = False

    def times(self, other: "Law") -> "Law":
        """Return the law of both, drawn independently."""
        p, q = np.multiply.outer(self.p, other.p).ravel(), np.multiply.outer(self.q, other.q).ravel()
        in_both = np.multiply.outer(*((law.p > 0) & (law.q > 0) for law in (self, other))).ravel()
        gone = bool(np.any(in_both & (np.minimum(p, q) == 0) & (np.maximum(p, q) > _TAIL)))
        return law_of(p, q, math.hypot(self.shift, other.shift), is_far=self.is_far or other.is_far or gone)

    def power(self, number: int) -> "Law":
        """Return the law of so many independent draws."""
        if number == 1:
            return self
        half = self.power(number // 2)
        return half.times(half).times(self) if number % 2 else half.times(half)

    @cached_property
    def _ratios(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.p) - np.log(self.q)

    @cached_property
    def errors(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The tests by threshold: the power and one less it, the probability of a false alarm and one less it."""
        if not self.shift:
            return np.cumsum(self.p), _after(self.p), np.cumsum(self.q), _after(self.q)
        usual = (np.cumsum(self.p) > _TAIL) & (self.p + _after(self.p) > _TAIL) & np.isfinite(self._ratios)
        ratios = self._ratios[usual] if usual.any() else np.zeros(1)
        reach = _FAR * self.shift + self.shift**2 / 2
        even = np.linspace(float(ratios.min()) - reach, float(ratios.max()) + reach, 601)
        thresholds = np.concatenate([even, ratios[:: max(1, len(ratios) // 200)]])
        beyond = (self._ratios - np.sort(thresholds)[::-1, None]) / self.shift
        half = self.shift / 2
        return (
            special.ndtr(beyond + half) @ self.p,
            special.ndtr(-beyond - half) @ self.p,
            special.ndtr(beyond - half) @ self.q,
            special.ndtr(half - beyond) @ self.q,
        )

    def mu(self, excepted: float = 0.0) -> float:
        """Return the smallest mu of which the pair is mu-GDP, but for an event of probability `excepted`."""
        if len(self.p) == 1:
            return self.shift
        power, missed, alarm, quiet = self.errors
        power, missed = power - excepted, missed + excepted
        if np.any((self.q <= 0) & (self.p > max(excepted, _TAIL))):
            return math.inf
        usable = (np.minimum(alarm, quiet) > _TAIL) & (np.minimum(power, missed) > _TAIL)
        found = _quantile(power[usable], missed[usable]) - _quantile(alarm[usable], quiet[usable])
        return max(self.shift, float(found.max(initial=0.0)))

    def delta(self, epsilon: float) -> float:
        """Return the delta at an epsilon."""
        if not self.shift:
            with np.errstate(over="ignore"):
                return float(np.maximum(-np.expm1(np.minimum(epsilon - self._ratios, 700.0)), 0.0) @ self.p)
        left = epsilon - self._ratios
        first = special.ndtr(-left / self.shift + self.shift / 2)
        left = np.clip(left, -1e6, 1e6)  # outcomes that one table alone has
        second = np.exp(np.minimum(left + special.log_ndtr(-left / self.shift - self.shift / 2), 0.0))
        return float(np.maximum(first - second, 0.0) @ self.p)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon with this delta."""
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > 1e9:
                return math.inf
        while high - low > 1e-10 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return low

    @property
    def wrong(self) -> float:
        """The share of wrong guesses between both, each as likely as the other."""
        if len(self.p) == 1:
            return float(special.ndtr(-self.shift / 2))
        _, missed, alarm, _ = self.errors
        return 0.5 * float((missed + alarm).min()) if self.shift else 0.5 * float(np.minimum(self.p, self.q).sum())

    def beyond(self, ratio: float) -> float:
        """Return the probability of outcomes whose log-ratio of probabilities is larger than this."""
        if not self.shift:
            return float(self.p[self._ratios > ratio * (1 + 1e-12)].sum())
        return float(special.ndtr((self._ratios - ratio) / self.shift + self.shift / 2) @ self.p)

    @property
    def largest_ratio(self) -> float:
        """The largest log-ratio of probabilities, which is epsilon at delta 0."""
        return float(abs(self._ratios[0])) if not self.shift else math.inf

    @cached_property
    def rho(self) -> float:
        """The largest Renyi divergence over its order, of some orders."""
        if np.any((self.q <= 0) & (self.p > 1e-12)):
            return math.inf
        kept = (self.p > 0) & (self.q > 0)
        p, q = np.log(self.p[kept]), np.log(self.q[kept])
        own = max(float(special.logsumexp(a * p + (1 - a) * q)) / (a - 1) / a for a in _ORDERS)
        return max(own if len(self.p) > 1 else 0.0, 0.0) + self.shift**2 / 2

    def power_at(self, alarm: float) -> float:
        """Return the largest probability of detection at a probability of false alarm."""
        if len(self.p) == 1:
            return float(special.ndtr(special.ndtri(alarm) + self.shift))
        power, _, alarms, _ = self.errors
        return float(np.interp(alarm, np.append(0.0, alarms), np.append(0.0, power)))


def law_of(p: Floats, q: Floats, shift: float = 0.0, *, is_far: bool = False) -> Law:
    """Return the law of outcomes in any order; neighbours in the order of their ratios are put together if many."""
    kept = (p > 0) | (q > 0)
    p, q = p[kept], q[kept]
    with np.errstate(divide="ignore"):
        ratios = np.log(p) - np.log(q)
    order = np.argsort(-ratios, kind="stable")
    p, q, ratios = p[order], q[order], ratios[order]
    if len(p) > MOST_OUTCOMES:
        clipped = np.clip(ratios, -1e4, 1e4)
        weight = np.cumsum(p + q)
        parts = MOST_OUTCOMES // 2  # bins of equal ratio, cut again where outcomes are likely
        span = max(float(clipped[0] - clipped[-1]), 1e-300)
        bins = np.floor((clipped[0] - clipped) / span * parts) + np.floor(weight / weight[-1] * parts)
        starts = np.flatnonzero(np.append(True, np.diff(bins) > 0))
        p, q = np.add.reduceat(p, starts), np.add.reduceat(q, starts)
    return Law(p, q, shift, is_far)


NOTHING = Law()


def product(laws: Iterable[Law]) -> Law:
    """Return the law of all, drawn independently."""
    return reduce(Law.times, laws, NOTHING)


def gaussian(shift: float) -> Law:
    """Return the law of a normal number that moves by so many standard deviations."""
    return Law(shift=shift)


@lru_cache(maxsize=4096)
def discrete_gaussian(steps: int, sigma: float, number: int = 1) -> Law:
    """Return the law of so many whole numbers that move by `steps`, with P(k) in proportion to exp(-k^2 / 2 sigma^2).

    All that tells of the tables is their sum.
    """
    if not steps:
        return NOTHING
    if sigma > _GAUSSIAN_FROM:
        return gaussian(math.sqrt(number) * steps / sigma * (1 - 1e-6))
    if steps > _FAR_APART * sigma:
        return Law(shift=math.sqrt(number) * steps / sigma, is_far=True)
    law = _summed(sigma, number)
    moved = steps * number
    return law_of(np.append(np.zeros(moved), law), np.append(law, np.zeros(moved)))


def _summed(sigma: float, number: int) -> Floats:
    """Return the law of the sum of so many draws, around 0."""
    if number > 1:
        half = _summed(sigma, number // 2)
        whole = np.convolve(half, half)
        whole = np.convolve(whole, _summed(sigma, 1)) if number % 2 else whole
        likely = np.flatnonzero(whole > 1e-280)
        return whole[likely[0] : likely[-1] + 1]
    reach = math.ceil(36 * sigma) + 1
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    weights = weights[weights > 1e-280]
    return weights / weights.sum()


def response(replaced: float, n_levels: int) -> Law:
    """Return the law of a level that is drawn anew, out of all, with this probability."""
    other = replaced / n_levels
    same, rest = 1 - replaced + other, (n_levels - 2) * other
    return law_of(np.array([same, other, rest]), np.array([other, same, rest]))


def choice(epsilon: float) -> Law:
    """Return the worst of all choices whose log-ratios of probabilities vary by epsilon: of two outcomes."""
    likely = float(special.expit(epsilon / 2))
    rest = float(special.expit(-epsilon / 2))
    return Law(np.array([likely, rest]), np.array([rest, likely]))


def _after(probabilities: Floats) -> Floats:
    """Return the sums of all that come after each."""
    return np.append(np.cumsum(probabilities[::-1])[::-1][1:], 0.0)


def _quantile(probability: Floats, rest: Floats) -> Floats:
    """Return the normal quantile of a probability, by the rest to one where that is small."""
    return np.asarray(np.where(probability < 0.5, special.ndtri(probability), -special.ndtri(rest)), np.float64)
