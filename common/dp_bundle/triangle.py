"""The data member of a covariance release: the upper triangle of a symmetric matrix, labelled, as Parquet.

Rows of the file are the entries in the order of the triangle, the first row of the matrix first: the labels of the
entry's row and column, and its value. The labels are the columns' names, and last `(constant)`. Any tool reads it; this
reader accepts no other order, and no value that the stated noise cannot have produced.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_bundle.arrays import text_to_arrow, to_arrow, to_numpy
from dp_bundle.errors import BundleFormatError
from dp_bundle.manifest import COVARIANCE_NAME, Release
from dp_bundle.recovery import estimate_rows

__all__ = ["read_triangle", "stated_rows", "triangle_table", "write_triangle"]

_MAX_BYTES = 2**33  # uncompressed
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
        use_dictionary=["row", "column"],
        column_encoding={"value": "BYTE_STREAM_SPLIT"},
        compression={"row": "SNAPPY", "column": "SNAPPY", "value": "ZSTD"},
        store_schema=False,
        version="2.6",
    )


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
    rows, columns = np.triu_indices(len(labels))
    try:
        parquet = pq.ParquetFile(file, pre_buffer=False)
        _check_size(parquet, len(rows))
        table = parquet.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise BundleFormatError(
            f"{COVARIANCE_NAME} is not readable as Parquet: ask the publisher for a sound bundle"
        ) from error
    for name, expected in (("row", rows), ("column", columns)):
        if not table.column(name).equals(pa.chunked_array([_named(labels, expected)])):
            raise BundleFormatError(f"{COVARIANCE_NAME} is not the labelled triangle that its manifest describes")
    if table.column("value").null_count:
        raise BundleFormatError(f"{COVARIANCE_NAME} has empty cells, which no release has")
    matrix = np.empty((len(labels), len(labels)))
    matrix[rows, columns] = matrix[columns, rows] = to_numpy(table.column("value").combine_chunks())
    _check_values(matrix, release)
    return matrix


def stated_rows(matrix: NDArray[np.float64], constant: float, bias: float) -> int:
    """Return the number of rows that a manifest states where rows may come and go: the matrix's own, at least 1."""
    return round(min(max(estimate_rows(matrix, constant, bias), 1.0), 2.0**53))


def _named(labels: list[str], indices: NDArray[np.intp]) -> pa.Array:
    return text_to_arrow(labels).take(to_arrow(indices))


def _check_size(parquet: pq.ParquetFile, n_entries: int) -> None:
    """Check the shape before anything of that size is read."""
    found, metadata = parquet.schema_arrow, parquet.metadata
    if found.names != _SCHEMA.names or found.types != _SCHEMA.types or metadata.num_rows != n_entries:
        raise BundleFormatError(f"{COVARIANCE_NAME} is not the labelled triangle that its manifest describes")
    if sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups)) > _MAX_BYTES:
        raise BundleFormatError(f"{COVARIANCE_NAME} has more than {_MAX_BYTES} bytes")


def _check_values(matrix: NDArray[np.float64], release: Release) -> None:
    moments, guarantee = release.second_moments, release.guarantee
    if moments is None or guarantee is None:
        raise BundleFormatError("this bundle holds rows, not second moments: read its batches")
    if not np.isfinite(matrix).all():
        raise BundleFormatError(f"{COVARIANCE_NAME} holds a value that is not a number")
    noisy = matrix[np.triu_indices(len(matrix))]
    if moments.constant:
        if guarantee.neighbours == "add-remove":
            fits = release.n_rows == stated_rows(matrix, moments.constant, moments.bias)
        else:  # exact, and on no grid
            fits, noisy = matrix[-1, -1] == release.n_rows * moments.constant**2, noisy[:-1]
        if not fits:
            raise BundleFormatError(f"{COVARIANCE_NAME} has another number of rows than its manifest promises")
    with np.errstate(over="ignore", invalid="ignore"):  # infinitely many steps are no multiple
        off = moments.granularity is not None and np.remainder(noisy / moments.granularity, 1.0).any()
    if off:
        raise BundleFormatError(f"{COVARIANCE_NAME} holds a value that is no multiple of {moments.granularity:g}")
