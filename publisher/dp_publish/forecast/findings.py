"""The findings of a forecast at one strength, in sentences, which the terminal, the page and the desk share."""

from collections.abc import Iterator

from dp_bundle.base.wording import typed
from dp_publish.forecast.advice import changes_for_moments, ways_out
from dp_publish.forecast.outlook import TARGETS, Outlook
from dp_publish.forecast.refusal import least_rows, why_hidden
from dp_publish.forecast.strengths import describe_count, printed_mu


def describe_findings(row: Outlook, own: Outlook | None = None) -> list[str]:
    """Return the lines on what would be seen; at the policy's `own` strength, also on what else would do."""
    if row.n_columns == 1:
        found = _of_one_column(row)
    else:
        found = _covariance_verdict(row) if row.planned.release == "covariance" else _rows_verdict(row)
    hides = row is own and not row.shows_something and (row.n_columns == 1 or row.planned.release == "covariance")
    return [*found, *(f"Or {way}." for way in (ways_out(row) if hides else ()))]


def _of_one_column(row: Outlook) -> Iterator[str]:
    """Yield that there is no link, and why nothing else is seen if so it is."""
    yield "A single column has no partial correlation to see."
    if not row.shows_something:
        yield f"At mu = {printed_mu(row.mu)} nothing of it would be seen: {why_hidden(row)}."


def describe_seen(rho: float | None) -> str:
    """Return the smallest partial correlation that is seen, or that there is none."""
    return "nothing" if rho is None else f"{rho:.2g}"


def _rows_verdict(row: Outlook) -> Iterator[str]:
    target, seen = TARGETS[-1], describe_seen(row.rows.seen)
    at = f"At mu = {printed_mu(row.mu)}, rows would show"
    if row.rows.needed[target] <= row.n_rows:
        yield f"{at} partial correlations from {seen} on."
        return
    rows = seen if row.rows.seen is None else f"partial correlations from {seen} on only"
    yield f"{at} {rows}: {why_hidden(row)}."
    yield f"Seeing {target:g} would take {describe_count(row.rows.needed[target])} rows."

    if not row.moments.is_possible:
        return
    if row.moments.seen is None:
        needed, fewer = describe_count(row.moments.needed[target]), "publish fewer columns, narrow their bounds"
        remedy = f"{fewer}, declare their centers and scales, or protect them less"
        yield (
            f"Second moments alone would still need {needed} rows: "
            f"{'wait for more rows' if row.is_hopeless else remedy}."
        )
        return
    seen = describe_seen(row.moments.seen)
    yield f"Second moments alone{typed('--release covariance')} would show {seen} and above, under the same guarantee."
    changes = changes_for_moments(row.planned.policy, row.mu)
    if changes:
        yield f"For them, {' and '.join(changes)}."


def _covariance_verdict(row: Outlook) -> Iterator[str]:
    planned, target = row.planned, TARGETS[-1]
    if planned.depends_on_values:
        yield f"What {planned.mechanism_name} would show depends on the values, and readers get no error bars from it."
        return
    in_rows = f"; in a release of rows, of {row.rows.error:.2g}" if row.rows.is_possible else ""
    yield (
        f"At mu = {printed_mu(row.mu)}, a correlation has a standard error of {row.moments.error:.2g} in the "
        f"covariance release{in_rows}; chance alone makes it {row.n_rows**-0.5:.2g}."
    )
    if planned.policy.sought is not None:
        yield (
            f"That is if each of the {row.n_columns} columns is published as one. Words become as many as they have "
            "levels, two levels one; gaps that are published, one more."
        )
    if not row.rows.is_possible:
        yield "Rows are never released with noise like this: it does not go with some column's bounds or kind."
    if row.moments.seen is not None:
        rows = "nothing" if row.rows.seen is None else f"{describe_seen(row.rows.seen)} and above"
        beside = f"; in rows, {rows}" if row.rows.is_possible else ""
        yield f"Partial correlations from {describe_seen(row.moments.seen)} on would be seen{beside}."
        return
    there = f"To see {target:g} takes {describe_count(row.moments.needed[target])} rows (there are {row.n_rows:,})"
    if row.rows.is_possible:
        there += f", and {describe_count(row.rows.needed[target])} in a release of rows"
    of_numbers, of_words = row.least_rows_for_moments, least_rows(row)
    words = "" if of_words == of_numbers else f" ({describe_count(of_words)}, if words become several columns)"
    yield f"{there}. This release shows anything from {describe_count(of_numbers)} rows on{words}."
