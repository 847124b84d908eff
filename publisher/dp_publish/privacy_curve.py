"""The (epsilon, delta) curve of a release whose columns carry continuous and discrete Gaussian noise.

Continuous columns are mu-GDP and compose exactly. Discrete Gaussian noise is not: at sigma = 1 step its true delta is
up to twice that of the Gaussian curve, so its privacy loss is composed numerically (dp-accounting's privacy-loss
distributions, which round pessimistically). From sigma = 1000 steps on, a discrete column is counted as a continuous
one plus an epsilon of 30 / sigma^2. Within 13 sigma of its centre, the probability of each integer k differs from that
of rounding N(0, sigma^2) to k by a factor between exp(-1/(8 sigma^2)) and exp(k^2/(24 sigma^4)), since the average of
exp(-k u/sigma^2 - u^2/(2 sigma^2)) over |u| < 1/2 lies between those and the normalising constants agree to 300
digits; four such factors (two tables, two directions) make 4 (1/8 + 169/24) / sigma^2 < 30 / sigma^2, and what lies
beyond 13 sigma has probability below 10^-37. rho-zCDP holds for all of it, and bounds the answer from above.

References
----------
Koskela, Jalko & Honkela (2020), arXiv 1906.03049; Doroshenko et al. (2022), arXiv 2207.04380. Canonne, Kamath & Steinke
(2020), arXiv 2004.00010.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_bundle.manifest import EpsilonDelta
from dp_publish.accounting import epsilon_for_delta, epsilon_for_delta_zcdp, rho_for_mu

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = ["Loss", "epsilon_of_unit", "privacy_curve"]

_ROUND_UP = 1 + 1e-9  # printed epsilons are rounded up by this factor, far above the root finder's error
_CURVE_DELTAS = (1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
_LARGE_SIGMA = 1000.0
_BINS = 2**17  # of a numerical loss distribution, over its whole range
_TAIL_SIGMAS = 13.0


@dataclass(frozen=True)
class Loss:
    """What one cell of a column may lose: width and sigma, in the same units; in steps if the noise is discrete."""

    width: float
    sigma: float
    discrete: bool

    @property
    def mu(self) -> float:
        """Width over sigma."""
        return self.width / self.sigma


def privacy_curve(
    unit: str, losses: Sequence[Loss], max_rows: int = 1, common_mu: float = 0.0
) -> tuple[EpsilonDelta, ...]:
    """Return the (epsilon, delta) table of a manifest, every epsilon rounded up.

    Parameters
    ----------
    unit : {"cell", "row", "entity"}
        What neighbouring tables differ in.
    losses : sequence of Loss
        One per column.
    max_rows : int
        How many rows an entity has at most.
    common_mu : float
        The mu, for this unit, of what else was released about it: bounds found privately.
    """
    epsilons = ((delta, epsilon_of_unit(unit, losses, delta, max_rows, common_mu)) for delta in _CURVE_DELTAS)
    return tuple(EpsilonDelta(epsilon=epsilon * _ROUND_UP, delta=delta) for delta, epsilon in epsilons)


def epsilon_of_unit(
    unit: str, losses: Sequence[Loss], delta: float, max_rows: int = 1, common_mu: float = 0.0
) -> float:
    """Return an epsilon at which the release has `delta`: the worst cell's, or that of all columns of all rows."""
    common = [Loss(common_mu, 1.0, discrete=False)] if common_mu else []
    if unit == "cell":
        return max(_compose_epsilon([loss, *common], delta) for loss in set(losses))
    return _compose_epsilon([*list(losses) * max_rows, *common], delta)


def _compose_epsilon(losses: Sequence[Loss], delta: float) -> float:
    small = Counter(loss for loss in losses if loss.discrete and loss.sigma < _LARGE_SIGMA)
    large = [loss for loss in losses if loss.discrete and loss.sigma >= _LARGE_SIGMA]
    mu = math.hypot(*(loss.mu for loss in losses if not loss.discrete), *(loss.mu for loss in large))
    if not small and not large:
        return epsilon_for_delta(mu, delta)
    total_mu = math.hypot(*(loss.mu for loss in losses))
    excess = math.fsum(30 / loss.sigma**2 for loss in large)
    shifted = _numerical(frozenset(small.items()), mu, total_mu, delta) if small else epsilon_for_delta(mu, delta)
    return min(epsilon_for_delta_zcdp(rho_for_mu(total_mu), delta), shifted + excess)


def _numerical(discrete: frozenset[tuple[Loss, int]], mu: float, total_mu: float, delta: float) -> float:
    return float(_composition(discrete, mu, total_mu).get_epsilon_for_delta(delta * (1 - 1e-9)))  # and the far tails


@functools.lru_cache(maxsize=8)
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
