"""A release attacked before it is made: made-up rows are published, and what a reader finds is judged.

`audit_rows` and `audit_covariance` publish made-up tables by the function that they are given, and judge the bundles by
what the policy asked for. No value of a private table is read, and nothing is spent: no module here can reach a ledger.
An audit refutes a claim, and never proves one.
"""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.audit.planned_release import audit_planned_release
    from dp_publish.audit.report import AuditReport, audit_document, describe_audit, describe_findings
    from dp_publish.audit.whole_covariance_releases import audit_covariance
    from dp_publish.audit.whole_row_releases import audit_rows
else:
    __getattr__ = import_on_demand(__name__)
