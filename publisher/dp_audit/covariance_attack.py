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

from dp_audit.checks import LEAST_RUNS, Check, check_guesses, check_signs, make_check, require_runs
from dp_audit.hypothesis_tests import cdf_excess, moment_ratio
from dp_audit.noise_laws import EntryLaw, entry_law
from dp_bundle.base.errors import PrivacyError
from dp_bundle.manifest.matrix_noise import MatrixNoise
from dp_publish.accounting.conversions import SLACK
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import OneSum
from dp_publish.covariance.scaling import GRID_BITS, Scaling
from dp_publish.sampling.keystream import Keystream, SecureKeystream

Sum: TypeAlias = Callable[[NDArray[np.float64], Scaling], ExactMoments]
_Floats: TypeAlias = NDArray[np.float64]

_VALUES = 1 << 21  # of noise, by default
_N_CHECKS = 5


def attack_moments(
    mechanism: OneSum,
    *,
    n_runs: int | None = None,
    confidence: float = 0.9999,
    add_up: Sum = moments_of_batch,
    new_keystream: Callable[[], Keystream] = SecureKeystream,
    rng: np.random.Generator | None = None,
) -> tuple[float, float, int, tuple[Check, ...]]:
    """Attack a covariance mechanism and test its noise.

    Parameters
    ----------
    mechanism : Mechanism
        As a policy sets it, with noise on entries independently. Of an entity, one row is attacked.
    n_runs : int, optional
        How many releases are attacked, from 1000 to 2^20.
    confidence : float
        The chance that a sound mechanism passes every check, and that the lower bound holds.
    add_up : callable
        `moments_of_batch`, or another that is to be judged by the same claims.
    new_keystream : callable
        Where the mechanism's random bits come from; each half of the runs gets a stream of its own.
    rng : numpy.random.Generator, optional
        The auditor's own coins; unpredictable by default.

    Returns
    -------
    stated_mu, mu_lower : float
        What is stated for one row, and what the attack proves.
    n_runs : int
        How many releases were attacked.
    checks : tuple of Check
        The five checks.

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

    scaling = mechanism.scaling
    d = scaling.n_coordinates
    n = max(LEAST_RUNS, _VALUES // d**2) if n_runs is None else n_runs
    require_runs(n)
    rng = np.random.default_rng() if rng is None else rng
    alpha = (1 - confidence) / _N_CHECKS
    tables = [add_up(table, scaling) for table in _canaries(mechanism, law)]
    upper = np.triu_indices(d)
    coins = rng.integers(0, 2, n).astype(np.bool_)
    runs, half = [], n // 2
    for part in (coins[:half], coins[half:]):
        keystream = new_keystream()
        runs += [mechanism.draw(tables[int(coin)], keystream) for coin in part]
    stated = runs[0].noise
    exact = [_in_steps(table, stated)[upper] for table in tables]
    noisy = np.array([run.matrix[upper] for run in runs]) / stated.step
    free = np.ones(len(exact[0]), dtype=bool)
    free[-1] = not scaling.constant or not mechanism.neighbours.n_rows_public  # the corner's entry is exact otherwise
    expected = np.where(coins[:, None], exact[1], exact[0])
    residuals = (np.rint(noisy) - np.rint(expected))[:, free]
    noise = law(stated, upper, free)
    stated_mu = mechanism.spends(1).mu
    correct = int(np.count_nonzero((noise.log_ratio(noisy[:, free], exact[1][free], exact[0][free]) > 0) == coins))
    mu_lower, attack = check_guesses(correct, n, stated_mu, alpha)
    checks = (
        attack,
        _check_movement(mechanism, add_up, noise, upper, free, stated),
        _check_grid(noisy, free),
        _check_noise(residuals, noise, alpha),
        check_signs([np.sign(part).astype(np.int8) for part in (residuals[:half], residuals[half:])], alpha),
    )
    return stated_mu, mu_lower, n, checks


def _canaries(mechanism: OneSum, law: type[EntryLaw]) -> tuple[_Floats, _Floats]:
    """Return two neighbouring tables whose sums are as far apart as corners of the bounds can make them."""
    scaling, p = mechanism.scaling, mechanism.scaling.n_features
    ones, others = np.ones(p), np.array([_mixed(p, flips) for flips in range(p + 1)])
    data = scaling.centers + scaling.half_widths * np.vstack([np.zeros(p), ones, others])
    rows = [(moments_of_batch(row[None], scaling).matrix, row) for row in data]
    background = data[2:4]
    if not mechanism.neighbours.n_rows_public:
        return background, np.vstack([background, data[1]])
    far = [law.distance(rows[1][0] - matrix) for matrix, _ in rows]
    return np.vstack([background, rows[int(np.argmax(far))][1]]), np.vstack([background, data[1]])


def _mixed(p: int, flips: int) -> _Floats:
    return np.where(np.arange(p) < flips, -1.0, 1.0)


def _in_steps(table: ExactMoments, stated: MatrixNoise) -> _Floats:
    """Return the exact sums, rounded to the grid half upwards, in its steps."""
    step = Fraction(stated.step) * 4**GRID_BITS
    rounded = [math.floor(Fraction(int(entry)) / step + Fraction(1, 2)) for entry in table.steps.flat]
    return np.array(rounded, dtype=np.float64).reshape(table.steps.shape)


def _check_movement(
    mechanism: OneSum,
    add_up: Sum,
    noise: EntryLaw,
    upper: tuple[NDArray[np.intp], ...],
    free: NDArray[np.bool_],
    stated: MatrixNoise,
) -> Check:
    """Check how far rows at and outside their bounds move the sums, in units of the stated noise."""
    scaling = mechanism.scaling
    allowed = noise.allowed(mechanism.spends(1))
    empty = _in_steps(add_up(np.empty((0, scaling.n_features)), scaling), stated)[upper][free]
    worst, faults = 0.0, []
    for where, reach in (("at", 1.0), ("outside", 1.5), ("far outside", 1e300), ("infinitely far outside", math.inf)):
        signs = np.array([_mixed(scaling.n_features, flips) for flips in range(scaling.n_features + 1)])
        with np.errstate(over="ignore"):
            rows = scaling.centers + scaling.half_widths * signs * reach
        sums = [_in_steps(add_up(row[None], scaling), stated)[upper][free] for row in rows]
        center = _in_steps(add_up(scaling.centers[None], scaling), stated)[upper][free]
        others = [sums[0], center] if mechanism.neighbours.n_rows_public else [empty]
        loss = max(noise.loss(one, other) for one in sums for other in others)
        worst = max(worst, loss)
        if loss > allowed * SLACK:
            said = f"{noise.strength_name} = {loss:.4g}, above the {allowed:.4g}"
            faults.append(f"rows {where} their bounds move the sums by {said}")
    detail = f"rows at and outside their bounds move the sums by {worst / allowed:.1%} of what is stated"
    return make_check("bounds", faults, detail)


def _check_grid(noisy: _Floats, free: NDArray[np.bool_]) -> Check:
    off = float(np.mean(noisy[:, free] != np.rint(noisy[:, free])))
    faults = [f"{off:.1%} of the entries are off the grid, as floating-point noise is"] if off else []
    if not free[-1] and np.ptp(noisy[:, -1]):
        faults.append("the number of rows, which is public, is not exact")
    return make_check("grid", faults, f"all {int(free.sum()) * len(noisy)} noisy entries are on the grid")


def _check_noise(residuals: _Floats, noise: EntryLaw, alpha: float) -> Check:
    faults, worst = [], 0.0
    for where, chosen in (("on", noise.diagonal), ("beside", ~noise.diagonal)):
        if not chosen.any():
            continue
        scale, found = float(noise.scales[chosen][0]), residuals[:, chosen].ravel()
        ratio, chance = moment_ratio(found, *noise.moments(scale), alpha / 4)
        worst = max(worst, abs(ratio - 1)) if math.isfinite(chance) else worst
        if abs(ratio - 1) > chance:
            faults.append(f"the noise {where} the diagonal has {ratio:.4g} times the variance stated")
        elif cdf_excess(found, noise.cdf(scale), alpha / 4) > 1:
            faults.append(f"the noise {where} the diagonal does not have the distribution stated")
    return make_check("noise", faults, f"distributed as stated, variances within {worst:.2%}")
