"""A cap on the rows of every entity: those beyond it are left out at random.

One pass counts the rows of each entity, a second keeps a simple random sample of the rows of those that have too many
(Knuth's algorithm S: each row is kept with probability wanted / left). Memory grows with the number of entities, not of
rows. Which rows are kept depends on nothing but the entities' names and chance.

References
----------
Knuth (1997), The Art of Computer Programming 2, section 3.4.2.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.errors import MissingValuesError
from dp_publish.data.table import Table


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
        self._table, self._entity, self._rows = table, entity, rows_at_once
        self._left: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        self._chance = np.random.default_rng(secrets.randbits(128))
        counts: Counter[str] = Counter()
        for batch in table.read({entity: "text"}, rows_at_once):
            if batch.column(0).null_count:
                raise MissingValuesError(entity, names_entities=True)
            for pair in pc.value_counts(batch.column(0)).to_pylist():
                counts[pair["values"]] += pair["counts"]
        crowded = {name: number for name, number in counts.items() if number > max_rows}
        self.n_left_out = sum(crowded.values()) - max_rows * len(crowded)
        self._left, self._wanted = crowded, dict.fromkeys(crowded, max_rows)

    def read(self, kinds: dict[str, str]) -> Iterator[pa.RecordBatch]:
        """Yield the kept rows of the columns in `kinds`, once; another pass draws another sample."""
        left, wanted = dict(self._left), dict(self._wanted)
        names = pa.array(list(left), pa.string())
        for batch in self._table.read({**kinds, self._entity: "text"}, self._rows):
            entities = batch.column(batch.num_columns - 1)
            keep = np.ones(batch.num_rows, dtype=bool)
            for index in pc.indices_nonzero(pc.is_in(entities, names)).to_pylist():
                name = entities[index].as_py()
                keep[index] = self._chance.integers(left[name]) < wanted[name]
                left[name] -= 1
                wanted[name] -= int(keep[index])
            yield batch.select(list(kinds)).filter(pa.array(keep))
