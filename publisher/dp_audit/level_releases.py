"""Whole releases of cells with states attacked: made-up levels, or gaps, are published, and what a reader finds judged.

Each category, and each number whose gaps are published (`raw_cells`), is judged by its own part of what the policy
asked for, computed here afresh. In every row it has one of all its states, in half of the rows one of the first two, by
a fair coin. The checks:

- attack: the lower bound on mu that guessing these coins proves does not exceed what is stated (`hypothesis_tests`); of
  randomised response 2 Phi^-1(p), as whatever is mu-GDP lets nobody guess right more often than Phi(mu / 2).
- noise: of noise on indicators and numbers its law and variance; of randomised response how often a level stays, and
  how often it becomes each other one, and that each row has one level.
- independence: signs of noise are uncorrelated, and so is which levels were replaced.
- books: what the manifest states and what the ledger keeps are no less than the noise comes to.

References
----------
Steinke, Nasr & Jagielski (2023), arXiv 2305.08846. Kairouz, Oh & Viswanath (2016), JMLR 17(17).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special, stats

from dp_audit.canaries import granularities, raw_table
from dp_audit.checks import Check, Guesses, check_signs, judge_guesses, make_check
from dp_audit.hypothesis_tests import Attack, guessed_mu, judge_noise, law_of
from dp_audit.press import Press, Published
from dp_audit.raw_cells import Floats, RawCell, States, raw_arrays, raw_cells
from dp_audit.report import AuditReport
from dp_audit.whole_row_releases import Judged, audit_made_up
from dp_bundle.manifest.columns import Column, RandomizedResponse
from dp_bundle.manifest.guarantee import release_mu
from dp_publish.policy.model import Policy

_ROWS = 1 << 16
_N_CHECKS = 3  # that may raise a false alarm
_LAGS = 16


@dataclass(frozen=True)
class _Cell:
    """A cell with states as it is audited.

    Attributes
    ----------
    raw : RawCell
        The states.
    places : slice
        Of its columns among all published ones.
    claim : float
        The mu that the policy asks for.
    coins : ndarray of int
        One for each row; every other row is in one of the first two states, by its coin.
    states : ndarray of int
        Of all rows.
    """

    raw: RawCell
    places: slice
    claim: float
    coins: NDArray[np.int64]
    states: States

    def in_steps(self, noisy: Floats) -> Floats:
        """Return what came out of the cell, in steps."""
        return noisy[:, self.places] / granularities(self.raw.columns)

    def residuals(self, noisy: Floats) -> Floats:
        """Return the noise on the cell's columns, in steps."""
        return self.in_steps(noisy) - self.raw.steps[self.states]

    def levels(self, noisy: Floats) -> States:
        """Return the levels that indicators show, -1 where they are none; one column alone shows the second of two."""
        own = noisy[:, self.places]
        valid = np.isin(own, (0.0, 1.0)).all(axis=1)
        if own.shape[1] == 1:
            return np.where(valid, own[:, 0], -1.0).astype(np.int64)
        return np.where(valid & (own.sum(axis=1) == 1.0), own.argmax(axis=1), -1)


def audit_levels(
    policy: Policy, kinds: dict[str, str], press: Press, *, n_canaries: int | None = None, confidence: float = 0.9999
) -> AuditReport:
    """Publish made-up levels, or gaps, under a policy, and attack what a reader finds.

    Parameters
    ----------
    policy : Policy
        For a release of rows; resolved. Its columns are those of categories and truth values alone, or of numbers whose
        gaps are published.
    kinds : dict of str to str
        Those columns.
    press : callable
        Publishes a made-up table where nobody keeps the books: `release.publish_aside`.
    n_canaries : int, optional
        Rows, 65,536 by default.
    confidence : float
        The chance that a sound release passes every check, and that the lower bound holds.

    Raises
    ------
    ParameterError
        `confidence` is out of its range.
    PolicyError, PrivacyError
        The policy allows no release.
    """
    n, alpha = n_canaries or _ROWS, (1 - confidence) / _N_CHECKS

    def prepare(
        policy: Policy, columns: Sequence[Column], claim: float, rng: np.random.Generator
    ) -> tuple[int, pa.Table, Judged]:
        cells = _cells(policy, columns, claim, n, rng)

        def judge(published: Published) -> tuple[float, list[Check]]:
            noisy = published.values
            mu_lower, attack = judge_guesses(_guess(each, noisy, alpha / len(cells), rng) for each in cells)
            noise, independence = _check_noise(cells, noisy, alpha), _check_independence(cells, noisy, alpha)
            return mu_lower, [attack, noise, independence]

        states = np.column_stack([each.states for each in cells])
        return n, raw_table(policy, raw_arrays([each.raw for each in cells], states)), judge

    return audit_made_up(policy, kinds, press, confidence, prepare)


def _cells(policy: Policy, columns: Sequence[Column], claim: float, n: int, rng: np.random.Generator) -> list[_Cell]:
    """Return the cells, each with the part of mu that is its own: all of a cell's, of a row's by weights.

    Where the policy asks for no mu, that of noise on whole numbers is what their noise has.
    """
    found = raw_cells(policy.sources, columns)
    weights = [policy.column(cell.columns[0].name).weight for cell in found]
    alone = policy.privacy.unit_name in ("cell", "change")
    coins = [rng.integers(0, 2, n) for _ in found]
    cells, first = [], 0
    for cell, weight, thrown in zip(found, weights, coins, strict=True):
        share = 1.0 if alone else math.sqrt(weight / math.fsum(weights) / policy.privacy.max_rows)
        is_mu = policy.privacy.mu is not None or cell.columns[0].is_gaussian
        states = rng.integers(0, cell.n_states, n)
        states[::2] = thrown[::2]
        places = slice(first, first + len(cell.columns))
        own = claim * share if is_mu else release_mu("cell", cell.columns)
        cells.append(_Cell(cell, places, own, thrown, states))
        first = places.stop
    return cells


def _guess(each: _Cell, noisy: Floats, alpha: float, rng: np.random.Generator) -> Guesses:
    """Guess the coins of a cell from what came out."""
    thrown, cell = each.coins[::2], each.raw
    if cell.response is not None:
        found = each.levels(noisy)[::2]
        guesses = np.where(np.isin(found, (0, 1)), found, rng.integers(0, 2, len(found)))
        correct, total = int(np.count_nonzero(guesses == thrown)), len(thrown)
    else:
        low, high = cell.steps[:2]
        moved = np.flatnonzero(high != low)
        test = Attack([cell.columns[place] for place in moved.tolist()], (high - low)[moved])
        centred = each.in_steps(noisy)[::2, moved] - 0.5 * (low + high)[moved]
        correct, total = test.count_correct(centred, thrown.astype(bool))
    return Guesses(f"a cell of {cell.name!r}", correct, total, guessed_mu(correct, total, alpha), each.claim)


def _check_noise(cells: Sequence[_Cell], noisy: Floats, alpha: float) -> Check:
    """Check what was added to indicators, or how often levels stay and which they become."""
    faults = []
    for each in cells:
        share, columns = alpha / len(cells), each.raw.columns
        if each.raw.response is not None:
            faults += _response_faults(each, each.raw.response, each.levels(noisy), share)
            continue
        for column, noise in zip(columns, each.residuals(noisy).T, strict=True):
            _, fault = judge_noise([noise], law_of(column.cell_noise), share / (2 * len(columns)))
            faults += [f"the noise on {column.name!r} {fault}"] if fault else []
    return make_check("noise", faults, "distributed as stated; levels stay, and become others, as often as stated")


def _response_faults(each: _Cell, response: RandomizedResponse, found: States, alpha: float) -> list[str]:
    name, raw = each.raw.name, each.states
    if (found < 0).any():
        return [f"{np.count_nonzero(found < 0)} rows of {name!r} do not show one level"]
    faults = []
    stays = int(np.count_nonzero(found == raw))
    if stats.binomtest(stays, len(raw), response.p_same).pvalue < alpha / 2:
        faults.append(
            f"a level of {name!r} stays in {stays / len(raw):.4g} of rows, and {response.p_same:.4g} is stated"
        )
    changed = found != raw
    if response.n_levels > 2 and changed.any():
        steps = (found[changed] - raw[changed]) % response.n_levels  # uniform on 1, ..., K - 1
        counts = np.bincount(steps, minlength=response.n_levels)[1:]
        if stats.chisquare(counts).pvalue < alpha / 2:
            faults.append(f"levels of {name!r} that change do not become all others equally often")
    return faults


def _check_independence(cells: Sequence[_Cell], noisy: Floats, alpha: float) -> Check:
    """Check that noise, and which levels are replaced, do not depend on that of other rows and cells."""
    signs = [np.sign(each.residuals(noisy)).astype(np.int8) for each in cells if each.raw.response is None]
    changed = [
        (each.levels(noisy) != each.states).astype(np.float64) for each in cells if each.raw.response is not None
    ]
    checks = [check_signs([np.hstack(signs)], alpha / 2)] if signs else []
    faults = [check.detail for check in checks if not check.passed]
    limit = special.ndtri(1 - alpha / (4 * max(len(changed), 1) * (_LAGS + len(changed))))
    for index, own in enumerate(changed):
        others = [own[lag:] for lag in range(1, _LAGS + 1)] + changed[index + 1 :]
        if any(_correlated(own[: len(other)], other) > limit for other in others):
            faults.append("which levels are replaced is correlated between rows or cells")
    return make_check("independence", faults, "no correlation between rows or cells, and no noise is used twice")


def _correlated(one: Floats, other: Floats) -> float:
    """Return the size of a correlation in its standard errors."""
    spread = float(one.std() * other.std())
    together = float(np.mean((one - one.mean()) * (other - other.mean())))
    return abs(together) / spread * math.sqrt(len(one)) if spread else 0.0
