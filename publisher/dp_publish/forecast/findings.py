"""The findings of a plan at its strength, in sentences, which the terminal and the page share."""

from __future__ import annotations

from dp_publish.forecast.advice import changes_for_moments, shows_something, ways_out
from dp_publish.forecast.outlook import TARGETS, smallest_seen
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.refusal import why_hidden
from dp_publish.forecast.strengths import describe_count, printed_mu


def describe_findings(plan: Plan) -> list[str]:
    """Return the lines on what the plan shows at the strength that it is about."""
    return [*_verdict(plan), *_if_narrower(plan)]


def describe_seen(rho: float | None) -> str:
    """Return the smallest partial correlation that is seen, or that there is none."""
    return "nothing" if rho is None else f"{rho:.2g}"


def _verdict(plan: Plan) -> list[str]:
    row, target = plan.focus, TARGETS[-1]
    if len(plan.kinds) == 1:
        return ["A single column has no partial correlation to see."]
    if plan.release == "covariance":
        return _covariance_verdict(plan)
    seen = describe_seen(row.rows.seen)
    if row.rows.needed[target] <= plan.n_rows:
        return [f"At mu = {printed_mu(row.mu)}, rows would show partial correlations from {seen} on."]

    rows = seen if row.rows.seen is None else f"partial correlations from {seen} on only"
    why = why_hidden(plan.n_rows, len(plan.kinds), row, "rows")
    lines = [
        f"At mu = {printed_mu(row.mu)}, rows would show {rows}: {why}.",
        f"Seeing {target:g} would take {describe_count(row.rows.needed[target])} rows.",
    ]

    if not row.moments.is_possible:
        return lines
    if row.moments.seen is None:
        needed = describe_count(row.moments.needed[target])
        lines.append(f"Second moments alone would still need {needed} rows: {_remedy(plan)}.")
    else:
        seen = describe_seen(row.moments.seen)
        lines.append(
            f"Second moments alone (--release covariance) would show {seen} and above, under the same guarantee."
        )
        changes = changes_for_moments(plan.policy, plan.kinds, row.mu)
        lines += [f"For them, {' and '.join(changes)}."] if changes else []
    return lines


def _if_narrower(plan: Plan) -> list[str]:
    """Return the forecast for long-tailed values, which need wider bounds and so get more noise."""
    if not plan.narrower or len(plan.kinds) == 1:
        return []
    of_counts = plan.unit == "change"
    lines = [f"{'Rare counts' if of_counts else 'Long-tailed values, such as incomes,'} fill less of their bounds:"]
    for spread, row in plan.narrower.items():
        shown = f"{describe_seen(row.rows.seen)} from rows"
        if row.moments.is_possible:
            rows = f"{shown} and " if row.rows.is_possible else ""
            shown = f"{rows}{describe_seen(row.moments.seen)} from moments"
        assumed = f"{'means' if of_counts else 'standard deviations'} are {spread:g} of the width"
        lines.append(f"{'If' if lines[1:] else 'if'} {assumed}, {shown}.")
    return lines


def _remedy(plan: Plan) -> str:
    p = len(plan.kinds)
    if smallest_seen(plan.n_rows, p, plan.n_rows**-0.5) is None:
        return "wait for more rows"
    return "publish fewer columns, narrow their bounds, declare their centers and scales, or protect them less"


def _covariance_verdict(plan: Plan) -> list[str]:
    row, target = plan.focus, TARGETS[-1]
    if plan.kind is not None and plan.kind.forecast_as is not None:
        return [f"What {plan.mechanism} would show depends on the values, and readers get no error bars from it."]
    in_rows = f", and of {row.rows.error:.2g} in a release of rows" if row.rows.is_possible else ""
    lines = [
        f"At mu = {printed_mu(row.mu)}, a correlation has a standard error of {row.moments.error:.2g} in the "
        f"covariance release{in_rows}; chance alone makes it {plan.n_rows**-0.5:.2g}.",
    ]
    if not row.rows.is_possible:
        lines.append("Rows are never released with noise like this: it does not go with some column's bounds or kind.")
    if row.moments.seen is not None:
        rows = "nothing" if row.rows.seen is None else f"{describe_seen(row.rows.seen)} and above"
        beside = f"; in rows, {rows}" if row.rows.is_possible else ""
        return [*lines, f"Partial correlations from {describe_seen(row.moments.seen)} on would be seen{beside}."]
    needed = row.moments.needed[target]
    there = f"To see {target:g} takes {describe_count(needed)} rows (there are {plan.n_rows:,})"
    if row.rows.is_possible:
        there += f", and {describe_count(row.rows.needed[target])} in a release of rows"
    return [
        *lines,
        f"{there}. This release shows anything from {describe_count(row.least_rows_for_moments)} rows on.",
        *(f"Or {way}." for way in _ways_out(plan)),
    ]


def _ways_out(plan: Plan) -> list[str]:
    """Return what would show something, where the policy's own release shows nothing."""
    if plan.own is None or shows_something(plan.own, plan.release, len(plan.kinds)):
        return []
    return ways_out(plan.policy, plan.kinds, plan.n_rows, plan.own)
