"""Checks of a release before it is paid for: its policy, the forecast, and the rows of its table.

What they find is said by `dp-publish` before it publishes, by `dp-publish plan --look` and by the desk. Each of these
goes on or stops by the same `Findings`. What rows show is for the publisher alone.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow.compute as pc

from dp_bundle.base.errors import CellError, DataError, DpGraphError, MissingValuesError, PolicyError
from dp_bundle.base.machine import describe_need
from dp_bundle.base.wording import PASS_ANYWAY
from dp_bundle.data.rows import batch_rows
from dp_publish.data.faults import UnfitError
from dp_publish.data.kinds import Kinds
from dp_publish.forecast.first_rows import doubt_words, forecast_first_rows, point_out_oddities, point_out_rare
from dp_publish.forecast.outlook import Outlook, forecast_table
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.refusal import ANYWAY, describe_drowned, find_drowned, refuse_by_outlook
from dp_publish.forecast.whose_rows import ask_whose, find_repeated, point_out_people
from dp_publish.policy.coded_columns import blocks_of, raw_names
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
from dp_publish.policy.open_columns import declares_no_values, reasons


@dataclass
class Findings:
    """What was found of a release before it is paid for.

    Attributes
    ----------
    remarks : list of str
        What its publisher should know.
    faults : list of DpGraphError
        Why it cannot be.
    regrets : list of PolicyError
        Why it is refused unless she insists.
    insists : bool
        Whether she does: then there are none.
    """

    remarks: list[str] = field(default_factory=list)
    faults: list[DpGraphError] = field(default_factory=list)
    regrets: list[PolicyError] = field(default_factory=list)
    insists: bool = False

    def require(self, tell: Callable[[str], None]) -> None:
        """Tell the remarks, and refuse what cannot be, or would be regretted.

        Raises
        ------
        DpGraphError
            The one reason; of several, a PolicyError or a DataError that lists them.
        """
        for remark in self.remarks:
            tell(remark)
        refused = [*self.faults, *self.regrets]
        if len(refused) == 1:
            raise refused[0]
        if refused:
            kind = PolicyError if any(isinstance(reason, PolicyError) for reason in refused) else DataError
            raise kind("; ".join(f"({place}) {reason}" for place, reason in enumerate(refused, 1)))

    def judge(self, outlook: Outlook, prepared: Prepared, seen: Glance | None = None) -> None:
        """Add what a forecast gives rise to and, of columns that are declared, what it says of their first rows."""
        policy = prepared.policy
        try:
            outlook.planned.require_bounds()
        except PolicyError as error:
            self.faults.append(error)
            return
        try:
            self.remarks += refuse_by_outlook(outlook, prepared.table.types)
        except PolicyError as error:
            if not self.insists:
                self.regrets.append(error)
                return

        drowned = [] if seen is None else find_drowned(seen, outlook)
        if seen is None or not drowned:
            return
        said, names = describe_drowned(drowned, policy, seen.n_rows), raw_names(prepared.kinds, policy.sources)
        if len(names) - len(drowned) < min(2, len(names)) and not self.insists:  # no more than one column could be seen
            self.regrets.append(PolicyError(f"{said}; {ANYWAY}"))
        else:
            self.remarks.append(said)


class FirstRows(NamedTuple):
    """The first rows of columns that are declared, the columns that can be read of them, and what is said of others."""

    seen: Glance
    readable: Kinds
    unread: Sequence[CellError | UnfitError]
    oddities: Sequence[str]


def look_at_declared(prepared: Prepared) -> FirstRows:
    """Read the first rows of columns that are declared."""
    names = raw_names(prepared.kinds, prepared.policy.sources)
    read = glance_at_readable(prepared.table, prepared.policy, prepared.kinds)
    return FirstRows(*read, point_out_oddities(prepared.table, names, declared=True))


def judge_declared(first: FirstRows, prepared: Prepared, *, insists: bool = False) -> Findings:
    """Return what the first rows of declared columns say, as `look_at_declared` gives them."""
    policy, seen = prepared.policy, first.seen
    remarks = [*first.oddities, *survey_columns(seen, policy, first.readable)]
    found = Findings(remarks, [*first.unread], insists=insists)
    regrettable = find_regrettable(prepared.table, seen, policy, first.readable)
    if policy.like or declares_no_values(prepared.written):
        found.remarks += regrettable
    elif not insists:
        found.regrets += [PolicyError(f"{said}, or {PASS_ANYWAY}") for said in regrettable]
    return found


def judge_rows(prepared: Prepared, *, insists: bool = False) -> tuple[Findings, Glance | None]:
    """Return what all rows say, and the first rows of columns that are declared."""
    table, kinds = prepared.table, prepared.kinds
    if prepared.policy.sought is not None:
        unreadable = find_unreadable(prepared, kinds) if table.survey is None else table.lost(kinds)
        return Findings(point_out_oddities(table, kinds), [*unreadable], insists=insists), None
    first = look_at_declared(prepared)
    found = judge_declared(first, prepared, insists=insists)
    found.faults += find_unreadable(prepared, first.readable)
    return found, first.seen


def check_in_advance(
    prepared: Prepared, *, anyway: bool, tell: Callable[[str], None], max_memory: int | None = None, n_workers: int = 0
) -> Outlook:
    """Return the forecast of a release; refuse one that cannot be, or that its publisher would regret.

    Nothing is spent.

    Parameters
    ----------
    prepared : Prepared
        The table, and its policy.
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
    table, policy, kinds = prepared.table, prepared.policy, prepared.kinds
    names, is_open = raw_names(kinds, policy.sources), policy.sought is not None
    needed = require_publishing(table, len(kinds), len(names), policy.privacy.release, max_memory, n_workers=n_workers)
    named = quote_header(table, policy if is_open else prepared.written, names, sure=not is_open)
    for note in (*describe_need(needed), *filter(None, [table.remark]), *named):
        tell(note)
    require_whose(prepared)
    found, seen = judge_rows(prepared, insists=anyway)
    found.require(tell)

    outlook, found = forecast_table(prepared), Findings(insists=anyway)
    found.judge(outlook, prepared, seen)
    found.remarks += [f"warning: {doubt}" for doubt in doubt_words(prepared)] if is_open and not anyway else []
    found.require(tell)
    return outlook


def find_unreadable(prepared: Prepared, kinds: Kinds) -> list[DpGraphError]:
    """Return why rows cannot be read as the policy has them, all of them: cells that are none, and refused gaps.

    All that is published is read, to the end, so that nothing is booked for a release that could not be.
    """
    policy = prepared.policy
    refusing = [name for name in kinds if policy.sought is None and policy.column(name).missing == "refuse"]
    gaps: Counter[str] = Counter()
    try:
        for batch in prepared.table.read(dict(kinds), batch_rows(len(kinds))) if kinds else ():
            for name in refusing:
                gaps[name] += pc.sum(pc.is_null(batch.column(name), nan_is_null=True)).as_py() or 0
    except DataError as error:
        return [error]
    blocks, of_moments = blocks_of(policy.sources), policy.privacy.is_moments
    missing = {blocks.get(name, name): name in blocks for name in refusing if gaps[name]}
    return [MissingValuesError(name, has_levels=levels, of_moments=of_moments) for name, levels in missing.items()]


def require_whose(prepared: Prepared) -> None:
    """Refuse a release of rows that may be several to a person, if the policy as it was written leaves that open.

    Raises
    ------
    PolicyError
        It asks who a person is.
    """
    if question := _ask_whose(prepared):
        raise PolicyError(question, "privacy.unit")


def _ask_whose(prepared: Prepared) -> str:
    table, policy = prepared.table, prepared.policy
    if "unit" in policy.privacy.model_fields_set:
        return ""
    return ask_whose(prepared.written, find_repeated(table, raw_names(table.types, policy.sources)))


def describe_first_rows(plan: Plan, *, looked: bool) -> list[str]:
    """Return what publishing would say of a table's names, or, once they may be looked at, of its rows."""
    prepared, policy = plan.prepared, plan.policy
    notes, names = [*filter(None, [plan.table.remark])], raw_names(plan.kinds, policy.sources)
    if not looked:
        people = point_out_people(policy, raw_names(plan.table.types, policy.sources))
        return [*notes, *point_out_names(names), *people]

    notes += [f"left out: {reasons(prepared.left_out)}"] if prepared.left_out else []
    if question := _ask_whose(prepared):
        notes.append(f"a release would be refused: {question}")
    found, seen = judge_rows(prepared)
    if plan.own is not None:
        found.judge(plan.own, prepared, seen)
    if policy.sought is not None:
        found.remarks += point_out_rare(plan.table, policy, plan.n_rows)
        found.remarks += [forecast_first_rows(plan)] if policy.privacy.is_moments and len(plan.kinds) > 1 else []
    return [
        *notes,
        *found.remarks,
        *(f"a release would be refused: {each}" for each in (*found.faults, *found.regrets)),
    ]
