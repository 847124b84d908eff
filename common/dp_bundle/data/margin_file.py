"""The data member of histograms: one row for each cell of each raw column, as Parquet.

Columns of the file are the raw column's name, the level, both ends of the cell, and the noisy count. A cell of numbers
holds x with low <= x < high, and the first and the last of a column reach to infinity. Levels that are published as a
column each have no ends, which are NaN then; the level of a cell without one is empty. Rows without a value are counted
in the last cell, whose level is `(no value)`. This reader accepts no other order, and no count that the stated noise
cannot have produced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.data.margins import Floats, Margin
from dp_bundle.data.parquet_footer import FileShape
from dp_bundle.data.parquet_pages import check_written, open_parquet
from dp_bundle.data.row_reader import in_our_words
from dp_bundle.manifest.columns import source_names
from dp_bundle.manifest.release import MARGINS_NAME, Release
from dp_bundle.manifest.sources import NO_VALUE, Source

MOST_CELLS = 1_024  # of a raw column
_GROUP_ROWS = 2**20
_TYPES = {"column": pa.string(), "level": pa.string(), "low": pa.float64(), "high": pa.float64(), "count": pa.int64()}
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _TYPES.items()])
_DEVIATIONS = 1000.0  # that no noise is away from its mean: with a probability of less than e^-1000
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
    """Return the histograms of a release by normal scores, after checking them against the manifest.

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
        raise BundleFormatError("this bundle has no histograms: it is no release by normal scores")
    names = source_names(release.columns)
    sources = {source.name: source for source in release.sources}
    levels = {level for source in release.sources for level in source.levels}
    shape = FileShape(len(names) * MOST_CELLS, _GROUP_ROWS, _SCHEMA, tuple({*names, *levels, "", NO_VALUE}))
    with in_our_words(MARGINS_NAME):
        table = open_parquet(MARGINS_NAME, file, shape, pre_buffer=False).read(use_threads=False)

    columns, found = table["column"].to_pylist(), list[Margin]()
    starts = [index for index, name in enumerate(columns) if not index or name != columns[index - 1]]
    if [columns[start] for start in starts] != names:
        raise BundleFormatError(_OTHER)
    most = release.n_rows + _DEVIATIONS * stated.sigma
    for name, start, end in zip(names, starts, [*starts[1:], len(columns)], strict=True):
        margin = _margin(name, table.slice(start, end - start), sources.get(name), release)
        if np.abs(margin.counts.astype(np.float64)).max() > most:
            raise BundleFormatError(f"{MARGINS_NAME} holds a count beyond {most:.6g}, which its noise cannot give")
        found.append(margin)
    return tuple(found)


def _ends(margin: Margin) -> tuple[Floats, Floats]:
    """Return the lower and the upper ends of a histogram's cells."""
    low, high = np.full(len(margin.counts), math.nan), np.full(len(margin.counts), math.nan)
    if margin.counts_numbers:
        low[: margin.n_filled] = [-math.inf, *margin.edges]
        high[: margin.n_filled] = [*margin.edges, math.inf]
    return low, high


def _margin(name: str, table: pa.Table, source: Source | None, release: Release) -> Margin:
    """Return one histogram, if it has the cells of its raw column."""
    labels = source.levels if source is not None else ()
    (column, *_) = [column for column in release.columns if column.source_name == name]
    has_gaps = column.missing == "indicator" or (column.missing == "midpoint" and column.bounds is None)
    counts = table["count"].to_numpy()
    edges = np.empty(0)
    if source is None or not source.has_level_columns:
        edges = table["high"].to_numpy()[: len(counts) - has_gaps - 1]

    margin = Margin(name, edges, labels, has_gaps, counts)
    if margin.n_filled != (len(labels) or len(edges) + 1) or not (
        np.isfinite(edges).all() and (np.diff(edges) > 0).all()
    ):
        raise BundleFormatError(_OTHER)
    expected = margin_table([margin])
    same = all(table[each].to_pylist() == expected[each].to_pylist() for each in ("column", "level"))
    ends = all(np.array_equal(table[each], expected[each], equal_nan=True) for each in ("low", "high"))
    if not (same and ends):
        raise BundleFormatError(_OTHER)
    return margin
