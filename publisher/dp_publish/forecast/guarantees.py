"""The guarantee that a release of one strength would state, and what it leaves to an attacker.

The guarantee is the one that the bundle's manifest would hold, derived by the same functions from the same facts. The
trade-off function is exact where noise is Gaussian and continuous. Where integers carry noise it follows from the
numeric (epsilon, delta) curve; where integers have bounds that are yet to be found, so that nothing is known of their
steps, from rho; and for an epsilon from that and from what it excepts. None of them promises more than the guarantee.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import EpsilonDelta, Guarantee, release_mu
from dp_publish.accounting.conversions import (
    ROUND_UP,
    delta_for_epsilon_zcdp,
    epsilon_for_delta,
    epsilon_for_delta_zcdp,
    rho_for_mu,
)
from dp_publish.accounting.curve import deltas_of_unit, epsilon_of_unit
from dp_publish.accounting.strength import PureDP
from dp_publish.accounting.trade_off import EnvelopeTradeOff, GaussianTradeOff, TradeOff, trade_off_epsilons
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.guarantee import cost_of_moments, guarantee_of_moments, moment_columns
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.forecast.assumptions import calibrate_assumed, fill_bounds
from dp_publish.policy.model import Policy, Privacy
from dp_publish.rows.calibration import guarantee_of_rows, share_mu
from dp_publish.rows.noise import losses_of


@dataclass(frozen=True)
class Protection:
    """The protection that one release gives.

    Attributes
    ----------
    guarantee : Guarantee
        As the manifest would state it.
    trade_off : TradeOff
        What it leaves to an attacker.
    booked_mu : float
        The mu that the ledger would book for its unit of privacy.
    """

    guarantee: Guarantee
    trade_off: TradeOff
    booked_mu: float


def protection_of(policy: Policy, kinds: Mapping[str, str], count_rows: Callable[[], int]) -> Protection:
    """Return what a release by this policy would protect; nothing is read or spent.

    Parameters
    ----------
    policy : Policy
        Bounds left open are filled in, as a forecast does.
    kinds : mapping of str to str
        The columns, as `choose_columns` gives them.
    count_rows : callable
        Returns the number of rows; called only where that is public.

    Raises
    ------
    ParameterError, PolicyError, PrivacyError
        There is no such release.
    """
    guarantee, booked = promise_of(policy, kinds, count_rows)
    if guarantee.epsilon is not None:
        return Protection(guarantee, EnvelopeTradeOff([(guarantee.epsilon, guarantee.excepted_delta)]), booked)
    if guarantee.mu is not None:
        return Protection(guarantee, GaussianTradeOff(guarantee.mu), booked)
    return Protection(guarantee, EnvelopeTradeOff(_points_of_rows(policy, kinds, guarantee)), booked)


def promise_of(policy: Policy, kinds: Mapping[str, str], count_rows: Callable[[], int]) -> tuple[Guarantee, float]:
    """Return the guarantee alone, and the mu that would be booked, which takes less time than all of `protection_of`.

    Parameters and errors are those of `protection_of`.
    """
    if policy.privacy.release == "rows":
        columns, booked = calibrate_assumed(policy, kinds)
        guarantee = guarantee_of_rows(policy, columns, share_mu(policy, kinds))
        return (_by_rho(guarantee) if has_unknown_steps(kinds, columns) else guarantee), booked
    filled = fill_bounds(policy, kinds)
    mechanism = set_mechanism(filled, kinds, count_rows)
    guarantee = guarantee_of_moments(filled, mechanism, moment_columns(filled, kinds))
    return guarantee, cost_of_moments(filled, mechanism).mu[policy.privacy.account]


def epsilon_of_moments(mechanism: Mechanism, delta: float) -> float:
    """Return epsilon at delta, or the pure one; nan where the guarantee fails more often than that."""
    spent = mechanism.spends(mechanism.max_rows)
    if isinstance(spent, PureDP):
        return spent.epsilon if spent.excepted_delta <= delta else math.nan
    return epsilon_for_delta(spent.mu, delta)


def epsilon_of_rows(
    strength: Privacy, kinds: Mapping[str, str], columns: Sequence[Column], mu: float, delta: float
) -> float:
    """Return epsilon at delta of a release of rows and of what was found for it privately."""
    if has_unknown_steps(kinds, columns):
        return epsilon_for_delta_zcdp(rho_for_mu(mu), delta)
    if all(column.is_gaussian for column in columns):
        return epsilon_for_delta(mu, delta)
    found = 0.0
    if any(column.bounds_found for column in columns):
        found = math.sqrt(max(0.0, mu**2 - release_mu(strength.unit_name, columns, strength.max_rows) ** 2))
    losses = losses_of(columns, strength.unit_name)
    return epsilon_of_unit(strength.unit_name, losses, delta, strength.max_rows, found)


def has_unknown_steps(kinds: Mapping[str, str], columns: Sequence[Column]) -> bool:
    """Return True if a column of integers is counted as continuous, because its bounds are yet to be found."""
    return any(column.bounds_found and kinds[column.name] == "integer" for column in columns)


def _points_of_rows(policy: Policy, kinds: Mapping[str, str], guarantee: Guarantee) -> list[tuple[float, float]]:
    """Return the (epsilon, delta) points of noise whose guarantee states no mu: by its steps, or else by rho alone."""
    epsilons = trade_off_epsilons(math.sqrt(2 * guarantee.rho))
    columns, _ = calibrate_assumed(policy, kinds)
    if has_unknown_steps(kinds, columns):
        return [(epsilon, delta_for_epsilon_zcdp(guarantee.rho, epsilon)) for epsilon in epsilons]
    losses = losses_of(columns, guarantee.unit)
    deltas = deltas_of_unit(guarantee.unit, losses, epsilons, policy.privacy.max_rows, guarantee.bounds_mu)
    return list(zip(epsilons, deltas, strict=True))


def _by_rho(guarantee: Guarantee) -> Guarantee:
    """Return the guarantee that rho alone implies, whatever the steps of the noise are."""
    curve = tuple(
        EpsilonDelta(epsilon=epsilon_for_delta_zcdp(guarantee.rho, point.delta) * ROUND_UP, delta=point.delta)
        for point in guarantee.epsilon_delta
    )
    return guarantee.model_copy(update={"mu": None, "epsilon_delta": curve})
