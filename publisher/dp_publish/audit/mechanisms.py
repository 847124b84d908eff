"""A covariance mechanism alone, attacked entry by entry, or from outside where its noise does not act on entries."""

from __future__ import annotations

from dp_publish.audit.black_box import ATTACKED, attack_from_outside
from dp_publish.audit.checks import check_confidence
from dp_publish.audit.covariance_attack import attack_moments
from dp_publish.audit.report import AuditReport
from dp_publish.covariance import MechanismSetting

__all__ = ["audit_moments"]


def audit_moments(
    setting: MechanismSetting, *, n_canaries: int | None = None, confidence: float = 0.9999
) -> AuditReport:
    """Attack a covariance mechanism and test its noise; see `audit.moments` and `audit.black_box`.

    Parameters
    ----------
    setting : MechanismSetting
        As a policy sets it. Of an entity, one row is attacked.
    n_canaries : int, optional
        How many releases of made-up rows are attacked, from 1000 to 2^20.
    confidence : float
        In [0.5, 1).

    Raises
    ------
    ParameterError
        `n_canaries` or `confidence` is outside its range.
    PrivacyError
        The mechanism is none that can be audited.
    """
    check_confidence(confidence)
    if setting.mechanism in ATTACKED:
        epsilon, proved, n, checks = attack_from_outside(setting, n_runs=n_canaries, confidence=confidence)
        return AuditReport(
            "row",
            None,
            None,
            confidence,
            n,
            checks,
            setting.mechanism,
            epsilon,
            setting.excepted_delta,
            proved,
            setting.max_rows,
        )
    stated, lower, n, checks = attack_moments(setting, n_runs=n_canaries, confidence=confidence)
    return AuditReport("row", stated, lower, confidence, n, checks, setting.mechanism, max_rows=setting.max_rows)
