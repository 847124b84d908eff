"""The audit of a release that is planned: made-up rows stand for a table of which only names and types are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dp_bundle.errors import PolicyError
from dp_bundle.store import Place
from dp_publish.audit.level_releases import LEVELS, audit_levels
from dp_publish.audit.press import Press
from dp_publish.audit.report import AuditReport
from dp_publish.audit.whole_covariance_releases import audit_covariance
from dp_publish.audit.whole_row_releases import audit_rows
from dp_publish.data import count_rows, open_table
from dp_publish.policy import Policy, choose_columns, require_bounds, resolve


def audit_planned_release(
    data: Place,
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
    data : Path or RemotePath
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
        The table or the policy allows no release, or states no guarantee that could be audited.
    """
    if policy.privacy.snr_db is not None:
        raise PolicyError("snr_db states no guarantee to be audited: give mu, epsilon and delta, rho, or sigma")
    table = open_table(data, policy.table)
    table, policy = resolve(table, policy)
    kinds, _ = choose_columns(table, policy)
    require_bounds(policy, kinds)

    if policy.privacy.release == "rows":
        return _audit_rows(policy, kinds, press, n_canaries, confidence)
    return audit_covariance(
        policy,
        kinds,
        lambda: count_rows(data, policy.table),
        press,
        n_canaries=n_canaries,
        confidence=confidence,
        tell=tell,
    )


def _audit_rows(
    policy: Policy, kinds: dict[str, str], press: Press, n_canaries: int | None, confidence: float
) -> AuditReport:
    """Attack a release of rows: its numbers, and then its categories, each as all that is released under the policy."""
    of_levels = [source for source in policy.sources if source.kind in LEVELS]
    levels = {name: kinds[name] for source in of_levels for name in source.columns if name in kinds}
    in_ball = policy.privacy.l2_radius is not None
    numbers = {name: kind for name, kind in kinds.items() if name not in levels or in_ball}
    reports = []
    if numbers:
        alone = policy.model_copy(update={"sources": ()})
        reports.append(audit_rows(alone, numbers, press, n_canaries=n_canaries, confidence=confidence))
    if levels and not in_ball:
        own = policy.model_copy(update={"sources": tuple(of_levels)})
        reports.append(audit_levels(own, levels, press, n_canaries=n_canaries, confidence=confidence))
    if len(reports) == 1:
        return reports[0]

    first, second = reports
    checks = [*first.checks, *(replace(check, name=f"levels: {check.name}") for check in second.checks)]
    mu_lower = max(first.mu_lower or 0.0, second.mu_lower or 0.0)
    return replace(first, mu_lower=mu_lower, checks=tuple(checks))
