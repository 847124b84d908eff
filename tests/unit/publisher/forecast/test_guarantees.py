"""What a plan says of the guarantee is what a bundle would state, and no more is promised."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dp_publish.accounting.conversions import epsilon_for_delta_zcdp, mu_for_epsilon_delta
from dp_publish.accounting.strength import GaussianDP
from dp_publish.accounting.trade_off import EnvelopeTradeOff, GaussianTradeOff
from dp_publish.forecast.guarantees import Protection, protection_of
from dp_publish.forecast.outlook import ForecastRow, forecast
from dp_publish.policy.model import Policy

KINDS = {"height": "continuous", "visits": "integer"}


def policy_of(privacy: dict[str, Any], *, open_bounds: tuple[str, ...] = ()) -> Policy:
    """Return a policy for a continuous and an integer column."""
    bounds = {"height": [120.0, 220.0], "visits": [0.0, 4.0]}
    columns = {name: {} if name in open_bounds else {"bounds": limits} for name, limits in bounds.items()}
    return Policy.model_validate({"dataset": {"name": "t"}, "privacy": privacy, "columns": columns})


def both(privacy: dict[str, Any], **options: Any) -> tuple[Protection, ForecastRow]:
    """Return the guarantee of a policy, and its forecast, for 1000 rows."""
    policy = policy_of(privacy, **options)
    (row,) = forecast(1000, policy, KINDS, [policy.privacy])
    return protection_of(policy, KINDS, lambda: 1000), row


@pytest.mark.parametrize(
    ("privacy", "open_bounds"),
    [
        ({"mu": 2.0}, ()),
        ({"mu": 2.0, "unit": "cell"}, ()),
        ({"rho": 0.5, "unit": {"entity": "person", "max_rows": 3}}, ()),
        ({"mu": 2.0}, ("height",)),
        ({"mu": 2.0}, ("height", "visits")),
        ({"mu": 2.0, "release": "covariance"}, ()),
        ({"epsilon": 1.0, "release": "covariance", "mechanism": "laplace"}, ()),
    ],
)
def test_the_forecasts_epsilon_is_that_of_the_guarantee(privacy: dict[str, Any], open_bounds: tuple[str, ...]) -> None:
    """For every release the epsilon of the plan's table is that of the guarantee's curve, or its pure one."""
    protection, row = both(privacy, open_bounds=open_bounds)
    guarantee = protection.guarantee
    stated = guarantee.epsilon or next(each.epsilon for each in guarantee.epsilon_delta if each.delta == row.delta)
    assert row.epsilon == pytest.approx(stated, rel=1e-5)


def test_second_moments_of_integers_have_a_gaussian_guarantee() -> None:
    """Their noise is Gaussian whatever the columns are, where rows of integers get discrete noise."""
    moments, _ = both({"mu": 2.0, "release": "covariance"})
    rows, _ = both({"mu": 2.0})
    assert moments.trade_off == GaussianTradeOff(2.0)
    assert moments.guarantee.mu == pytest.approx(2.0)
    assert isinstance(rows.trade_off, EnvelopeTradeOff)
    assert rows.guarantee.mu is None
    assert rows.trade_off.right_of_two == pytest.approx(GaussianTradeOff(2.0).right_of_two, abs=0.01)


def test_integers_whose_bounds_are_to_be_found_are_protected_by_rho_alone() -> None:
    """Nothing is known of their steps, so that neither mu nor the curve of continuous noise is promised."""
    protection, row = both({"mu": 1.0}, open_bounds=("visits",))
    assert protection.guarantee.mu is None
    assert row.epsilon == pytest.approx(epsilon_for_delta_zcdp(0.5, 1e-6), rel=1e-6)
    assert protection.trade_off.right_of_two > GaussianTradeOff(1.0).right_of_two


def test_an_epsilon_with_exceptions_is_protected_by_just_that() -> None:
    """Wishart noise may tell all with probability delta; a pure epsilon limits the odds by e^epsilon."""
    wishart, _ = both({"epsilon": 1.0, "delta": 1e-3, "release": "covariance", "mechanism": "wishart"})
    assert wishart.trade_off == EnvelopeTradeOff([(1.0, 1e-3)])
    assert math.isinf(wishart.trade_off.odds_factor(1e-4))
    pure, _ = both({"mu": 1.0, "release": "covariance", "mechanism": "laplace"})
    epsilon = GaussianDP(1.0).pure_epsilon
    assert pure.trade_off.odds_factor(0.01) == pytest.approx(math.exp(epsilon))
    assert pure.trade_off.right_of_two == pytest.approx(GaussianTradeOff(1.0).right_of_two)


def test_a_strength_by_epsilon_and_delta_is_the_mu_that_it_stands_for() -> None:
    """The trade-off function is that of mu-GDP, whose curve passes through the point."""
    policy = Policy.model_validate(
        {
            "dataset": {"name": "t"},
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
            "columns": {"height": {"bounds": [120.0, 220.0]}},
        }
    )
    found = protection_of(policy, {"height": "continuous"}, lambda: 1000)
    assert found.trade_off.right_of_two == pytest.approx(
        GaussianTradeOff(mu_for_epsilon_delta(1.0, 1e-6)).right_of_two, rel=1e-6
    )
