"""A release of noisy rows attacked: made-up tables are published, and what a reader finds is judged by the manifest.

A first, small table shows what the manifest states of columns and noise. In the table that is attacked every other row,
or entity, is a coin's. Its cells are in one of their first two states, by a coin for each cell, or for the whole row
where rows are protected. All other cells are in any of their states. In one stretch nearly all rows are in the first
ones, so that states are rare in a batch. The first rows, and the last ones, come in batches of one row or two. The
checks:

- attack: coins are not guessed more often than what is stated allows, by the likelihood ratio of the stated noise.
- columns: what is stated of columns, and how many rows there are, does not follow from values.
- grid: every value comes out on the grid, with low bits that do not depend on the raw value's.
- noise: it has the stated law, whatever the raw value: far outside the bounds and in gaps, at the edges of batches, and
  where a state is rare. A level stays, and becomes others, as often as is stated.
- independence: signs of noise, and which levels are replaced, are uncorrelated between columns and rows, and no noise
  occurs twice, nor in both releases.

Where mu is so large that every coin would be guessed, numbers are put closer to each other. The bound on mu is then by
proportion. That supposes noise that does not depend on the value, which the noise check tests.

References
----------
Steinke, Nasr & Jagielski (2023), arXiv 2305.08846. Haney et al. (2022), arXiv 2207.13793, for the low bits. Kairouz, Oh
& Viswanath (2016), JMLR 17(17), for randomised response.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats

from dp_audit.judging import (
    Attacked,
    Check,
    Guesses,
    judge_guesses,
    judge_noise,
    judge_signs,
    law_of,
    low_bits_p_value,
    make_check,
)
from dp_audit.made_up import (
    N_AT_EDGES,
    Press,
    Published,
    RawCell,
    States,
    any_states,
    in_batches,
    publish_made_up,
    raw_table,
)
from dp_bundle.base.arrays import Floats
from dp_bundle.manifest.columns import Column, RandomizedResponse
from dp_publish.policy.model import Policy

_CELLS, _MOST_CELLS = 1 << 21, 1 << 24  # that coins decide, by default
_PROBED = 2000  # rows of the first table
_MOST_ALIKE = 16  # rows of an entity that an attack makes use of
_FEW, _TIMES = 40, 100  # rows of a batch in which two are in rare states, and how many there are of these
_LARGE_MU, _BEST_MU = 6.0, 3.0  # above the one, numbers are put as close as gives the other
_MANY = 50  # replaced levels for each level, for an approximation
_N_CHECKS = 4  # that may raise a false alarm
_ANY, _COIN, _COMMON, _RARE, _EDGE = range(5)  # what a row is for


@dataclass(frozen=True)
class _Cell:
    """A raw cell as a manifest has it.

    Attributes
    ----------
    raw : RawCell
        Its states.
    columns : sequence of Column
        Those that are published for it, at these places among all.
    expected : ndarray, shape (n_states, n_columns)
        What noise is added to, in steps of the columns' grids.
    """

    raw: RawCell
    columns: Sequence[Column]
    places: slice
    expected: Floats

    @property
    def response(self) -> RandomizedResponse | None:
        """Randomised response, if the cell has that in place of noise."""
        return self.columns[0].response

    @cached_property
    def pair_mu(self) -> float:
        """The mu with which the first two states are told apart, by the noise that is stated."""
        if self.response is not None:
            return self.response.mu
        distances = abs(self.expected[1] - self.expected[0]).tolist()
        mus = [each.mu_of(far * each.grid) for each, far in zip(self.columns, distances, strict=True) if far]
        return math.hypot(*mus)

    @property
    def is_outside(self) -> NDArray[np.bool_]:
        """Return True for states outside the bounds, and for gaps."""
        low, high = self.columns[0].limits
        return ~((self.raw.numbers >= low) & (self.raw.numbers <= high))

    def levels(self, noisy: Floats) -> States:
        """Return the levels that indicators show, -1 where they are none; one column alone shows the second of two."""
        own = noisy[:, self.places]
        valid = np.isin(own, (0.0, 1.0)).all(axis=1)
        if own.shape[1] == 1:
            return np.where(valid, own[:, 0], -1.0).astype(np.int64)
        return np.where(valid & (own.sum(axis=1) == 1.0), own.argmax(axis=1), -1)

    def scores(self, noisy: Floats) -> Floats:
        """Return the logarithm of the likelihood ratio of the second state and the first."""
        if self.response is not None:
            levels = self.levels(noisy)
            return np.asarray(
                math.log(self.response.p_same / self.response.p_other) * ((levels == 1) * 1.0 - (levels == 0))
            )
        low, high = self.expected[:2]
        variances = np.array([(column.noise_sigma / column.grid) ** 2 for column in self.columns])
        return np.asarray((noisy[:, self.places] - 0.5 * (low + high)) @ ((high - low) / variances))

    def residuals(self, noisy: Floats, states: States) -> Floats:
        """Return the noise found, in steps, infinite where there is no number."""
        found = np.rint(noisy[:, self.places]) - self.expected[states]
        return np.where(np.isfinite(found), found, np.inf)

    def signs(self, noisy: Floats, states: States) -> Floats:
        """Return signs of the noise; of replaced levels 1 where one was, less how often one should be."""
        if self.response is not None:
            return np.asarray((self.levels(noisy) != states)[:, None] - (1 - self.response.p_same))
        return np.sign(self.residuals(noisy, states))


@dataclass(frozen=True)
class _Rows:
    """Rows that are published of a made-up table.

    Attributes
    ----------
    states : ndarray of int, shape (n_rows, n_cells)
        Those of all cells.
    roles : ndarray of int, shape (n_rows,)
        What each row is for.
    alike : int
        How many rows in turn share their coins.
    """

    states: States
    roles: States
    alike: int

    def group_by(self, states: States) -> States:
        """Return the parts of rows that are judged apart: by role and state, and at the table's edges."""
        at_edges = np.ones(len(self.roles), dtype=np.bool_)
        at_edges[N_AT_EDGES:-N_AT_EDGES] = False
        return np.asarray(2 * np.where(at_edges, _EDGE, self.roles) + (states == 1))


def attack_rows(
    policy: Policy, raw: list[RawCell], press: Press, n_canaries: int | None, confidence: float, *, declared: bool
) -> Attacked:
    """Publish made-up rows under a policy, and attack what a reader finds.

    Parameters
    ----------
    policy : Policy
        For a release of rows.
    raw : list of RawCell
        Those of a raw row.
    press : callable
        Publishes a made-up table.
    n_canaries : int or None
        Rows that coins decide; by default enough for a bound within a factor 2.
    confidence : float
        The chance that a sound release passes every check, and that the lower bound holds.
    declared : bool
        Whether the policy says all that a manifest states of columns, so that no value may change it.
    """
    rng, alpha = np.random.default_rng(), (1 - confidence) / _N_CHECKS
    first = np.ones((_PROBED, len(raw)), dtype=np.int64) if declared else any_states(raw, _PROBED, rng)
    probe = publish_made_up(press, in_batches(raw_table(policy, raw, first)), policy)
    first = first[~_dropped(raw, first)]

    # as many coins as are asked for, or tell most of mu
    columns, claim = probe.release.columns, policy.privacy.mu or probe.mu
    alike = max(1, min(policy.privacy.max_rows, _MOST_ALIKE, 256 // len(columns)))
    per_coin = len(columns) * alike
    usual = max(1 << 12, int(min(max(_CELLS / per_coin, (40 / claim) ** 2), _MOST_CELLS / per_coin)))
    n = -(-(n_canaries or usual) // (2 * alike)) * 2 * alike
    raw, mus = _as_close_as_tells_most(policy, probe, raw, alike)
    rows, table = _made_up_rows(policy, raw, n, alike, rng)
    published = publish_made_up(press, table, policy)

    of_columns = _check_columns(probe, published, len(rows.states), declared=declared)
    if not of_columns.passed:
        return Attacked(n, claim, 0.0, [of_columns], published)
    cells, noisy, again = _cells(published, raw), _in_steps(published), _in_steps(probe)
    mu_lower, attack = judge_guesses(_guess(policy, cells, mus, rows, noisy, claim), alpha)
    signs = [
        np.hstack([cell.signs(values, own) for cell, own in zip(cells, states.T, strict=True)])
        for values, states in ((noisy, rows.states), (again, first))
    ]
    return Attacked(
        n,
        claim,
        mu_lower,
        [
            attack,
            of_columns,
            _check_grid(cells, rows, noisy, alpha),
            _check_noise(cells, rows, noisy, alpha),
            judge_signs(signs, alpha),
        ],
        published,
    )


def _cells(published: Published, raw: Sequence[RawCell]) -> list[_Cell]:
    """Return the cells as a manifest has them, in the order of the raw ones."""
    found = {}
    for cell, places, source in published.columns_of(raw):
        columns = published.release.columns[places]
        steps = np.array([column.grid for column in columns])
        low, high = np.array([column.limits for column in columns]).T / steps
        expected = np.clip(np.rint(cell.published_as(columns, source) / steps), np.ceil(low), np.floor(high))
        found[cell.name] = _Cell(cell, columns, places, expected)
    return [found[cell.name] for cell in raw]


def _in_steps(published: Published) -> Floats:
    return published.values / [column.grid for column in published.release.columns]


def _dropped(raw: Sequence[RawCell], states: States) -> NDArray[np.bool_]:
    """Return which rows are left out, as a cell has a gap."""
    gaps = [np.isnan(cell.numbers)[own] & cell.drops_rows for cell, own in zip(raw, states.T, strict=True)]
    return np.asarray(np.logical_or.reduce(gaps))


def _as_close_as_tells_most(
    policy: Policy, probe: Published, raw: list[RawCell], alike: int
) -> tuple[list[RawCell], list[float]]:
    """Return the cells with numbers so close that coins can be guessed wrongly, and the mu of as far as one may move.

    That is the cell's own, or the row's, where rows are protected.
    """
    if policy.privacy.unit == "change":
        raw = [_nearer(cell, 1.0, policy.column(cell.raw.name).max_change) for cell in _cells(probe, raw)]
    cells = _cells(probe, raw)
    mus = [cell.pair_mu for cell in cells]
    if not _has_coin_for_each_cell(policy):
        mus = [math.sqrt(alike) * math.hypot(*mus)] * len(mus)
    shares = [_BEST_MU / mu if mu > _LARGE_MU else 1.0 for mu in mus]
    return [_nearer(cell, share, None) for cell, share in zip(cells, shares, strict=True)], mus


def _has_coin_for_each_cell(policy: Policy) -> bool:
    return policy.privacy.unit_name in ("cell", "change")


def _nearer(cell: _Cell, share: float, most: float | None) -> RawCell:
    """Return a cell of numbers whose first two states are a share of their distance apart, and at most so far."""
    step, (low, high) = cell.columns[0].grid, cell.expected[:2, 0]
    limit = high - low if most is None else min(high - low, math.floor(most / step))
    distance = max(1.0, np.rint(share * limit))
    return cell.raw if distance == high - low else cell.raw.with_lower((high - distance) * step)


def _made_up_rows(
    policy: Policy, raw: list[RawCell], n: int, alike: int, rng: np.random.Generator
) -> tuple[_Rows, pa.Table]:
    """Return rows of which coins decide n, those of an entity alike, and the table that they are published of."""
    states, roles = any_states(raw, 2 * n, rng), np.repeat(np.tile([_COIN, _ANY], n // alike), alike)
    coins = rng.integers(0, 2, (n // alike, len(raw) if _has_coin_for_each_cell(policy) else 1))
    states[roles == _COIN] = np.repeat(np.broadcast_to(coins, (len(coins), len(raw))), alike, axis=0)

    # a stretch in the middle, in batches in which two rows are in rare states
    stretch = np.zeros((_FEW * _TIMES, len(raw)), dtype=np.int64)
    of_stretch = np.full(len(stretch), _COMMON)
    of_stretch[:: _FEW // 2] = _RARE
    stretch[of_stretch == _RARE] = np.column_stack([rng.integers(1, cell.n_states, 2 * _TIMES) for cell in raw])
    states, roles = (
        np.concatenate([whole[:n], part, whole[n:]]) for whole, part in ((states, stretch), (roles, of_stretch))
    )
    cuts = [n + _FEW * batch for batch in range(_TIMES + 1)]
    table = in_batches(raw_table(policy, raw, states, np.arange(len(states)) // alike), cuts)
    kept = ~_dropped(raw, states)
    return _Rows(states[kept], roles[kept], alike), table


def _check_columns(probe: Published, published: Published, n_rows: int, *, declared: bool) -> Check:
    """Check what may not follow from values: what is stated of columns, and how many rows there are."""
    stated, found = [(each.release.columns, each.release.sources) for each in (probe, published)], len(published.values)
    faults = ["other values change what is stated of columns"] if declared and stated[0] != stated[1] else []
    faults += [f"{found} rows were published of {n_rows} that should be"] if found != n_rows else []
    return make_check("columns", faults, "what is stated of columns, and the number of rows, do not follow from values")


def _guess(
    policy: Policy, cells: Sequence[_Cell], mus: Sequence[float], rows: _Rows, noisy: Floats, claim: float
) -> list[Guesses]:
    """Guess the coins of every cell, or of every row, or of all rows of an entity together."""
    coins, seen = (each[rows.roles == _COIN] for each in (rows.states == 1, noisy))
    scores, pairs = np.column_stack([cell.scores(seen) for cell in cells]), [cell.pair_mu for cell in cells]
    names = [f"at a cell of {cell.raw.name!r}" for cell in cells]
    if not _has_coin_for_each_cell(policy):
        scores = scores.sum(axis=1).reshape(-1, rows.alike).sum(axis=1)[:, None]
        coins, pairs = coins[:: rows.alike], [math.sqrt(rows.alike) * math.hypot(*pairs)]
        names = ["at an entity's rows" if policy.privacy.entity else "at a row"]
    guessed = []
    for name, found, thrown, mu, pair in zip(names, scores.T, coins.T, mus, pairs, strict=False):
        correct, scale = int(np.count_nonzero((found > 0) == thrown)), mu / pair
        guessed.append(Guesses(name, correct, len(thrown), min(claim, mu) / scale, scale))
    return guessed


def _check_noise(cells: Sequence[_Cell], rows: _Rows, noisy: Floats, alpha: float) -> Check:
    """Check the variance and the distribution of noise, of values outside their bounds and of gaps as well."""
    faults, worst, share = [], 0.0, alpha / noisy.shape[1]
    for cell, states in zip(cells, rows.states.T, strict=True):
        if cell.response is not None:
            faults += _response_faults(cell, cell.response, states, rows, noisy, share)
            continue
        groups = np.where(cell.is_outside[states], -1 - states, rows.group_by(states))
        sets = [groups == group for group in np.unique(groups)]
        for column, noise in zip(cell.columns, cell.residuals(noisy, states).T, strict=True):
            off, fault = judge_noise([noise[some] for some in sets], law_of(column.cell_noise), share)
            worst = max(worst, off)
            faults += [f"the noise on column {column.name!r} {fault}"] if fault else []
    detail = f"distributed as stated around what values, bounds and gaps come to, variances within {worst:.2%}"
    return make_check("noise", faults, detail)


def _response_faults(
    cell: _Cell, response: RandomizedResponse, states: States, rows: _Rows, noisy: Floats, alpha: float
) -> list[str]:
    """Return what is wrong with how often levels stay, and which they become, in every part of the rows."""
    name, levels, groups = cell.raw.name, cell.levels(noisy), rows.group_by(np.zeros_like(states))
    if (levels < 0).any():
        return [f"{np.count_nonzero(levels < 0)} rows of {name!r} do not show one level"]
    faults, share = [], alpha / (2 * len(np.unique(groups)))
    for group in np.unique(groups):
        found, own = levels[groups == group], states[groups == group]
        stays, changed = int(np.count_nonzero(found == own)), found != own
        if stats.binomtest(stays, len(own), response.p_same).pvalue < share:
            said = f"a level of {name!r} stays in {stays / len(own):.4g} of rows"
            faults.append(f"{said}, and {response.p_same:.4g} is stated")
        if response.n_levels > 2 and np.count_nonzero(changed) > _MANY * response.n_levels:
            steps = (found[changed] - own[changed]) % response.n_levels  # uniform on 1, ..., K - 1
            if stats.chisquare(np.bincount(steps, minlength=response.n_levels)[1:]).pvalue < share:
                faults.append(f"levels of {name!r} that change do not become all others equally often")
    return faults


def _check_grid(cells: Sequence[_Cell], rows: _Rows, noisy: Floats, alpha: float) -> Check:
    """Check that what comes out is on the grid, with low bits that do not depend on the raw ones."""
    faults, share = [], alpha / noisy.shape[1]
    for cell, states in zip(cells, rows.states.T, strict=True):
        for index, column in enumerate(cell.columns if cell.response is None else ()):
            found, expected = noisy[:, cell.places][:, index], cell.expected[states, index]
            off = np.count_nonzero(found != np.rint(found))
            if off:
                part = f"{off / len(found):.1%} of column {column.name!r}"
                faults.append(f"{part} is off its grid, as floating-point noise is")
            elif np.signbit(found[found == 0]).any():
                faults.append(f"zeros of column {column.name!r} have a sign, which may be the raw value's")
            elif low_bits_p_value(expected, found, column.cell_noise) < share:
                faults.append(f"the low bits of column {column.name!r} depend on the raw value's")
    return make_check(
        "grid", faults, f"all {noisy.size:,} values are on the grid, their low bits independent of raw ones"
    )
