"""The positions of the page's slider: strengths, each with its forecast and its guarantee."""

import math
from contextlib import suppress
from dataclasses import dataclass

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.manifest.guarantee import Guarantee
from dp_publish.accounting.trade_off import TradeOff
from dp_publish.forecast.outlook import Outlook
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.refusal import Pointless, why_pointless

_BETWEEN = (0.15, 0.3, 0.7, 1.3, 1.6, 2.5, 3.0, 4.0, 7.0, 15.0, 30.0)
_BETWEEN_DISCRETE = (1.5, 3.0)  # the exact curve of noise on integers takes about a second each


@dataclass(frozen=True)
class Position:
    """One strength.

    Attributes
    ----------
    row : Outlook
        What it would show, as in the terminal's tables.
    trade_off : TradeOff
        What it would leave to an attacker.
    pointless : {"hidden", "unchanged"} or None
        Why dp-publish would refuse such a release unless told --anyway.
    is_own : bool
        Whether it is the policy's own.
    """

    row: Outlook
    trade_off: TradeOff
    pointless: Pointless | None
    is_own: bool

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee that it would have."""
        return self.row.planned.guarantee


def positions_of(plan: Plan) -> list[Position]:
    """Return the strengths of a plan's tables and some between them, by increasing mu; at least one, or raise why."""
    is_discrete = plan.release == "rows" and "integer" in plan.kinds.values()
    between = _BETWEEN_DISCRETE if is_discrete else _BETWEEN
    more = [mu for mu in between if not any(math.isclose(mu, row.mu, rel_tol=1e-6) for row in plan.rows)]
    rows: list[Outlook] = []
    with suppress(ParameterError, PrivacyError):  # none of them can be
        rows = plan.at(more)
    found: list[Position] = []
    for row in sorted([*plan.rows, *rows], key=lambda row: row.mu):
        with suppress(ParameterError, PolicyError, PrivacyError):  # there is no such release after all
            found.append(_position(plan, row))
    return found or [_position(plan, plan.focus)]  # which says why


def start_of(plan: Plan, positions: list[Position]) -> int:
    """Return the place of the strength that the plan is about."""
    return min(range(len(positions)), key=lambda place: abs(math.log(positions[place].row.mu / plan.focus.mu)))


def _position(plan: Plan, row: Outlook) -> Position:
    return Position(row, row.planned.trade_off, why_pointless(row, plan.table.types), row is plan.own)
