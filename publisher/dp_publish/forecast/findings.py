"""The findings of a plan at its strength, in sentences, which the terminal and the page share."""

from collections.abc import Iterator

from dp_bundle.base.wording import typed
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.forecast.advice import changes_for_moments, ways_out
from dp_publish.forecast.assumptions import with_most_columns
from dp_publish.forecast.outlook import TARGETS, forecast
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.refusal import least_rows, why_hidden
from dp_publish.forecast.strengths import describe_count, printed_mu


def describe_findings(plan: Plan) -> list[str]:
    """Return the lines on what the plan shows at the strength that it is about."""
    if len(plan.kinds) == 1:
        return ["A single column has no partial correlation to see.", *_of_one_column(plan)]
    return [*(_covariance_verdict(plan) if plan.release == "covariance" else _rows_verdict(plan))]


def _of_one_column(plan: Plan) -> Iterator[str]:
    """Yield what a release would be refused for, and what would do."""
    own = plan.own
    if own is None or own.shows_something:
        return
    yield f"At mu = {printed_mu(own.mu)} nothing of it would be seen: {why_hidden(own)}."
    yield from (f"Or {way}." for way in ways_out(own))


def describe_seen(rho: float | None) -> str:
    """Return the smallest partial correlation that is seen, or that there is none."""
    return "nothing" if rho is None else f"{rho:.2g}"


def _rows_verdict(plan: Plan) -> Iterator[str]:
    row, target, seen = plan.focus, TARGETS[-1], describe_seen(plan.focus.rows.seen)
    at = f"At mu = {printed_mu(row.mu)}, rows would show"
    if row.rows.needed[target] <= plan.n_rows:
        yield f"{at} partial correlations from {seen} on."
        return
    rows = seen if row.rows.seen is None else f"partial correlations from {seen} on only"
    yield f"{at} {rows}: {why_hidden(row)}."
    yield f"Seeing {target:g} would take {describe_count(row.rows.needed[target])} rows."

    if not row.moments.is_possible:
        return
    if row.moments.seen is None:
        needed = describe_count(row.moments.needed[target])
        yield f"Second moments alone would still need {needed} rows: {_remedy(plan)}."
        return
    seen = describe_seen(row.moments.seen)
    yield f"Second moments alone{typed('--release covariance')} would show {seen} and above, under the same guarantee."
    changes = changes_for_moments(plan.policy, row.mu)
    if changes:
        yield f"For them, {' and '.join(changes)}."


def _describe_undeclared(plan: Plan) -> Iterator[str]:
    """Yield what the error is if columns of which nothing is declared turn out to be several each."""
    if plan.policy.sought is None:
        return
    policy, kinds = with_most_columns(plan.policy, plan.n_rows)
    yield (
        f"That is if each of the {len(plan.kinds)} columns is published as one. Words become as many as they have "
        "levels, two levels one; gaps that are published, one more."
    )
    if TwoRound.takes(len(kinds)):
        most = forecast(policy, kinds, plan.n_rows, with_rows=False)
        yield f"With all that stands out from the noise, at most {len(kinds)}, it is {most.moments.error:.2g}."


def _remedy(plan: Plan) -> str:
    if plan.focus.is_hopeless:
        return "wait for more rows"
    return "publish fewer columns, narrow their bounds, declare their centers and scales, or protect them less"


def _covariance_verdict(plan: Plan) -> Iterator[str]:
    row, target = plan.focus, TARGETS[-1]
    if plan.depends_on_values:
        yield f"What {plan.mechanism} would show depends on the values, and readers get no error bars from it."
        return
    in_rows = f"; in a release of rows, of {row.rows.error:.2g}" if row.rows.is_possible else ""
    yield (
        f"At mu = {printed_mu(row.mu)}, a correlation has a standard error of {row.moments.error:.2g} in the "
        f"covariance release{in_rows}; chance alone makes it {plan.n_rows**-0.5:.2g}."
    )
    yield from _describe_undeclared(plan)
    if not row.rows.is_possible:
        yield "Rows are never released with noise like this: it does not go with some column's bounds or kind."
    if row.moments.seen is not None:
        rows = "nothing" if row.rows.seen is None else f"{describe_seen(row.rows.seen)} and above"
        beside = f"; in rows, {rows}" if row.rows.is_possible else ""
        yield f"Partial correlations from {describe_seen(row.moments.seen)} on would be seen{beside}."
        return
    there = f"To see {target:g} takes {describe_count(row.moments.needed[target])} rows (there are {plan.n_rows:,})"
    if row.rows.is_possible:
        there += f", and {describe_count(row.rows.needed[target])} in a release of rows"
    of_numbers, of_words = row.least_rows_for_moments, least_rows(row)
    words = "" if of_words == of_numbers else f" ({describe_count(of_words)}, if words become several columns)"
    yield f"{there}. This release shows anything from {describe_count(of_numbers)} rows on{words}."
    if plan.own is not None and not plan.own.shows_something:
        yield from (f"Or {way}." for way in ways_out(plan.own))
