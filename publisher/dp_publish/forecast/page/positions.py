"""The positions of the page's slider: strengths, each with its forecast and its guarantee."""

import math
from contextlib import suppress
from dataclasses import dataclass

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_publish.forecast.guarantees import Protection, protection_of
from dp_publish.forecast.outlook import ForecastRow
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.refusal import Pointless, why_pointless
from dp_publish.forecast.strengths import forecast_each, privacy_at

_BETWEEN = (0.15, 0.3, 0.7, 1.3, 1.6, 2.5, 3.0, 4.0, 7.0, 15.0, 30.0)
_BETWEEN_DISCRETE = (1.5, 3.0)  # the exact curve of noise on integers takes about a second each


@dataclass(frozen=True)
class Position:
    """One strength.

    Attributes
    ----------
    row : ForecastRow
        What it would show, as in the terminal's tables.
    protection : Protection
        What it would protect.
    pointless : {"hidden", "unchanged"} or None
        Why dp-publish would refuse such a release unless told --anyway.
    is_own : bool
        Whether it is the policy's own.
    """

    row: ForecastRow
    protection: Protection
    pointless: Pointless | None
    is_own: bool


def positions_of(plan: Plan) -> list[Position]:
    """Return the strengths of a plan's tables and some between them, by increasing mu; at least one, or raise why."""
    is_discrete = plan.release == "rows" and "integer" in plan.kinds.values()
    between = _BETWEEN_DISCRETE if is_discrete else _BETWEEN
    more = [mu for mu in between if not any(math.isclose(mu, row.mu, rel_tol=1e-6) for row in plan.rows)]
    rows: list[ForecastRow] = []
    with suppress(ParameterError, PrivacyError):  # none of them can be
        rows, _ = forecast_each(plan.n_rows, plan.policy, plan.kinds, tuple(more), plan.spread, plan.mechanism)
    found = [at for row in sorted([*plan.rows, *rows], key=lambda row: row.mu) if (at := _position(plan, row))]
    if not found:
        protection_of(plan.policy, plan.kinds, lambda: plan.n_rows)  # which says why
    return found


def start_of(plan: Plan, positions: list[Position]) -> int:
    """Return the place of the strength that the plan is about."""
    return min(range(len(positions)), key=lambda place: abs(math.log(positions[place].row.mu / plan.focus.mu)))


def _position(plan: Plan, row: ForecastRow) -> Position | None:
    """Return all that is known of one strength; None where there is no such release after all."""
    is_own = row is plan.own
    policy = plan.policy
    if not is_own:  # as was asked of a table's row, not as it came out: all would be composed anew for the last digit
        privacy = privacy_at(policy, plan.mechanism, float(f"{row.mu:.9g}"))
        policy = policy.model_copy(update={"privacy": privacy})
    try:
        return Position(
            row=row,
            protection=protection_of(policy, plan.kinds, lambda: plan.n_rows),
            pointless=why_pointless(policy, plan.kinds, plan.table.types, row),
            is_own=is_own,
        )
    except (ParameterError, PolicyError, PrivacyError):
        return None
