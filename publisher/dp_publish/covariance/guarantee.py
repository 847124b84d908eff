"""The cost and the guarantee of a covariance release: from its mechanism alone, never from the data."""

from typing import cast

from dp_bundle.manifest.columns import Column, Missing
from dp_bundle.manifest.guarantee import EpsilonDelta, Guarantee
from dp_publish.accounting.conversions import ROUND_UP, Cost, rho_for_mu
from dp_publish.accounting.curve import Loss, privacy_curve
from dp_publish.accounting.strength import PureDP
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.data.kinds import Kinds
from dp_publish.policy.coded_columns import blocks_of
from dp_publish.policy.columns import public_facts
from dp_publish.policy.model import Policy


def cost_of_moments(policy: Policy, mechanism: Mechanism) -> Cost:
    """Return what the release will cost, for every unit of privacy that it protects, before anything is drawn.

    The ledger counts replaced rows, as every other release does: to replace one is to remove it and add another. A cell
    is part of its row.
    """
    row, unit = (mechanism.spends(rows, replaced=True) for rows in (1, mechanism.max_rows))
    spent = {"cell": row.mu, "row": row.mu, policy.privacy.account: unit.mu}
    booked = {name: mu * ROUND_UP for name, mu in spent.items()}
    return Cost(policy.privacy.account, booked, continuous=True, excepted_delta=unit.excepted_delta)


def guarantee_of_moments(
    policy: Policy, mechanism: Mechanism, columns: tuple[Column, ...], partition: str | None = None
) -> Guarantee:
    """Return what a covariance release guarantees."""
    privacy = policy.privacy
    spent = mechanism.spends(mechanism.max_rows)
    epsilon, mu = None, spent.mu
    curve: tuple[EpsilonDelta, ...] = ()
    if isinstance(spent, PureDP):
        epsilon, mu = spent.epsilon, spent.mu * ROUND_UP
        if spent.excepted_delta:
            curve = (EpsilonDelta(epsilon=epsilon, delta=spent.excepted_delta),)
    else:
        curve = privacy_curve("row", [Loss(mu, 1.0, discrete=False)])

    return Guarantee(
        unit=privacy.unit_name,
        entity=privacy.entity.entity if privacy.entity else None,
        max_rows=privacy.entity.max_rows if privacy.entity else None,
        neighbours=privacy.neighbours,
        mu=mu,
        rho=rho_for_mu(mu if epsilon is None else min(mu, epsilon)),  # both hold
        epsilon=epsilon,
        excepted_delta=spent.excepted_delta,
        epsilon_delta=curve,
        accountant="gaussian-dp" if epsilon is None else "pure-epsilon",
        public=public_facts(policy, columns, partition),
    )


def moment_columns(policy: Policy, kinds: Kinds) -> tuple[Column, ...]:
    """Return the columns as a covariance release describes them."""
    blocks = blocks_of(policy.sources)
    return tuple(
        Column(
            name=name,
            kind="continuous",
            description=entry.description,
            unit=entry.unit,
            bounds=entry.bounds,
            bounds_obtained="none" if entry.bounds is None else "declared",
            missing=cast(Missing, entry.missing),  # a category's gaps are a level by now
            noise=None,
            block=blocks.get(name),
        )
        for name, entry in ((name, policy.column(name)) for name in kinds)
    )
