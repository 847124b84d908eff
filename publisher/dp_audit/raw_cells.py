"""Cells of a made-up raw table, each in one of a few states, and what each state is published as."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_audit.canaries import canary_limits, far_values, granularities
from dp_bundle.manifest.columns import Column, RandomizedResponse
from dp_bundle.manifest.sources import Source
from dp_publish.data.kinds import KINDS

Floats = NDArray[np.float64]
States = NDArray[np.int64]


@dataclass(frozen=True)
class RawCell:
    """A column of a raw table, of which every cell is in one of a few states.

    Attributes
    ----------
    name : str
        The raw column's.
    columns : sequence of Column
        The published columns.
    values : pyarrow.Array
        The raw value of every state.
    numbers : ndarray, shape (n_states, n_columns)
        What every state is published as, before noise.
    """

    name: str
    columns: Sequence[Column]
    values: pa.Array
    numbers: Floats

    @property
    def n_states(self) -> int:
        """The number of states; what tells the first two apart is what an attacker guesses."""
        return len(self.values)

    @property
    def response(self) -> RandomizedResponse | None:
        """Randomised response, if the cell has that in place of noise."""
        return self.columns[0].response

    @cached_property
    def steps(self) -> Floats:
        """The numbers in grid steps, no more than the bounds allow."""
        steps = granularities(self.columns)
        limits = np.array([column.bounds or (-np.inf, np.inf) for column in self.columns]) / steps[:, None]
        return np.clip(np.rint(self.numbers / steps), np.ceil(limits[:, 0]), np.floor(limits[:, 1]))


def raw_cells(sources: Sequence[Source], columns: Sequence[Column], *, outside: bool = False) -> list[RawCell]:
    """Return the cells of a raw row that is published as these columns, in their order.

    A cell with levels has a state for each, any other the two ends of its bounds. Where gaps are published, or filled,
    the second state has no value; numbers without one may also be NaN, which is a state more. With `outside`, so are
    numbers at some distances outside their bounds.
    """
    source_of = {name: source for source in sources for name in source.columns}
    cells = []
    for index, column in enumerate(columns):
        source = source_of.get(column.name)
        kind = source.kind if source else "number"
        if source and source.columns[0] != column.name:
            continue
        found = _at_levels(source) if source and source.levels else _at_ends(kind, column, outside=outside)
        own = columns[index : index + len(source.columns)] if source else [column]
        name = source.name if source else column.name
        cells.append(RawCell(name, own, *_with_gaps(kind, column, *found)))
    return cells


def raw_arrays(cells: Sequence[RawCell], states: States) -> dict[str, pa.Array]:
    """Return the columns of a raw table of rows in these states."""
    return {cell.name: cell.values.take(pa.array(own)) for cell, own in zip(cells, states.T, strict=True)}


def any_states(cells: Sequence[RawCell], n: int, rng: np.random.Generator) -> States:
    """Return states of rows, a column for each cell."""
    return np.column_stack([rng.integers(0, cell.n_states, n) for cell in cells])


def _at_levels(source: Source) -> tuple[pa.Array, Floats]:
    """Return words that mean levels, none for gaps, and what they are published as: indicators, or their places."""
    words, n = [None if level == source.gaps else level for level in source.levels], len(source.levels)
    numbers = np.eye(n) if source.has_level_columns else np.arange(n, dtype=np.float64)[:, None]
    return pa.array(words, pa.string()), numbers


def _at_ends(kind: str, column: Column, *, outside: bool) -> tuple[pa.Array, Floats]:
    """Return both ends as raw values, and as the numbers that these stand for: whole days, or microseconds."""
    ends = np.array(canary_limits(column))
    if outside and kind == "number":
        beyond = np.concatenate(far_values(column))
        values = np.concatenate([ends.astype(beyond.dtype), beyond])
        return pa.array(values), np.clip(values.astype(np.float64), *ends)[:, None]
    return KINDS[kind].decode(ends, np.zeros(2, dtype=bool)), KINDS[kind].decoded(ends)[:, None]


def _with_gaps(kind: str, column: Column, values: pa.Array, numbers: Floats) -> tuple[pa.Array, Floats]:
    """Return the same with states without a value, where the policy has something to say of that."""
    whole = kind == "number" and column.kind == "integer"  # which has null in gaps, and no NaN
    values = values.cast(pa.int64()) if whole else values
    if column.missing not in ("midpoint", "indicator"):
        return values, numbers
    low, high = column.bounds or (0.0, 0.0)
    gap, last = pa.nulls(1, values.type), pa.array([np.nan] if kind == "number" and not whole else [], values.type)
    values = pa.concat_arrays([values.slice(0, 1), gap, values.slice(1), last])
    middle = np.full((1, 1), 0.5 * low + 0.5 * high)
    numbers = np.concatenate([numbers[:1], middle, numbers[1:], middle[: len(last)]])
    if column.missing == "indicator":
        numbers = np.column_stack([numbers, pc.is_null(values, nan_is_null=True).cast(pa.float64())])
    return values, numbers
