"""Cells of a made-up raw table, and what each of their states is published as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_audit.canaries import canary_limits
from dp_audit.made_up import in_batches, name_rows
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.sources import Source
from dp_publish.data.kinds import KINDS
from dp_publish.policy.model import Policy

_GAP = 1  # the state without a value, where there is one

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RawCell:
    """A column of a raw table, of which every cell is in one of a few states.

    Attributes
    ----------
    name : str
        The raw column's.
    columns : tuple of str
        The names of the published columns.
    values : pyarrow.Array
        The raw value of every state.
    numbers : ndarray, shape (n_states, n_columns)
        What every state is published as, before noise.
    """

    name: str
    columns: tuple[str, ...]
    values: pa.Array
    numbers: _Floats

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.values)


def raw_cells(sources: Sequence[Source], columns: Sequence[Column]) -> list[RawCell]:
    """Return the cells of a raw row that is published as these columns, in their order.

    A cell with levels has a state for each, any other the two ends of its bounds. Where gaps are published, or filled,
    the second state has no value; numbers without one may also be NaN, which is the last state.
    """
    source_of = {name: source for source in sources for name in source.columns}
    cells = {}
    for column in columns:
        source = source_of.get(column.name)
        if source is None:
            cells[column.name] = _cell(
                column.name, "number", column, (column.name,), *_at_ends("number", column, len(columns))
            )
        elif source.name not in cells:
            found = _at_levels(source) if source.levels else _at_ends(source.kind, column, len(columns))
            cells[source.name] = _cell(source.name, source.kind, column, source.columns, *found)
    return list(cells.values())


def level_words(source: Source) -> pa.Array:
    """Return words that mean the levels of a source: none for its gaps."""
    return pa.array([None if level == source.gaps else level for level in source.levels], pa.string())


def level_numbers(n_levels: int, n_columns: int) -> _Floats:
    """Return what levels are published as: indicators, or their places in one column."""
    return np.eye(n_levels) if n_columns == n_levels else np.arange(n_levels, dtype=np.float64)[:, None]


def raw_table(policy: Policy, arrays: Mapping[str, pa.Array], owners: Sequence[str] | None = None) -> pa.Table:
    """Return a table of these columns, and of the entities, by default one for each row, where the policy has any."""
    table, unit = pa.table(dict(arrays)), policy.privacy.entity
    if unit is not None:
        table = table.append_column(unit.entity, pa.array(name_rows(table.num_rows) if owners is None else owners))
    return table


def tables_of(
    policy: Policy, cells: Sequence[RawCell], states: NDArray[np.int64], owners: Sequence[str] | None = None
) -> tuple[pa.Table, pa.Table]:
    """Return the raw table of rows in these states, a column for each cell, and that of the numbers it stands for."""
    raw: dict[str, pa.Array] = {}
    numbers: dict[str, pa.Array] = {}
    for cell, places in zip(cells, states.T, strict=True):
        raw[cell.name] = cell.values.take(pa.array(places))
        numbers |= zip(cell.columns, map(pa.array, cell.numbers[places].T), strict=True)
    cuts = [len(states) // 5, len(states) // 2, len(states) // 2 + 1]
    return in_batches(raw_table(policy, raw, owners), cuts), in_batches(raw_table(policy, numbers, owners), cuts)


def _at_levels(source: Source) -> tuple[pa.Array, _Floats]:
    n_columns = len(source.levels) if source.has_level_columns else 1
    return level_words(source), level_numbers(len(source.levels), n_columns)


def _at_ends(kind: str, column: Column, n_columns: int) -> tuple[pa.Array, _Floats]:
    """Return both ends as raw values, and as the numbers that these stand for: whole days, or microseconds."""
    ends = np.array(canary_limits(column, n_columns))
    values = KINDS[kind].decode(ends, np.zeros(2, dtype=bool))
    return values, KINDS[kind].decoded(ends)[:, None]


def _cell(
    name: str, kind: str, column: Column, columns: tuple[str, ...], values: pa.Array, numbers: _Floats
) -> RawCell:
    """Return a cell in these states, and without a value where the policy has something to say of that."""
    if column.missing not in ("midpoint", "indicator"):
        if kind == "number" and column.kind == "integer":
            values = values.cast(pa.int64())
        return RawCell(name, columns, values, numbers)
    low, high = (column.ball.center, column.ball.center) if column.ball else column.bounds or (0.0, 0.0)
    middle = 0.5 * low + 0.5 * high
    gap, last = pa.nulls(1, values.type), pa.array([np.nan] if kind == "number" else [], values.type)
    values = pa.concat_arrays([values.slice(0, _GAP), gap, values.slice(_GAP), last])
    numbers = np.concatenate([numbers[:_GAP], [[middle]], numbers[_GAP:], np.full((len(last), 1), middle)])
    if kind == "number" and column.kind == "integer":
        values = values.slice(0, len(numbers) - len(last)).cast(pa.int64())  # which has null in gaps, and no NaN
        numbers = numbers[: len(values)]
    if column.missing == "indicator":
        numbers = np.column_stack([numbers, pc.is_null(values, nan_is_null=True).cast(pa.float64())])
    return RawCell(name, columns, values, numbers)
