"""A covariance mechanism alone, attacked as is best: step by step, entry by entry, or from outside."""

from __future__ import annotations

from dp_audit.black_box import attack_from_outside
from dp_audit.checks import check_confidence
from dp_audit.covariance_attack import attack_moments
from dp_audit.noise_laws import entry_law
from dp_audit.report import AuditReport
from dp_audit.step_attack import attack_steps
from dp_bundle.base.errors import PrivacyError
from dp_publish.covariance.mechanisms.base import Mechanism, OneSum
from dp_publish.covariance.mechanisms.two_round import TwoRound


def audit_moments(mechanism: Mechanism, *, n_canaries: int | None = None, confidence: float = 0.9999) -> AuditReport:
    """Attack a covariance mechanism and test its noise: see `step_attack`, `covariance_attack` and `black_box`.

    Parameters
    ----------
    mechanism : Mechanism
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
        It would take hours.
    """
    check_confidence(confidence)
    if isinstance(mechanism, TwoRound):
        stated, lower, n, checks = attack_steps(mechanism, n_runs=n_canaries, confidence=confidence)
        return AuditReport("row", stated, lower, confidence, n, checks, mechanism.name, max_rows=mechanism.max_rows)
    if not isinstance(mechanism, OneSum):
        raise PrivacyError(f"there is no audit of the {mechanism.name} mechanism")
    if entry_law(mechanism.noise) is None:
        epsilon, proved, n, checks = attack_from_outside(mechanism, n_runs=n_canaries, confidence=confidence)
        return AuditReport(
            unit="row",
            stated_mu=None,
            mu_lower=None,
            confidence=confidence,
            n_canaries=n,
            checks=checks,
            mechanism=mechanism.name,
            stated_epsilon=epsilon,
            stated_delta=mechanism.spends(1).excepted_delta,
            epsilon_lower=proved,
            max_rows=mechanism.max_rows,
        )
    stated, lower, n, checks = attack_moments(mechanism, n_runs=n_canaries, confidence=confidence)
    return AuditReport("row", stated, lower, confidence, n, checks, mechanism.name, max_rows=mechanism.max_rows)
