"""What a covariance release costs, and what it guarantees: from its mechanism's setting alone, never from the data."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dp_bundle.errors import PolicyError
from dp_bundle.manifest import Column, EpsilonDelta, Guarantee
from dp_bundle.privacy import mu_implied_by_epsilon
from dp_bundle.quoting import listed
from dp_publish.accounting import ROUND_UP, Cost, Loss, privacy_curve, rho_for_mu
from dp_publish.covariance.calibration import MechanismSetting, mu_of_rows
from dp_publish.policy import Policy, public_facts

__all__ = ["cost_of_moments", "guarantee_of_moments", "moment_columns"]


def cost_of_moments(policy: Policy, setting: MechanismSetting) -> Cost:
    """Return what the release will cost, for every unit of privacy that it protects, before anything is drawn.

    The ledger counts replaced rows, as every other release does: to replace one is to remove it and add another, so
    that an add-remove release costs sqrt(2) times its mu (two rows at right angles in the ball), and a pure epsilon
    twice (group privacy, with delta (1 + e^epsilon) where a delta is excepted; that of the eigenvector mechanisms holds
    for replaced rows as it is). A cell is part of its row.
    """
    row, unit = (_mu_of_replaced(setting, rows) * ROUND_UP for rows in (1, setting.max_rows))
    spent = {"cell": row, "row": row, policy.privacy.account: unit}
    excepted = setting.excepted_delta
    if setting.mechanism == "wishart" and setting.neighbours == "add-remove":
        excepted *= 1.0 + math.exp(setting.epsilon or 0.0)
    return Cost(policy.privacy.account, spent, continuous=True, excepted_delta=excepted)


def _mu_of_replaced(setting: MechanismSetting, rows: int) -> float:
    """Return the mu of so many rows of a unit being replaced, whatever the neighbours of the guarantee."""
    if setting.neighbours == "replace-one":
        return mu_of_rows(setting, rows)
    if setting.mu is not None:
        return math.sqrt(2.0) * mu_of_rows(setting, rows)
    return mu_implied_by_epsilon(2.0 * (setting.epsilon or 0.0) * rows / setting.max_rows)


def guarantee_of_moments(
    policy: Policy, setting: MechanismSetting, columns: tuple[Column, ...], partition: str | None = None
) -> Guarantee:
    """Return what a covariance release guarantees."""
    privacy = policy.privacy
    mu = mu_of_rows(setting, setting.max_rows)
    gaussian = setting.mechanism in ("gaussian", "sulq")
    if not gaussian:
        mu *= ROUND_UP
    epsilon = None if gaussian else setting.epsilon
    curve: tuple[EpsilonDelta, ...] = ()
    if epsilon is None:
        curve = privacy_curve("row", [Loss(mu, 1.0, discrete=False)])
    elif setting.excepted_delta or setting.delta is not None:
        curve = (EpsilonDelta(epsilon=epsilon, delta=setting.excepted_delta or setting.delta or 0.0),)
    return Guarantee(
        unit=privacy.unit_name,
        entity=privacy.entity.entity if privacy.entity else None,
        max_rows=privacy.entity.max_rows if privacy.entity else None,
        neighbours=privacy.neighbours,
        mu=mu,
        rho=rho_for_mu(mu if epsilon is None else min(mu, epsilon)),  # both hold
        epsilon=epsilon,
        excepted_delta=setting.excepted_delta,
        epsilon_delta=curve,
        accountant="gaussian-dp" if gaussian else "pure-epsilon",
        public=public_facts(policy, columns, partition),
    )


def moment_columns(policy: Policy, kinds: Mapping[str, str]) -> tuple[Column, ...]:
    """Return the columns as a covariance release describes them.

    Raises
    ------
    PolicyError
        A column's gaps cannot be dealt with as the policy says.
    """
    centered = [name for name in kinds if policy.column(name).missing == "center"]
    if centered:
        raise PolicyError(
            f'missing = "center", of {listed(centered)}, is for rows: in a covariance release give missing = "drop", '
            'with neighbours = "add-remove" where nobody is to know how many rows have gaps'
        )
    return tuple(
        Column(
            name=name,
            kind="continuous",
            description=entry.description,
            unit=entry.unit,
            bounds=entry.bounds,
            bounds_obtained="declared",
            missing=entry.missing,
            noise=None,
        )
        for name, entry in ((name, policy.column(name)) for name in kinds)
    )
