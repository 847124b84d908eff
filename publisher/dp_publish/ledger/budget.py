"""The sum of what releases of a dataset cost, and its budgets.

The cost of a release is kept for every unit of privacy that it protects. So releases at different levels add up to a
sound total for each. It is mu = sqrt(sum mu_k^2), and rho the sum, which is less than mu^2 / 2 where noise is discrete.
A release for cells or rows counts for changes of cells as well (`Cost.booked`). Partitions are disjoint parts of the
rows (one month each, say) and cost in parallel. A dataset's total is that of its costliest partition, with all
unpartitioned releases added. An entity may have rows in every partition, so that for it all releases add up. The
probabilities with which guarantees fail add up for every unit. A budget is spent once they exceed a thousandth, and at
one no guarantee is left. Budgets are kept by unit of privacy as well, and stay in the ledger once they were given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from dp_bundle.base.errors import BudgetExceededError, MissingBudgetError
from dp_bundle.manifest.guarantee import Cumulative
from dp_publish.accounting.conversions import SLACK, Cost, rho_for_mu

LARGEST_EXCEPTION = 1e-3  # the probability with which a budget may fail to hold
_ENTITY = "entity:"  # before the column, in the name of a unit


@dataclass(frozen=True)
class Entry:
    """A release in the ledger; `state` is reserved, sealed (it may have left), published or cancelled."""

    dataset: str
    partition: str | None
    number: int
    created: str
    cost: Cost
    state: str = "reserved"
    manifest_sha256: str | None = None
    file: str | None = None


@dataclass(frozen=True)
class Account:
    """The releases of a dataset that count as spent, and its budgets.

    Attributes
    ----------
    entries : tuple of Entry
        In the order of their numbers. Sums over them do not depend on it.
    budgets : mapping of str to float
        By unit.
    """

    entries: tuple[Entry, ...] = ()
    budgets: Mapping[str, float] = field(default_factory=dict)

    def with_release(self, entry: Entry) -> Account:
        """Return the account with one more release."""
        return replace(self, entries=(*self.entries, entry))

    @property
    def releases(self) -> int:
        """How many releases count as spent."""
        return len(self.entries)

    @property
    def previous(self) -> str | None:
        """The manifest of the last release that was published."""
        published = [entry for entry in self.entries if entry.state == "published"]
        return max(published, key=lambda entry: entry.number).manifest_sha256 if published else None

    @property
    def promised(self) -> set[str]:
        """The units that releases with a guarantee were made for."""
        return {entry.cost.unit for entry in self.entries if entry.cost.mu}

    @property
    def entities(self) -> dict[str, int]:
        """The columns that were a unit of privacy, with the number of the first release that they were so for."""
        units = {entry.cost.unit: entry.number for entry in reversed(self.entries)}
        return {unit.removeprefix(_ENTITY): number for unit, number in units.items() if unit.startswith(_ENTITY)}

    @property
    def changes(self) -> dict[str, tuple[float | None, int]]:
        """By column, the `max_change` of releases whose unit is "change", and the number of the first of them."""
        return {
            column: (limit, entry.number)
            for entry in reversed(self.entries)
            for column, limit in entry.cost.changes.items()
        }

    @property
    def excepted_delta(self) -> float:
        """The probability with which nothing of it holds."""
        return math.fsum(entry.cost.excepted_delta for entry in self.entries)

    def mu(self, unit: str) -> float | None:
        """Return the mu of all releases together, or None where nothing is guaranteed for the unit."""
        return self._compose(unit, lambda cost: cost.booked)

    def rho(self, unit: str) -> float | None:
        """Return the rho of all releases together, or None where nothing is guaranteed for the unit."""
        root = self._compose(unit, lambda cost: cost.booked_roots)
        return None if root is None else rho_for_mu(root)

    def total(self, unit: str, others: Iterable[str]) -> Cumulative:
        """Return what releases cost together, for a unit and for others."""
        rhos = {name: self.rho(name) for name in {unit: None, **dict.fromkeys(others)}}
        rho = rhos.pop(unit)
        return Cumulative(
            unit=unit,
            releases=self.releases,
            mu=self.mu(unit) if all(entry.cost.continuous for entry in self.entries) else None,
            rho=rho,
            other_units_rho={} if rho is None else {name: each for name, each in rhos.items() if each is not None},
            excepted_delta=min(self.excepted_delta, 1.0),
        )

    def _compose(self, unit: str, strengths: Callable[[Cost], Mapping[str, float]]) -> float | None:
        """Return the root of a sum of squares: of the costliest partition, and of all releases that are of none.

        There is none where a release does not protect the unit, or everything may fail.
        """
        if self.excepted_delta >= 1.0:
            return None
        parts: dict[str | None, list[float]] = {None: []}
        for entry in self.entries:
            strength = strengths(entry.cost).get(unit)
            if strength is None:
                return None
            parts.setdefault(None if unit.startswith(_ENTITY) else entry.partition, []).append(strength)
        everywhere = parts.pop(None)
        return max(math.hypot(*sorted(everywhere + part)) for part in [[], *parts.values()])


def require_budgets(dataset: str, account: Account, entry: Entry, budgets: Mapping[str, float]) -> None:
    """Refuse one more release that does not keep to a dataset's budgets.

    A dataset with a budget needs one in every unit of privacy in which its releases promise protection. A release in
    another unit would cost without limit in the first one, or not protect it at all.

    Parameters
    ----------
    dataset : str
        Its name.
    account : Account
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
    after = account.with_release(entry)
    excepted, nothing_left = after.excepted_delta, account.excepted_delta > LARGEST_EXCEPTION
    for unit in dict.fromkeys([entry.cost.unit, *budgets]):
        if unit not in budgets:
            continue
        spent, wanted, budget = account.mu(unit), after.mu(unit), budgets[unit]
        requested = entry.cost.booked.get(unit)
        if excepted > LARGEST_EXCEPTION * SLACK:
            raise BudgetExceededError(dataset, None if nothing_left else spent, requested, budget, min(excepted, 1.0))
        if wanted is None or wanted > budget * SLACK:  # what fills it exactly must not fail by rounding
            raise BudgetExceededError(dataset, spent, requested, budget, unit=unit if entry.cost.mu else None)
    for unit in sorted(after.promised):
        if budgets and unit not in budgets:
            raise MissingBudgetError(dataset, unit)
