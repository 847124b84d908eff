"""Neighbouring tables published with the same random bits.

As the noise is then the same, two releases differ by exactly what their tables' sums or values differ by, and so:

- tables that are one after clipping and filling give the same release: rows outside their bounds and rows at them,
  empty cells and the middle of the bounds, rows that are dropped and rows that are not there;
- tables that differ in one unit ask for the same random bits, their releases differ in no more than the unit's own
  values, by no more than the policy's strength allows, and everything else that a reader sees is equal;
- entities have no more rows than they may (`capped_rows`);
- where rows may come and go, so does a table thirty times as long, but for the number of rows that its matrix tells.

This needs no statistics, and finds what thousands of releases would not. Releases by eigenvectors draw as many random
bits as their directions need, and state an estimate of their errors made from the release: there the bits, and what
follows from the matrix, are left out of the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_audit.canaries import canary_limits, far_values, values_inside
from dp_audit.capped_rows import replay_crowds
from dp_audit.checks import Check, make_check
from dp_audit.made_up import chunked, crowd_rows, name_rows
from dp_audit.press import Published
from dp_audit.raw_cells import raw_cells
from dp_audit.replayer import Limit, Replayer
from dp_bundle.manifest.columns import Column
from dp_publish.policy.model import Policy

Table = list[NDArray[Any]]  # a column each, of Python objects; None where a cell is empty

_ROWS = 40
_CHANGED, _OUTSIDE, _EMPTY = 5, (8, 14), (20, 23)  # rows of the table
_CUTS = (7, 17, 31)  # where one batch ends and the next begins
_MOST_COLUMNS = 8  # that are changed alone
_SEED = 20


@dataclass(frozen=True)
class _Neighbours:
    """Tables of numbers that are compared; see `check_replay`."""

    replayer: Replayer
    columns: Sequence[Column]
    limit: Limit

    @property
    def policy(self) -> Policy:
        """For made-up rows."""
        return self.replayer.policy

    def same(self, one: Table, other: Table, what: str) -> None:
        """Compare releases that should be equal."""
        self.replayer.same(self._made_up(one), self._made_up(other), what)

    def neighbours(
        self, one: Table, other: Table, owners: list[str] | None = None, others: list[str] | None = None
    ) -> None:
        """Compare releases of which the values of one unit may differ."""
        pair = self.replayer.neighbours(self._made_up(one, owners), self._made_up(other, others), self.limit)
        if pair is None or pair[0].release.kind != "rows":
            return
        moved = (pair[1].values != pair[0].values).any(axis=1)
        moved[[_CHANGED] if owners is None else slice(_ROWS, None)] = False
        if moved.any():
            self.replayer.faults.append("rows of others come out differently, though the random bits are the same")

    def equal_but_for_values(self, one: Table, other: Table) -> None:
        """Compare everything else that a reader sees."""
        self.replayer.pair(self._made_up(one), self._made_up(other), "neighbouring tables")

    def refused(self, table: Table, name: str) -> None:
        """Check that an empty cell is refused."""
        self.replayer.refused(self._made_up(table), name)

    def _made_up(self, table: Table, owners: list[str] | None = None) -> pa.Table:
        unit = self.policy.privacy.entity
        if unit and owners is None:
            owners = name_rows(len(table[0]))
        types = [pa.int64() if column.kind == "integer" else pa.float64() for column in self.columns]
        arrays = [pa.array(values.tolist(), kind) for values, kind in zip(table, types, strict=True)]
        named = (unit.entity, pa.array(owners)) if unit and owners else None
        without = len(arrays[0]) < _ROWS  # the rows that are empty elsewhere, in the third batch
        cuts = [cut - (_EMPTY[1] - _EMPTY[0]) * (without and cut > _EMPTY[0]) for cut in _CUTS]
        return chunked(self.columns, arrays, named, cuts)


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
    policy = replayer.policy
    tables = _Neighbours(replayer, columns, limit)
    rng = np.random.default_rng(_SEED)
    base: Table = [np.array(values.tolist(), dtype=object) for values in values_inside(columns, _ROWS, rng)]
    _replay_equals(tables, columns, base)
    if policy.privacy.entity:
        _replay_entities(tables, base, crowd_rows(policy) or 1)
        replay_crowds(replayer, raw_cells((), columns))
    else:
        _replay_rows(tables, base)
    if not policy.privacy.neighbours.n_rows_public:
        tables.equal_but_for_values(base, [np.tile(values, 30) for values in base])
    faults = list(dict.fromkeys(replayer.faults))
    return make_check(
        "replay", faults, "with the same random bits, neighbours differ by no more than the policy allows"
    )


def _replay_equals(tables: _Neighbours, columns: Sequence[Column], base: Table) -> None:
    """Compare tables that are one after clipping and filling."""
    at, far = _copy(base), _copy(base)
    for j, column in enumerate(columns):
        low, high = canary_limits(column, len(columns))
        below, above = (values.tolist() for values in far_values(column, len(columns)))
        for turn, row in enumerate(range(*_OUTSIDE)):
            at[j][row] = (low, high)[turn % 2]
            far[j][row] = (below, above)[turn % 2][turn // 2]
        if column.kind == "integer":
            at[j] = np.array([round(value) for value in at[j]], dtype=object)
    if columns[0].ball is None:
        tables.same(at, far, "rows outside their bounds and rows at them")

    rows = slice(*_EMPTY)
    for j, column in enumerate(columns[:_MOST_COLUMNS]):
        gaps, filled = _copy(base), _copy(base)
        gaps[j][rows] = None
        low, high = canary_limits(column, len(columns))
        if column.missing == "refuse":
            tables.refused(gaps, column.name)
        elif column.missing == "center":  # whose place is found from the table, and paid for
            continue
        elif column.missing == "drop":
            tables.same(gaps, [np.delete(values, rows) for values in base], "rows to be dropped and rows not there")
        else:
            middle = 0.5 * low + 0.5 * high if column.ball is None else column.ball.center
            filled[j][rows] = round(middle) if column.kind == "integer" else middle
            tables.same(gaps, filled, "empty cells and the middle of the bounds")


def _replay_rows(tables: _Neighbours, base: Table) -> None:
    """Change one cell, or one row, from one end of its bounds to far beyond the other; or add it."""
    privacy, columns = tables.policy.privacy, tables.columns
    one, other = _copy(base), _copy(base)
    for j, column in enumerate(columns):
        one[j][_CHANGED] = _end(column, columns)
        other[j][_CHANGED] = far_values(column, len(columns))[1].tolist()[j % 3]

    if privacy.unit == "change":  # from one end by as much as is protected, or to the other end
        for column, values, own in zip(columns, other, one, strict=True):
            if column.max_change is not None:
                values[_CHANGED] = own[_CHANGED] + int(column.max_change)
    if privacy.unit in ("cell", "change") and columns[0].noise is not None:
        for j in range(min(len(columns), _MOST_COLUMNS)):
            changed = [other[index] if index == j else values for index, values in enumerate(one)]
            tables.neighbours(one, changed)
    elif privacy.neighbours.n_rows_public:
        tables.neighbours(one, other)
    else:
        tables.neighbours([np.delete(values, _CHANGED) for values in other], other)


def _replay_entities(tables: _Neighbours, base: Table, crowd: int) -> None:
    """Change all rows of an entity that has more than it may have, over several batches; or add them."""
    columns = tables.columns
    own = name_rows(_ROWS)
    owners = [*own, *(["crowd"] * crowd)]
    ends = []
    for beyond in (False, True):
        values = [far_values(c, len(columns))[1].tolist()[0] if beyond else _end(c, columns) for c in columns]
        ends.append([np.concatenate([column, [value] * crowd]) for column, value in zip(base, values, strict=True)])
    if tables.policy.privacy.neighbours.n_rows_public:
        tables.neighbours(ends[0], ends[1], owners, owners)
    else:
        tables.neighbours(base, ends[1], own, owners)


def loss_of_rows(published: Published, moved: NDArray[np.float64]) -> float:
    """Return how far apart two releases of rows are, as mu: the root of the sum of squares over cells."""
    return mu_of_move(published.release.columns, moved)


def mu_of_move(columns: Sequence[Column], moved: NDArray[np.float64]) -> float:
    """Return the mu of rows, or of one, that are so far from others in these columns."""
    mus = [
        column.cell_noise.mu_of(distance)
        for column, distances in zip(columns, np.abs(np.atleast_2d(moved)).T, strict=True)
        for distance in distances[distances > 0].tolist()
    ]
    return math.hypot(*mus)


def _end(column: Column, columns: Sequence[Column]) -> float | int:
    low, _ = canary_limits(column, len(columns))
    return int(low) if column.kind == "integer" else low


def _copy(table: Table) -> Table:
    return [values.copy() for values in table]
