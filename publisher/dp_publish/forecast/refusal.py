"""Refusals, before anything is spent, of releases that are not worth their cost; the publisher may insist.

Two kinds of release help nobody. In one, the noise hides everything that a researcher would look for. In the other, it
is so weak that a column of whole numbers is published unchanged. Both are judged from public facts alone: the number of
rows, the bounds, the declared types and the strength. No value is read, and rows are not counted if their number is
protected. If a mechanism's error has no formula, it
is found by drawing the mechanism on made-up sums (`drawn`).

Columns that the noise would drown are judged by the real spread of their values, for the publisher alone: the forecast
assumes a spread, and before a release is paid for, the first rows show whether that was right. Long-tailed values may
fill so little of generous bounds that a researcher sees nothing of them.

Checks of a release before it is paid for: its policy, the forecast, and the first rows of its table.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import pyarrow.compute as pc
from scipy import special

from dp_bundle.base.errors import DataError, DpGraphError, MissingValuesError, PolicyError
from dp_bundle.base.machine import describe_need
from dp_bundle.base.quoting import counted, listed
from dp_bundle.base.wording import PASS_ANYWAY, Phrase
from dp_bundle.data.rows import batch_rows
from dp_bundle.manifest.columns import Column, source_names
from dp_bundle.privacy.discrete_mu import discrete_gaussian_mu
from dp_bundle.privacy.noise import normal_quantile
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.guarantee import moment_columns
from dp_publish.data.kinds import ColumnType, Kinds
from dp_publish.data.table import Table
from dp_publish.forecast.advice import draw_error, forecast_drawn, ways_out
from dp_publish.forecast.assumptions import rows_to_tell_columns, with_some_words
from dp_publish.forecast.first_look import point_out_oddities
from dp_publish.forecast.first_rows import doubt_words, forecast_first_rows, point_out_rare
from dp_publish.forecast.outlook import Outlook, describe_links, drowns, forecast, is_clear, outlook_of
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.planned import PlannedRelease, plan_release
from dp_publish.forecast.strengths import describe_count, printed_mu, round_down
from dp_publish.forecast.whose_rows import ask_whose, find_repeated, point_out_people
from dp_publish.policy.coded_columns import blocks_of, gap_columns, raw_names
from dp_publish.policy.column_survey import (
    Glance,
    find_regrettable,
    glance_at_readable,
    point_out_names,
    quote_header,
    survey_columns,
)
from dp_publish.policy.columns import Prepared
from dp_publish.policy.memory import require_publishing
from dp_publish.policy.model import Policy
from dp_publish.policy.open_columns import declares_no_values, reasons
from dp_publish.rows.noise import ENOUGH_SIGMA

_VERBATIM = 0.99  # share of values that come out as they went in
_ENOUGH_SIGMA = {"integer": ENOUGH_SIGMA, "continuous": 0.2}  # at which fewer do, of whole numbers
Pointless: TypeAlias = Literal["hidden", "unchanged"]
_SEE_PLAN = Phrase("see `dp-publish plan DATA` for other strengths, ", "")
_ANYWAY = Phrase("or publish it all the same with --anyway", f"or {PASS_ANYWAY.chosen}")


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
    if not row.planned.policy.privacy.neighbours.n_rows_public:
        return []
    row.planned.require_bounds()
    _refuse_verbatim(row.planned, types)
    return _refuse_hidden(draw_error(row))


def why_pointless(row: Outlook, types: Mapping[str, ColumnType]) -> Pointless | None:
    """Return why `refuse_pointless` would refuse a release, given its forecast.

    A mechanism that would have to be drawn to be forecast is not judged.
    """
    planned = row.planned
    if _verbatim(planned.columns, types):
        return "unchanged"
    judged = planned.policy.privacy.neighbours.n_rows_public and not planned.depends_on_values
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
    needed = forecast_drawn(words, of_words, row.n_rows).least_rows_for_moments
    return rows_to_tell_columns(words, needed)


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
        f"{round_down(planned.mu * min(map(_weaker, verbatim)))} or less, drop the column, {_ANYWAY}"
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
        f"{ways}{_SEE_PLAN}{_ANYWAY}"
    )


def find_drowned(seen: Glance, planned: PlannedRelease, count_rows: Callable[[], int]) -> list[str]:
    """Return the columns whose variance in the first rows would not stand clear of its own error.

    A category is among them if that is so of all of its levels; gaps that are published do not count.

    Parameters
    ----------
    seen : Glance
        The first rows.
    planned : PlannedRelease
        The release. Columns whose bounds are yet to be found are passed over.
    count_rows : callable
        Returns the number of rows; called only where that is public.
    """
    policy = planned.policy
    if not seen.values or not policy.privacy.neighbours.n_rows_public:
        return []
    planned.require_bounds()
    if planned.depends_on_values:  # whose noise has no variance of its own
        return []
    spreads = {
        name: _spread(values, bounds) for name, values in seen.values.items() if (bounds := policy.column(name).bounds)
    }
    of_gaps = gap_columns(policy.sources)
    spreads = {name: spread for name, spread in spreads.items() if spread > 0.0 and name not in of_gaps}
    errors = planned.errors(count_rows(), spreads)
    drowned = {name: drowns(error) for name, error in errors.items()}
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


def check_in_advance(
    prepared: Prepared,
    policy: Policy,
    *,
    anyway: bool,
    tell: Callable[[str], None],
    max_memory: int | None = None,
    n_workers: int = 0,
) -> None:
    """Refuse a release that cannot be, or that its publisher would regret; nothing is spent.

    Parameters
    ----------
    prepared : Prepared
        The table, and the policy resolved for its columns.
    policy : Policy
        As it was written.
    anyway : bool
        Whether to let pass what shows nothing, or shows a column as it is.
    tell : callable
        Takes each sentence that the publisher should read, in time, before anything is refused.
    max_memory : int, optional
        Bytes, beyond which a release is refused that may need more; by default what this machine can give.
    n_workers : int
        How many processes of Dask will work at it here.

    Raises
    ------
    SchemaError, DataError, PolicyError, PrivacyError
        The table or the policy allows no release, or the release would help nobody.
    MemoryLimitError
        The release may need more memory than it may have.
    """
    table, resolved, kinds = prepared.table, prepared.policy, prepared.kinds
    names, is_open = raw_names(kinds, resolved.sources), resolved.sought is not None
    needed = require_publishing(table, len(kinds), len(names), policy.privacy.release, max_memory, n_workers=n_workers)
    named = quote_header(table, resolved if is_open else policy, names, sure=not is_open)
    for note in (*describe_need(needed), *filter(None, [table.remark]), *named):
        tell(note)
    require_whose(prepared, policy)
    if is_open:
        _check_open(prepared, anyway=anyway, tell=tell)
        return
    if policy.privacy.is_moments:
        set_mechanism(resolved, kinds, lambda: 1)  # refuses what does not go together, whatever the number of rows
        moment_columns(resolved, kinds)

    for note in point_out_oddities(table, names, declared=True):
        tell(note)
    seen, readable, unread = glance_at_readable(table, resolved, kinds)
    for note in survey_columns(seen, resolved, readable):
        tell(note)
    reasons: list[DpGraphError] = [*unread, *find_unreadable(table, resolved, readable)]
    regrettable = [] if anyway else find_regrettable(table, seen, resolved, readable)
    if policy.like or declares_no_values(policy):
        for reason in regrettable:
            tell(reason)
        regrettable = []
    raise_all([*reasons, *map(_unless_anyway, regrettable)])
    planned = plan_release(resolved, kinds, prepared.count_rows)
    if not anyway and resolved.privacy.neighbours.n_rows_public:
        for note in refuse_by_outlook(outlook_of(planned, prepared.count_rows()), table.types):
            tell(note)

    drowned = find_drowned(seen, planned, prepared.count_rows)
    if not anyway and len(names) - len(drowned) < min(2, len(names)):  # no more than one column could be seen
        raise PolicyError(f"{describe_drowned(drowned, resolved, seen.n_rows)}; {_ANYWAY}")
    if drowned:
        tell(describe_drowned(drowned, resolved, seen.n_rows))


def find_unreadable(table: Table, policy: Policy, kinds: Kinds) -> list[DpGraphError]:
    """Return why rows cannot be read as the policy has them, all of them: cells that are none, and refused gaps.

    All that is published is read, to the end, so that nothing is booked for a release that could not be.
    """
    refusing = [name for name in kinds if policy.sought is None and policy.column(name).missing == "refuse"]
    gaps: Counter[str] = Counter()
    try:
        for batch in table.read(dict(kinds), batch_rows(len(kinds))) if kinds else ():
            for name in refusing:
                gaps[name] += pc.sum(pc.is_null(batch.column(name), nan_is_null=True)).as_py() or 0
    except DataError as error:
        return [error]
    blocks, privacy = blocks_of(policy.sources), policy.privacy
    missing = {blocks.get(name, name): name in blocks for name in refusing if gaps[name]}
    return [
        MissingValuesError(name, has_levels=levels, of_moments=privacy.is_moments) for name, levels in missing.items()
    ]


def _unless_anyway(said: str) -> PolicyError:
    return PolicyError(f"{said}, or {PASS_ANYWAY}")


def raise_all(reasons: Sequence[DpGraphError]) -> None:
    """Raise the reasons why there can be no release, if there are any, in one error: a list of all of them.

    Raises
    ------
    DpGraphError
        The one reason; of several, a PolicyError or a DataError that lists them.
    """
    if len(reasons) == 1:
        raise reasons[0]
    if reasons:
        kind = PolicyError if any(isinstance(reason, PolicyError) for reason in reasons) else DataError
        raise kind("; ".join(f"({place}) {reason}" for place, reason in enumerate(reasons, 1)))


def _ask_whose(table: Table, policy: Policy, resolved: Policy) -> str:
    """Return the question whose rows they are that a policy as it was written leaves open, if they are several's."""
    if "unit" in policy.privacy.model_fields_set:
        return ""
    return ask_whose(policy, find_repeated(table, raw_names(table.types, resolved.sources)))


def require_whose(prepared: Prepared, policy: Policy) -> None:
    """Refuse a release of rows that may be several to a person, if the policy as it was written leaves that open.

    Raises
    ------
    PolicyError
        It asks who a person is.
    """
    if question := _ask_whose(prepared.table, policy, prepared.policy):
        raise PolicyError(question, "privacy.unit")


def _check_open(prepared: Prepared, *, anyway: bool, tell: Callable[[str], None]) -> None:
    """Refuse a release that would show nothing of columns that are yet to be found, each as one column."""
    table, policy, kinds = prepared.table, prepared.policy, prepared.kinds
    raise_all(find_unreadable(table, policy, kinds) if table.survey is None else table.lost(kinds))
    for note in point_out_oddities(table, kinds):
        tell(note)
    if not anyway:
        little = refuse_pointless(policy, dict.fromkeys(kinds, "continuous"), table.types, prepared.count_rows)
        for note in (*little, *(f"warning: {doubt}" for doubt in doubt_words(prepared))):
            tell(note)


def describe_first_rows(plan: Plan, *, looked: bool) -> list[str]:
    """Return what publishing would say of a table's names, or, once they may be looked at, of its first rows."""
    remarks = [*filter(None, [plan.table.remark])]
    if not looked:
        people = point_out_people(plan.policy, raw_names(plan.table.types, plan.policy.sources))
        return [*remarks, *point_out_names(raw_names(plan.kinds, plan.policy.sources)), *people]
    question = _ask_whose(plan.table, plan.policy, plan.policy)
    remarks += [f"a release would be refused: {question}"] if question else []
    found = plan.policy.sought
    if found is not None:
        odd = point_out_oddities(plan.table, found.names)
        sized = [forecast_first_rows(plan)] if plan.policy.privacy.is_moments and len(plan.kinds) > 1 else []
        gone = [f"left out: {reasons(found.left_out)}"] if found.left_out else []
        try:
            refuse_pointless(plan.policy, plan.kinds, plan.table.types, lambda: plan.n_rows)
        except PolicyError as error:
            gone.append(f"a release would be refused: {error}")
        return [*remarks, *gone, *point_out_rare(plan.table, plan.policy, plan.n_rows), *odd, *sized]
    seen, kinds, unread = glance_at_readable(plan.table, plan.policy, plan.kinds)
    remarks += point_out_oddities(plan.table, raw_names(plan.kinds, plan.policy.sources), declared=True)
    notes = remarks + survey_columns(seen, plan.policy, kinds)
    refused = [
        *unread,
        *find_unreadable(plan.table, plan.policy, kinds),
        *map(_unless_anyway, find_regrettable(plan.table, seen, plan.policy, kinds)),
    ]
    notes += [f"a release would be refused: {reason}" for reason in refused]
    drowned = find_drowned(seen, plan.own.planned, lambda: plan.n_rows) if plan.own else []
    notes += [describe_drowned(drowned, plan.policy, seen.n_rows)] if drowned else []
    return notes
