"""The data member of a covariance release: the upper triangle of a symmetric matrix, labelled, as Parquet.

Rows of the file are the entries in the order of the triangle, the first row of the matrix first: the labels of the
entry's row and column, and its value. The labels are the columns' names, and last `(constant)`. Any tool reads it; this
reader accepts no other order, and no value that the stated noise cannot have produced.
"""

from __future__ import annotations

import os
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_bundle.data.arrow_numpy import text_to_arrow, to_arrow, to_numpy
from dp_bundle.data.parquet_footer import Shape
from dp_bundle.data.parquet_pages import check_written, open_parquet
from dp_bundle.data.recovery import estimate_rows
from dp_bundle.errors import BundleFormatError
from dp_bundle.manifest import COVARIANCE_NAME, Release

_GROUP_ROWS = 2**20
_AT_ONCE = 2**18
_LEAST_BYTES = 2**16  # in addition to one for each entry, the least that noise takes
_TYPES = {"row": pa.string(), "column": pa.string(), "value": pa.float64()}
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _TYPES.items()])


def write_triangle(matrix: NDArray[np.float64], labels: list[str], file: BinaryIO) -> None:
    """Write a symmetric matrix; the inverse of `read_triangle`.

    Parameters
    ----------
    matrix : ndarray of float64, shape (d, d)
        Of which the upper triangle is written.
    labels : list of str
        Of its rows and columns: d of them.
    file : binary file
        New and empty.
    """
    pq.write_table(
        triangle_table(matrix, labels),
        file,
        row_group_size=_GROUP_ROWS,
        use_dictionary=["row", "column"],
        dictionary_pagesize_limit=sum(4 + len(label.encode()) for label in labels) + 2**20,
        column_encoding={"value": "BYTE_STREAM_SPLIT"},
        write_statistics=False,
        compression={"row": "SNAPPY", "column": "SNAPPY", "value": "ZSTD"},
        store_schema=False,
        version="2.6",
    )
    check_written(file, Shape(len(labels) * (len(labels) + 1) // 2, _GROUP_ROWS, _SCHEMA, tuple(labels)))


def triangle_table(matrix: NDArray[np.float64], labels: list[str]) -> pa.Table:
    """Return the upper triangle of a symmetric matrix as a table: its labels in the order of the file, and values."""
    rows, columns = np.triu_indices(len(labels))
    values = to_arrow(np.ascontiguousarray(matrix[rows, columns], dtype=np.float64))
    return pa.Table.from_arrays([_named(labels, rows), _named(labels, columns), values], schema=_SCHEMA)


def read_triangle(file: BinaryIO, release: Release) -> NDArray[np.float64]:
    """Return the matrix of a covariance release, after checking it against the manifest.

    Parameters
    ----------
    file : binary file
        The verified member, seekable.
    release : Release
        What the manifest says: labels, grid and number of rows.

    Returns
    -------
    ndarray of float64, shape (d, d)
        Symmetric.

    Raises
    ------
    BundleFormatError
        It is not Parquet, not the whole triangle in its order, or holds what the stated noise cannot have produced.
    """
    labels = release.labels
    n_entries = len(labels) * (len(labels) + 1) // 2

    # So much memory is taken only for a file that noise has made large enough.
    if n_entries > file.seek(0, os.SEEK_END) + _LEAST_BYTES:
        raise BundleFormatError(f"{COVARIANCE_NAME} has fewer bytes than a matrix of {len(labels)} columns with noise")

    statistics = release.format_version == "1"
    shape = Shape(n_entries, _GROUP_ROWS, _SCHEMA, tuple(labels), statistics=statistics)
    try:
        parquet = open_parquet(COVARIANCE_NAME, file, shape, pre_buffer=False, read_dictionary=["row", "column"])
        if parquet.metadata.num_rows != n_entries:
            raise BundleFormatError(f"{COVARIANCE_NAME} is not the labelled triangle that its manifest describes")
        matrix, start = np.empty((len(labels), len(labels))), 0
        for batch in parquet.iter_batches(_AT_ONCE, use_threads=False):
            _fill(matrix, batch, start, release)
            start += batch.num_rows
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BundleFormatError(
            f"{COVARIANCE_NAME} is not readable as Parquet: ask the publisher for a sound bundle"
        ) from error

    if start != n_entries:
        raise BundleFormatError(f"{COVARIANCE_NAME} is not the labelled triangle that its manifest describes")
    _check_corner(matrix, release)
    return matrix


def stated_rows(matrix: NDArray[np.float64], constant: float, bias: float) -> int:
    """Return the number of rows that a manifest states where rows may come and go: the matrix's own, at least 1."""
    return round(min(max(estimate_rows(matrix, constant, bias), 1.0), 2.0**53))


def _named(labels: list[str], indices: NDArray[np.intp]) -> pa.Array:
    return text_to_arrow(labels).take(to_arrow(indices))


def _fill(matrix: NDArray[np.float64], batch: pa.RecordBatch, start: int, release: Release) -> None:
    """Put the next entries of the triangle into the matrix and its mirror image."""
    d = len(matrix)
    entries = np.arange(start, start + batch.num_rows)
    firsts = np.arange(d) * (2 * d + 1 - np.arange(d)) // 2  # of the matrix's rows
    rows = np.searchsorted(firsts, entries, side="right") - 1
    columns = entries - firsts[rows] + rows

    known = text_to_arrow(release.labels)
    for name, expected in (("row", rows), ("column", columns)):
        if not _is_labelled(batch.column(name), known, expected):
            raise BundleFormatError(f"{COVARIANCE_NAME} is not the labelled triangle that its manifest describes")
    if batch.column("value").null_count:
        raise BundleFormatError(f"{COVARIANCE_NAME} has empty cells, which no release has")
    values = to_numpy(batch.column("value"))
    _check_values(values, rows, release)
    matrix[rows, columns] = matrix[columns, rows] = values


def _is_labelled(found: pa.DictionaryArray, known: pa.StringArray, expected: NDArray[np.intp]) -> bool:
    """Return True if entries have the expected labels; each label is compared once, however often it occurs."""
    if found.null_count or found.indices.null_count or len(found.dictionary) > len(known):
        return False
    places = pc.index_in(found.dictionary, value_set=known)
    if places.null_count:
        return False
    indices = to_numpy(found.indices.cast(pa.int64()))
    if indices.min() < 0 or indices.max() >= len(places):  # pyarrow does not check
        return False
    return bool(np.array_equal(to_numpy(places.cast(pa.int64()))[indices], expected))


def _check_values(values: NDArray[np.float64], rows: NDArray[np.intp], release: Release) -> None:
    """Check that entries are numbers, and on the grid."""
    moments, guarantee = release.second_moments, release.guarantee
    if moments is None or guarantee is None:
        raise BundleFormatError("this bundle holds rows, not second moments: read its batches")
    if not np.isfinite(values).all():
        raise BundleFormatError(f"{COVARIANCE_NAME} holds a value that is not a number")
    if moments.granularity is None:
        return
    if moments.constant and guarantee.neighbours.n_rows_public:  # its own entry is exact, and not on the grid
        values = values[rows < len(release.labels) - 1]
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite number of steps is no multiple
        off = np.remainder(values / moments.granularity, 1.0).any()
    if off:
        raise BundleFormatError(f"{COVARIANCE_NAME} holds a value that is no multiple of {moments.granularity:g}")


def _check_corner(matrix: NDArray[np.float64], release: Release) -> None:
    """Check that the constant's own entry agrees with the number of rows."""
    moments, guarantee = release.second_moments, release.guarantee
    if moments is None or guarantee is None or not moments.constant:
        return
    if not guarantee.neighbours.n_rows_public:
        fits = release.n_rows == stated_rows(matrix, moments.constant, moments.bias)
    else:
        fits = matrix[-1, -1] == release.n_rows * moments.constant**2
    if not fits:
        raise BundleFormatError(f"{COVARIANCE_NAME} has another number of rows than its manifest promises")
