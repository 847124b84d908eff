"""The (epsilon, delta) curve of a release whose columns carry continuous and discrete Gaussian noise.

Continuous columns are mu-GDP and compose exactly. Discrete Gaussian noise is not: at sigma = 1 step its true delta is
up to twice that of the Gaussian curve. So its privacy loss is composed numerically, by dp-accounting's privacy-loss
distributions, which round pessimistically. From sigma = 1000 steps on, a discrete column is counted as a continuous
one. Let q be the probability of rounding N(0, sigma^2) to the integer k, and p the discrete one. Then q is p times the
average of exp(-k u/sigma^2 - u^2/(2 sigma^2)) over |u| < 1/2. The normalising constants agree to 300 digits. So exp(-b)
p <= q <= exp(a) p with b = 1/(8 sigma^2) and a = k^2/(24 sigma^4). Within 13 sigma of one table's centre, and so within
(13 + mu) sigma of its neighbour's, a <= (13 + mu)^2/(24 sigma^2). So delta(epsilon + a + b) is at most exp(b) times
that of rounded, hence of continuous noise at epsilon. What lies beyond 13 sigma has a probability below 10^-37, which
is taken off delta. For all of it rho-zCDP holds, and bounds the answer from above. Above mu = 30 it is the answer.

Of single cells the worst counts. The bound by continuous noise holds for smaller sigmas too (the constants agree to 130
digits from sigma = 4 steps on). At the price of one formula it shows of nearly all columns of a wide table that they
are not the worst. So their losses need not be composed.

References
----------
Koskela, Jalko & Honkela (2020), arXiv 1906.03049; Doroshenko et al. (2022), arXiv 2207.04380. Canonne, Kamath & Steinke
(2020), arXiv 2004.00010.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dp_bundle.manifest.guarantee import EpsilonDelta
from dp_publish.accounting.conversions import (
    delta_for_epsilon,
    delta_for_epsilon_zcdp,
    epsilon_for_delta,
    epsilon_for_delta_zcdp,
    rho_for_mu,
)

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_ROUND_UP = 1 + 1e-9  # printed epsilons are rounded up by this factor, far above the root finder's error
_CURVE_DELTAS = (1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
_LARGE_SIGMA = 1000.0
_LEAST_SIGMA = 4.0
_BINS = 2**17  # of a numerical loss distribution, over its whole range
_TAIL_SIGMAS = 13.0
_TAIL = 1e-37  # what lies beyond them
_LARGEST_COMPOSED = 30.0  # mu; beyond, e^epsilon does not fit into a float64, and nobody is protected


@dataclass(frozen=True)
class Loss:
    """The privacy loss of one cell, by width and sigma in the same units; in steps if the noise is discrete.

    A category's cell moves `n_moved` columns that far, each with noise of its own.
    """

    width: float
    sigma: float
    discrete: bool
    n_moved: int = 1

    @property
    def mu(self) -> float:
        """Width over sigma, of all columns that are moved together."""
        return math.sqrt(self.n_moved) * self.width / self.sigma


def privacy_curve(
    unit: str, losses: Sequence[Loss], max_rows: int = 1, common_mu: float = 0.0
) -> tuple[EpsilonDelta, ...]:
    """Return the (epsilon, delta) table of a manifest, every epsilon rounded up.

    Parameters
    ----------
    unit : {"cell", "change", "row", "entity"}
        What neighbouring tables differ in.
    losses : sequence of Loss
        One for each cell of a row.
    max_rows : int
        How many rows an entity has at most.
    common_mu : float
        The mu, for this unit, of what else was released about it: bounds found privately.
    """
    together = _losses_together(unit, losses, max_rows, common_mu)
    worst = _worst_epsilons(together, _CURVE_DELTAS)
    return tuple(
        EpsilonDelta(epsilon=epsilon * _ROUND_UP, delta=delta)
        for delta, epsilon in zip(_CURVE_DELTAS, worst, strict=True)
    )


def epsilon_of_unit(
    unit: str, losses: Sequence[Loss], delta: float, max_rows: int = 1, common_mu: float = 0.0
) -> float:
    """Return an epsilon at which the release has `delta`: the worst cell's, or that of all columns of all rows."""
    (epsilon,) = _worst_epsilons(_losses_together(unit, losses, max_rows, common_mu), [delta])
    return epsilon


def deltas_of_unit(
    unit: str, losses: Sequence[Loss], epsilons: Sequence[float], max_rows: int = 1, common_mu: float = 0.0
) -> list[float]:
    """Return a delta that the release has at each epsilon: the inverse of `epsilon_of_unit`."""
    together = _losses_together(unit, losses, max_rows, common_mu)
    return [max(_compose_delta(group, epsilon) for group in together) for epsilon in epsilons]


def _worst_epsilons(groups: Sequence[Counter[Loss]], deltas: Sequence[float]) -> list[float]:
    """Return for each delta the largest epsilon of any group; those come first that are likely to have it."""
    worst = [-math.inf] * len(deltas)
    for group in sorted(groups, key=_likely_loss, reverse=True):
        for place, delta in enumerate(deltas):  # together, so that a group is composed once
            if not has_at_most(group, delta, worst[place]):
                worst[place] = max(worst[place], _compose_epsilon(group, delta))
    return worst


def _likely_loss(losses: Counter[Loss]) -> float:
    """Return a number by which groups can be ordered: mu, and about as much of it as being discrete may add."""
    return _compose_mu(losses) + math.fsum(_rounding(_discrete(losses))) / 5.0


def has_at_most(losses: Counter[Loss], delta: float, epsilon: float) -> bool:
    """Return whether the bound by continuous noise shows an epsilon of at most this; it may fail to show it."""
    discrete = _discrete(losses)
    below, above = _rounding(discrete)
    left = epsilon - above - below
    if left < 0.0 or any(loss.sigma < _LEAST_SIGMA for loss in discrete):
        return False
    return delta_for_epsilon(_compose_mu(losses), left) <= _inner_delta(delta, discrete, below) * (1 - 1e-9)


def _discrete(losses: Counter[Loss]) -> dict[Loss, int]:
    return {loss: number for loss, number in losses.items() if loss.discrete}


def _rounding(discrete: Mapping[Loss, int]) -> tuple[float, float]:
    """Return the sums of b and of the largest a: how far these columns are from continuous ones."""
    below = math.fsum(number / (8 * loss.sigma**2) for loss, number in discrete.items())
    above = math.fsum(
        number * (_TAIL_SIGMAS + loss.mu) ** 2 / (24 * loss.sigma**2) for loss, number in discrete.items()
    )
    return below, above


def _inner_delta(delta: float, discrete: Mapping[Loss, int], below: float) -> float:
    return (delta * (1 - 1e-9) - sum(discrete.values()) * _TAIL) * math.exp(-below)


def _losses_together(unit: str, losses: Sequence[Loss], max_rows: int, common_mu: float) -> list[Counter[Loss]]:
    """Return the losses that add up: those of all columns of all rows, or, one by one, those of a cell."""
    common = [Loss(common_mu, 1.0, discrete=False)] if common_mu else []
    if unit in ("cell", "change"):
        return [_columns_of([loss], 1) + Counter(common) for loss in set(losses)]
    return [_columns_of(losses, max_rows) + Counter(common)]


def _columns_of(losses: Sequence[Loss], max_rows: int) -> Counter[Loss]:
    """Return the losses of single columns that these cells add up to, in so many rows."""
    numbers: Counter[Loss] = Counter()
    for loss, number in Counter(losses).items():
        numbers[replace(loss, n_moved=1)] += number * loss.n_moved * max_rows
    return numbers


def _compose_epsilon(losses: Counter[Loss], delta: float) -> float:
    discrete, small, mu, total_mu, below, above = _split(losses)
    if not discrete:
        return epsilon_for_delta(mu, delta)
    rho, inner = rho_for_mu(total_mu), _inner_delta(delta, discrete, below)
    if inner <= 0 or total_mu > _LARGEST_COMPOSED:
        return epsilon_for_delta_zcdp(rho, delta)
    if small:
        epsilon = float(_composition(frozenset(small.items()), mu, total_mu).get_epsilon_for_delta(inner))
    else:
        epsilon = epsilon_for_delta(mu, inner)
    epsilon += above + below
    if epsilon < math.inf and delta_for_epsilon_zcdp(rho, epsilon) > delta:  # cheaper to see than zcdp's own epsilon
        return epsilon
    return min(epsilon, epsilon_for_delta_zcdp(rho, delta))


def _compose_delta(losses: Counter[Loss], epsilon: float) -> float:
    discrete, small, mu, total_mu, below, above = _split(losses)
    if not discrete:
        return delta_for_epsilon(mu, epsilon)
    by_rho, inner = delta_for_epsilon_zcdp(rho_for_mu(total_mu), epsilon), epsilon - above - below
    if inner < 0.0 or total_mu > _LARGEST_COMPOSED:
        return by_rho
    if small:
        delta = float(_composition(frozenset(small.items()), mu, total_mu).get_delta_for_epsilon(inner))
    else:
        delta = delta_for_epsilon(mu, inner)
    return min(by_rho, (delta * math.exp(below) + sum(discrete.values()) * _TAIL) * (1 + 1e-8))


def _split(losses: Counter[Loss]) -> tuple[dict[Loss, int], dict[Loss, int], float, float, float, float]:
    """Return the discrete losses, those of them that are composed as such, and the mu of all others and of all.

    Then the sums of `_rounding`, of the discrete losses that are not composed as such.
    """
    discrete = _discrete(losses)
    small = {loss: number for loss, number in discrete.items() if loss.sigma < _LARGE_SIGMA}
    mu = _compose_mu({loss: number for loss, number in losses.items() if loss not in small})
    rounding = _rounding({loss: number for loss, number in discrete.items() if loss not in small})
    return discrete, small, mu, _compose_mu(losses), *rounding


def _compose_mu(losses: Mapping[Loss, int]) -> float:
    return math.hypot(*(math.sqrt(number) * loss.mu for loss, number in losses.items()))


@functools.lru_cache(maxsize=16)  # a plan has twelve strengths
def _composition(discrete: frozenset[tuple[Loss, int]], mu: float, total_mu: float) -> PrivacyLossDistribution:
    from dp_accounting.pld import privacy_loss_distribution as pld  # half a second that all-continuous tables save

    interval = (total_mu**2 + 2 * _TAIL_SIGMAS * total_mu) / _BINS
    parts: list[PrivacyLossDistribution] = []
    if mu:
        parts.append(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=interval))
    for loss, number in sorted(discrete, key=repr):
        width = round(loss.width)
        single = pld.from_discrete_gaussian_mechanism(
            loss.sigma,
            sensitivity=width,
            truncation_bound=width + math.ceil(_TAIL_SIGMAS * loss.sigma),
            value_discretization_interval=interval,
        )
        parts.append(single.self_compose(number) if number > 1 else single)
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return whole
