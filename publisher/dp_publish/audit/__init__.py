"""The row mechanism attacked as it is built: a lower bound on mu, and five checks, from made-up rows alone.

Canary rows (`canaries`) go through the very function that a release uses, with the columns that calibration made from
the policy. No value of the private table is read and nothing is spent. The checks:

- attack: the lower bound on mu that guessing the canaries' coins proves (`attack`) does not exceed what is stated.
- bounds: values outside come out as if they were at the bounds, and empty cells as the policy says.
- grid: every value comes out on the grid, with low bits that do not depend on the raw value's.
- noise: its distribution and variance are those stated, whatever the raw value.
- independence: signs are uncorrelated between columns and rows, and no noise occurs twice, within a run or in another.

The checks share the chance of a false alarm, 1 - confidence. An audit refutes a claim, and never proves one: a fault
that the canaries do not meet, or that is smaller than chance, is not found. Where mu is so large that every coin would
be guessed, the bound comes from canaries close to each other, by proportion; that supposes noise that does not depend
on the value, which the noise check tests.

References
----------
Steinke, Nasr & Jagielski (2023), arXiv 2305.08846. Haney et al. (2022), arXiv 2207.13793, for the low bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dp_bundle.columns import Column
from dp_bundle.errors import ParameterError
from dp_publish.accounting import unit_mu
from dp_publish.audit.black_box import ATTACKED, attack_from_outside
from dp_publish.audit.canaries import Mechanism, Rig, Unit, at_bounds, close, inside, outside
from dp_publish.audit.checks import (
    Check,
    check_attack,
    check_attack_from_outside,
    check_bounds,
    check_grid,
    check_independence,
    check_noise,
)
from dp_publish.audit.moments import attack_moments
from dp_publish.keystream import Keystream, SecureKeystream
from dp_publish.moments_calibration import MechanismSetting
from dp_publish.rows import add_noise

__all__ = ["AuditReport", "audit", "audit_document", "audit_moments", "describe_audit", "describe_findings"]

_LEAST_CANARIES, _MOST_CANARIES = 1000, 1 << 26
_CELLS, _MOST_CELLS = 1 << 21, 1 << 24  # of one kind of canaries, by default
_N_CHECKS = 5


@dataclass(frozen=True)
class AuditReport:
    """What the audit found.

    `stated_mu` is what bounds and noise promise for one unit, sqrt(2 rho) where noise is discrete; `mu_lower` is what
    the attack proves at this confidence. Of mechanisms attacked by their releases alone, `stated_epsilon` and
    `epsilon_lower` say the same of epsilon, at `stated_delta`, and the two mu are None.
    """

    unit: Unit
    stated_mu: float | None
    mu_lower: float | None
    confidence: float
    n_canaries: int
    checks: tuple[Check, ...]
    mechanism: str = "row"
    stated_epsilon: float | None = None
    stated_delta: float | None = None
    epsilon_lower: float | None = None

    @property
    def findings(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.passed)


def audit(
    columns: Sequence[Column],
    unit: Unit,
    *,
    n_canaries: int | None = None,
    confidence: float = 0.9999,
    mechanism: Mechanism = add_noise,
    new_keystream: Callable[[], Keystream] = SecureKeystream,
    rng: np.random.Generator | None = None,
) -> AuditReport:
    """Attack the row mechanism and test its noise.

    Parameters
    ----------
    columns : sequence of Column
        Bounds and noise, as calibration sets them; all with bounds.
    unit : {"cell", "row"}
        What one person may change, and so what a canary is.
    n_canaries : int, optional
        Rows of canaries of each kind, from 1000 to 2^26; by default enough for a bound within a factor 2.
    confidence : float
        In [0.5, 1): the chance that a sound mechanism passes every check, and that the lower bound holds.
    mechanism : callable
        `add_noise`, or another that is to be judged by the same claims.
    new_keystream : callable
        Where the mechanism's random bits come from; each kind of canaries gets a stream of its own.
    rng : numpy.random.Generator, optional
        The auditor's own coins; unpredictable by default.

    Returns
    -------
    AuditReport
        The bound, and the checks with their results.

    Raises
    ------
    ParameterError
        `n_canaries` or `confidence` is outside its range.
    PrivacyError
        A column has no bounds, or the mechanism loses rows.
    """
    _check_confidence(confidence)
    stated_mu = unit_mu(unit, [column.cell_mu for column in columns])
    n = _default_canaries(stated_mu, len(columns)) if n_canaries is None else n_canaries
    if not _LEAST_CANARIES <= n <= _MOST_CANARIES:
        raise ParameterError("canaries", f"from {_LEAST_CANARIES} to {_MOST_CANARIES}", n)
    rng = np.random.default_rng() if rng is None else rng
    rig, alpha = Rig(columns, mechanism, new_keystream), (1 - confidence) / _N_CHECKS
    widest, closest = at_bounds(rig, unit, n, rng), close(rig, unit, n, rng)
    attacked = [widest] if closest is None else [widest, closest]
    within, beyond = [*attacked, inside(rig, n, rng)], outside(rig, unit, n, rng)
    mu_lower, attack = check_attack(columns, unit, attacked, alpha, rng)
    bounds = check_bounds(rig, widest, beyond, alpha)
    if attack.passed and bounds.passed:  # all columns of a row together may show what each hides
        bounds = check_attack_from_outside(columns, unit, beyond, alpha / 2, rng) or bounds
    independence = check_independence(within, alpha)
    grid = check_grid(rig, within, alpha, low_bits=independence.passed)
    checks = (attack, bounds, grid, check_noise(columns, within, alpha), independence)
    return AuditReport(unit, stated_mu, mu_lower, confidence, n, checks)


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
    _check_confidence(confidence)
    if setting.mechanism in ATTACKED:
        epsilon, proved, n, checks = attack_from_outside(setting, n_runs=n_canaries, confidence=confidence)
        return AuditReport(
            "row", None, None, confidence, n, checks, setting.mechanism, epsilon, setting.delta or 0.0, proved
        )
    stated, lower, n, checks = attack_moments(setting, n_runs=n_canaries, confidence=confidence)
    return AuditReport("row", stated, lower, confidence, n, checks, setting.mechanism)


def _check_confidence(confidence: float) -> None:
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "in [0.5, 1), such as 0.9999", confidence)


def _default_canaries(mu: float, n_columns: int) -> int:
    needed = min((40 / mu) ** 2, _MOST_CELLS)  # for two thirds of mu, at the default confidence
    return max(1 << 12, int(min(max(_CELLS / n_columns, needed), _MOST_CELLS / n_columns)))


def describe_audit(report: AuditReport) -> str:
    """Return the report for a person: what is stated, what was proved, and a line for each check."""
    what = f"the row mechanism with {report.n_canaries} made-up rows of each kind"
    if report.mechanism != "row":
        what = f"{report.n_canaries} covariance releases of made-up rows by the {report.mechanism} mechanism"
    label, stated, proved, at_delta = "stated mu", report.stated_mu or 0.0, report.mu_lower or 0.0, ""
    if report.stated_epsilon is not None:
        label, stated, proved = "epsilon", report.stated_epsilon, report.epsilon_lower or 0.0
        at_delta = f" at delta = {report.stated_delta:g}" if report.stated_delta else ""
    lines = [
        f"attacked {what}; nothing is read or spent",
        f"  {'unit':<14}{report.unit}",
        f"  {label:<14}{stated:.4g}{at_delta}",
        f"  {'lower bound':<14}{proved:.4g} ({proved / stated:.0%} of it)",
        f"  {'confidence':<14}{100 * report.confidence:g} %, for the bound and all checks together",
    ]
    for check in report.checks:
        mark = "ok  " if check.passed else "FAIL"
        if check.name == "attack" and check.passed and not proved:
            mark = "none"
        lines.append(f"  {check.name:<14}{mark}  {check.detail}")
    return "\n".join(lines)


def describe_findings(report: AuditReport) -> str:
    """Return what failed as one sentence; there must be something."""
    found = "; ".join(f"{check.detail} ({check.name})" for check in report.findings)
    return f"the audit failed: {found}: publish nothing with this mechanism"


def audit_document(report: AuditReport) -> dict[str, Any]:
    """Return the report for a machine."""
    return {**asdict(report), "checks": [asdict(check) for check in report.checks], "passed": not report.findings}
