"""The row mechanism: clip, snap to the grid, add noise, batch by batch.

Every cell becomes an integer number of grid steps within its column's bounds, and an integer number of steps of noise
is added (see `noise`). The bounds in use are the outermost grid points inside the declared ones: clipping is never
wider than declared. `add_noise` is a pure function of a batch and of random bits: nothing in it knows where it runs.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from dp_bundle.data.rows import part_schema, to_arrow, to_numpy
from dp_bundle.manifest.columns import Column, RandomizedResponse
from dp_publish.rows.missing import RowReport, drop_missing, fill_missing
from dp_publish.rows.noise import ROW_NOISE, respond
from dp_publish.sampling.keystream import Keystream


def add_noise(
    batch: pa.RecordBatch, columns: Sequence[Column], keystream: Keystream, report: RowReport
) -> pa.RecordBatch:
    """Clip, snap and add noise to one batch.

    Parameters
    ----------
    batch : RecordBatch
        Raw values as float64 or int64, nulls allowed; its columns are those of `columns`, in order.
    columns : sequence of Column
        What each column's bounds and noise are, and what becomes of missing values.
    keystream : Keystream
        Where the random bits come from.
    report : RowReport
        Counts are added to it.

    Returns
    -------
    RecordBatch
        Noisy values, without nulls; fewer rows if some were dropped.

    Raises
    ------
    MissingValuesError
        A column that refuses missing values has one.
    """
    kept = drop_missing(batch, columns, report)
    noisy: list[pa.Array] = []
    for _, group in groupby(columns, key=lambda column: (column.block, "" if column.block else column.name)):
        members = list(group)
        raw = [kept.column(len(noisy) + index) for index in range(len(members))]
        if members[0].response is not None:
            noisy += _responses(raw, members, members[0].response, keystream, report)
        else:
            noisy += [_noisy_column(*each, keystream, report) for each in zip(raw, members, strict=True)]
    return pa.RecordBatch.from_arrays(noisy, schema=part_schema(columns))


def _responses(
    raw: Sequence[pa.Array],
    columns: Sequence[Column],
    response: RandomizedResponse,
    keystream: Keystream,
    report: RowReport,
) -> list[pa.Array]:
    """Return the columns of a category, or of a truth value, with some of its levels replaced."""
    values = [to_numpy(fill_missing(each, column, report)) for each, column in zip(raw, columns, strict=True)]
    if len(columns) == 1:
        codes = np.clip(values[0], 0, 1)
        report.count(report.clipped, columns[0].name, int(np.count_nonzero(codes != values[0])))
        return [to_arrow(respond(codes, response, keystream))]
    codes = np.zeros(len(values[0]), dtype=np.int64)
    for level, indicator in enumerate(values):
        codes += level * (indicator > 0)
    out = respond(codes, response, keystream)
    return [to_arrow((out == level).astype(np.int64)) for level in range(len(columns))]


def _noisy_column(values: pa.Array, column: Column, keystream: Keystream, report: RowReport) -> pa.Array:
    noisy, outside = ROW_NOISE[column.kind].add(fill_missing(values, column, report), column, keystream)
    report.count(report.clipped, column.name, outside)
    return to_arrow(noisy)
