"""The mechanism of a covariance release, set as the policy asks.

The strength is for the unit of privacy. An entity of m rows is m rows in turn: what is mu-GDP, or epsilon-DP, for one
row is m mu-GDP, or m epsilon-DP, for the entity, so that a row gets the m-th part. A cell is protected as its whole row
is. `accounting.strength` has what a strength stands for in another form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dp_bundle.base.errors import ParameterError, PolicyError
from dp_publish.accounting.conversions import ROUND_UP
from dp_publish.accounting.strength import ApproximateDP, ConcentratedDP, GaussianDP, PureDP, Strength
from dp_publish.covariance.choice import choose_for_policy
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.pure import EXCEPTED_DELTA
from dp_publish.covariance.mechanisms.registry import mechanism_named
from dp_publish.covariance.scaling import MAX_FEATURES, Scaling, scaling_for
from dp_publish.policy.coded_columns import raw_names
from dp_publish.policy.model import Policy


def set_mechanism(policy: Policy, kinds: Mapping[str, str], count_rows: Callable[[], int]) -> Mechanism:
    """Return the mechanism and its strength, from the policy and, where `auto` may ask for it, the number of rows.

    Parameters
    ----------
    policy : Policy
        For a covariance release, with bounds for every column.
    kinds : mapping of str to str
        The columns, in order.
    count_rows : callable
        Returns the number of rows; called only where that is public and `auto` needs it.

    Raises
    ------
    PolicyError, ParameterError
        The strength, the radius or the bounds do not go together.
    PrivacyError
        The mechanism has no guarantee.
    """
    privacy, strength, reason = policy.privacy, policy.privacy.strength, None
    kind = mechanism_named(privacy.mechanism)
    scaling = _scaling(policy, kinds)
    if strength is None:
        raise PolicyError("a covariance release is made at mu, epsilon with or without delta, or rho: give one")
    if kind is None:
        kind, reason = choose_for_policy(privacy, strength, scaling, count_rows)
    more = kind.settings(policy, kinds)
    mechanism = kind(scaling, privacy.neighbours, kind.form_of(strength), privacy.max_rows, reason, **more)
    require_what_was_asked(mechanism, strength)
    return mechanism


def require_what_was_asked(mechanism: Mechanism, asked: Strength) -> None:
    """Refuse a mechanism that gives less than a policy asks for, by what the mechanism itself says that a unit loses.

    So no mechanism has to be remembered as one that gives no pure epsilon, or only a larger delta.

    Raises
    ------
    PolicyError
    """
    spent = mechanism.spends(mechanism.max_rows)
    if isinstance(asked, PureDP) and not isinstance(spent, PureDP):
        raise PolicyError(
            f"the {mechanism.name} mechanism gives no pure epsilon: give delta as well, or mu, or rho; or another "
            "mechanism"
        )
    excepted, most = spent.excepted_delta, asked.delta if isinstance(asked, ApproximateDP) else EXCEPTED_DELTA
    if excepted > most:
        raise PolicyError(
            f"the guarantee of the {mechanism.name} mechanism fails with a probability of up to {excepted:.2g}, above "
            f"the {most:.2g} that may be: give a larger delta, or another mechanism"
        )
    if not _is_within(spent, asked):
        raise PolicyError(f"the {mechanism.name} mechanism gives less privacy than was asked for: choose another")


def _is_within(spent: GaussianDP | PureDP, asked: Strength) -> bool:
    """Return whether what is spent is no more than what was asked for, its exception apart."""
    if isinstance(spent, PureDP) and isinstance(asked, PureDP | ApproximateDP):
        return spent.epsilon <= asked.epsilon * ROUND_UP
    if isinstance(spent, PureDP) and isinstance(asked, ConcentratedDP) and spent.epsilon <= asked.mu * ROUND_UP:
        return True  # rho is at most epsilon^2 / 2
    return spent.mu <= asked.mu * ROUND_UP


def ball_radius(policy: Policy, kinds: Mapping[str, str]) -> float | None:
    """Return what rows are shortened to, in half-widths of their columns' bounds; None if none can be longer.

    Without one in the policy it is what no row exceeds: all columns that one raw column is published as have a length
    of 1 together.
    """
    n_cells, radius = len(raw_names(kinds, policy.sources)), policy.privacy.l2_radius
    return math.sqrt(n_cells) if radius is None and n_cells < len(kinds) else radius


def _scaling(policy: Policy, kinds: Mapping[str, str]) -> Scaling:
    bounds = [limits for limits in (policy.column(name).bounds for name in kinds) if limits is not None]
    if len(bounds) > MAX_FEATURES:
        raise PolicyError(f"a covariance release takes at most {MAX_FEATURES} columns, not {len(bounds)}: drop some")
    try:
        return scaling_for(bounds, radius=ball_radius(policy, kinds))
    except ParameterError as error:
        name = "l2_radius" if error.name == "radius" else error.name
        raise PolicyError(f"{name} must be {error.allowed}, not {error.received}") from error
