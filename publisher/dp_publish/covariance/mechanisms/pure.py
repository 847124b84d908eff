"""Mechanisms that are calibrated by a pure epsilon, whatever strength the policy gives it by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dp_bundle.base.errors import ParameterError
from dp_publish.accounting.strength import PureDP, Strength
from dp_publish.covariance.mechanisms.base import OneSum

EPSILONS = (1e-6, 700.0)
EXCEPTED_DELTA = 2.0**-40  # of what is drawn to a finite precision


@dataclass(frozen=True)
class PureMechanism(OneSum):
    """A mechanism of pure epsilon, which a row gets an equal part of, and a removal with an addition twice.

    Attributes
    ----------
    excepted_delta : float
        The probability of the event that its guarantee excepts.
    """

    excepted_delta: ClassVar[float] = 0.0
    strength: PureDP

    @classmethod
    def form_of(cls, strength: Strength) -> PureDP:
        """Return the largest epsilon that serves a strength."""
        return PureDP(strength.pure_epsilon)

    def check_strength(self) -> None:
        """Refuse an epsilon for one row outside [1e-6, 700]."""
        check_epsilon(self.row_epsilon)

    @property
    def row_epsilon(self) -> float:
        """The epsilon that each row gets."""
        return self.strength.epsilon / self.max_rows

    def spends(self, rows: int, *, replaced: bool = False) -> PureDP:
        """Return the epsilon of so many rows, by group privacy."""
        steps = self.neighbours.per_replacement if replaced else 1
        return PureDP(self.strength.epsilon * (rows / self.max_rows) * steps, self.excepted_delta)


def security_for(epsilon: float) -> int:
    """Return the t for which draws within 2^-t of their law except no more than EXCEPTED_DELTA from a unit's epsilon.

    Nor from twice that, as the ledger counts: ``P[S | C] <= e^(2 epsilon) P[S | C'] + (1 + e^(2 epsilon)) 2^-t``.
    """
    return 42 + math.ceil(2 * epsilon / math.log(2))


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon outside [1e-6, 700].

    Raises
    ------
    ParameterError
    """
    if not is_in_range(epsilon):
        raise ParameterError("epsilon", f"from {EPSILONS[0]:g} to {EPSILONS[1]:g}", epsilon)


def is_in_range(epsilon: float) -> bool:
    """Return whether a pure mechanism can give this epsilon."""
    return EPSILONS[0] <= epsilon <= EPSILONS[1]
