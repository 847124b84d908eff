"""The audit of a release that is planned: made-up rows stand for a table of which only names and types are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dp_audit.coding import check_row_coding
from dp_audit.level_releases import audit_levels
from dp_audit.press import Press
from dp_audit.report import AuditReport
from dp_audit.whole_covariance_releases import audit_covariance
from dp_audit.whole_row_releases import audit_rows
from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import listed
from dp_publish.data.kinds import KINDS
from dp_publish.data.table import Source
from dp_publish.policy.columns import prepare, require_bounds
from dp_publish.policy.model import Policy, Privacy


def audit_planned_release(
    data: Source,
    policy: Policy,
    press: Press,
    *,
    n_canaries: int | None = None,
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
        Publishes a made-up table where nobody keeps the books: `release.publish_aside`.
    n_canaries, confidence
        As for `audit_rows` and `audit_covariance`.
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
    if unbounded and policy.privacy.is_moments:
        raise PolicyError(
            f"an audit needs declared bounds, which are missing for {listed(unbounded)}: write a policy with "
            "`dp-publish policy DATA`, and fill in the bounds from public knowledge, or set drop = true"
        )
    if policy.privacy.release == "rows":
        require_bounds(policy, kinds)
        return _audit_rows(policy, kinds, press, n_canaries, confidence)
    return audit_covariance(
        policy, kinds, prepared.count_rows, press, n_canaries=n_canaries, confidence=confidence, tell=tell
    )


def _audit_rows(
    policy: Policy, kinds: dict[str, str], press: Press, n_canaries: int | None, confidence: float
) -> AuditReport:
    """Attack a release of rows: numbers, categories, and numbers with published gaps, each as all that is released.

    Whatever is coded is then replayed through its coding, all columns together.
    """
    parts = {
        "levels": [source for source in policy.sources if KINDS[source.kind].is_nominal],
        "gaps": [source for source in policy.sources if source.has_gap_column],
    }
    with_states = {name for sources in parts.values() for source in sources for name in source.columns}
    numbers = {name: kind for name, kind in kinds.items() if name not in with_states}
    reports: dict[str, AuditReport] = {}
    if numbers:
        alone = policy.model_copy(update={"sources": ()})
        reports[""] = audit_rows(alone, numbers, press, n_canaries=n_canaries, confidence=confidence)
    for part, sources in parts.items():
        own = {name: kinds[name] for source in sources for name in source.columns if name in kinds}
        if own:
            alone = policy.model_copy(update={"privacy": _by_cells(policy.privacy), "sources": tuple(sources)})
            reports[part] = audit_levels(alone, own, press, n_canaries=n_canaries, confidence=confidence)
    checks = [
        replace(check, name=f"{part}: {check.name}" if part and len(reports) > 1 else check.name)
        for part, report in reports.items()
        for check in report.checks
    ]
    if policy.sources:
        checks.append(check_row_coding(press, policy, kinds))
    mu_lower = max(report.mu_lower or 0.0 for report in reports.values())
    return replace(next(iter(reports.values())), mu_lower=mu_lower, checks=tuple(checks))


def _by_cells(privacy: Privacy) -> Privacy:
    """Return the strength for columns without a `max_change`, of which a change may be any."""
    return privacy.model_copy(update={"unit": "cell"}) if privacy.unit == "change" else privacy
