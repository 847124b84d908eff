"""The cost of one release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

ROUND_UP = 1 + 1e-12  # what is stated or booked is rounded to the safe side by far more than its float error
SLACK = 1 + 1e-9  # by which sums of the same costs may differ, being rounded one by one


@dataclass(frozen=True)
class Cost:
    """The cost of one release, for every unit of privacy that it protects.

    Attributes
    ----------
    unit : str
        The unit of privacy that it was made for.
    mu : dict of str to float
        The mu of every unit that it protects ("cell", "row", "entity:COLUMN"); empty if it states no guarantee.
    continuous : bool
        Whether its manifest states mu: no noise is discrete Gaussian.
    excepted_delta : float
        The probability with which none of that holds.
    changes : mapping of str to (float or None)
        Where the unit is "change", the `max_change` of every column, None where it has none.
    rho : mapping of str to float
        The rho of the same units where noise is discrete; empty where it is mu^2 / 2.
    """

    unit: str
    mu: dict[str, float]
    continuous: bool
    excepted_delta: float = 0.0
    changes: Mapping[str, float | None] = field(default_factory=dict)
    rho: Mapping[str, float] = field(default_factory=dict)

    @property
    def booked(self) -> dict[str, float]:
        """The mu of every unit that counts in a total: of a "change" at most that of the cell that it changes.

        Tables that differ by one change, of whatever size, differ in one cell.
        """
        cell = self.mu.get("cell")
        return self.mu if cell is None else {"change": cell, **self.mu}

    @property
    def booked_roots(self) -> dict[str, float]:
        """The same for sqrt(2 rho)."""
        return {**self.booked, **replace(self, mu={unit: math.sqrt(2 * rho) for unit, rho in self.rho.items()}).booked}
