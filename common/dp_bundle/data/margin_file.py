"""The data member of histograms: one row for each cell of each raw column, as Parquet.

Columns of the file are the raw column's name, the level, both ends of the cell, and the noisy count. A cell of numbers
holds x with low <= x < high, and the first and the last of a column reach to infinity. Levels that are published as a
column each have no ends, which are NaN then; the level of a cell without one is empty. Rows without a value are counted
in the last cell, whose level is `(no value)`. This reader accepts no other order, no ends beyond the bounds, and no
count that the stated noise cannot have produced. Texts are compared once each, and a file has no more cells than bytes
but for some, so that a small one takes little memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.data.margins import Counts, Floats, Margin
from dp_bundle.data.parquet import CheckedParquet, FileShape, check_written
from dp_bundle.data.row_reader import label_places, text_to_arrow, to_numpy
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.release import MARGINS_NAME, Release
from dp_bundle.manifest.sources import NO_VALUE, Source

MOST_CELLS = 1_024  # of a raw column
_GROUP_ROWS = 2**20
_TYPES = {"column": pa.string(), "level": pa.string(), "low": pa.float64(), "high": pa.float64(), "count": pa.int64()}
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _TYPES.items()])
_DEVIATIONS = 1000.0  # that no noise is away from its mean: with a probability of less than e^-1000
_FARTHEST = 1e70  # an end of a cell, so that products of four are still numbers
_LEAST_BYTES = 2**16  # in addition to one for each cell, the least that noise takes
_OTHER = f"{MARGINS_NAME} does not hold the histograms that its manifest describes"


def write_margins(margins: Sequence[Margin], file: BinaryIO) -> None:
    """Write histograms; the inverse of `read_margins`.

    Parameters
    ----------
    margins : sequence of Margin
        Of all raw columns, in order.
    file : binary file
        New and empty.
    """
    table = margin_table(margins)
    labels = (*dict.fromkeys(table["column"].to_pylist()), *dict.fromkeys(table["level"].to_pylist()))
    pq.write_table(
        table,
        file,
        row_group_size=_GROUP_ROWS,
        use_dictionary=["column", "level"],
        dictionary_pagesize_limit=sum(4 + len(label.encode()) for label in labels) + 2**20,
        write_statistics=False,
        compression="ZSTD",
        store_schema=False,
        version="2.6",
    )
    check_written(file, FileShape(len(table), _GROUP_ROWS, _SCHEMA, tuple(labels)))


def margin_table(margins: Sequence[Margin]) -> pa.Table:
    """Return histograms as a table, with the columns and the order of the file."""
    columns, levels, lows, highs, counts = list[str](), list[str](), list[Floats](), list[Floats](), list[int]()
    for margin in margins:
        size, low, high = len(margin.counts), *_ends(margin)
        columns += [margin.name] * size
        levels += [*(margin.labels or [""] * margin.n_filled), *([NO_VALUE] if margin.has_gaps else [])]
        lows.append(low)
        highs.append(high)
        counts += margin.counts.tolist()
    arrays = [pa.array(columns, pa.string()), pa.array(levels, pa.string())]
    arrays += [pa.array(np.concatenate(each), pa.float64(), from_pandas=False) for each in (lows, highs)]
    return pa.Table.from_arrays([*arrays, pa.array(counts, pa.int64())], schema=_SCHEMA)


def read_margins(file: BinaryIO, release: Release) -> tuple[Margin, ...]:
    """Return the histograms of the raw columns, after checking them against the manifest.

    Parameters
    ----------
    file : binary file
        The verified member, seekable.
    release : Release
        What the manifest says.

    Returns
    -------
    tuple of Margin
        By raw column, in the order in which these are published.

    Raises
    ------
    BundleFormatError
        The release has none, or the file is not Parquet, not in its order, or holds what the noise cannot have
        produced.
    """
    stated = release.margins
    if stated is None:
        raise BundleFormatError("this release has no histograms")
    columns = {column.source_name: column for column in reversed(release.columns)}
    names, sources = [*reversed(columns)], {source.columns[0]: source for source in release.sources}
    levels = [level for source in release.sources for level in source.levels]
    known = [*dict.fromkeys([*names, *levels, "", NO_VALUE])]
    cells = _read_cells(file, known, len(names))

    starts = np.flatnonzero(np.diff(cells.names, prepend=-1))
    if not np.array_equal(cells.names[starts], np.arange(len(names))):
        raise BundleFormatError(_OTHER)
    places = {label: place for place, label in enumerate(known)}
    ends = [*starts[1:].tolist(), len(cells.names)]
    margins = tuple(
        _margin(columns[name], sources.get(columns[name].name), cells.between(start, end), places)
        for name, start, end in zip(names, starts.tolist(), ends, strict=True)
    )
    noise = _DEVIATIONS * stated.sigma
    if cells.counts.min() < -noise or cells.counts.max() > release.n_rows + noise:
        raise BundleFormatError(
            f"{MARGINS_NAME} holds a count below {-noise:.6g} or above {release.n_rows + noise:.6g}, which its rows "
            "and noise cannot give"
        )
    return margins


@dataclass(frozen=True)
class _Cells:
    """The columns of the file; texts are their places among those that may occur."""

    names: NDArray[np.int64]
    levels: NDArray[np.int64]
    low: Floats
    high: Floats
    counts: Counts

    def between(self, start: int, end: int) -> _Cells:
        """Return the cells from one place to before another."""
        own = slice(start, end)
        return _Cells(self.names[own], self.levels[own], self.low[own], self.high[own], self.counts[own])


def _read_cells(file: BinaryIO, known: list[str], n_names: int) -> _Cells:
    """Return the cells of all histograms in the order of the file, if their texts are known ones."""
    n_bytes = file.seek(0, os.SEEK_END)
    shape = FileShape(n_names * MOST_CELLS, _GROUP_ROWS, _SCHEMA, tuple(known))
    parquet = CheckedParquet(MARGINS_NAME, file, shape)
    if not 0 < parquet.n_rows <= n_bytes + _LEAST_BYTES:
        raise BundleFormatError(f"{MARGINS_NAME} has fewer bytes than so many counts with noise")
    groups = enumerate(parquet.group_rows)
    table = pa.Table.from_batches(
        [batch for group, rows in groups for batch in parquet.read(file, group, rows, ["column", "level"])]
    )

    texts, words = [], text_to_arrow(known)
    for name in ("column", "level"):
        found = [label_places(chunk, words) for chunk in table[name].chunks]
        places = [each for each in found if each is not None]
        if len(places) < len(found):
            raise BundleFormatError(_OTHER)
        texts.append(np.concatenate(places))
    if any(table[name].null_count for name in _TYPES):
        raise BundleFormatError(f"{MARGINS_NAME} has empty cells, which no release has")
    low, high, counts = (np.concatenate([*map(to_numpy, table[name].chunks)]) for name in ("low", "high", "count"))
    return _Cells(texts[0], texts[1], low, high, counts)


def _ends(margin: Margin) -> tuple[Floats, Floats]:
    """Return the lower and the upper ends of a histogram's cells."""
    low, high = np.full(len(margin.counts), math.nan), np.full(len(margin.counts), math.nan)
    if margin.counts_numbers:
        low[: margin.n_filled] = [-math.inf, *margin.edges]
        high[: margin.n_filled] = [*margin.edges, math.inf]
    return low, high


def _margin(column: Column, source: Source | None, cells: _Cells, places: dict[str, int]) -> Margin:
    """Return one histogram, if it has the cells of its raw column."""
    labels = source.levels if source is not None else ()
    n_filled = len(cells.counts) - column.has_gap_cell
    if not 0 < n_filled <= MOST_CELLS or (labels and n_filled != len(labels)):
        raise BundleFormatError(_OTHER)
    has_ends = source is None or not source.has_level_columns
    edges = cells.high[: n_filled - 1] if has_ends else np.empty(0)
    margin = Margin(column.source_name, edges, labels, column.has_gap_cell, cells.counts)

    low, high = column.bounds or (-_FARTHEST, _FARTHEST)
    due = [*(labels or [""] * n_filled), *([NO_VALUE] if column.has_gap_cell else [])]
    sound = bool((np.diff(edges) > 0).all() and ((low < edges) & (edges < high)).all())
    sound = sound and np.array_equal(cells.levels, [places[level] for level in due])
    ends = zip((cells.low, cells.high), _ends(margin), strict=True)
    if not sound or not all(np.array_equal(*each, equal_nan=True) for each in ends):
        raise BundleFormatError(_OTHER)
    return margin
