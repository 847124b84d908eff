"""Checks of a release before it is paid for: its policy, the forecast, and the first rows of its table."""

from __future__ import annotations

from collections.abc import Callable, Collection

from dp_bundle.base.memory import describe_need
from dp_bundle.files.places import Place
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.guarantee import moment_columns
from dp_publish.data.first_rows import glance
from dp_publish.data.row_count import count_rows
from dp_publish.data.table import open_table
from dp_publish.forecast.measured import describe_drowned, find_drowned, refuse_drowned
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.refusal import refuse_pointless
from dp_publish.policy.coded_columns import raw_names
from dp_publish.policy.column_survey import find_regrettable, point_out_names, quote_header, survey
from dp_publish.policy.columns import choose_columns
from dp_publish.policy.memory import require_publishing
from dp_publish.policy.model import Policy
from dp_publish.policy.sections import resolve


def check_in_advance(
    data: Place,
    policy: Policy,
    withheld: Collection[str],
    *,
    anyway: bool,
    tell: Callable[[str], None],
    max_memory: int | None = None,
    n_workers: int = 0,
) -> Policy:
    """Refuse a release that cannot be, or that its publisher would regret; nothing is spent.

    Parameters
    ----------
    data : Path or RemotePath
        The table.
    policy : Policy
        As it was written.
    withheld : collection of str
        Columns that were the unit of privacy of an earlier release.
    anyway : bool
        Whether to let pass what shows nothing, or shows a column as it is.
    tell : callable
        Takes each sentence that the publisher should read, in time, before anything is refused.
    max_memory : int, optional
        Bytes, beyond which a release is refused that may need more; by default what this machine can give.
    n_workers : int
        How many processes of Dask will work at it here.

    Returns
    -------
    Policy
        The policy, resolved for the table's columns.

    Raises
    ------
    SchemaError, DataError, PolicyError, PrivacyError
        The table or the policy allows no release, or the release would help nobody.
    MemoryLimitError
        The release may need more memory than it may have.
    """
    table = open_table(data, policy.table)
    table, resolved = resolve(table, policy, withheld)
    kinds, _ = choose_columns(table, resolved, withheld)
    names = raw_names(kinds, resolved.sources)
    needed = require_publishing(table, len(kinds), len(names), policy.privacy.release, max_memory, n_workers=n_workers)
    for note in describe_need(needed):
        tell(note)
    if policy.privacy.release == "covariance":
        set_mechanism(resolved, kinds, lambda: 1)  # refuses what does not go together, whatever the number of rows
        moment_columns(resolved, kinds)

    seen = glance(table, kinds)
    for note in (*quote_header(table, policy, names), *survey(seen, resolved, kinds)):
        tell(note)
    if not anyway:
        for reason in find_regrettable(table, seen, resolved, kinds):
            raise reason
        refuse_pointless(resolved, kinds, table.types, lambda: count_rows(data, policy.table))

    drowned = find_drowned(seen, resolved, kinds, lambda: count_rows(data, policy.table))
    if not anyway:
        refuse_drowned(drowned, resolved, kinds, seen.n_rows)
    if drowned:
        tell(describe_drowned(drowned, resolved, seen.n_rows))
    return resolved


def describe_first_rows(plan: Plan, *, looked: bool) -> list[str]:
    """Return what publishing would say of a table's names, or, once they may be looked at, of its first rows."""
    if not looked:
        return point_out_names(raw_names(plan.kinds, plan.policy.sources))
    seen = glance(plan.table, plan.kinds)
    notes = survey(seen, plan.policy, plan.kinds)
    refused = find_regrettable(plan.table, seen, plan.policy, plan.kinds)
    notes += [f"a release would be refused: {reason}" for reason in refused]
    drowned = find_drowned(seen, plan.policy, plan.kinds, lambda: plan.n_rows) if plan.own else []
    return [*notes, describe_drowned(drowned, plan.policy, seen.n_rows)] if drowned else notes
