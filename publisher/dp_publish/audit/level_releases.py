"""Whole releases of categories attacked: made-up levels are published, and what a reader finds is judged.

Each category is judged by its own part of what the policy asked for, computed here afresh. In every row it holds one of
all levels, in half of the rows one of the first two, by a fair coin. The checks:

- attack: the lower bound on mu that guessing these coins proves does not exceed what is stated (`row_attack`); of
  randomised response 2 Phi^-1(p), as whatever is mu-GDP lets nobody guess right more often than Phi(mu / 2).
- noise: of noise on indicators its law and variance; of randomised response how often a level stays, and how often it
  becomes each other one, and that each row has one level.
- independence: signs of noise are uncorrelated, and so is which levels were replaced.
- replay: with the same random bits, tables that differ in one cell give releases that differ in no more than that
  category's columns of that row, by no more than the policy allows, also where the cell alone has its level: a list of
  levels that was read off the data shows there.
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
from pydantic import ValidationError
from scipy import special, stats

from dp_bundle.errors import DpGraphError
from dp_bundle.manifest import Column, RandomizedResponse, Source
from dp_publish.accounting import SLACK
from dp_publish.audit.books import check_books, claimed_mu
from dp_publish.audit.checks import Check, check_confidence, check_signs, make_check
from dp_publish.audit.hypothesis_tests import law_excess, least_chance, variance_ratio
from dp_publish.audit.press import Press, Published, made_up_policy, publish_made_up
from dp_publish.audit.replay import Tap, compare
from dp_publish.audit.report import AuditReport
from dp_publish.audit.row_attack import Attack
from dp_publish.policy import Policy
from dp_publish.rows import calibrate

LEVELS = ("category", "boolean")  # kinds of sources that are judged here; other sources are numbers
_ROWS = 1 << 16
_REPLAYED = 300  # rows
_N_CHECKS = 3  # that may raise a false alarm
_LAGS = 16

_Places = NDArray[np.intp]


@dataclass(frozen=True)
class _Category:
    """A category as it is published: its columns' places, and the part of mu that the policy asks for."""

    source: Source
    places: _Places
    columns: Sequence[Column]
    claim: float

    @property
    def response(self) -> RandomizedResponse | None:
        return self.columns[0].response

    def expected(self, levels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the indicators of levels, as places from 0: one column alone indicates the second of two."""
        if len(self.places) == 1:
            return levels[:, None].astype(np.float64)
        indicators: NDArray[np.float64] = (levels[:, None] == np.arange(len(self.source.levels))).astype(np.float64)
        return indicators

    def found(self, noisy: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the levels that indicators show, -1 where they are none."""
        own = noisy[:, self.places]
        if len(self.places) == 1:
            return np.where(np.isin(own[:, 0], (0.0, 1.0)), own[:, 0], -1.0).astype(np.int64)
        one = np.isin(own, (0.0, 1.0)).all(axis=1) & (own.sum(axis=1) == 1.0)
        return np.where(one, own.argmax(axis=1), -1)


def audit_levels(
    policy: Policy, kinds: dict[str, str], press: Press, *, n_canaries: int | None = None, confidence: float = 0.9999
) -> AuditReport:
    """Publish made-up levels under a policy, and attack what a reader finds.

    Parameters
    ----------
    policy : Policy
        For a release of rows; resolved. Its columns are those of categories and truth values alone.
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
    categories = _categories(policy, list(kinds), columns, claim)
    coins = {each.source.name: rng.integers(0, 2, n) for each in categories}
    levels = {name: _draw(each.source, coins[name], rng) for each in categories for name in [each.source.name]}

    def report(mu_lower: float, checks: Sequence[Check]) -> AuditReport:
        return AuditReport(policy.privacy.unit_name, claim, mu_lower, confidence, n, tuple(checks))

    try:
        published = publish_made_up(press, _table(policy, levels), policy)
    except (DpGraphError, ValidationError) as error:
        return report(0.0, [make_check("books", [f"made-up rows cannot be published: {error}"], "")])
    alpha = (1 - confidence) / _N_CHECKS
    mu_lower, attack = _attack(categories, coins, published.values, alpha, rng)
    noise = _check_noise(categories, levels, published.values, alpha)
    independence = _check_independence(categories, levels, published.values, alpha)
    replay, books = _check_replay(press, policy, categories, rng), check_books(policy, columns, published)
    return report(mu_lower, [attack, noise, independence, replay, books])


def _categories(policy: Policy, names: list[str], columns: Sequence[Column], claim: float) -> list[_Category]:
    """Return the categories, each with the part of mu that is its own: all of a cell's, of a row's by weights."""
    sources = [source for source in policy.sources if source.columns[0] in names]
    weights = [policy.column(source.columns[0]).weight for source in sources]
    alone = policy.privacy.unit_name == "cell"
    found = []
    for source, weight in zip(sources, weights, strict=True):
        places = np.array([names.index(name) for name in source.columns])
        share = 1.0 if alone else math.sqrt(weight / math.fsum(weights) / policy.privacy.max_rows)
        found.append(_Category(source, places, [columns[place] for place in places], claim * share))
    return found


def _draw(source: Source, coins: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return levels: in every other row one of the first two, by the coin, and any in the rest."""
    levels = rng.integers(0, len(source.levels), len(coins))
    levels[::2] = coins[::2]
    return levels


def _table(policy: Policy, levels: dict[str, NDArray[np.int64]]) -> pa.Table:
    """Return a raw table of these levels, in words that mean them."""
    arrays = {}
    for source in policy.sources:
        if source.name not in levels:
            continue
        words: list[str | None] = [*source.levels]
        if source.gaps is not None:
            words[source.levels.index(source.gaps)] = None
        arrays[source.name] = pa.array(words, pa.string()).take(pa.array(levels[source.name]))
    if policy.privacy.entity is not None:
        n = len(next(iter(levels.values())))
        arrays[policy.privacy.entity.entity] = pa.array([f"row {row}" for row in range(n)])
    return pa.table(arrays)


def _attack(
    categories: Sequence[_Category],
    coins: dict[str, NDArray[np.int64]],
    noisy: NDArray[np.float64],
    alpha: float,
    rng: np.random.Generator,
) -> tuple[float, Check]:
    """Guess the coins of every category from what came out."""
    best, faults, detail = 0.0, [], "the coins were not guessed well enough to prove anything at this strength"
    for each in categories:
        own, thrown = noisy[::2][:, each.places[:2]], coins[each.source.name][::2]
        if each.response is not None:
            found = each.found(noisy)[::2]
            guesses = np.where(np.isin(found, (0, 1)), found, rng.integers(0, 2, len(found)))
            correct, total = int(np.count_nonzero(guesses == thrown)), len(thrown)
            chance = float(least_chance(correct, total, alpha / len(categories)))
            bound = 2 * float(special.ndtri(chance)) if chance > 0.5 else 0.0
        else:
            signs = np.array([1.0]) if len(each.places) == 1 else np.array([-1.0, 1.0])
            test = Attack(each.columns[: len(signs)], signs)
            correct, total = test.count_correct(own - 0.5, thrown.astype(bool), rng)
            bound = test.mu_bound(correct, total, alpha / len(categories))
        if bound > best:
            best = bound
            detail = f"{correct / total:.1%} of {total} coins guessed, which proves mu >= {bound:.4g}"
        if bound > each.claim * SLACK:
            name = each.source.name
            faults.append(f"a cell of {name!r} is told apart with mu >= {bound:.4g}, above {each.claim:.4g}")
    return best, make_check("attack", faults, detail)


def _check_noise(
    categories: Sequence[_Category], levels: dict[str, NDArray[np.int64]], noisy: NDArray[np.float64], alpha: float
) -> Check:
    """Check what was added to indicators, or how often levels stay and which they become."""
    faults = []
    for each in categories:
        raw, share = levels[each.source.name], alpha / len(categories)
        if each.response is not None:
            faults += _response_faults(each, each.response, raw, noisy, share)
            continue
        residuals = noisy[:, each.places] - each.expected(raw)
        for index, column in enumerate(each.columns):
            found, chance = variance_ratio(residuals[:, index], column.cell_noise, share / (2 * len(each.columns)))
            if abs(found - 1) > chance:
                faults.append(f"the noise on {column.name!r} has {found:.4g} times the variance stated")
            elif law_excess(residuals[:, index], column.cell_noise, share / (2 * len(each.columns))) > 1:
                faults.append(f"the noise on {column.name!r} does not have the distribution stated")
    return make_check("noise", faults, "distributed as stated; levels stay, and become others, as often as stated")


def _response_faults(
    each: _Category,
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
    categories: Sequence[_Category], levels: dict[str, NDArray[np.int64]], noisy: NDArray[np.float64], alpha: float
) -> Check:
    """Check that noise, and which levels are replaced, do not depend on that of other rows and categories."""
    signs, changed = [], []
    for each in categories:
        raw = levels[each.source.name]
        if each.response is not None:
            changed.append((each.found(noisy) != raw).astype(np.float64))
        else:
            signs.append(np.sign(noisy[:, each.places] - each.expected(raw)).astype(np.int8))
    checks = [check_signs([np.hstack(signs)], alpha / 2)] if signs else []
    faults = [check.detail for check in checks if not check.passed]
    limit = special.ndtri(1 - alpha / (4 * max(len(changed), 1) * (_LAGS + len(changed))))
    for index, own in enumerate(changed):
        others = [own[lag:] for lag in range(1, _LAGS + 1)] + changed[index + 1 :]
        if any(_correlated(own[: len(other)], other) > limit for other in others):
            faults.append("which levels are replaced is correlated between rows or categories")
    return make_check("independence", faults, "no correlation between rows or categories, and no noise is used twice")


def _correlated(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the size of a correlation in its standard errors."""
    spread = float(one.std() * other.std())
    together = float(np.mean((one - one.mean()) * (other - other.mean())))
    return abs(together) / spread * math.sqrt(len(one)) if spread else 0.0


def _check_replay(press: Press, policy: Policy, categories: Sequence[_Category], rng: np.random.Generator) -> Check:
    """Publish tables that differ in one cell with the same random bits."""
    faults: list[str] = []
    base = {each.source.name: rng.integers(0, len(each.source.levels) - 1, _REPLAYED) for each in categories}
    for each in categories:
        name, row = each.source.name, int(rng.integers(_REPLAYED))
        alone = dict(base)
        alone[name] = base[name].copy()
        alone[name][row] = len(each.source.levels) - 1  # which no other row has
        try:
            (one, bits), (other, more) = _replayed(press, policy, base), _replayed(press, policy, alone)
        except (DpGraphError, ValidationError) as error:
            return make_check("replay", [f"made-up rows cannot be published: {error}"], "")
        faults += [f"releases of tables that differ in one cell differ in their {key}" for key in compare(one, other)]
        if bits != more:
            faults.append("releases of tables that differ in one cell draw their noise in another way")
        if one.values.shape == other.values.shape:
            faults += _moved_faults(each, other.values - one.values, row)
    return make_check("replay", faults, "one changed cell changes nothing else, and moves it by no more than stated")


def _replayed(press: Press, policy: Policy, levels: dict[str, NDArray[np.int64]]) -> tuple[Published, list[int]]:
    tap = Tap()
    return publish_made_up(press, _table(policy, levels), policy, tap), tap.requests


def _moved_faults(each: _Category, moved: NDArray[np.float64], row: int) -> list[str]:
    """Return what is wrong with how far a changed cell moved the release."""
    own = moved[row, each.places].copy()
    moved[row, each.places] = 0.0
    faults = [f"a cell of {each.source.name!r} moves other cells, too"] if moved.any() else []
    if each.response is None:
        apart = float(np.linalg.norm(own)) / each.columns[0].cell_noise.sigma
        if apart > each.claim * (1 + 1e-6):
            faults.append(
                f"with the same random bits a cell of {each.source.name!r} moves by {apart:.4g}, above {each.claim:.4g}"
            )
    return faults
