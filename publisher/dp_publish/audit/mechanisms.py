"""A mechanism alone, attacked as it is built: a lower bound on mu, and five checks, from made-up rows.

Canary rows (`canaries`) go through the very function that a release uses, with the columns that calibration made from
the policy. `whole_rows` does the same to whole releases. The checks:

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

import numpy as np

from dp_bundle.errors import ParameterError
from dp_bundle.manifest import Column
from dp_publish.accounting import unit_mu
from dp_publish.audit.black_box import ATTACKED, attack_from_outside
from dp_publish.audit.canaries import Mechanism, Rig, Unit, at_bounds, close, inside, outside
from dp_publish.audit.checks import (
    check_attack,
    check_attack_from_outside,
    check_bounds,
    check_grid,
    check_independence,
    check_noise,
    empty_cells,
)
from dp_publish.audit.covariance_attack import attack_moments
from dp_publish.audit.report import AuditReport
from dp_publish.covariance import MechanismSetting
from dp_publish.rows import add_noise
from dp_publish.sampling import Keystream, SecureKeystream

__all__ = ["N_CHECKS", "audit", "audit_moments", "check_confidence", "choose_canaries"]

_LEAST_CANARIES, _MOST_CANARIES = 1000, 1 << 26
_CELLS, _MOST_CELLS = 1 << 21, 1 << 24  # of one kind of canaries, by default
N_CHECKS = 5  # that may raise a false alarm


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
    check_confidence(confidence)
    stated_mu = unit_mu(unit, [column.cell_mu for column in columns])
    n = choose_canaries(n_canaries, stated_mu, len(columns))
    rng = np.random.default_rng() if rng is None else rng
    rig, alpha = Rig(columns, mechanism, new_keystream), (1 - confidence) / N_CHECKS
    nearest = close(columns, unit, n, rng)
    widest, beyond = rig.run(at_bounds(columns, unit, n, rng)), rig.run(outside(columns, unit, n, rng))
    attacked = [widest] if nearest is None else [widest, rig.run(nearest)]
    within = [*attacked, rig.run(inside(columns, n, rng))]
    mu_lower, attack = check_attack(columns, unit, attacked, alpha, rng)
    bounds = check_bounds(columns, widest, beyond, alpha, lambda *cells: empty_cells(rig, *cells))
    if attack.passed and bounds.passed:  # all columns of a row together may show what each hides
        bounds = check_attack_from_outside(columns, unit, beyond, alpha / 2, rng) or bounds
    independence = check_independence(within, alpha)
    grid = check_grid(columns, within, alpha, low_bits=independence.passed, wrong_types=rig.wrong_types)
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


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is none."""
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "in [0.5, 1), such as 0.9999", confidence)


def choose_canaries(wanted: int | None, mu: float, n_columns: int) -> int:
    """Return how many rows of each kind there will be: as wanted, or enough for two thirds of mu by default."""
    if wanted is None:
        needed = min((40 / mu) ** 2, _MOST_CELLS)
        return max(1 << 12, int(min(max(_CELLS / n_columns, needed), _MOST_CELLS / n_columns)))
    if not _LEAST_CANARIES <= wanted <= _MOST_CANARIES:
        raise ParameterError("canaries", f"from {_LEAST_CANARIES} to {_MOST_CANARIES}", wanted)
    return wanted
