"""The rows of verified data members: their row groups in order, each to be read by any thread.

Reading needs memory for one batch, in every thread.

Conversions between Arrow and numpy, without copying, and without pandas, which pyarrow's own ones import.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.base.quoting import quote_name
from dp_bundle.data.parquet import CheckedParquet, FileShape
from dp_bundle.data.rows import group_rows, part_schema
from dp_bundle.manifest.columns import Column

_TYPES = {pa.float64(): np.float64, pa.int64(): np.int64}


def to_numpy(values: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a float64 or int64 array as a read-only view; nulls are whatever lies under them."""
    data = values.buffers()[1]
    return np.frombuffer(data, _TYPES[values.type], len(values), 8 * values.offset) if len(values) else np.empty(0)


def to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Return a contiguous numpy array as an Arrow array without nulls that shares its memory."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def text_to_arrow(texts: Sequence[str]) -> pa.StringArray:
    """Return texts as an Arrow array without nulls."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *(len(each) for each in encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def label_places(found: pa.DictionaryArray, known: pa.StringArray) -> npt.NDArray[np.int64] | None:
    """Return the place of each text among the known ones, or None if it has none there or an index leads nowhere.

    Each text is compared once, however often it occurs.
    """
    if found.null_count or found.indices.null_count or len(found.dictionary) > len(known):
        return None
    places = pc.index_in(found.dictionary, value_set=known)
    if places.null_count:
        return None
    indices = to_numpy(found.indices.cast(pa.int64()))
    if len(indices) and (indices.min() < 0 or indices.max() >= len(places)):  # pyarrow does not check
        return None
    return to_numpy(places.cast(pa.int64()))[indices] if len(indices) else np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class RowGroup:
    """A row group of a part, of which footer and page headers were checked; what a reader takes at a time.

    Attributes
    ----------
    part : str
        The member.
    start : int
        The number of its first row among all of the bundle.
    n_rows : int
        How many rows it has.
    read : callable
        Returns the rows; several threads may read several groups at once.
    """

    part: str
    start: int
    n_rows: int
    read: Callable[[], pa.RecordBatch]


def find_groups(
    parts: Iterable[tuple[str, Callable[[], BinaryIO]]],
    columns: tuple[Column, ...],
    n_rows: int,
) -> Iterator[RowGroup]:
    """Yield the row groups of all parts in order, each to be read by any thread.

    Parameters
    ----------
    parts : iterable of (name, callable)
        Verified data members, and what opens a new view of each.
    columns : tuple of Column
        What the manifest says of them.
    n_rows : int
        How many rows it promises in all.

    Raises
    ------
    BundleFormatError
        Here or when a group is read: a part is not Parquet as our writer writes it, its schema or row count is not the
        promised one, or a value is no number.
    """
    seen = 0
    for name, new_view in parts:
        for group in part_groups(name, new_view, columns, n_rows, seen):
            yield group
            seen += group.n_rows
    require_all_rows(seen, n_rows)


def part_groups(
    name: str,
    new_view: Callable[[], BinaryIO],
    columns: tuple[Column, ...],
    n_rows: int,
    start: int,
) -> Iterator[RowGroup]:
    """Yield the row groups of one part, like `find_groups`, for a caller who counts the rows of all parts.

    Parameters
    ----------
    name, new_view
        The part, and what opens a new view of it.
    columns, n_rows
        As of `find_groups`.
    start : int
        The number of its first row.

    Raises
    ------
    BundleFormatError
        As `find_groups` does.
    """
    shape = FileShape(n_rows - start, group_rows(len(columns)), part_schema(columns))
    with contextlib.closing(new_view()) as file:
        parquet = CheckedParquet(name, file, shape)
    for index, size in enumerate(parquet.group_rows):
        yield RowGroup(name, start, size, partial(_read_group, name, new_view, parquet, index, columns))
        start += size


def require_all_rows(seen: int, n_rows: int) -> None:
    """Check that all parts together have the rows that the manifest promises.

    Raises
    ------
    BundleFormatError
        They have more or fewer.
    """
    if seen != n_rows:
        raise BundleFormatError(f"the bundle holds {seen} rows where its manifest promises {n_rows}")


def _read_group(
    name: str, new_view: Callable[[], BinaryIO], parquet: CheckedParquet, index: int, columns: tuple[Column, ...]
) -> pa.RecordBatch:
    with contextlib.closing(new_view()) as file:
        (batch,) = parquet.read(file, index, parquet.group_rows[index])
    _check_cells(name, batch, columns)
    return batch


def _check_cells(name: str, batch: pa.RecordBatch, columns: tuple[Column, ...]) -> None:
    """Check that no cell is empty, every value finite, and every drawn level one; readers compare with the grid."""
    if any(column.null_count for column in batch.columns):
        raise BundleFormatError(f"{name} has empty cells, which no release has")
    for column, found in zip(columns, batch.columns, strict=True):
        if column.kind == "continuous" and not np.isfinite(to_numpy(found)).all():
            raise BundleFormatError(f"{name} has a value in {quote_name(column.name)} that is not a number")
    levels: dict[str, list[npt.NDArray[np.int64]]] = {}
    for column, found in zip(columns, batch.columns, strict=True):
        if column.response is not None:
            levels.setdefault(column.block or column.name, []).append(to_numpy(found))
    for cell, drawn in levels.items():
        if not _are_levels(drawn):
            raise BundleFormatError(
                f"{name} has a row in {quote_name(cell)} that is of no level, or of several, which randomised response "
                "never gives"
            )


def _are_levels(drawn: list[npt.NDArray[np.int64]]) -> bool:
    """Return True if indicators are 0 or 1, and in every row one of several is 1."""
    if not all(int(each.min()) >= 0 and int(each.max()) <= 1 for each in drawn if len(each)):
        return False
    return len(drawn) == 1 or bool((np.sum(drawn, axis=0) == 1).all())
