"""Whole releases of cells with states attacked: made-up levels, or gaps, are published, and what a reader finds judged.

Each category, and each number whose gaps are published (`cell_states`), is judged by its own part of what the policy
asked for, computed here afresh. In every row it has one of all its states, in half of the rows one of the first two, by
a fair coin. The checks:

- attack: the lower bound on mu that guessing these coins proves does not exceed what is stated (`row_attack`); of
  randomised response 2 Phi^-1(p), as whatever is mu-GDP lets nobody guess right more often than Phi(mu / 2).
- noise: of noise on indicators and numbers its law and variance; of randomised response how often a level stays, and
  how often it becomes each other one, and that each row has one level.
- independence: signs of noise are uncorrelated, and so is which levels were replaced.
- replay: with the same random bits, tables that differ in one cell give releases that differ in no more than that
  cell's columns of that row, by no more than the policy allows, also where the cell alone has its level: a list of
  levels that was read off the data shows there. A number changes from each end of its bounds, a level from one.
- books: what the manifest states and what the ledger keeps are no less than the noise comes to.

References
----------
Steinke, Nasr & Jagielski (2023), arXiv 2305.08846. Kairouz, Oh & Viswanath (2016), JMLR 17(17).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import special, stats

from dp_audit.books import check_books, claimed_mu
from dp_audit.cell_states import AuditedCell, CategoryCell, audited_cell, table_in_states
from dp_audit.checks import Check, check_confidence, check_signs, make_check
from dp_audit.hypothesis_tests import law_excess, least_chance, variance_ratio
from dp_audit.level_replay import check_level_replay
from dp_audit.press import Press, made_up_policy, publish_made_up
from dp_audit.report import AuditReport
from dp_audit.row_attack import Attack
from dp_bundle.base.errors import DpGraphError
from dp_bundle.manifest.columns import Column, RandomizedResponse
from dp_bundle.manifest.guarantee import release_mu
from dp_publish.accounting.conversions import SLACK
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import calibrate

_ROWS = 1 << 16
_N_CHECKS = 3  # that may raise a false alarm
_LAGS = 16


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
    check_confidence(confidence)
    rng, n = np.random.default_rng(), n_canaries or _ROWS
    policy = made_up_policy(policy, kinds)
    columns = calibrate(policy, kinds)
    claim = claimed_mu(policy, columns)
    cells = _find_cells(policy, list(kinds), columns, claim)
    coins = {each.source.name: rng.integers(0, 2, n) for each in cells}
    states = {each.source.name: _draw(each, coins[each.source.name], rng) for each in cells}

    def report(mu_lower: float, checks: Sequence[Check]) -> AuditReport:
        return AuditReport(policy.privacy.unit_name, claim, mu_lower, confidence, n, tuple(checks))

    try:
        published = publish_made_up(press, table_in_states(policy, cells, states), policy)
    except (DpGraphError, ValidationError) as error:
        return report(0.0, [make_check("books", [f"made-up rows cannot be published: {error}"], "")])
    alpha = (1 - confidence) / _N_CHECKS
    mu_lower, attack = _attack(cells, coins, published.values, alpha, rng)
    noise = _check_noise(cells, states, published.values, alpha)
    independence = _check_independence(cells, states, published.values, alpha)
    replay, books = check_level_replay(press, policy, cells, rng), check_books(policy, columns, published)
    return report(mu_lower, [attack, noise, independence, replay, books])


def _find_cells(policy: Policy, names: list[str], columns: Sequence[Column], claim: float) -> list[AuditedCell]:
    """Return the cells, each with the part of mu that is its own: all of a cell's, of a row's by weights.

    Where the policy asks for no mu, that of noise on whole numbers is what their noise has.
    """
    sources = [source for source in policy.sources if source.columns[0] in names]
    weights = [policy.column(source.columns[0]).weight for source in sources]
    alone = policy.privacy.unit_name in ("cell", "change")
    found = []
    for source, weight in zip(sources, weights, strict=True):
        share = 1.0 if alone else math.sqrt(weight / math.fsum(weights) / policy.privacy.max_rows)
        places = [names.index(name) for name in source.columns]
        own = [columns[place] for place in places]
        is_mu = policy.privacy.mu is not None or own[0].is_gaussian
        found.append(audited_cell(source, places, columns, claim * share if is_mu else release_mu("cell", own)))
    return found


def _draw(each: AuditedCell, coins: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return states: in every other row one of the first two, by the coin, and any in the rest."""
    states = rng.integers(0, each.n_states, len(coins))
    states[::2] = coins[::2]
    return states


def _attack(
    cells: Sequence[AuditedCell],
    coins: dict[str, NDArray[np.int64]],
    noisy: NDArray[np.float64],
    alpha: float,
    rng: np.random.Generator,
) -> tuple[float, Check]:
    """Guess the coins of every cell from what came out."""
    best, faults, detail = 0.0, [], "the coins were not guessed well enough to prove anything at this strength"
    for each in cells:
        thrown = coins[each.source.name][::2]
        if isinstance(each, CategoryCell) and each.response is not None:
            found = each.found(noisy)[::2]
            guesses = np.where(np.isin(found, (0, 1)), found, rng.integers(0, 2, len(found)))
            correct, total = int(np.count_nonzero(guesses == thrown)), len(thrown)
            chance = float(least_chance(correct, total, alpha / len(cells)))
            bound = 2 * float(special.ndtri(chance)) if chance > 0.5 else 0.0
            proof = f"proves mu >= {bound:.4g}"
        else:
            low, high = each.expected(np.array([0, 1]))
            moved = np.flatnonzero(high != low)
            columns = [column for column, is_moved in zip(each.columns, high != low, strict=True) if is_moved]
            steps = np.array([column.cell_noise.granularity for column in columns])
            test = Attack(columns, (high - low)[moved] / steps)
            centred = (noisy[::2][:, each.places[moved]] - 0.5 * (low + high)[moved]) / steps
            correct, total = test.count_correct(centred, thrown.astype(bool), rng)
            bound = test.mu_bound(correct, total, alpha / len(cells))
            proof = test.describe_bound(bound)
        if bound > best:
            best = bound
            detail = f"{correct / total:.1%} of {total} coins guessed, which {proof}"
        if bound > each.claim * SLACK:
            name = each.source.name
            faults.append(f"a cell of {name!r} is told apart with mu >= {bound:.4g}, above {each.claim:.4g}")
    return best, make_check("attack", faults, detail)


def _check_noise(
    cells: Sequence[AuditedCell], states: dict[str, NDArray[np.int64]], noisy: NDArray[np.float64], alpha: float
) -> Check:
    """Check what was added to indicators, or how often levels stay and which they become."""
    faults = []
    for each in cells:
        own, share = states[each.source.name], alpha / len(cells)
        if isinstance(each, CategoryCell) and each.response is not None:
            faults += _response_faults(each, each.response, own, noisy, share)
            continue
        steps = [column.cell_noise.granularity for column in each.columns]
        residuals = (noisy[:, each.places] - each.expected(own)) / steps
        for index, column in enumerate(each.columns):
            found, chance = variance_ratio(residuals[:, index], column.cell_noise, share / (2 * len(each.columns)))
            if abs(found - 1) > chance:
                faults.append(f"the noise on {column.name!r} has {found:.4g} times the variance stated")
            elif law_excess(residuals[:, index], column.cell_noise, share / (2 * len(each.columns))) > 1:
                faults.append(f"the noise on {column.name!r} does not have the distribution stated")
    return make_check("noise", faults, "distributed as stated; levels stay, and become others, as often as stated")


def _response_faults(
    each: CategoryCell,
    response: RandomizedResponse,
    raw: NDArray[np.int64],
    noisy: NDArray[np.float64],
    alpha: float,
) -> list[str]:
    name, found = each.source.name, each.found(noisy)
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


def _check_independence(
    cells: Sequence[AuditedCell], states: dict[str, NDArray[np.int64]], noisy: NDArray[np.float64], alpha: float
) -> Check:
    """Check that noise, and which levels are replaced, do not depend on that of other rows and cells."""
    signs, changed = [], []
    for each in cells:
        own = states[each.source.name]
        if isinstance(each, CategoryCell) and each.response is not None:
            changed.append((each.found(noisy) != own).astype(np.float64))
        else:
            signs.append(np.sign(noisy[:, each.places] - each.expected(own)).astype(np.int8))
    checks = [check_signs([np.hstack(signs)], alpha / 2)] if signs else []
    faults = [check.detail for check in checks if not check.passed]
    limit = special.ndtri(1 - alpha / (4 * max(len(changed), 1) * (_LAGS + len(changed))))
    for index, own in enumerate(changed):
        others = [own[lag:] for lag in range(1, _LAGS + 1)] + changed[index + 1 :]
        if any(_correlated(own[: len(other)], other) > limit for other in others):
            faults.append("which levels are replaced is correlated between rows or cells")
    return make_check("independence", faults, "no correlation between rows or cells, and no noise is used twice")


def _correlated(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the size of a correlation in its standard errors."""
    spread = float(one.std() * other.std())
    together = float(np.mean((one - one.mean()) * (other - other.mean())))
    return abs(together) / spread * math.sqrt(len(one)) if spread else 0.0
