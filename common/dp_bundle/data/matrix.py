"""The data members of a covariance release: the upper triangle of a symmetric matrix, labelled, as Parquet.

Rows of the file are the entries in the order of the triangle, the first row of the matrix first. Each has the labels of
the entry's row and column, and its value. The labels are the columns' names, and last `(constant)`. Any tool reads it;
this reader accepts no other order, and no value that the stated noise cannot have produced.

A release of two rounds has the matrix of each, and the transform between them, which has no constant and no grid. What
a reader inverts must be safely invertible. The transform B is refused unless B - 10^-8 |B| I is positive definite, with
the Frobenius norm. This bounds its condition number by 10^8.

Mean and covariance in data units from a noisy sum of (z, c)(z, c)^T.

With S the noisy second moments of z and m its noisy mean, the covariance is S - m m^T. The noise on m is independent of
that on S and uncorrelated between columns. It adds its variance v to the expected diagonal of m m^T, so that

    S - m m^T + v I

has the covariance (divisor n) as its expected value. All columns are scaled back by their half-widths.
"""

import math
import os
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import BundleFormatError, ParameterError
from dp_bundle.data.parquet import GROUP_ROWS, CheckedParquet, FileShape, write_labelled
from dp_bundle.data.rows import label_places, text_to_arrow, to_arrow, to_numpy
from dp_bundle.manifest.matrix_noise import NoisyMatrix
from dp_bundle.manifest.release import COVARIANCE_NAME, FIRST_ROUND_NAME, TRANSFORM_NAME, Release

_AT_ONCE = 2**18
_LEAST_BYTES = 2**16  # in addition to one for each entry, the least that noise takes
_TYPES = {"row": pa.string(), "column": pa.string(), "value": pa.float64()}
_LEAST_EIGENVALUE = 1e-8  # of a transform, relative to its Frobenius norm
_MOST = 1e70  # of an entry, so that products of four are still numbers
_DEVIATIONS = 1000.0  # that no noise is away from its mean: with a probability of less than e^-1000
_LARGEST = 1e8  # entry of a transform, and one over its least diagonal one
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _TYPES.items()])


def write_triangle(matrix: Floats, labels: list[str], file: BinaryIO) -> None:
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
    codecs = {"row": "SNAPPY", "column": "SNAPPY", "value": "ZSTD"}
    encoding = {"value": "BYTE_STREAM_SPLIT"}
    write_labelled(
        triangle_table(matrix, labels), file, ["row", "column"], column_encoding=encoding, compression=codecs
    )


def triangle_table(matrix: Floats, labels: list[str]) -> pa.Table:
    """Return the upper triangle of a symmetric matrix as a table: its labels in the order of the file, and values."""
    rows, columns = np.triu_indices(len(labels))
    values = to_arrow(np.ascontiguousarray(matrix[rows, columns], dtype=np.float64))
    named = [text_to_arrow(labels).take(to_arrow(indices)) for indices in (rows, columns)]
    return pa.Table.from_arrays([*named, values], schema=_SCHEMA)


@dataclass(frozen=True)
class _Described:
    """A matrix as the manifest describes it; without a `noisy` sum it is a transform."""

    name: str
    labels: list[str]
    release: Release
    noisy: NoisyMatrix | None

    @property
    def is_counted(self) -> bool:
        """True if the constant's own entry counts the rows exactly, and is not on the grid."""
        return bool(self.noisy and self.noisy.constant and self.release.guarantee.neighbours.n_rows_public)


def read_triangle(file: BinaryIO, release: Release, name: str = COVARIANCE_NAME) -> Floats:
    """Return a matrix of a covariance release, after checking it against the manifest.

    Parameters
    ----------
    file : binary file
        The verified member, seekable.
    release : Release
        What the manifest says: labels, grid and number of rows.
    name : str
        The member: one of the release's `matrix_names`.

    Returns
    -------
    ndarray of float64, shape (d, d)
        Symmetric; d is the number of columns, and of the constant if it has one, which the transform has not.

    Raises
    ------
    BundleFormatError
        It is not Parquet, not the whole triangle in its order, or holds what the stated noise cannot have produced.
    ParameterError
        There is no such matrix.
    """
    described = _describe(release, name)
    d = len(described.labels)
    n_entries = d * (d + 1) // 2

    # So much memory is taken only for a file that noise has made large enough.
    if n_entries > file.seek(0, os.SEEK_END) + _LEAST_BYTES:
        raise BundleFormatError(f"{name} has fewer bytes than a matrix of {d} columns with noise")

    shape = FileShape(n_entries, GROUP_ROWS, _SCHEMA, tuple(described.labels))
    parquet = CheckedParquet(name, file, shape)
    if parquet.n_rows != n_entries:
        raise BundleFormatError(f"{name} is not the labelled triangle that its manifest describes")
    matrix, start = np.empty((d, d)), 0
    for group in range(len(parquet.group_rows)):
        for batch in parquet.read(file, group, _AT_ONCE, ["row", "column"]):
            _fill(matrix, batch, start, described)
            start += batch.num_rows
    if start != n_entries:
        raise BundleFormatError(f"{name} is not the labelled triangle that its manifest describes")
    if described.noisy is None:
        check_transform(matrix)
    else:
        _check_against_rows(matrix, described, described.noisy)
    return matrix


def check_transform(matrix: Floats) -> None:
    """Refuse, by BundleFormatError, a symmetric matrix of finite entries that is not safely invertible.

    Parameters
    ----------
    matrix : ndarray of float64, shape (p, p)
        The transform of a release of two rounds.
    """
    diagonal = np.diagonal(matrix)
    sound = bool(diagonal.min() >= 1 / _LARGEST and np.abs(matrix).max() <= _LARGEST)
    if sound:
        shifted = matrix.copy()
        shifted[np.diag_indices_from(shifted)] -= _LEAST_EIGENVALUE * float(np.linalg.norm(matrix))
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            sound = False
    if not sound:
        raise BundleFormatError(f"{TRANSFORM_NAME} cannot be inverted safely: ask the publisher for a sound bundle")


def stated_rows(matrix: Floats, constant: float, bias: float) -> int:
    """Return the number of rows that a manifest states where rows may come and go: the matrix's own, at least 1."""
    return round(min(max(estimate_rows(matrix, constant, bias), 1.0), 2.0**53))


def _describe(release: Release, name: str) -> _Described:
    """Return what the manifest says of one of its matrices."""
    moments = release.second_moments
    if moments is None:
        raise BundleFormatError("this bundle holds rows, not second moments: read its batches")
    if name not in release.matrix_names:
        raise ParameterError("name", f"one of {', '.join(release.matrix_names)}", name)
    noisy = {COVARIANCE_NAME: moments, FIRST_ROUND_NAME: moments.first_round}.get(name)
    labels = [column.name for column in release.columns] if name == TRANSFORM_NAME else release.labels
    return _Described(name, labels, release, noisy)


def _fill(matrix: Floats, batch: pa.RecordBatch, start: int, described: _Described) -> None:
    """Put the next entries of the triangle into the matrix and its mirror image."""
    d = len(matrix)
    entries = np.arange(start, start + batch.num_rows)
    firsts = np.arange(d) * (2 * d + 1 - np.arange(d)) // 2  # of the matrix's rows
    rows = np.searchsorted(firsts, entries, side="right") - 1
    columns = entries - firsts[rows] + rows

    known = text_to_arrow(described.labels)
    for name, expected in (("row", rows), ("column", columns)):
        places = label_places(batch.column(name), known)
        if places is None or not np.array_equal(places, expected):
            raise BundleFormatError(f"{described.name} is not the labelled triangle that its manifest describes")
    if batch.column("value").null_count:
        raise BundleFormatError(f"{described.name} has empty cells, which no release has")
    values = to_numpy(batch.column("value"))
    _check_values(values, rows, described)
    matrix[rows, columns] = matrix[columns, rows] = values


def _check_values(values: Floats, rows: NDArray[np.intp], described: _Described) -> None:
    """Check that entries are numbers, and on the grid."""
    if not np.isfinite(values).all():
        raise BundleFormatError(f"{described.name} holds a value that is not a number")
    if described.noisy is None:
        return
    granularity = described.noisy.granularity
    if described.is_counted:
        values = values[rows < len(described.labels) - 1]
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite number of steps is no multiple
        off = np.remainder(values / granularity, 1.0).any()
    if off:
        raise BundleFormatError(f"{described.name} holds a value that is no multiple of {granularity:g}")


def _check_against_rows(matrix: Floats, described: _Described, noisy: NoisyMatrix) -> None:
    """Check that the constant's own entry agrees with the rows, and that they and the noise can give every entry."""
    n_rows, most = described.release.n_rows, _MOST
    if noisy.constant:
        exact = matrix[-1, -1] == n_rows * noisy.constant**2
        if not (exact if described.is_counted else n_rows == stated_rows(matrix, noisy.constant, noisy.bias)):
            raise BundleFormatError(f"{described.name} has another number of rows than its manifest promises")
    if noisy.diagonal_variance is not None and noisy.off_diagonal_variance is not None and noisy.constant:
        noise = noisy.bias + _DEVIATIONS * math.sqrt(max(noisy.diagonal_variance, noisy.off_diagonal_variance))
        n_likely = n_rows + (0.0 if described.is_counted else noise / noisy.constant**2)
        most = min(most, n_likely * noisy.radius**2 + noise)  # the constant is no larger than the radius
    if np.abs(matrix).max() > most:
        raise BundleFormatError(f"{described.name} holds a value beyond {most:g}, which its noise and rows cannot give")


def mean_and_covariance(
    matrix: Floats,
    centers: Floats,
    half_widths: Floats,
    constant: float,
    *,
    n_rows: int | None = None,
    bias: float = 0.0,
    off_diagonal_variance: float = 0.0,
) -> tuple[Floats, Floats, float]:
    """Return mean, covariance and number of rows from a noisy sum of second moments.

    Parameters
    ----------
    matrix : ndarray, shape (p + 1, p + 1), or (p, p) without a constant
        The noisy sum of (z, c)(z, c)^T.
    centers, half_widths : ndarray, shape (p,)
        In data units.
    constant : float
        c; with 0 the mean is taken to be at the centres.
    n_rows : int, optional
        The number of rows where it is public; otherwise it is read from the constant's own entry.
    bias : float
        The multiple of the identity to subtract first.
    off_diagonal_variance : float
        The noise's variance on the sums, in the matrix's units.

    Returns
    -------
    mean : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        With divisor n; not necessarily positive semidefinite.
    n_rows : float
        As given, or as estimated.
    """
    p = len(centers)
    rows = float(n_rows) if n_rows is not None else estimate_rows(matrix, constant, bias)
    second = (matrix[:p, :p] - bias * np.eye(p)) / rows
    if not constant:
        return centers.copy(), second * np.outer(half_widths, half_widths), rows
    scaled_mean = matrix[:p, p] / (rows * constant)
    noise = off_diagonal_variance / (rows * constant) ** 2
    scaled = second - np.outer(scaled_mean, scaled_mean) + noise * np.eye(p)
    return centers + half_widths * scaled_mean, scaled * np.outer(half_widths, half_widths), rows


def estimate_rows(matrix: Floats, constant: float, bias: float) -> float:
    """Return the number of rows that the constant's own, noisy entry shows; not necessarily whole, or positive.

    Parameters
    ----------
    matrix : ndarray, shape (p + 1, p + 1)
        The noisy sum of (z, c)(z, c)^T.
    constant : float
        c, positive.
    bias : float
        The multiple of the identity to subtract first.
    """
    return (float(matrix[-1, -1]) - bias) / constant**2
