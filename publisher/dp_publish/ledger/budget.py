"""The sum of what releases of a dataset cost, and its budgets.

The cost of a release is kept for every unit of privacy that it protects, so that releases at different levels add up to
a sound total for each: mu = sqrt(sum mu_k^2), and rho the sum, which is less than mu^2 / 2 where noise is discrete. A
release for cells or rows counts for changes of cells as
well (`Cost.booked`). Partitions are disjoint parts of the rows (one month each,
say) and cost in parallel: a dataset's total is that of its costliest partition, with all unpartitioned releases added.
An entity may have rows in every partition, so that for it all releases add up. The probabilities with which guarantees
fail add up for every unit: a budget is spent once they exceed a thousandth, and at one no guarantee is left. Budgets
are kept by unit of privacy as well, and stay on the books once they were given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dp_bundle.base.errors import BudgetExceededError, MissingBudgetError
from dp_bundle.manifest.guarantee import Cumulative
from dp_publish.accounting.conversions import SLACK, Cost, rho_for_mu

LARGEST_EXCEPTION = 1e-3  # the probability with which a budget may fail to hold
_ENTITY = "entity:"  # before the column, in the name of a unit
_RHO = "rho:"  # before a unit, in the name of a sum
_BITS = 2148  # after the point: the square of any float64 is a whole number of 2^-2148


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


@dataclass
class Account:
    """The sum of a dataset's releases; it is exact, so that their order and grouping make no difference.

    Attributes
    ----------
    number : int
        The largest number that was given, to a cancelled release too.
    releases, discrete : int
        How many count as spent, and how many of them have discrete noise.
    previous : (int, str) or None
        Number and manifest of the last one published.
    units, promised : dict of str to int
        How many protect a unit, and how many were made for it.
    changes : dict of str to list
        By column, the `max_change` of the releases whose unit is "change", None where they have none, and the first
        one's number.
    entities : dict of str to int
        The columns that were a unit of privacy, with the number of the first release that they were so for.
    excepted : int
        The sum of excepted probabilities, as `exact` has it.
    sums : dict of str to int
        By unit, the sum of mu^2 over releases without a partition, or, for an entity, over all; and, by "rho:" and the
        unit, that of 2 rho.
    parts : dict of str to dict of str to int
        The same for every partition.
    budgets : dict of str to float
        By unit.
    """

    number: int = 0
    releases: int = 0
    discrete: int = 0
    previous: tuple[int, str] | None = None
    units: dict[str, int] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    changes: dict[str, list[float | None]] = field(default_factory=dict)
    entities: dict[str, int] = field(default_factory=dict)
    excepted: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    parts: dict[str, dict[str, int]] = field(default_factory=dict)
    budgets: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry], budgets: Mapping[str, float] | None = None) -> Account:
        """Return what these releases, in the order of their numbers, add up to; cancelled ones only keep theirs."""
        account = cls(budgets=dict(budgets or {}))
        for entry in entries:
            account.number = max(account.number, entry.number)
            if entry.state != "cancelled":
                account.add(entry)
        return account

    def add(self, entry: Entry) -> None:
        """Count one more release."""
        cost = entry.cost
        self.number = max(self.number, entry.number)
        self.releases += 1
        self.discrete += not cost.continuous
        self.excepted += exact(cost.excepted_delta)
        if cost.mu:
            self.promised[cost.unit] = self.promised.get(cost.unit, 0) + 1
        if cost.unit.startswith(_ENTITY):
            column = cost.unit.removeprefix(_ENTITY)
            self.entities[column] = min(entry.number, self.entities.get(column, entry.number))
        for column, limit in cost.changes.items():
            self.changes.setdefault(column, [limit, entry.number])
        roots = cost.booked_roots
        for unit, mu in cost.booked.items():
            self.units[unit] = self.units.get(unit, 0) + 1
            partition = None if unit.startswith(_ENTITY) else entry.partition
            self._spend(unit, partition, exact(mu, squared=True))
            self._spend(f"{_RHO}{unit}", partition, exact(roots[unit], squared=True))
        if entry.state == "published" and (self.previous is None or entry.number > self.previous[0]):
            self.previous = (entry.number, entry.manifest_sha256 or "")

    def _spend(self, unit: str, partition: str | None, amount: int) -> None:
        sums = self.sums if partition is None else self.parts.setdefault(partition, {})
        sums[unit] = sums.get(unit, 0) + amount

    def mu(self, unit: str) -> float | None:
        """Return the mu of all releases together, or None where one of them does not protect the unit."""
        return self._root(unit) if self.units.get(unit, 0) == self.releases else None

    def rho(self, unit: str) -> float | None:
        """Return the rho of all releases together, or None where one of them does not protect the unit."""
        return rho_for_mu(self._root(f"{_RHO}{unit}")) if self.units.get(unit, 0) == self.releases else None

    def spent_mu(self, unit: str) -> float | None:
        """Return the same, or None where nothing is guaranteed any more; no manifest has it of discrete noise."""
        return None if self.excepted_delta >= 1.0 else self.mu(unit)

    def _root(self, name: str) -> float:
        return root(self.sums.get(name, 0) + max((sums.get(name, 0) for sums in self.parts.values()), default=0))

    @property
    def excepted_delta(self) -> float:
        """The probability with which nothing of it holds."""
        return self.excepted / (1 << _BITS)

    def total(self, unit: str, others: Iterable[str]) -> Cumulative:
        """Return what releases cost together, for a unit and for others."""
        mu, rho, excepted = self.mu(unit), self.rho(unit), self.excepted_delta
        if rho is None or excepted >= 1.0:
            return Cumulative(unit=unit, releases=self.releases, mu=None, rho=None, excepted_delta=min(excepted, 1.0))
        rest = {name: self.rho(name) for name in others if name != unit}
        return Cumulative(
            unit=unit,
            releases=self.releases,
            mu=None if self.discrete else mu,
            rho=rho,
            other_units_rho={name: other for name, other in rest.items() if other is not None},
            excepted_delta=excepted,
        )


def require_budgets(dataset: str, before: Account, after: Account, entry: Entry, budgets: Mapping[str, float]) -> None:
    """Refuse one more release that does not keep to a dataset's budgets.

    A dataset with a budget needs one in every unit of privacy in which its releases promise protection: a release in
    another unit would cost without limit in the first one, or not protect it at all.

    Parameters
    ----------
    dataset : str
        Its name.
    before, after : Account
        Its releases so far, without and with the one to come.
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
            _require_budget(dataset, before, after, entry, unit, budgets[unit])
    for unit in sorted(after.promised):
        if budgets and unit not in budgets:
            raise MissingBudgetError(dataset, unit)


def exact(amount: float, *, squared: bool = False) -> int:
    """Return an amount, or its square, as a whole number of 2^-2148."""
    numerator, denominator = float(amount).as_integer_ratio()
    shift = denominator.bit_length() - 1
    return numerator * numerator << _BITS - 2 * shift if squared else numerator << _BITS - shift


def root(amount: int) -> float:
    """Return the square root of a sum of squares, correctly rounded."""
    more = max(0, 256 - amount.bit_length()) // 2
    found = math.isqrt(amount << 2 * more)
    inexact = found * found != amount << 2 * more
    return (2 * found + inexact) / (1 << _BITS // 2 + more + 1)


def _require_budget(dataset: str, before: Account, after: Account, entry: Entry, unit: str, budget_mu: float) -> None:
    spent, wanted = before.mu(unit), after.mu(unit)
    requested = entry.cost.booked.get(unit)
    if wanted is None or wanted > budget_mu * SLACK:  # what fills it exactly must not fail by rounding
        named = unit if entry.cost.mu else None
        raise BudgetExceededError(dataset, spent, requested, budget_mu, unit=named)
    excepted = after.excepted_delta
    if excepted > LARGEST_EXCEPTION * SLACK:
        nothing_left = before.excepted_delta > LARGEST_EXCEPTION
        raise BudgetExceededError(dataset, None if nothing_left else spent, requested, budget_mu, min(excepted, 1.0))
