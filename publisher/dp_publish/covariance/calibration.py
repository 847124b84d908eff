"""The mechanism of a covariance release, set as the policy asks.

The strength is for the unit of privacy. An entity of m rows is m rows in turn: what is mu-GDP, or epsilon-DP, for one
row is m mu-GDP, or m epsilon-DP, for the entity, so that a row gets the m-th part. A cell is protected as its whole row
is. `accounting.strength` has what a strength stands for in another form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dp_bundle.errors import ParameterError, PolicyError
from dp_publish.accounting import ApproximateDP
from dp_publish.covariance.choice import choose_for_policy
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.pure import PureMechanism
from dp_publish.covariance.mechanisms.registry import mechanism_named
from dp_publish.covariance.scaling import MAX_FEATURES, Scaling, scaling_for
from dp_publish.policy import Policy, raw_names


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
    elif isinstance(strength, ApproximateDP) and issubclass(kind, PureMechanism):
        raise PolicyError(f"the {kind.name} mechanism gives a pure epsilon, whatever the delta: leave delta out")
    more = kind.settings(policy, kinds)
    return kind(scaling, privacy.neighbours, kind.form_of(strength), privacy.max_rows, reason, **more)


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
