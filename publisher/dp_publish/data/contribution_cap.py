"""A cap on the rows of every entity: those beyond it are left out at random.

One pass counts the rows of each entity. Of those that have too many, the places of the rows to be kept are drawn, a
simple random sample without replacement, and a second pass keeps the rows at these places. Where a table is read in
splits, an entity's rows are numbered through all of them, so that each split is told which of its own rows to keep, and
needs no other. Memory grows with the number of entities, not of rows. Which rows are kept depends on nothing but the
entities' names and chance.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_bundle.errors import MissingValuesError
from dp_publish.data.table import Table

NAME, N_ROWS, KEPT = "entity", "n_rows", "kept"  # the columns of counts and quotas
_SUMMED = 64  # batches of counts that are added up at a time


def count_entities(batches: Iterable[pa.RecordBatch], entity: str) -> pa.Table:
    """Return the number of rows of every entity, in the columns `NAME` and `N_ROWS`; it is private.

    Parameters
    ----------
    batches : iterable of RecordBatch
        Their first column says whose row it is, as text.
    entity : str
        That column, for messages.

    Raises
    ------
    MissingValuesError
        A row is nobody's.
    """
    counts = [pa.table({NAME: pa.array([], pa.string()), N_ROWS: pa.array([], pa.int64())})]
    for batch in batches:
        names = batch.column(0)
        if names.null_count:
            raise MissingValuesError(entity, names_entities=True)
        found = pc.value_counts(names)
        counts.append(pa.table({NAME: found.field("values"), N_ROWS: found.field("counts")}))
        if len(counts) > _SUMMED:
            counts = [add_counts(counts)]
    return add_counts(counts)


def add_counts(counts: Sequence[pa.Table]) -> pa.Table:
    """Return the sum of several counts of entities."""
    summed = pa.concat_tables(counts).group_by(NAME).aggregate([(N_ROWS, "sum")])
    return pa.table({NAME: summed.column(NAME), N_ROWS: summed.column(f"{N_ROWS}_sum")}).combine_chunks()


def draw_quotas(counts: Sequence[pa.Table], max_rows: int) -> list[pa.Table]:
    """Draw which rows of entities that have more than `max_rows` are kept.

    Parameters
    ----------
    counts : sequence of Table
        Those of every split of the table, as `count_entities` gives them.
    max_rows : int
        How many rows are kept of an entity.

    Returns
    -------
    list of Table
        For each split, the entities that have too many rows, the number of rows that they have there, and, in a list in
        the column `KEPT`, which of these are kept, counted from 0. It is private.
    """
    total = add_counts(counts)
    crowded = total.filter(pc.greater(total.column(N_ROWS), max_rows)).column(NAME).combine_chunks()
    n_rows = np.stack([_rows_of(crowded, each) for each in counts])  # by split and entity
    ends = np.cumsum(n_rows, axis=0)  # of an entity's rows, numbered through all splits
    chance = np.random.default_rng(secrets.randbits(128))

    kept: list[list[NDArray[np.int64]]] = [[] for _ in counts]
    for index in range(len(crowded)):
        places = np.sort(chance.choice(ends[-1, index], max_rows, replace=False, shuffle=False))
        for split, own in enumerate(np.split(places, np.searchsorted(places, ends[:-1, index]))):
            kept[split].append(own - (ends[split, index] - n_rows[split, index]))
    quotas = [
        pa.table({NAME: crowded, N_ROWS: numbers, KEPT: _lists(each)})
        for numbers, each in zip(n_rows, kept, strict=True)
    ]
    return [quota.filter(pc.greater(quota.column(N_ROWS), 0)) for quota in quotas]


def _rows_of(names: pa.Array, counts: pa.Table) -> NDArray[np.int64]:
    """Return the number of rows of each entity, 0 of those that were not counted there."""
    places = pc.index_in(names, counts.column(NAME).combine_chunks())
    found = pc.fill_null(counts.column(N_ROWS).combine_chunks().take(places), 0)
    rows: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows


def _lists(arrays: Sequence[NDArray[np.int64]]) -> pa.ListArray:
    ends = np.cumsum([0, *map(len, arrays)]).astype(np.int32)
    values = np.concatenate([np.zeros(0, dtype=np.int64), *arrays])
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values, pa.int64()))


class Keeper:
    """What keeps the rows of a quota, in one pass over its split.

    Parameters
    ----------
    quota : Table
        The split's, as `draw_quotas` gives it.
    """

    def __init__(self, quota: pa.Table) -> None:
        self._names, kept = quota.column(NAME).combine_chunks(), quota.column(KEPT).combine_chunks()
        n_rows = quota.column(N_ROWS).to_numpy()
        self._next = np.cumsum(n_rows) - n_rows  # of all these rows, entity by entity, that of each which comes next
        self._is_kept = np.zeros(int(n_rows.sum()), dtype=bool)
        self._is_kept[kept.flatten().to_numpy() + np.repeat(self._next, pc.list_value_length(kept).to_numpy())] = True

    def keep(self, entities: pa.Array) -> NDArray[np.bool_]:
        """Return which of the next rows are kept, from the names of their entities."""
        keep = np.ones(len(entities), dtype=bool)
        if not len(self._names):
            return keep
        found = pc.index_in(entities, self._names)
        rows = np.flatnonzero(pc.is_valid(found).to_numpy(zero_copy_only=False))
        whose = found.drop_null().to_numpy(zero_copy_only=False)
        order = np.argsort(whose, kind="stable")
        owners, starts, numbers = np.unique(whose[order], return_index=True, return_counts=True)
        places = np.arange(len(whose)) + np.repeat(self._next[owners] - starts, numbers)
        keep[rows[order]] = self._is_kept[places]
        self._next[owners] += numbers
        return keep


class EntityCap:
    """The rows of a table, up to a cap for each entity.

    Parameters
    ----------
    table : Table
        Read once here, to count.
    entity : str
        The column that tells whose row it is; any type, no missing values.
    max_rows : int
        How many rows of an entity are kept.
    rows_at_once : int
        The size of the batches.

    Attributes
    ----------
    n_left_out : int
        How many rows will be left out.
    """

    def __init__(self, table: Table, entity: str, max_rows: int, rows_at_once: int) -> None:
        self._table, self._entity, self._rows, self._max_rows = table, entity, rows_at_once, max_rows
        counts = count_entities(table.read({entity: "text"}, rows_at_once), entity)
        self._crowded = counts.filter(pc.greater(counts.column(N_ROWS), max_rows))
        self.n_left_out = (pc.sum(self._crowded.column(N_ROWS)).as_py() or 0) - max_rows * len(self._crowded)

    def read(self, kinds: dict[str, str]) -> Iterator[pa.RecordBatch]:
        """Yield the kept rows of the columns in `kinds`, once; another pass draws another sample."""
        (quota,) = draw_quotas([self._crowded], self._max_rows)
        keeper = Keeper(quota)
        for batch in self._table.read({**kinds, self._entity: "text"}, self._rows):
            keep = keeper.keep(batch.column(batch.num_columns - 1))
            yield batch.select(list(kinds)).filter(pa.array(keep))
