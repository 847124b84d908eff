"""What releases of a dataset cost together.

The cost of a release is kept for every unit of privacy that it protects, so that releases at different levels add up to
a sound total for each: mu = sqrt(sum mu_k^2), rho the sum. Partitions are disjoint parts of the rows (one month each,
say) and cost in parallel: a dataset's total is that of its costliest partition, with all unpartitioned releases added.
Not so for an entity, which may have rows in every partition: for it, everything adds up. So do, for every unit, the
probabilities with which guarantees do not hold: a budget is spent when they exceed a thousandth, and where they reach
one there is no guarantee. A budget is kept by unit of privacy, too, and stays on the books once it was given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dp_bundle.errors import BudgetExceededError, MissingBudgetError
from dp_bundle.manifest import Cumulative
from dp_publish.accounting import compose_mu, rho_for_mu

__all__ = ["Cost", "Entry", "entities", "require_budgets", "total"]

LARGEST_EXCEPTION = 1e-3  # the probability with which a budget may fail to hold
_ENTITY = "entity:"  # before the column, in the name of a unit
_SLACK = 1 + 1e-9  # a budget that releases fill exactly must not fail by rounding


@dataclass(frozen=True)
class Cost:
    """What one release costs.

    Attributes
    ----------
    unit : str
        The unit of privacy that it was made for.
    mu : dict of str to float
        The mu of every unit that it protects ("cell", "row", "entity:COLUMN"); empty if it states no guarantee.
    continuous : bool
        Whether mu-GDP holds, and not only rho = mu^2 / 2.
    excepted_delta : float
        The probability with which none of that holds.
    """

    unit: str
    mu: dict[str, float]
    continuous: bool
    excepted_delta: float = 0.0


@dataclass(frozen=True)
class Entry:
    """A release on the books; `state` is reserved, sealed (it may have left), published or cancelled."""

    dataset: str
    partition: str | None
    number: int
    created: str
    cost: Cost
    state: str = "reserved"
    manifest_sha256: str | None = None
    file: str | None = None


def require_budgets(dataset: str, spent: Sequence[Entry], entry: Entry, budgets: Mapping[str, float]) -> None:
    """Refuse one more release that does not keep to a dataset's budgets.

    A dataset with a budget needs one in every unit of privacy in which its releases promise protection: a release in
    another unit would cost without limit in the first one, or not protect it at all.

    Parameters
    ----------
    dataset : str
        The account.
    spent : sequence of Entry
        Its releases so far.
    entry : Entry
        The one to come.
    budgets : mapping of str to float
        The largest total mu by unit of privacy; empty if there is no budget.

    Raises
    ------
    BudgetExceededError
        A total would be larger than its budget, or no total would hold any more.
    MissingBudgetError
        A unit in which protection is promised has no budget.
    """
    for unit in [entry.cost.unit, *budgets]:
        if unit in budgets:
            _require_budget(dataset, spent, entry, unit, budgets[unit])
    if budgets:
        for unit in dict.fromkeys(each.cost.unit for each in (*spent, entry) if each.cost.mu):
            if unit not in budgets:
                raise MissingBudgetError(dataset, unit)


def entities(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the columns that were a unit of privacy, each with the number of the first release that it was so for."""
    found: dict[str, int] = {}
    for entry in entries:
        if entry.cost.unit.startswith(_ENTITY):
            found.setdefault(entry.cost.unit.removeprefix(_ENTITY), entry.number)
    return found


def _require_budget(dataset: str, spent: Sequence[Entry], entry: Entry, unit: str, budget_mu: float) -> None:
    before, after = _total_mu(spent, unit), _total_mu([*spent, entry], unit)
    requested = entry.cost.mu.get(unit)
    if after is None or after > budget_mu * _SLACK:
        named = unit if entry.cost.mu else None
        raise BudgetExceededError(dataset, before, requested, budget_mu, unit=named)
    excepted = _total_excepted([*spent, entry])
    if excepted > LARGEST_EXCEPTION * _SLACK:
        nothing_left = _total_excepted(spent) > LARGEST_EXCEPTION
        raise BudgetExceededError(dataset, None if nothing_left else before, requested, budget_mu, min(excepted, 1.0))


def _total_excepted(entries: Sequence[Entry]) -> float:
    return math.fsum(entry.cost.excepted_delta for entry in entries)


def _total_mu(entries: Sequence[Entry], unit: str) -> float | None:
    """Return the mu of all releases together, or None where one of them does not protect the unit."""
    by_partition: dict[str | None, list[float]] = {None: []}
    for entry in entries:
        if unit not in entry.cost.mu:
            return None
        part = None if unit.startswith(_ENTITY) else entry.partition
        by_partition.setdefault(part, []).append(entry.cost.mu[unit])
    common = by_partition.pop(None)
    return max([compose_mu([*common, *mus]) for mus in by_partition.values()] or [compose_mu(common)])


def total(entries: Sequence[Entry], unit: str) -> Cumulative:
    """Return what releases cost together, for a unit and for the others that the last one protects."""
    mu = _total_mu(entries, unit)
    excepted = _total_excepted(entries)
    if mu is None or excepted >= 1.0:
        return Cumulative(unit=unit, releases=len(entries), mu=None, rho=None, excepted_delta=min(excepted, 1.0))
    continuous = all(entry.cost.continuous for entry in entries)
    others = {name: _total_mu(entries, name) for name in entries[-1].cost.mu if name != unit}
    return Cumulative(
        unit=unit,
        releases=len(entries),
        mu=mu if continuous else None,
        rho=rho_for_mu(mu),
        other_units_rho={name: rho_for_mu(other) for name, other in others.items() if other is not None},
        excepted_delta=excepted,
    )
