"""An audit in words."""

from dp_audit.checks import Check
from dp_audit.report import AuditReport, describe_audit


def test_results_stand_below_each_other() -> None:
    """Whatever the names of the checks, their results begin in one column."""
    report = AuditReport(
        "row",
        n_canaries=1000,
        confidence=0.99,
        mu_lower=0.9,
        stated_mu=1.0,
        checks=(Check("grid", True, "fine"), Check("whole releases", True, "fine")),
        mechanism="two-round",
    )
    unit, *_, grid, whole = describe_audit(report).splitlines()[1:]

    assert unit.index("row") == grid.index("ok") == whole.index("ok")
