"""Refusals, before anything is spent, of releases that are not worth their cost; the publisher may insist.

Two kinds of release help nobody. In one, the noise hides everything that a researcher would look for. In the other, it
is so weak that a column of whole numbers is published unchanged. Both are judged from public facts alone: the number of
rows, the bounds, the declared types and the strength. No value is read, and rows are not counted if their number is
protected.

Columns that the noise would drown are judged by the real spread of their values, for the publisher alone. The forecast
assumes a spread, and before a release is paid for, the first rows show whether that was right. Long-tailed values may
fill so little of generous bounds that a researcher sees nothing of them.

The findings of a forecast at one strength are sentences, which the terminal, the page and the desk share.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
from scipy import special

from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import counted, listed
from dp_bundle.base.wording import PASS_ANYWAY, Phrase, typed
from dp_bundle.manifest.columns import Column, source_names
from dp_bundle.manifest.discrete_mu import discrete_gaussian_mu
from dp_bundle.manifest.noise import normal_quantile
from dp_publish.data.kinds import ColumnType, Kinds
from dp_publish.forecast.advice import changes_for_moments, ways_out
from dp_publish.forecast.assumptions import rows_to_tell_columns, with_some_words
from dp_publish.forecast.outlook import TARGETS, Outlook, describe_links, drowns, forecast, is_clear
from dp_publish.forecast.planned import PlannedRelease
from dp_publish.forecast.strengths import describe_count, printed_mu, round_down
from dp_publish.policy.coded_columns import blocks_of, gap_columns
from dp_publish.policy.column_survey import Glance
from dp_publish.policy.model import Policy
from dp_publish.rows.noise import ENOUGH_SIGMA

_VERBATIM = 0.99  # share of values that come out as they went in
_ENOUGH_SIGMA = {"integer": ENOUGH_SIGMA, "continuous": 0.2}  # at which fewer do, of whole numbers
Pointless: TypeAlias = Literal["hidden", "unchanged"]
_SEE_PLAN = Phrase("see `dp-publish plan DATA` for other strengths, ", "")
ANYWAY = Phrase("or publish it all the same with --anyway", f"or {PASS_ANYWAY.chosen}")


def refuse_pointless(
    policy: Policy, kinds: Kinds, types: Mapping[str, ColumnType], count_rows: Callable[[], int]
) -> list[str]:
    """Refuse a release that shows nothing, or one that shows a column as it is; return a warning if it shows little.

    Parameters
    ----------
    policy : Policy
        What would be published, and how.
    kinds : mapping of str to str
        The columns, as `choose_columns` gives them.
    types : mapping of str to ColumnType
        Every column's declared type.
    count_rows : callable
        Returns the number of rows; called only where that is public.

    Raises
    ------
    PolicyError
        The release would help nobody; the sentence says why, and what would.
    """
    is_public = policy.privacy.neighbours.n_rows_public
    return refuse_by_outlook(forecast(policy, kinds, count_rows()), types) if is_public else []


def refuse_by_outlook(row: Outlook, types: Mapping[str, ColumnType]) -> list[str]:
    """Do the same, given the outlook; nothing is refused by a number of rows that is protected."""
    row.planned.require_bounds()
    if not row.planned.policy.privacy.neighbours.n_rows_public:
        return []
    _refuse_verbatim(row.planned, types)
    return _refuse_hidden(row)


def why_pointless(row: Outlook, types: Mapping[str, ColumnType]) -> Pointless | None:
    """Return why `refuse_pointless` would refuse a release, given its forecast."""
    if _verbatim(row.planned.columns, types):
        return "unchanged"
    judged = row.planned.policy.privacy.neighbours.n_rows_public
    return "hidden" if judged and not row.shows_something else None


def share_unchanged(column: Column) -> float:
    """Return the share of whole numbers that the noise leaves as they are, after rounding where it is continuous.

    That is 1 / sum_k exp(-k^2 / (2 sigma^2)) for discrete noise, and 2 Phi(1 / (2 sigma)) - 1 for continuous noise.
    """
    if column.response is not None:
        return column.response.p_same
    sigma = column.cell_noise.sigma
    if column.kind == "continuous":
        return float(special.erf(0.5 / (math.sqrt(2) * sigma)))
    if sigma > 10:
        return 0.0
    steps = range(1, math.ceil(13 * sigma) + 1)
    return 1 / (1 + 2 * math.fsum(math.exp(-0.5 * (k / sigma) ** 2) for k in steps))


def why_hidden(row: Outlook) -> str:
    """Return the reason why nothing can be seen of a release: too few rows even without noise, or the noise."""
    n_rows = row.n_rows
    if row.is_hopeless:
        rows = f"{counted(n_rows, 'row')} {'is' if n_rows == 1 else 'are'}"
        return f"{rows} too few to show how {row.n_columns} columns are related, even without noise"
    if row.planned.release == "rows":
        ratio = row.noise_to_signal
        shown = f"{ratio:,.0f}" if 100 <= ratio < 1e7 else f"{ratio:.3g}"
        return f"the noise has {shown} times the variance of the values"
    raised = f"the noise raises the standard error of a correlation from {n_rows**-0.5:.2g} to {row.moments.error:.2g}"
    needed = row.least_rows_for_moments
    return f"{raised}, and it takes {describe_count(needed)} rows to show anything" if needed > n_rows else raised


def least_rows(row: Outlook) -> int:
    """Return from how many rows on second moments show anything, of columns some of which may be words.

    The outlook has each column of which nothing is declared as one.
    """
    policy = row.planned.policy
    if policy.sought is None:
        return row.least_rows_for_moments
    words, of_words = with_some_words(policy)
    return rows_to_tell_columns(words, row.under(words, of_words).least_rows_for_moments)


def _refuse_verbatim(planned: PlannedRelease, types: Mapping[str, ColumnType]) -> None:
    verbatim = _verbatim(planned.columns, types)
    if not verbatim:
        return
    worst = max(verbatim, key=share_unchanged)
    at = "" if worst.response is not None else f"at sigma {worst.cell_noise.sigma:.3g}, "
    enough = f", and only a sigma of {_ENOUGH_SIGMA[worst.kind]:g} changes more than one in a hundred"
    rounded = " once they are rounded" if worst.kind == "continuous" else ""
    raise PolicyError(
        f"noise this weak would publish {listed(source_names(verbatim))} unchanged: {at}"
        f"{100 * share_unchanged(worst):.4g} % of the values of {worst.source_name!r} stay the same{rounded}"
        f"{'' if worst.response is not None else enough}; choose mu = "
        f"{round_down(planned.mu * min(map(_weaker, verbatim)))} or less, drop the column, {ANYWAY}"
    )


def _weaker(column: Column) -> float:
    """Return the share of its mu at which about one in a hundred of a column's values changes."""
    response = column.response
    if response is None and column.kind == "integer":
        return discrete_gaussian_mu(max(1, math.floor(column.width)), ENOUGH_SIGMA) / column.cell_mu
    if response is None:
        return column.cell_noise.sigma / _ENOUGH_SIGMA[column.kind]
    other = (1 - _VERBATIM) / (response.n_levels - 1)
    return (normal_quantile(_VERBATIM) - normal_quantile(other)) / response.mu


def _verbatim(columns: Sequence[Column], types: Mapping[str, ColumnType]) -> list[Column]:
    """Return the columns of whole numbers that would be published as they are."""
    return [
        column
        for column in columns
        if not column.bounds_found
        and (column.kind == "integer" or types[column.name] is ColumnType.INTEGER)
        and share_unchanged(column) > _VERBATIM
    ]


def _refuse_hidden(row: Outlook) -> list[str]:
    why = f"at mu = {printed_mu(row.mu)} per {row.planned.policy.privacy.unit_name}, "
    if row.shows_something:
        seen = row.shown.clearest
        if seen is None or is_clear(row.shown.error):
            return []
        why += why_hidden(row)
        return [f"warning: {why}: few links can be seen, of {describe_links(seen)}, and not all"]
    what = "this column" if row.n_columns == 1 else f"these {row.n_columns} columns"
    ways = "".join(f"{way}; " for way in ways_out(row))
    why += why_hidden(replace(row, least_rows_for_moments=least_rows(row)))
    raise PolicyError(
        f"this release would show nothing of {what}, and its privacy cost would be wasted: {why}; "
        f"{ways}{_SEE_PLAN}{ANYWAY}"
    )


def find_drowned(seen: Glance, row: Outlook) -> list[str]:
    """Return the columns whose variance in the first rows would not stand clear of its own error.

    A category is among them if that is so of all of its levels; gaps that are published do not count.

    Parameters
    ----------
    seen : Glance
        The first rows.
    row : Outlook
        The forecast. None are drowned for certain in a number of rows that is protected, or where the noise has no
        variance of its own. Columns whose bounds are yet to be found are passed over.
    """
    planned, policy = row.planned, row.planned.policy
    if not policy.privacy.neighbours.n_rows_public or planned.depends_on_values:
        return []
    spreads = {
        name: _spread(values, bounds) for name, values in seen.values.items() if (bounds := policy.column(name).bounds)
    }
    of_gaps = gap_columns(policy.sources)
    spreads = {name: spread for name, spread in spreads.items() if spread > 0.0 and name not in of_gaps}
    drowned = {name: drowns(error) for name, error in planned.errors(row.n_rows, spreads).items()}
    blocks = blocks_of(policy.sources)
    shown = {blocks[name] for name, hidden in drowned.items() if name in blocks and not hidden}
    hidden = [blocks.get(name, name) for name, hidden in drowned.items() if hidden]
    return list(dict.fromkeys(name for name in hidden if name not in shown))


def describe_drowned(names: Sequence[str], policy: Policy, n_rows: int) -> str:
    """Return the warning for the publisher of a release by this policy."""
    narrow = "narrow the bounds"
    if policy.privacy.is_moments and policy.privacy.mechanism in ("auto", "two-round"):
        narrow = "narrow the bounds or declare center and scale"
    return (
        f"the noise would hide {listed(list(names))}, as the values in the first {n_rows:,} rows fill too little of "
        f"the bounds: leave {'it' if len(names) == 1 else 'them'} out, protect less, or {narrow} if public knowledge, "
        "not these rows, allows it"
    )


def _spread(values: np.ndarray, bounds: tuple[float, float]) -> float:
    """Return the standard deviation of the clipped values as a share of the width of their bounds."""
    return float(np.clip(values, *bounds).std() / (bounds[1] - bounds[0])) if len(values) else 0.0


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
