"""A release as a policy plans it, of rows or of second moments: its noise, what it costs, and what it would protect.

The guarantee is the one that the bundle's manifest would hold, derived by the same functions from the same facts. The
trade-off function is exact where noise is Gaussian and continuous. Where integers carry noise it follows from the
numeric (epsilon, delta) curve. Where integers have bounds that are yet to be found, so that nothing is known of their
steps, it follows from rho. For an epsilon it follows from that and from what it excepts. None of them promises more
than the guarantee.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import EpsilonDelta, Guarantee
from dp_publish.accounting.conversions import ROUND_UP, delta_for_epsilon_zcdp, epsilon_for_delta_zcdp
from dp_publish.accounting.curve import deltas_of_unit
from dp_publish.accounting.trade_off import EnvelopeTradeOff, GaussianTradeOff, TradeOff, trade_off_epsilons
from dp_publish.covariance.calibration import cost_of_moments, guarantee_of_moments, moment_columns, set_mechanism
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.data.kinds import Kinds
from dp_publish.forecast.assumptions import calibrate_assumed, fill_bounds
from dp_publish.policy.columns import require_bounds
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import guarantee_of_rows, share_mu
from dp_publish.rows.noise import losses_of

DELTA = 1e-6  # of the epsilon that plans show
HELD = {
    "rows": "Rows, with noise on every value.",
    "covariance": "How the columns vary, and how every two of them go together (second moments), with noise; no row.",
    "histograms": "A histogram of every column, and how every two of them go together (second moments), with noise; "
    "no row.",
}

_LEFT = 0.9  # of mu, at least, once it was found privately what the columns are


@dataclass(frozen=True)
class PlannedRelease(ABC):
    """A release that was set up, and not made: nothing is read or spent.

    Attributes
    ----------
    policy : Policy
        Resolved. Bounds that it leaves open are filled in as a forecast does: see `require_bounds`.
    kinds : mapping of str to str
        The columns, as `choose_columns` gives them.
    columns : tuple of Column
        The columns with their noise; none of second moments.
    release : {"rows", "covariance"}
    """

    release: ClassVar[str]
    policy: Policy
    kinds: Kinds
    columns: tuple[Column, ...] = ()

    @property
    def depends_on_values(self) -> bool:
        """Whether the error does, so that there is no formula for it."""
        return False

    @property
    def mechanism_name(self) -> str | None:
        """The mechanism of second moments; None of rows."""
        return None

    def require_bounds(self) -> None:  # noqa: B027  most need none
        """Refuse a release whose bounds were filled in, if it needs them: those of rows are found privately.

        Raises
        ------
        PolicyError
        """

    def held(self, n_rows: int) -> str:  # noqa: ARG002  of rows it is the same for all
        """Return what a release of so many rows holds, as a sentence for everybody."""
        return HELD[self.release]

    @property
    @abstractmethod
    def mu(self) -> float:
        """The mu of one unit of privacy."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee as the manifest would state it."""

    @property
    @abstractmethod
    def booked_mu(self) -> float:
        """The mu that the ledger would book for its unit of privacy."""

    @property
    @abstractmethod
    def trade_off(self) -> TradeOff:
        """What the guarantee leaves to an attacker."""

    @property
    def epsilon(self) -> float:
        """Epsilon at `DELTA`, or the pure one; nan where the guarantee fails more often than that."""
        guarantee = self.guarantee
        if guarantee.epsilon is None:
            return next(point.epsilon for point in guarantee.epsilon_delta if point.delta == DELTA)
        return guarantee.epsilon if guarantee.excepted_delta <= DELTA else math.nan

    @abstractmethod
    def errors(self, n_rows: int, spreads: Mapping[str, float]) -> dict[str, float]:
        """Return the standard error of a correlation near zero of two columns like each, of these spreads."""


@dataclass(frozen=True)
class PlannedRows(PlannedRelease):
    """A release of noisy rows, of this mu for one unit of privacy."""

    release = "rows"
    mu: float = math.nan

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee, by rho alone where steps of the noise are not known yet."""
        guarantee = guarantee_of_rows(self.policy, self.columns, share_mu(self.policy, self.kinds))
        return _by_rho(guarantee) if self._has_unknown_steps else guarantee

    @property
    def booked_mu(self) -> float:
        """The mu of the unit, of the noise and of what is found privately for it."""
        return self.mu

    def errors(self, n_rows: int, spreads: Mapping[str, float]) -> dict[str, float]:
        """Return each column's error, which its own noise adds to."""
        return {
            column.name: rows_error(column.noise_variance / (spreads[column.name] * column.width) ** 2, n_rows)
            for column in self.columns
            if column.name in spreads
        }

    @property
    def _has_unknown_steps(self) -> bool:
        """True if a column of integers is counted as continuous, because its bounds are yet to be found."""
        return any(column.bounds_found and self.kinds[column.name] == "integer" for column in self.columns)

    @cached_property
    def trade_off(self) -> TradeOff:
        """It follows from the mu that is stated, else from the steps of the noise, or from rho alone."""
        guarantee = self.guarantee
        if guarantee.mu is not None:
            return GaussianTradeOff(guarantee.mu)
        epsilons = trade_off_epsilons(math.sqrt(2 * guarantee.rho))
        if self._has_unknown_steps:
            deltas = [delta_for_epsilon_zcdp(guarantee.rho, epsilon) for epsilon in epsilons]
        else:
            losses, max_rows = losses_of(self.columns, guarantee.unit), self.policy.privacy.max_rows
            deltas = deltas_of_unit(guarantee.unit, losses, epsilons, max_rows, guarantee.bounds_mu)
        return EnvelopeTradeOff(list(zip(epsilons, deltas, strict=True)))


@dataclass(frozen=True, kw_only=True)
class PlannedMoments(PlannedRelease):
    """A release of second moments by this mechanism."""

    release = "covariance"
    mechanism: Mechanism

    def require_bounds(self) -> None:
        """Refuse a release whose bounds were filled in, unless it is made in two rounds."""
        if not isinstance(self.mechanism, TwoRound):
            require_bounds(self.policy, self.kinds)

    @property
    def mechanism_name(self) -> str:
        """The mechanism."""
        return self.mechanism.name

    def held(self, n_rows: int) -> str:
        """Return what a release of so many rows holds; of two rounds, histograms if rows are enough for them.

        Where it is yet to be found what columns are, that takes a part of the strength, and may leave some out.
        """
        if not isinstance(self.mechanism, TwoRound) or not self.mechanism.has_margins(n_rows):
            return HELD[self.release]
        most = int(_LEFT * self.mechanism.most_in_margins(n_rows))
        if self.policy.sought is None or self.mechanism.scored or len(self.kinds) <= most:
            return HELD["histograms"]
        return f"{HELD[self.release]} If at most {most} of these columns are published, a histogram of each, too."

    @property
    def depends_on_values(self) -> bool:
        """True where the noise has no variance of its own."""
        return self.mechanism.forecast_as is not None

    @property
    def mu(self) -> float:
        """The mu of one unit of privacy; of noise that cannot be forecast, that of what stands for it."""
        mechanism = self.mechanism.for_forecast()
        return mechanism.spends(mechanism.max_rows).mu

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee by epsilon, or by mu."""
        filled = fill_bounds(self.policy, self.kinds)
        return guarantee_of_moments(filled, self.mechanism, moment_columns(filled, self.kinds))

    @property
    def booked_mu(self) -> float:
        """The mu for rows that are replaced, whatever the guarantee speaks of."""
        return cost_of_moments(self.policy, self.mechanism).mu[self.policy.privacy.account]

    @property
    def trade_off(self) -> TradeOff:
        """It follows from the epsilon or the mu that is stated."""
        guarantee = self.guarantee
        if guarantee.epsilon is not None:
            return EnvelopeTradeOff([(guarantee.epsilon, guarantee.excepted_delta)])
        assert guarantee.mu is not None  # noqa: S101  second moments have either
        return GaussianTradeOff(guarantee.mu)

    def errors(self, n_rows: int, spreads: Mapping[str, float]) -> dict[str, float]:
        """Return each column's error."""
        noise = self.mechanism.correlation_noise
        return {name: moments_error(n_rows, noise(n_rows, own)) for name, own in spreads.items()}


def plan_release(policy: Policy, kinds: Kinds, count_rows: Callable[[], int]) -> PlannedRelease:
    """Return the release by a policy, set up.

    Parameters
    ----------
    policy : Policy
        Resolved.
    kinds : mapping of str to str
        The columns, as `choose_columns` gives them.
    count_rows : callable
        Returns the number of rows; called only where that is public.

    Raises
    ------
    ParameterError, PolicyError, PrivacyError
        There is no such release.
    """
    if policy.privacy.is_moments:
        return PlannedMoments(policy, kinds, mechanism=set_mechanism(fill_bounds(policy, kinds), kinds, count_rows))
    return PlannedRows(policy, kinds, *calibrate_assumed(policy, kinds))


def rows_error(ratio: float, n_rows: int) -> float:
    """Return the standard error of a correlation near zero in rows, given the noise's variance over the values'."""
    return (1 + ratio) / math.sqrt(n_rows)


def moments_error(n_rows: int, noise: float) -> float:
    """Return the standard error of a correlation near zero from a covariance release.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    noise : float
        The noise's standard deviation on n times a correlation: see `Mechanism.correlation_noise`.
    """
    return math.sqrt(1 / n_rows + (noise / n_rows) ** 2)


def _by_rho(guarantee: Guarantee) -> Guarantee:
    """Return the guarantee that rho alone implies, whatever the steps of the noise are."""
    curve = tuple(
        EpsilonDelta(epsilon=epsilon_for_delta_zcdp(guarantee.rho, point.delta) * ROUND_UP, delta=point.delta)
        for point in guarantee.epsilon_delta
    )
    return guarantee.model_copy(update={"mu": None, "epsilon_delta": curve})
