"""Rows of raw tables whose cells are no numbers, or have gaps, replayed through their coding.

With the same random bits two releases differ by exactly what their tables' numbers differ by. A table in which every
cell is in its first state (`raw_cells`) is compared with two others of as many rows in as many batches:

- one whose batches hold one state each, or one row each, or rows in any state: what a cell becomes follows from that
  cell alone, and not from the least, the most or the number of different ones in its batch;
- one in which a few rows have what no other row has, and they are rows whose levels randomised response replaced: which
  levels it replaces, and by which, follows from chance alone.

All that a reader sees besides the values is the same for these tables, which have hardly a cell in common. In a ball,
where rows are shortened together, raw rows must come out as the numbers that they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_audit.capped_rows import replay_crowds
from dp_audit.checks import Check, make_check
from dp_audit.coded_moments import without_sources
from dp_audit.made_up import in_batches
from dp_audit.press import Press, made_up_policy
from dp_audit.raw_cells import RawCell, raw_cells, raw_table, tables_of
from dp_audit.replayer import Replayer
from dp_bundle.manifest.columns import Column
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import calibrate

_ROWS = 600
_ALONE = 8  # batches of one state, and as many of one row
_FEW = 3  # rows of a batch of one state
_RARE = 12  # rows of a cell that are in a state of their own

_States = NDArray[np.int64]
_Floats = NDArray[np.float64]


def check_row_coding(press: Press, policy: Policy, kinds: dict[str, str]) -> Check:
    """Replay releases of raw rows.

    Parameters
    ----------
    press : callable
        Publishes a made-up table where nobody keeps the books.
    policy : Policy
        For a release of rows, with sources.
    kinds : dict of str to str
        The published columns.
    """
    policy = made_up_policy(policy, kinds)
    columns, rng = calibrate(policy, kinds), np.random.default_rng(1)
    centered = any(column.missing == "center" for column in columns)
    replayer = Replayer(press, policy, ["README.md", "fill"] if centered else [])
    cells = raw_cells(policy.sources, columns)
    if policy.privacy.l2_radius is not None:
        _compare_with_numbers(replayer, kinds, cells, rng)
    else:
        _compare_states(replayer, columns, cells, rng)
    replay_crowds(replayer, cells)
    faults = list(dict.fromkeys(replayer.faults))
    return make_check("coding", faults, "a cell comes out as its number, whatever the other cells are")


def _compare_with_numbers(
    replayer: Replayer, kinds: dict[str, str], cells: Sequence[RawCell], rng: np.random.Generator
) -> None:
    states = np.column_stack([rng.integers(0, cell.n_states, _ROWS) for cell in cells])
    raw, numbers = tables_of(replayer.policy, cells, states)
    one = replayer.publish(raw)
    other = Replayer(replayer.press, without_sources(replayer.policy, kinds), faults=replayer.faults).publish(numbers)
    if one and other and not np.array_equal(one.values, other.values):
        replayer.faults.append("raw rows do not come out as the numbers that they stand for")


def _compare_states(
    replayer: Replayer, columns: Sequence[Column], cells: Sequence[RawCell], rng: np.random.Generator
) -> None:
    """Compare tables in other states with one in which every cell is in its first."""
    first = np.zeros((_ROWS, len(cells)), dtype=np.int64)
    base, states = _raw(replayer.policy, cells, first), _alone(cells, rng)
    replaced: dict[str, NDArray[np.bool_]] = {}
    for _ in range(2):
        pair = replayer.pair(base, _raw(replayer.policy, cells, states), "tables of as many rows")
        if pair is None or pair[0].values.shape != pair[1].values.shape:
            return
        if len(pair[0].values) != _ROWS:
            replayer.faults.append(f"{len(pair[0].values)} rows were published of {_ROWS}")
            return
        moved = np.rint((pair[1].values - pair[0].values) / _steps(columns))
        for (cell, places), own in zip(_places(cells), states.T, strict=True):
            among, stays = [columns[at] for at in places], (moved[:, places] == 0).all(axis=1)
            if columns[places[0]].response is not None and cell.name not in replaced:
                replaced[cell.name] = (own > 0) & stays | (pair[0].values[:, places] != cell.numbers[0]).any(axis=1)
            replayer.faults.extend(_faults(cell, among, own, moved[:, places], replaced.get(cell.name)))
        states = _rare(cells, replaced)


def _faults(
    cell: RawCell, columns: Sequence[Column], states: _States, moved: _Floats, replaced: NDArray[np.bool_] | None
) -> list[str]:
    """Return what is wrong with how far the cells of one raw column moved, in steps."""
    numbers = np.column_stack([_on_grid(column, own) for column, own in zip(columns, cell.numbers.T, strict=True)])
    right = (moved == numbers[states] - numbers[0]).all(axis=1)
    if replaced is None:
        return [] if right.all() else [f"what becomes of a cell of {cell.name!r} depends on other cells"]
    stays = (moved == 0).all(axis=1)  # as the same level replaced both
    if (right | stays)[~replaced].all() and stays[replaced].all():
        return []
    return [f"which levels of {cell.name!r} are replaced, or by which, depends on the levels"]


def _alone(cells: Sequence[RawCell], rng: np.random.Generator) -> _States:
    """Return states that a batch's rows have in common, for the first batches, and any for the rest."""
    states = np.column_stack([rng.integers(0, cell.n_states, _ROWS) for cell in cells])
    for batch, (start, stop) in enumerate(pairwise(_cuts()[: _ALONE + 1])):
        states[start:stop] = [-1 - batch % cell.n_states for cell in cells]
    return np.remainder(states, [cell.n_states for cell in cells])


def _rare(cells: Sequence[RawCell], replaced: dict[str, NDArray[np.bool_]]) -> _States:
    """Return first states but for a few rows, those that were replaced if there are any, each in another state."""
    states = np.zeros((_ROWS, len(cells)), dtype=np.int64)
    for place, cell in enumerate(cells):
        rows = np.flatnonzero(replaced.get(cell.name, np.ones(_ROWS, dtype=bool)))[-_RARE:]
        states[rows, place] = 1 + np.arange(len(rows)) % (cell.n_states - 1)
    return states


def _cuts() -> list[int]:
    few = [_FEW * batch for batch in range(_ALONE + 1)]
    single = [few[-1] + row for row in range(1, _ALONE + 1)]
    return [*few, *single, _ROWS // 2]


def _raw(policy: Policy, cells: Sequence[RawCell], states: _States) -> pa.Table:
    arrays = {cell.name: cell.values.take(pa.array(own)) for cell, own in zip(cells, states.T, strict=True)}
    return in_batches(raw_table(policy, arrays), _cuts())


def _places(cells: Sequence[RawCell]) -> Iterator[tuple[RawCell, list[int]]]:
    """Yield cells with the places of their columns."""
    first = 0
    for cell in cells:
        yield cell, list(range(first, first + len(cell.columns)))
        first += len(cell.columns)


def _steps(columns: Sequence[Column]) -> _Floats:
    return np.array([1.0 if column.response is not None else column.cell_noise.granularity for column in columns])


def _on_grid(column: Column, numbers: _Floats) -> _Floats:
    """Return numbers of grid steps, no more than the bounds allow."""
    if column.response is not None:
        return numbers
    step = column.cell_noise.granularity
    low, high = column.bounds or (-np.inf, np.inf)
    return np.clip(np.rint(numbers / step), np.ceil(low / step), np.floor(high / step))
