"""The price of one release: conversions between guarantees, and what a release costs."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.accounting.conversions import (
        delta_for_epsilon,
        delta_for_epsilon_zcdp,
        epsilon_for_delta,
        epsilon_for_delta_zcdp,
        mu_for_epsilon_delta,
        mu_for_rho,
        rho_for_epsilon_delta,
        rho_for_mu,
        unit_mu,
    )
    from dp_publish.accounting.cost import ROUND_UP, SLACK, Cost
    from dp_publish.accounting.curve import Loss, deltas_of_unit, epsilon_of_unit, privacy_curve
    from dp_publish.accounting.strength import ApproximateDP, ConcentratedDP, GaussianDP, PureDP, Strength
    from dp_publish.accounting.trade_off import EnvelopeTradeOff, GaussianTradeOff, TradeOff, trade_off_epsilons
else:
    __getattr__ = import_on_demand(__name__)
