"""Neighbouring tables published with the same random bits.

As the noise is then the same, two releases differ by exactly what their tables' sums or values differ by, and so:

- tables that are one after clipping and filling give the same release: rows outside their bounds and rows at them,
  empty cells and the middle of the bounds, rows that are dropped and rows that are not there;
- tables that differ in one unit ask for the same random bits, their releases differ in no more than the unit's own
  values, by no more than the policy's strength allows, and everything else that a reader sees is equal;
- entities have no more rows than they may (`replay_crowds`);
- where rows may come and go, so does a table thirty times as long, but for the number of rows that its matrix tells.

This needs no statistics, and finds what thousands of releases would not. Releases by eigenvectors draw as many random
bits as their directions need, and state an estimate of their errors made from the release: there the bits, and what
follows from the matrix, are left out of the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_audit.canaries import canary_limits, crowd_rows, far_values, in_batches, name_rows, raw_table, values_inside
from dp_audit.checks import Check
from dp_audit.press import Limit, Published, Replayer, replay_crowds
from dp_audit.raw_cells import raw_cells
from dp_bundle.manifest.columns import Column
from dp_publish.policy.model import Policy

Table = list[NDArray[Any]]  # a column each, of Python objects; None where a cell is empty

_ROWS = 40
_CHANGED, _OUTSIDE, _EMPTY = 5, (8, 14), (20, 23)  # rows of the table
_CUTS = (7, 17, 31)  # where one batch ends and the next begins
_MOST_COLUMNS = 8  # that are changed alone
_SEED = 20


def check_replay(replayer: Replayer, columns: Sequence[Column], limit: Limit) -> Check:
    """Replay releases of neighbouring tables, and of tables that should come out alike.

    Parameters
    ----------
    replayer : Replayer
        Publishes tables of the published columns' numbers.
    columns : sequence of Column
        As they are published.
    limit : Limit
        How far apart neighbours may come out.
    """
    policy, rng = replayer.policy, np.random.default_rng(_SEED)
    base: Table = [np.array(values.tolist(), dtype=object) for values in values_inside(columns, _ROWS, rng)]
    _replay_equals(replayer, columns, base)
    if policy.privacy.entity:
        _replay_entities(replayer, columns, base, limit)
        replay_crowds(replayer, raw_cells((), columns))
    else:
        _replay_rows(replayer, columns, base, limit)
    if not policy.privacy.neighbours.n_rows_public:
        many = _made_up(policy, columns, [np.tile(values, 30) for values in base])
        replayer.pair(_made_up(policy, columns, base), many, "neighbouring tables")
    return replayer.check("replay", "with the same random bits, neighbours differ by no more than the policy allows")


def _made_up(policy: Policy, columns: Sequence[Column], table: Table, owners: list[str] | None = None) -> pa.Table:
    types = [pa.int64() if column.kind == "integer" else pa.float64() for column in columns]
    arrays = {
        column.name: pa.array(values.tolist(), kind) for column, values, kind in zip(columns, table, types, strict=True)
    }
    without = len(table[0]) < _ROWS  # the rows that are empty elsewhere, in the third batch
    cuts = [cut - (_EMPTY[1] - _EMPTY[0]) * (without and cut > _EMPTY[0]) for cut in _CUTS]
    return in_batches(raw_table(policy, arrays, owners), cuts)


def _replay_equals(replayer: Replayer, columns: Sequence[Column], base: Table) -> None:
    """Compare tables that are one after clipping and filling."""

    def same(one: Table, other: Table, what: str) -> None:
        replayer.same(_made_up(replayer.policy, columns, one), _made_up(replayer.policy, columns, other), what)

    at, far = _copy(base), _copy(base)
    for j, column in enumerate(columns):
        ends, beyond = canary_limits(column), far_values(column)
        for turn, row in enumerate(range(*_OUTSIDE)):
            at[j][row] = ends[turn % 2]
            far[j][row] = beyond[turn % 2].tolist()[turn // 2]
        if column.kind == "integer":
            at[j] = np.array([round(value) for value in at[j]], dtype=object)
    same(at, far, "rows outside their bounds and rows at them")

    rows = slice(*_EMPTY)
    for j, column in enumerate(columns[:_MOST_COLUMNS]):
        gaps, filled = _copy(base), _copy(base)
        gaps[j][rows] = None
        low, high = canary_limits(column)
        if column.missing == "refuse":
            replayer.refused(_made_up(replayer.policy, columns, gaps), column.name)
        elif column.missing == "drop":
            same(gaps, [np.delete(values, rows) for values in base], "rows to be dropped and rows not there")
        else:
            middle = 0.5 * low + 0.5 * high
            filled[j][rows] = round(middle) if column.kind == "integer" else middle
            same(gaps, filled, "empty cells and the middle of the bounds")


def _replay_rows(replayer: Replayer, columns: Sequence[Column], base: Table, limit: Limit) -> None:
    """Change one cell, or one row, from one end of its bounds to far beyond the other; or add it."""
    privacy = replayer.policy.privacy
    one, other = _copy(base), _copy(base)
    for j, column in enumerate(columns):
        one[j][_CHANGED] = _end(column)
        other[j][_CHANGED] = far_values(column)[1].tolist()[j % 3]
        if privacy.unit == "change" and column.max_change is not None:  # by as much as is protected
            other[j][_CHANGED] = one[j][_CHANGED] + int(column.max_change)

    pairs = [(one, other)]
    if privacy.unit in ("cell", "change") and columns[0].noise is not None:
        changed = range(min(len(columns), _MOST_COLUMNS))
        pairs = [(one, [other[index] if index == j else values for index, values in enumerate(one)]) for j in changed]
    elif not privacy.neighbours.n_rows_public:
        pairs = [([np.delete(values, _CHANGED) for values in other], other)]
    for pair in pairs:
        tables = [_made_up(replayer.policy, columns, table) for table in pair]
        _compare_neighbours(replayer, limit, *tables, own=[_CHANGED])


def _replay_entities(replayer: Replayer, columns: Sequence[Column], base: Table, limit: Limit) -> None:
    """Change all rows of an entity that has more than it may have, over several batches; or add them."""
    policy, crowd = replayer.policy, crowd_rows(replayer.policy) or 1
    own = name_rows(_ROWS)
    owners = [*own, *(["crowd"] * crowd)]
    ends = [
        [_end(column) for column in columns],
        [far_values(column)[1].tolist()[0] for column in columns],
    ]
    one, other = (
        [np.concatenate([column, [value] * crowd]) for column, value in zip(base, values, strict=True)]
        for values in ends
    )
    fewer = _made_up(policy, columns, one, owners)
    if not policy.privacy.neighbours.n_rows_public:
        fewer = _made_up(policy, columns, base, own)
    _compare_neighbours(replayer, limit, fewer, _made_up(policy, columns, other, owners), own=slice(_ROWS, None))


def _compare_neighbours(
    replayer: Replayer, limit: Limit, one: pa.Table, other: pa.Table, *, own: list[int] | slice
) -> None:
    """Compare releases of which the values of one unit may differ, and so its own rows alone."""
    pair = replayer.neighbours(one, other, limit)
    if pair is None or pair[0].release.kind != "rows":
        return
    moved = (pair[1].values != pair[0].values).any(axis=1)
    moved[own] = False
    if moved.any():
        replayer.faults.append("rows of others come out differently, though the random bits are the same")


def loss_of_rows(published: Published, moved: NDArray[np.float64]) -> float:
    """Return how far apart two releases of rows are, as mu: the root of the sum of squares over cells."""
    mus = [
        column.cell_noise.mu_of(distance)
        for column, distances in zip(published.release.columns, np.abs(moved).T, strict=True)
        for distance in distances[distances > 0].tolist()
    ]
    return math.hypot(*mus)


def _end(column: Column) -> float | int:
    low, _ = canary_limits(column)
    return int(low) if column.kind == "integer" else low


def _copy(table: Table) -> Table:
    return [values.copy() for values in table]
