"""The dataset's budget, beside what a release at one strength would take of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dp_bundle.base.quoting import round_up
from dp_publish.accounting.conversions import SLACK
from dp_publish.forecast.page.positions import Position
from dp_publish.policy.model import Privacy

_LEAST_LEFT = 1e-3  # a smaller mu is as good as none


@dataclass(frozen=True)
class Spending:
    """The ledger's account of a dataset, in the plan's unit of privacy.

    Attributes
    ----------
    releases : int
        How many there were.
    spent_mu : float or None
        What they cost together; None where one of them does not protect the unit.
    budget_mu : float or None
        What all releases may cost together.
    in_parts : bool
        Whether some were of a part of the rows, whose costs do not add up with those of other parts.
    """

    releases: int = 0
    spent_mu: float | None = 0.0
    budget_mu: float | None = None
    in_parts: bool = False


def budget_of(privacy: Privacy, known: Mapping[str, float]) -> float | None:
    """Return the budget in the policy's unit: the policy's own, or else the one on the books."""
    given = privacy.budget_mu
    stated = given.get(privacy.account) if isinstance(given, Mapping) else given
    return known.get(privacy.account) if stated is None else stated


def budget_sentence(account: Spending, position: Position) -> str:
    """Return what is spent, what this release would make of it, and what would be left."""
    spent, budget = account.spent_mu, account.budget_mu
    if budget is None and not account.releases:
        return "There is no budget for later releases yet: budget_mu, in the policy, sets one."
    limit = "This dataset has no budget." if budget is None else f"The budget of this dataset is mu = {budget:g}."
    several = account.releases > 1
    n = f"{account.releases} release{'s' * several} so far"
    if spent is None:
        return f"{limit} Of its {n}, not all protect this unit, so that there is no total to add to."
    so_far = (
        f"{n} cost{'s' * (not several)} mu = {round_up(spent, 4)}" if account.releases else "Nothing of it is spent"
    )
    if account.in_parts:
        return f"{limit} {so_far}. Releases of different parts of the rows cost in parallel."

    total = math.hypot(spent, position.protection.booked_mu)
    said = f"{limit} {so_far}; with this one, the total would be {round_up(total, 4)}."
    if budget is None:
        return said
    if total > budget * SLACK:
        return f"{said} That is more than the budget: dp-publish would refuse this release."
    left = math.sqrt(max(budget**2 - total**2, 0.0))
    if left < _LEAST_LEFT:
        return f"{said} Nothing would be left."
    return f"{said} What is left would allow one more release at mu = {math.floor(left * 1000) / 1000:g}."
