"""The strengths that a plan compares with the policy's own: the same release at another mu.

Strengths and numbers as plans print them: rounded up, so that no figure promises more than the release it is of keeps.
"""

import math
from collections.abc import Sequence
from typing import Any

from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_bundle.base.quoting import MARGIN, percent_at_most, round_up
from dp_bundle.manifest.noise import normal_tail
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.mechanisms.base import mechanism_named
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.data.kinds import Kinds
from dp_publish.forecast.outlook import GRID, Outlook, forecast
from dp_publish.policy.choices import STRENGTHS
from dp_publish.policy.model import Policy

_POINTS_PER_DECADE = 20  # of curves
_WHOLE_FROM, _WHOLE_TO = 100, 1e7
_SCALES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def policy_at(policy: Policy, mu: float, mechanism: str | None = None) -> Policy:
    """Return the policy at another strength.

    Parameters
    ----------
    policy : Policy
        Resolved.
    mu : float
        The strength.
    mechanism : str, optional
        That of a covariance release, in place of the policy's; Gaussian noise stands for those that take no mu.
    """
    changes: dict[str, Any] = dict.fromkeys((*STRENGTHS, "delta")) | {"mu": mu}
    if mechanism is not None:
        changes["mechanism"] = mechanism if takes_mu(mechanism) else Gaussian.name
    return policy.with_privacy(**changes)


def takes_mu(mechanism: str | None) -> bool:
    """Return whether a release can be made at another mu: rows always can, second moments by most mechanisms."""
    kind = None if mechanism is None else mechanism_named(mechanism)
    return kind is None or kind.serves(GaussianDP(1.0))


def forecast_each(
    policy: Policy,
    kinds: Kinds,
    n_rows: int,
    mus: Sequence[float],
    spread: float,
    mechanism: str | None,
) -> tuple[list[Outlook], list[tuple[float, str]]]:
    """Forecast each mu, and name those at which a release would be refused; all refused is an error."""
    rows, refused = [], []
    for mu in mus:
        there = policy_at(policy, mu, mechanism)
        try:
            rows.append(forecast(there, kinds, n_rows, spread=spread))
        except (ParameterError, PrivacyError) as error:
            if mu == mus[-1] and not rows:
                raise
            refused.append((mu, str(error)))
    return rows, refused


def fine_grid() -> tuple[float, ...]:
    """Return the strengths that the page's curves are drawn by."""
    low, high = math.log10(GRID[0]), math.log10(GRID[-1])
    steps = math.ceil((high - low) * _POINTS_PER_DECADE)
    return tuple(10 ** (low + (high - low) * step / steps) for step in range(steps + 1))


def printed_mu(mu: float) -> str:
    """Return mu with four significant digits."""
    return round_up(mu, 4)


def printed_epsilon(epsilon: float) -> str:
    """Return epsilon with three significant digits, or as a whole number from 100 on; "-" where there is none."""
    if math.isnan(epsilon):
        return "-"
    if _WHOLE_FROM <= epsilon < _WHOLE_TO:
        return f"{math.ceil(epsilon * MARGIN):,}"
    return round_up(epsilon, 3)


def describe_worth(mu: float) -> str:
    """Return what a strength is worth to somebody who has to guess one of two, each as likely as the other."""
    right = percent_at_most(1 - normal_tail(mu / 2))
    return f"a guess at one of two is right in at most {right} of cases, in place of 50 %"


def describe_weaker(mu: float) -> str:
    """Return the advice to protect less, and what that is worth."""
    shown = round_up(mu, 2)
    return f"give a weaker guarantee, from about mu = {shown} on, where {describe_worth(float(shown))}"


def round_down(value: float) -> str:
    """Return a positive number to three digits, never more than it is."""
    size = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / size) * size:.3g}"


def describe_count(value: int) -> str:
    """Return a number of rows in figures, or in millions, billions and trillions."""
    if value >= 1e15:
        return f"{value:.1e}"
    for size, word in _SCALES:
        if value >= size:
            return f"{value / size:.3g} {word}"
    return f"{value:,}"
