"""The audit of a release that is planned: made-up rows stand for a table of which only names and types are read."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dp_audit.canaries import in_batches, raw_table
from dp_audit.coded_releases import audit_coded
from dp_audit.press import UNPUBLISHED, Press, made_up_policy, not_published, publish_made_up
from dp_audit.raw_cells import raw_arrays, raw_cells
from dp_audit.report import AuditReport, Check, make_check
from dp_audit.whole_moments import audit_moments
from dp_audit.whole_row_releases import audit_rows
from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import listed
from dp_bundle.manifest.columns import Column
from dp_publish.covariance.guarantee import moment_columns
from dp_publish.data.table import Source
from dp_publish.policy.columns import prepare
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import calibrate

_OTHERS = 10  # entities of one row, beside crowds
_MOST_STATES, _LARGEST_CROWD = 64, 2000  # beyond so many rows that an entity may have, no crowd is made up


def audit_planned_release(
    data: Source,
    policy: Policy,
    press: Press,
    *,
    n_canaries: int | None,
    confidence: float = 0.9999,
    tell: Callable[[str], None],
) -> AuditReport:
    """Attack the release that a policy would make of a table; no value of it is read, and nothing is spent.

    Parameters
    ----------
    data : Path, RemotePath, or a table in memory
        The table, for its columns' names and types, and for its number of rows where that is public.
    policy : Policy
        As it was written.
    press : callable
        Publishes a made-up table where nobody keeps the books: `release.publishing.publish_aside`.
    n_canaries, confidence
        As for `audit_rows` and `audit_moments`.
    tell : callable
        Called with a mechanism's name before an attack on it that takes minutes.

    Raises
    ------
    SchemaError, PolicyError, PrivacyError, ParameterError
        The table or the policy allows no release.
    """
    prepared = prepare(data, policy)
    policy, kinds = prepared.policy, prepared.kinds
    unbounded = [name for name in kinds if policy.column(name).bounds is None]
    if unbounded:
        raise PolicyError(
            f"an audit needs declared bounds, which are missing for {listed(unbounded)}: what is found privately is "
            "found alike in every table, and the project's own tests attack it; to audit this release, write a policy "
            "with `dp-publish policy DATA`, and fill in the bounds from public knowledge, or set drop = true"
        )
    if policy.privacy.release == "rows":
        report = _audit_rows(policy, kinds, press, n_canaries, confidence)
    else:
        report = audit_moments(
            policy, kinds, prepared.count_rows, press, n_canaries=n_canaries, confidence=confidence, tell=tell
        )
    unit = policy.privacy.entity
    if unit is None or unit.max_rows > _LARGEST_CROWD or not policy.privacy.neighbours.n_rows_public:
        return report
    policy = made_up_policy(policy, kinds)
    columns = moment_columns(policy, kinds) if policy.privacy.is_moments else calibrate(policy, kinds)
    return replace(report, checks=(*report.checks, _check_entities(press, policy, columns, unit.max_rows)))


def _audit_rows(
    policy: Policy, kinds: dict[str, str], press: Press, n_canaries: int | None, confidence: float
) -> AuditReport:
    """Attack a release of rows: numbers, and columns that are coded, each as all that is released."""
    coded = {name: kinds[name] for source in policy.sources for name in source.columns if name in kinds}
    numbers = {name: kind for name, kind in kinds.items() if name not in coded}
    reports: dict[str, AuditReport] = {}
    if numbers:
        alone = policy.model_copy(update={"sources": ()})
        reports[""] = audit_rows(alone, numbers, press, n_canaries, confidence)
    if coded:
        privacy = policy.privacy  # of columns without a `max_change` a change may be any
        privacy = privacy.model_copy(update={"unit": "cell"}) if privacy.unit == "change" else privacy
        alone = policy.model_copy(update={"privacy": privacy})
        reports["coded: "] = audit_coded(alone, coded, press, n_canaries, confidence)
    checks = [
        replace(check, name=f"{part}{check.name}" if len(reports) > 1 else check.name)
        for part, report in reports.items()
        for check in report.checks
    ]
    mu_lower = max(report.mu_lower or 0.0 for report in reports.values())
    return replace(next(iter(reports.values())), mu_lower=mu_lower, checks=tuple(checks))


def _check_entities(press: Press, policy: Policy, columns: Sequence[Column], max_rows: int) -> Check:
    """Check how many rows are published of entities that have too many, a crowd for every state of the cells.

    Their rows come in turn, in batches of one row or two, so that neither what a row holds nor where batches begin can
    let a row pass the cap unseen. How many rows are left is public, and known beforehand.
    """
    cells, rows = raw_cells(policy.sources, columns), 2 * max_rows + 3
    n = min(max(cell.n_states for cell in cells), _MOST_STATES)
    turns = np.concatenate([np.arange(_OTHERS) % n, np.tile(np.arange(n), rows)])
    owners = [*(f"row {index}" for index in range(_OTHERS)), *(f"crowd {state}" for state in turns[_OTHERS:])]
    states = np.column_stack([np.minimum(turns, cell.n_states - 1) for cell in cells])
    table = in_batches(raw_table(policy, raw_arrays(cells, states), owners))
    allowed, faults = _OTHERS + n * max_rows, []
    try:
        found = publish_made_up(press, table, policy).release.n_rows
    except UNPUBLISHED as error:
        faults.append(not_published(error))
    else:
        faults += [f"{found} rows were published where entities may have {allowed} in all"] if found != allowed else []
    return make_check("entities", faults, f"of entities with too many rows {max_rows} each are published")
