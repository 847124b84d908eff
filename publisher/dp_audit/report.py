"""An audit's report, for a person and for a machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from dp_audit.checks import Check


@dataclass(frozen=True)
class AuditReport:
    """The findings of an audit.

    `stated_mu` is what is promised for one unit; `mu_lower` is what the attack
    proves at this confidence. Of mechanisms attacked by their releases alone, `stated_epsilon` and
    `epsilon_lower` say the same of epsilon, at `stated_delta`, and the two mu are None. Where the policy's unit is an
    entity and `unit` is "row", all of that is of one of an entity's `max_rows` rows.
    """

    unit: Literal["cell", "row", "entity", "change"]
    stated_mu: float | None
    mu_lower: float | None
    confidence: float
    n_canaries: int
    checks: tuple[Check, ...]
    mechanism: str = "row"
    stated_epsilon: float | None = None
    stated_delta: float | None = None
    epsilon_lower: float | None = None
    max_rows: int = 1

    @property
    def findings(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.passed)


def describe_audit(report: AuditReport) -> str:
    """Return the report for a person: what is stated, what was proved, and a line for each check."""
    what = f"the row mechanism with {report.n_canaries} made-up rows of each kind"
    if report.mechanism != "row":
        what = f"{report.n_canaries} covariance releases of made-up rows by the {report.mechanism} mechanism"
    label, stated, proved, at_delta = "stated mu", report.stated_mu or 0.0, report.mu_lower or 0.0, ""
    if report.stated_epsilon is not None:
        label, stated, proved = "epsilon", report.stated_epsilon, report.epsilon_lower or 0.0
        at_delta = f" at delta = {report.stated_delta:g}" if report.stated_delta else ""

    width = max([14, *(len(check.name) + 1 for check in report.checks)])
    lines = [
        f"attacked {what}; no data were read, nothing was spent",
        f"  {'unit':<{width}}{report.unit}{_of_entity(report)}",
        f"  {label:<{width}}{stated:.4g}{at_delta}",
        f"  {'lower bound':<{width}}{proved:.4g} ({proved / stated:.0%} of it)",
        f"  {'confidence':<{width}}{100 * report.confidence:g} %, for the bound and all checks together",
    ]
    for check in report.checks:
        mark = "ok  " if check.passed else "FAIL"
        if check.name == "attack" and check.passed and not proved:
            mark = "none"
        lines.append(f"  {check.name:<{width}}{mark}  {check.detail}")
    return "\n".join(lines)


def _of_entity(report: AuditReport) -> str:
    if report.unit != "row" or report.max_rows == 1:
        return ""
    return (
        f", one of the {report.max_rows} that an entity may have: an entity is promised as many times its mu or epsilon"
    )


def describe_failures(report: AuditReport) -> str:
    """Return what failed as one sentence; there must be something."""
    found = "; ".join(f"{check.detail} ({check.name})" for check in report.findings)
    return f"the audit failed: {found}: publish nothing with this mechanism"


def audit_document(report: AuditReport) -> dict[str, Any]:
    """Return the report for a machine."""
    return {**asdict(report), "checks": [asdict(check) for check in report.checks], "passed": not report.findings}
