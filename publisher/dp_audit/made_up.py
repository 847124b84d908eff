"""Made-up tables in the policy's columns: canaries of all kinds mixed, empty cells among full ones, and crowds.

Rows are in an order of chance, so that every batch that a release reads holds rows of every kind, and the table comes
in batches of unequal size: the first rows, and the last ones, in batches of one row or two, so that what is done at the
edges of a batch is done to many of them. Where the unit of privacy is an entity, every canary entity has as many rows
as it may have, or a few if that is many; eight more, at the end and over several batches, have more than they may have.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_audit.canaries import Canaries, Draft, Values, far_values, inside, middle_of
from dp_bundle.manifest.columns import Column
from dp_publish.policy.model import Policy

_CROWDS = 8
_LARGEST_CROWD = 2000  # rows that an entity may have; beyond, no crowd is made up
_ALIKE = 16  # rows of an entity that are canaries, at most
_FILLED = ("midpoint", "drop")  # what becomes of empty cells that are made up; where centers are, is not known before
_EMPTY = 1000  # cells of each column
_CUTS = (0.13, 0.4, 0.41, 0.78)  # where one batch ends and the next begins
N_AT_EDGES = 240  # first rows of a table, and as many last ones, that are the first or the last of their batch


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
    n_rows : int
        How many rows the release should have.
    expected : ndarray, shape (n_rows, n_columns)
        What noise should be added to, in steps; not a number in the crowds' rows.
    """

    table: pa.Table
    drafts: list[Draft]
    places: list[NDArray[np.intp]]
    empty: dict[str, NDArray[np.intp]]
    n_rows: int
    expected: NDArray[np.float64]

    def canaries(self, noisy: NDArray[np.float64]) -> list[Canaries]:
        """Return the canaries of each kind as they came out, in steps."""
        return [draft.after(noisy[rows]) for draft, rows in zip(self.drafts, self.places, strict=True)]


def rows_alike(policy: Policy, n_columns: int) -> int:
    """Return how many rows in turn share their coins: those of an entity, as far as an attack can make use of them."""
    return min(policy.privacy.max_rows, _ALIKE, max(1, 256 // n_columns))


def crowd_rows(policy: Policy) -> int:
    """Return how many rows of each crowd there are: more than an entity may have; none without entities."""
    unit = policy.privacy.entity
    if unit is None or unit.max_rows > _LARGEST_CROWD:
        return 0
    return 2 * unit.max_rows + 3


def make_up(policy: Policy, columns: Sequence[Column], drafts: list[Draft], rng: np.random.Generator) -> MadeUp:
    """Return a table of these canaries, and of rows with empty cells, mixed."""
    gaps = [index for index, column in enumerate(columns) if column.missing in _FILLED for _ in range(_EMPTY)]
    full = inside(columns, max(len(gaps), 1), rng)
    n_full, n_gaps = sum(len(draft.coins) for draft in drafts), len(gaps)
    parts = zip(*(draft.values for draft in [*drafts, full]), strict=True)
    values = [np.concatenate(part)[: n_full + n_gaps] for part in parts]
    steps = [np.where(draft.coins, draft.high, draft.low) for draft in [*drafts, full]]
    expected = np.concatenate(steps)[: n_full + n_gaps]
    empty = np.zeros(expected.shape, dtype=bool)
    empty[n_full + np.arange(n_gaps), gaps] = True
    middles = np.array([middle_of(column) for column in columns])
    expected[empty] = np.broadcast_to(middles, expected.shape)[empty]

    order = rng.permutation(n_full + n_gaps)
    dropping = np.array([column.missing == "drop" for column in columns])
    kept = ~(empty[order] & dropping).any(axis=1)
    place_in_order = np.full(len(order), -1)
    place_in_order[order[kept]] = np.arange(np.count_nonzero(kept))
    arrays = [
        _with_gaps(column, content, gap).take(pa.array(order))
        for column, content, gap in zip(columns, values, empty.T, strict=True)
    ]
    edges = np.cumsum([0, *(len(draft.coins) for draft in drafts)])
    places = [place_in_order[start:stop] for start, stop in itertools.pairwise(edges)]
    filled = {
        column.name: place_in_order[np.flatnonzero(gap)]
        for column, gap in zip(columns, empty.T, strict=True)
        if column.missing == "midpoint"
    }
    owners = order // rows_alike(policy, len(columns))
    table, more = _with_crowds(policy, columns, arrays, owners)
    n_rows = int(np.count_nonzero(kept)) + more
    whole = np.full((n_rows, len(columns)), np.nan)
    whole[: n_rows - more] = expected[order[kept]]
    return MadeUp(table, drafts, places, filled, n_rows, whole)


def name_rows(n: int) -> list[str]:
    """Return the entities of rows that have one each."""
    return [f"row {index}" for index in range(n)]


def chunked(
    columns: Sequence[Column],
    arrays: Sequence[pa.Array],
    owners: tuple[str, pa.Array] | None,
    cuts: Sequence[int] | None = None,
) -> pa.Table:
    """Return a table in batches of unequal size; `owners` is an entity's column, by name and content."""
    names = [column.name for column in columns]
    content = [*arrays, owners[1]] if owners else list(arrays)
    return in_batches(pa.table(content, names=[*names, owners[0]] if owners else names), cuts)


def in_batches(whole: pa.Table, cuts: Sequence[int] | None = None) -> pa.Table:
    """Return a table in batches of unequal size, cut at some rows."""
    if cuts is None:
        few = [row for row in range(N_AT_EDGES) if row % 3]  # batches of one row and of two
        cuts = [int(cut * whole.num_rows) for cut in _CUTS] + few + [whole.num_rows - row for row in few]
    inner = [cut for cut in cuts if 0 <= cut <= whole.num_rows]
    edges = sorted({0, *inner, whole.num_rows})
    return pa.concat_tables([whole.slice(start, stop - start) for start, stop in itertools.pairwise(edges)])


def _with_gaps(column: Column, values: Values, gap: NDArray[np.bool_]) -> pa.Array:
    """Return a column as Arrow, with null, or NaN in turn, where a cell is empty."""
    array, null = values.copy(), gap.copy()
    if column.kind == "continuous":
        array[gap] = np.nan
        null[np.flatnonzero(gap)[::2]] = False
    return pa.array(array, mask=null)


def _with_crowds(
    policy: Policy, columns: Sequence[Column], arrays: list[pa.Array], owners: NDArray[np.intp]
) -> tuple[pa.Table, int]:
    unit, rows = policy.privacy.entity, crowd_rows(policy)
    if unit is None:
        return chunked(columns, arrays, None), 0
    n = _CROWDS * rows
    for index, column in enumerate(columns):
        _, above = far_values(column, len(columns))
        arrays[index] = pa.concat_arrays([arrays[index], pa.array(np.full(n, above[0]), arrays[index].type)])
    owners = np.concatenate([owners, -1 - np.arange(n) % _CROWDS])
    return chunked(columns, arrays, (unit.entity, pa.array(owners))), _CROWDS * unit.max_rows if rows else 0
