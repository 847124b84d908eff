"""Canaries for an audit of rows, in made-up tables in the policy's columns.

A canary cell has two possible values, and a fair coin decides; with the row as the unit all its cells share the coin.
The pairs are the bounds themselves, values far outside them, or values close to each other; a fourth kind is spread at
random inside the bounds, off the grid. What should come out before noise is computed here again, not taken from
`rows`, whose faults it is to show.

A table has canaries of all kinds mixed, and empty cells among full ones. Rows are in an order of chance, so
that every batch that a release reads holds rows of every kind, and the table comes in batches of unequal size: the
first rows, and the last ones, in batches of one row or two, so that what is done at the edges of a batch is done to
many of them. Where the unit of privacy is an entity, every canary entity has as many rows as it may have, or a few if
that is many.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_bundle.base.errors import PrivacyError
from dp_bundle.manifest.columns import Column
from dp_publish.accounting.conversions import unit_mu
from dp_publish.policy.model import Policy

Unit: TypeAlias = Literal["cell", "row"]
_Floats: TypeAlias = NDArray[np.float64]
Values: TypeAlias = NDArray[np.float64] | NDArray[np.int64]

OUTSIDE = ("half a width outside", "far outside", "infinitely far outside")
_LARGE_MU, _BEST_MU = 6.0, 3.0  # above the one, canaries are also put close: as far apart as gives the other
_ALIKE = 16  # rows of an entity that are canaries, at most
_FILLED = ("midpoint", "drop")  # what becomes of empty cells that are made up
_EMPTY = 1000  # cells of each column
_CUTS = (0.13, 0.4, 0.41, 0.78)  # where one batch ends and the next begins
N_AT_EDGES = 240  # first rows of a table, and as many last ones, that are the first or the last of their batch


@dataclass(frozen=True)
class Draft:
    """Canaries of one kind before the mechanism: a column of raw values each, with the coins that chose them.

    `low` and `high`, of shape (n_columns,) or (n_rows, n_columns), are what noise should be added to, in steps of each
    column's grid.
    """

    low: _Floats
    high: _Floats
    coins: NDArray[np.bool_]
    values: Sequence[Values]

    @cached_property
    def expected(self) -> _Floats:
        """The values that noise should be added to."""
        return np.where(self.coins, self.high, self.low)

    def after(self, noisy: _Floats) -> Canaries:
        """Return the canaries as they came out, in steps."""
        return Canaries(self.low, self.high, self.coins, self.values, noisy)


@dataclass(frozen=True)
class Canaries(Draft):
    """Canaries of one kind after the mechanism: `noisy` has the shape (n_rows, n_columns), in steps."""

    noisy: _Floats

    @cached_property
    def residuals(self) -> _Floats:
        """The noise found, rounded to whole steps."""
        return np.rint(self.noisy) - self.expected


def at_bounds(columns: Sequence[Column], unit: Unit, n: int, rng: np.random.Generator, rows: int = 1) -> Draft:
    """Return canaries at one of their two bounds; `rows` in turn share their coins, as those of an entity do."""
    coins = np.repeat(_toss(unit, -(-n // rows), len(columns), rng), rows, axis=0)[:n]
    values = []
    for j, column in enumerate(columns):
        low, high = canary_limits(column)
        values.append(_typed(column, np.where(coins[:, j], high, low)))
    return Draft(*_step_bounds(columns), coins, values)


def close(columns: Sequence[Column], unit: Unit, n: int, rng: np.random.Generator, rows: int = 1) -> Draft | None:
    """Return canaries at the upper bound or a little below it, or None where mu is not too large for the bounds."""
    low, high = _step_bounds(columns)
    mus = (high - low) * granularities(columns) / [column.cell_noise.sigma for column in columns]
    mu = mus if unit == "cell" else np.full(len(mus), math.sqrt(rows) * unit_mu(unit, mus.tolist()))
    if mu.max() <= _LARGE_MU:
        return None
    near = high - np.maximum(1, np.rint(np.minimum(1, _BEST_MU / mu) * (high - low)))
    return _between(columns, near, high, np.repeat(_toss(unit, -(-n // rows), len(columns), rng), rows, axis=0)[:n])


def changed_canaries(columns: Sequence[Column], n: int, rng: np.random.Generator) -> Draft:
    """Return canaries at the upper bound, or below it by as much as one person's part of a count."""
    low, high = _step_bounds(columns)
    limits = np.array([math.inf if column.max_change is None else column.max_change for column in columns])
    return _between(columns, np.maximum(low, high - limits), high, _toss("cell", n, len(columns), rng))


def outside(columns: Sequence[Column], unit: Unit, n: int, rng: np.random.Generator) -> Draft:
    """Return canaries outside their bounds; rows go through the distances in `OUTSIDE` in turn."""
    coins = _toss(unit, n, len(columns), rng)
    turn = np.arange(n) % len(OUTSIDE)
    values: list[Values] = []
    for j, column in enumerate(columns):
        below, above = far_values(column)
        values.append(np.where(coins[:, j], above[turn], below[turn]))
    return Draft(*_step_bounds(columns), coins, values)


def far_values(column: Column) -> tuple[Values, Values]:
    """Return values below and above a column's bounds, at the distances in `OUTSIDE`."""
    low, high = canary_limits(column)
    half = 0.5 * high - 0.5 * low
    if column.kind == "integer":
        below = np.array([low - max(1, half // 1), -(2**60), np.iinfo(np.int64).min], dtype=object)
        above = np.array([high + max(1, half // 1), 2**60, np.iinfo(np.int64).max], dtype=object)
        return below.astype(np.int64), above.astype(np.int64)
    most = sys.float_info.max
    return np.array([max(low - half, -most), -most, -math.inf]), np.array([min(high + half, most), most, math.inf])


def inside(columns: Sequence[Column], n: int, rng: np.random.Generator) -> Draft:
    """Return canaries anywhere between their bounds, with all the low bits that a raw value has; each occurs twice.

    What is in one half of the rows is in the other as well, in the same order.
    """
    twice = np.arange(n) % -(-n // 2)
    values: list[Values] = [each[twice] for each in values_inside(columns, -(-n // 2), rng)]
    steps = np.clip(np.rint(np.column_stack(values) / granularities(columns)), *_step_bounds(columns))
    return Draft(steps, steps, np.zeros(steps.shape, dtype=bool), values)


def values_inside(columns: Sequence[Column], n: int, rng: np.random.Generator) -> list[Values]:
    """Return raw values anywhere between their bounds."""
    values: list[Values] = []
    for column in columns:
        low, high = canary_limits(column)
        if column.kind == "integer":
            values.append(rng.integers(int(low), int(high), n, endpoint=True))
        else:
            share = rng.random(n)
            values.append(np.clip(low * (1 - share) + high * share, low, high))
    return values


def canary_limits(column: Column) -> tuple[float, float]:
    """Return the column's bounds."""
    if column.bounds is None:
        raise PrivacyError(f"column {column.name!r} has no bounds, so that nothing is stated that could be audited")
    return column.bounds


def middle_of(column: Column) -> float:
    """Return where empty cells are brought, in steps."""
    return float(np.rint(sum(0.5 * limit for limit in column.bounds or ()) / column.cell_noise.granularity))


def _step_bounds(columns: Sequence[Column]) -> tuple[_Floats, _Floats]:
    """Return the outermost grid points inside the bounds."""
    limits = np.array([canary_limits(column) for column in columns]) / granularities(columns)[:, None]
    return np.ceil(limits[:, 0]), np.floor(limits[:, 1])


def granularities(columns: Sequence[Column]) -> _Floats:
    """Return the step of every column's grid: 1 where levels are replaced in place of noise."""
    return np.array([1.0 if column.response is not None else column.cell_noise.granularity for column in columns])


def _between(columns: Sequence[Column], low: _Floats, high: _Floats, coins: NDArray[np.bool_]) -> Draft:
    """Return canaries at either of two grid points of each column."""
    values = np.where(coins, high, low) * granularities(columns)
    return Draft(low, high, coins, [_typed(column, own) for column, own in zip(columns, values.T, strict=True)])


def _typed(column: Column, values: _Floats) -> Values:
    return values.astype(np.int64) if column.kind == "integer" else values


def _toss(unit: Unit, n: int, n_columns: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return one coin for each cell, or the same for all cells of a row."""
    coins = rng.integers(0, 2, (n, n_columns if unit == "cell" else 1), dtype=np.uint8).astype(np.bool_)
    return np.broadcast_to(coins, (n, n_columns))


@dataclass(frozen=True)
class MadeUp:
    """A table, and where its canaries are.

    Attributes
    ----------
    table : Table
        With the entity's column, if there is one.
    drafts : list of Draft
        The canaries of each kind.
    places : list of ndarray
        For every draft, the rows of the release that its rows should become.
    empty : dict of str to ndarray
        For every column whose empty cells are filled, the rows of the release where it was empty.
    expected : ndarray, shape (n_rows, n_columns)
        What noise should be added to, in steps, in every row that the release should have.
    """

    table: pa.Table
    drafts: list[Draft]
    places: list[NDArray[np.intp]]
    empty: dict[str, NDArray[np.intp]]
    expected: NDArray[np.float64]

    def canaries(self, noisy: NDArray[np.float64]) -> list[Canaries]:
        """Return the canaries of each kind as they came out, in steps."""
        return [draft.after(noisy[rows]) for draft, rows in zip(self.drafts, self.places, strict=True)]


def rows_alike(policy: Policy, n_columns: int) -> int:
    """Return how many rows in turn share their coins: those of an entity, as far as an attack can make use of them."""
    return min(policy.privacy.max_rows, _ALIKE, max(1, 256 // n_columns))


def coin_unit(policy: Policy) -> Unit:
    """Return what has a coin of its own."""
    return "cell" if policy.privacy.unit in ("cell", "change") else "row"


def make_up(policy: Policy, columns: Sequence[Column], n: int, rng: np.random.Generator) -> MadeUp:
    """Return a table of so many canaries of each kind, first those at bounds, and of rows with empty cells, mixed."""
    unit, alike, of_changes = coin_unit(policy), rows_alike(policy, len(columns)), policy.privacy.unit == "change"
    nearest = changed_canaries(columns, n, rng) if of_changes else close(columns, unit, n, rng, alike)
    drafts = [at_bounds(columns, unit, n, rng, alike), *([] if nearest is None else [nearest])]
    drafts += [inside(columns, n, rng), outside(columns, unit, n, rng)]
    gaps = [index for index, column in enumerate(columns) if column.missing in _FILLED for _ in range(_EMPTY)]
    filling = np.array([column.missing == "midpoint" for column in columns])
    n_full, n_gaps = sum(len(draft.coins) for draft in drafts), len(gaps) + _EMPTY * int(filling.any())
    full = inside(columns, max(n_gaps, 1), rng)
    parts = zip(*(draft.values for draft in [*drafts, full]), strict=True)
    values = [np.concatenate(part)[: n_full + n_gaps] for part in parts]
    expected = np.concatenate([draft.expected for draft in [*drafts, full]])[: n_full + n_gaps]
    empty = np.zeros(expected.shape, dtype=bool)
    empty[n_full + np.arange(len(gaps)), gaps] = True
    empty[n_full + len(gaps) :] = filling  # rows without any value, where all columns may be so
    middles = np.array([middle_of(column) for column in columns])
    expected[empty] = np.broadcast_to(middles, expected.shape)[empty]

    # in an order of chance, without the rows that are to be dropped
    order = rng.permutation(n_full + n_gaps)
    dropping = np.array([column.missing == "drop" for column in columns])
    kept = ~(empty[order] & dropping).any(axis=1)
    place_in_order = np.full(len(order), -1)
    place_in_order[order[kept]] = np.arange(np.count_nonzero(kept))
    edges = np.cumsum([0, *(len(draft.coins) for draft in drafts)])
    places = [place_in_order[start:stop] for start, stop in itertools.pairwise(edges)]
    filled = {
        column.name: place_in_order[np.flatnonzero(gap)]
        for column, gap in zip(columns, empty.T, strict=True)
        if column.missing == "midpoint"
    }

    arrays = {
        column.name: _with_gaps(column, content, gap).take(pa.array(order))
        for column, content, gap in zip(columns, values, empty.T, strict=True)
    }
    return MadeUp(in_batches(raw_table(policy, arrays, order // alike)), drafts, places, filled, expected[order[kept]])


def raw_table(
    policy: Policy, arrays: Mapping[str, pa.Array], owners: Sequence[str] | NDArray[np.intp] | None = None
) -> pa.Table:
    """Return a table of these columns, and of the entities, by default one for each row, where the policy has any."""
    table, unit = pa.table(dict(arrays)), policy.privacy.entity
    if unit is not None:
        table = table.append_column(unit.entity, pa.array(np.arange(table.num_rows) if owners is None else owners))
    return table


def in_batches(whole: pa.Table, cuts: Sequence[int] = ()) -> pa.Table:
    """Return a table in batches of unequal size, at both ends of one row and of two, and cut at further rows."""
    few = [row for row in range(N_AT_EDGES) if row % 3]
    cuts = [*cuts, *(int(cut * whole.num_rows) for cut in _CUTS), *few, *(whole.num_rows - row for row in few)]
    edges = sorted({0, *(cut for cut in cuts if 0 <= cut <= whole.num_rows), whole.num_rows})
    return pa.concat_tables([whole.slice(start, stop - start) for start, stop in itertools.pairwise(edges)])


def _with_gaps(column: Column, values: Values, gap: NDArray[np.bool_]) -> pa.Array:
    """Return a column as Arrow, with null, or NaN in turn, where a cell is empty."""
    array, null = values.copy(), gap.copy()
    if column.kind == "continuous":
        array[gap] = np.nan
        null[np.flatnonzero(gap)[::2]] = False
    return pa.array(array, mask=null)
