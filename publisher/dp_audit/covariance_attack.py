"""A covariance mechanism attacked as it is built: the counterpart of `audit` for second moments.

Every run is a release of its own: two neighbouring tables go through the sums that a release uses, a coin decides which
of them gets the noise, and the attacker, who knows both, guesses the coin by the likelihood ratio of the stated noise.
Whatever is mu-GDP lets nobody guess more often than Phi(mu / 2), and whatever is epsilon-DP no more often than
Phi(mu / 2) with the mu that epsilon implies, so that Clopper & Pearson's bound on his success gives one on mu. The
checks:

- attack: that bound does not exceed what is stated.
- bounds: the exact sums of neighbouring tables, of rows at, outside and infinitely far outside their bounds, are no
  further apart than the stated guarantee and the stated noise allow: the sensitivity, found again from the sums.
- grid, noise, independence: as for rows.

The rows of the attack are those that move the sum furthest among corners of the bounds: orthogonal ones for Gaussian
noise, in the Frobenius norm; in the L1 norm for Laplace noise. On many columns Laplace noise is far more private than
its epsilon against an attacker who only guesses, so that the bound is loose there, and the other checks decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_audit.checks import LEAST_RUNS, Check, check_guesses, check_signs, make_check, runs_for
from dp_audit.hypothesis_tests import judge_noise
from dp_audit.noise_laws import EntryLaw, entry_law
from dp_audit.report import AuditReport
from dp_bundle.base.errors import PrivacyError
from dp_bundle.manifest.matrix_noise import MatrixNoise
from dp_publish.accounting.conversions import SLACK
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import OneSum
from dp_publish.covariance.scaling import GRID_BITS
from dp_publish.sampling.keystream import Keystream, SecureKeystream

_Floats: TypeAlias = NDArray[np.float64]

_VALUES = 1 << 21  # of noise, by default
_N_CHECKS = 5


def attack_moments(
    mechanism: OneSum,
    *,
    n_runs: int | None = None,
    confidence: float = 0.9999,
    new_keystream: Callable[[], Keystream] = SecureKeystream,
    rng: np.random.Generator | None = None,
) -> AuditReport:
    """Attack a covariance mechanism and test its noise.

    Parameters
    ----------
    mechanism : Mechanism
        As a policy sets it, with noise on entries independently. Of an entity, one row is attacked.
    n_runs : int, optional
        How many releases are attacked, from 1000 to 2^20.
    confidence : float
        The chance that a sound mechanism passes every check, and that the lower bound holds.
    new_keystream : callable
        Where the mechanism's random bits come from; each half of the runs gets a stream of its own.
    rng : numpy.random.Generator, optional
        The auditor's own coins; unpredictable by default.

    Raises
    ------
    PrivacyError
        Its noise does not act on entries independently.
    ParameterError
        `n_runs` is outside its range.
    """
    law = entry_law(mechanism.noise)
    if law is None:
        raise PrivacyError(
            f"the {mechanism.name} mechanism cannot be audited entry by entry: its noise does not act on entries "
            "independently"
        )

    # releases of neighbouring tables, by a coin each
    scaling = mechanism.scaling
    d = scaling.n_coordinates
    n = runs_for(n_runs, max(LEAST_RUNS, _VALUES // d**2))
    rng = np.random.default_rng() if rng is None else rng
    tables = [moments_of_batch(table, scaling) for table in _canaries(mechanism, law)]
    coins = rng.integers(0, 2, n).astype(np.bool_)
    runs, half = [], n // 2
    for part in (coins[:half], coins[half:]):
        keystream = new_keystream()
        runs += [mechanism.draw(tables[int(coin)], keystream) for coin in part]
    stated, upper = runs[0].noise, np.triu_indices(d)
    noisy = np.array([run.matrix[upper] for run in runs]) / stated.granularity

    # what of them is noise, in steps
    corner = scaling.constant and mechanism.neighbours.n_rows_public  # the corner's entry is exact
    free = np.arange(len(upper[0]) - bool(corner))
    diagonal, scales = (upper[0] == upper[1])[free], law.scales(stated, d)[upper][free] / stated.granularity

    def in_steps(table: ExactMoments) -> _Floats:
        return _in_steps(table, stated)[upper][free]

    exact = [in_steps(table) for table in tables]
    residuals = np.rint(noisy[:, free]) - np.rint(np.where(coins[:, None], exact[1], exact[0]))
    alpha, stated_mu = (1 - confidence) / _N_CHECKS, mechanism.spends(1).mu
    ratios = law.log_ratio(noisy[:, free] / scales, exact[1] / scales, exact[0] / scales)
    mu_lower, attack = check_guesses(int(np.count_nonzero((ratios > 0) == coins)), n, stated_mu, alpha)
    checks = (
        attack,
        _check_movement(mechanism, law, lambda rows: in_steps(moments_of_batch(rows, scaling)) / scales),
        _check_grid(noisy, len(free)),
        _check_noise(residuals, law, diagonal, scales, alpha),
        check_signs([np.sign(part).astype(np.int8) for part in (residuals[:half], residuals[half:])], alpha),
    )
    return AuditReport("row", stated_mu, mu_lower, confidence, n, checks, mechanism.name, max_rows=mechanism.max_rows)


def _canaries(mechanism: OneSum, law: EntryLaw) -> tuple[_Floats, _Floats]:
    """Return two neighbouring tables whose sums are as far apart as corners of the bounds can make them."""
    scaling, p = mechanism.scaling, mechanism.scaling.n_features
    data = scaling.centers + scaling.half_widths * np.vstack([np.zeros(p), np.ones(p), _corners(p)])
    matrices = [moments_of_batch(row[None], scaling).matrix for row in data]
    background = data[2:4]
    if not mechanism.neighbours.n_rows_public:
        return background, np.vstack([background, data[1]])
    far = int(np.argmax([law.distance(matrices[1] - matrix) for matrix in matrices]))
    return np.vstack([background, data[far]]), np.vstack([background, data[1]])


def _corners(p: int) -> _Floats:
    """Return rows of ones of which the first so many are negative."""
    return np.where(np.arange(p) < np.arange(p + 1)[:, None], -1.0, 1.0)


def _in_steps(table: ExactMoments, stated: MatrixNoise) -> _Floats:
    """Return the exact sums, rounded to the grid half upwards, in its steps."""
    step = Fraction(stated.granularity) * 4**GRID_BITS
    rounded = [math.floor(Fraction(int(entry)) / step + Fraction(1, 2)) for entry in table.steps.flat]
    return np.array(rounded, dtype=np.float64).reshape(table.steps.shape)


def _check_movement(mechanism: OneSum, law: EntryLaw, sum_of: Callable[[_Floats], _Floats]) -> Check:
    """Check how far rows at and outside their bounds move the sums, in units of the stated noise."""
    scaling, p, allowed = mechanism.scaling, mechanism.scaling.n_features, law.allowed(mechanism.spends(1))
    empty, center = sum_of(np.empty((0, p))), sum_of(scaling.centers[None])
    worst, faults = 0.0, []
    for where, reach in (("at", 1.0), ("outside", 1.5), ("far outside", 1e300), ("infinitely far outside", math.inf)):
        with np.errstate(over="ignore"):
            rows = scaling.centers + scaling.half_widths * _corners(p) * reach
        sums = [sum_of(row[None]) for row in rows]
        others = [sums[0], center] if mechanism.neighbours.n_rows_public else [empty]
        loss = max(law.size_of(one - other) for one in sums for other in others)
        worst = max(worst, loss)
        if loss > allowed * SLACK:
            said = f"{law.strength_name} = {loss:.4g}, above the {allowed:.4g}"
            faults.append(f"rows {where} their bounds move the sums by {said}")
    detail = f"rows at and outside their bounds move the sums by {worst / allowed:.1%} of what is stated"
    return make_check("bounds", faults, detail)


def _check_grid(noisy: _Floats, n_free: int) -> Check:
    entries = noisy[:, :n_free]
    off = float(np.mean(entries != np.rint(entries)))
    faults = [f"{off:.1%} of the entries are off the grid, as floating-point noise is"] if off else []
    if n_free < noisy.shape[1] and np.ptp(noisy[:, -1]):
        faults.append("the number of rows, which is public, is not exact")
    return make_check("grid", faults, f"all {entries.size} noisy entries are on the grid")


def _check_noise(
    residuals: _Floats, law: EntryLaw, diagonal: NDArray[np.bool_], scales: _Floats, alpha: float
) -> Check:
    faults, worst = [], 0.0
    for where, chosen in (("on", diagonal), ("beside", ~diagonal)):
        if not chosen.any():
            continue
        off, fault = judge_noise([residuals[:, chosen].ravel()], law.of_scale(float(scales[chosen][0])), alpha / 4)
        worst = max(worst, off)
        faults += [f"the noise {where} the diagonal {fault}"] if fault else []
    return make_check("noise", faults, f"distributed as stated, variances within {worst:.2%}")
