"""Strengths in a plan are rounded to the side that promises less."""

from __future__ import annotations

import math

import pytest

from dp_publish.accounting.trade_off import GaussianTradeOff
from dp_publish.forecast.page.texts import trade_off_points
from dp_publish.forecast.strengths import printed_epsilon, printed_mu


@pytest.mark.parametrize(
    ("value", "mu", "epsilon"),
    [
        (0.1 * (1 + 1e-12), "0.1", "0.1"),
        (0.83412, "0.8342", "0.835"),
        (2.25387, "2.254", "2.26"),
        (12.0001, "12.01", "12.1"),
        (265.14, "265.2", "266"),
        (1309.01, "1310", "1,310"),
        (1309 * (1 + 1e-12), "1309", "1,309"),
    ],
)
def test_a_strength_is_rounded_up(value: float, mu: str, epsilon: str) -> None:
    """What is printed is never below the strength, but for its safety margin."""
    assert (printed_mu(value), printed_epsilon(value)) == (mu, epsilon)


def test_no_epsilon_is_a_dash() -> None:
    """A guarantee that fails more often than delta has no epsilon."""
    assert printed_epsilon(math.nan) == "-"


def test_drawn_misses_are_rounded_down() -> None:
    """A figure shows no more misses than the guarantee allows."""
    curve, alphas = GaussianTradeOff(1.3), [0.0137 * step for step in range(1, 70)]
    drawn = trade_off_points(curve, alphas)
    assert all(
        curve.type_2(alpha) - 1e-5 < each <= curve.type_2(alpha) for alpha, each in zip(alphas, drawn, strict=True)
    )
