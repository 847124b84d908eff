"""Missing values: rows left out, gaps filled, and the counts of what was done to raw values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import ConfigDict, with_config

from dp_bundle.base.errors import MissingValuesError
from dp_bundle.manifest.columns import Column


@with_config(ConfigDict(extra="forbid"))  # as a record has it
@dataclass(repr=False)
class RowReport:
    """Counts of what was done to raw values; for the publisher's eyes only, as they tell of private data.

    They are read by their names: its repr shows none, so that neither a notebook nor a log holds them unasked. A pickle
    of it does. `n_entities` is 0 unless an entity is the unit of privacy; `beyond` counts what two rounds clip.
    """

    n_rows: int = 0
    n_dropped: int = 0
    n_over_cap: int = 0
    n_clipped_rows: int = 0
    n_entities: int = 0
    clipped: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    filled: Counter[str] = field(default_factory=Counter)
    indicated: Counter[str] = field(default_factory=Counter)

    def __repr__(self) -> str:
        return "<RowReport: private counts, to be read by their names>"

    @property
    def tells(self) -> bool:
        """True if any count is not zero."""
        return any(number for name, number in vars(self).items() if name != "n_rows")

    def add(self, other: RowReport) -> None:
        """Add what was done to other rows of the table."""
        for name, counted in vars(other).items():
            setattr(self, name, getattr(self, name) + counted)

    def count(self, counts: Counter[str], name: str, number: int) -> None:
        """Add to one of the per-column counts, leaving out zeros."""
        if number:
            counts[name] += number


def drop_missing(batch: pa.RecordBatch, columns: Sequence[Column], report: RowReport) -> pa.RecordBatch:
    """Leave out the rows that have no value in a column whose rows are then dropped; they are counted."""
    kept = batch
    if any(column.missing == "drop" for column in columns):
        kept = batch.filter(pa.array(find_complete(batch, columns)))
    report.n_dropped += batch.num_rows - kept.num_rows
    report.n_rows += kept.num_rows
    return kept


def find_complete(batch: pa.RecordBatch, columns: Sequence[Column]) -> NDArray[np.bool_]:
    """Return which rows have a value in each column whose rows are otherwise dropped."""
    complete = np.ones(batch.num_rows, dtype=bool)
    for values, column in zip(batch.columns, columns, strict=False):
        if column.missing == "drop":
            complete &= ~pc.is_null(values, nan_is_null=True).to_numpy(zero_copy_only=False)
    return complete


def fill_missing(values: pa.Array, column: Column, report: RowReport) -> pa.Array:
    """Return the values with the middle of their bounds where there are none, which is counted.

    Raises
    ------
    MissingValuesError
        The column refuses missing values, and has one.
    """
    if column.missing in ("midpoint", "indicator") and column.bounds is not None:
        middle = 0.5 * column.bounds[0] + 0.5 * column.bounds[1]
        return _filled(values, round(middle) if column.kind == "integer" else middle, column, report)
    if pc.is_null(values, nan_is_null=True).true_count:
        levels, of_moments = column.block is not None, column.noise is None
        raise MissingValuesError(column.source_name, of_moments=of_moments, has_levels=levels)
    return values


def mark_missing(values: pa.Array, column: Column, report: RowReport) -> pa.Array:
    """Return the values with NaN where there are none, which is counted, for whoever fills them later."""
    return _filled(values, math.nan, column, report)


def _filled(values: pa.Array, filler: float, column: Column, report: RowReport) -> pa.Array:
    missing = pc.is_null(values, nan_is_null=True)
    counts = report.indicated if column.missing == "indicator" else report.filled
    report.count(counts, column.name, missing.true_count)
    return pc.if_else(missing, pa.scalar(filler, values.type), values) if missing.true_count else values
