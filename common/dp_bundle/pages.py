"""The page headers of a Parquet file, read before anything is decoded: what a file could make a decoder do is bounded.

A page states how many values it holds and how large it is uncompressed, and a decoder believes it; neither stands in
the footer. So every header is looked at: the pages of a chunk lie end to end in it and have no more values than their
row group has rows, and none is larger than so many values are. No reader in a library shows these headers.

References
----------
Apache Parquet format 2.10, parquet.thrift (PageHeader). Apache Thrift compact protocol.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dp_bundle.errors import BundleFormatError

__all__ = ["MOST_CELLS_PER_BYTE", "Shape", "open_parquet"]

MOST_CELLS_PER_BYTE = 64
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3  # types of pages
_LONGEST_HEADER = 1024
_SLACK = 64  # bytes of a page that hold no value
_NUMBER = 8  # bytes of a value
_PER_CHUNK, _PER_FILE = 1024, 2**16  # bytes of a footer, besides names
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


@dataclass(frozen=True)
class Shape:
    """What a file of ours may hold at most.

    Attributes
    ----------
    n_rows : int
        Of the file.
    group_rows : int
        Of a row group.
    schema : pyarrow.Schema
        Names and types of its columns: numbers of 8 bytes, and text.
    text_bytes : int
        How large a dictionary of text may be. One of numbers has at most one for each row of its group.
    """

    n_rows: int
    group_rows: int
    schema: pa.Schema
    text_bytes: int = 0


def open_parquet(name: str, file: BinaryIO, shape: Shape, **options: Any) -> pq.ParquetFile:
    """Return a Parquet file whose footer and page headers keep to a shape.

    Parameters
    ----------
    name : str
        The member, for messages.
    file : binary file
        Seekable.
    shape : Shape
        What it may hold at most.
    **options
        Of `pyarrow.parquet.ParquetFile`.

    Raises
    ------
    BundleFormatError
        The file could make a decoder do more than the shape allows.
    ArrowException, OSError, ValueError
        It is no Parquet.
    """
    most_groups = shape.n_rows // max(1, shape.group_rows) + 2
    n_columns, names = len(shape.schema), sum(len(column.encode()) for column in shape.schema.names)
    footer = (most_groups + 1) * (n_columns * _PER_CHUNK + names) + _PER_FILE
    if _footer_size(file) > footer:
        raise BundleFormatError(f"{name} has a footer larger than that of any release")
    parquet = pq.ParquetFile(
        file,
        thrift_container_size_limit=most_groups + 4 * n_columns + 1000,
        thrift_string_size_limit=_PER_FILE,
        **options,
    )
    found = parquet.schema_arrow
    if found.names != shape.schema.names or found.types != shape.schema.types:
        raise BundleFormatError(f"{name} does not have the columns that its manifest describes")
    _check_groups(name, file, parquet.metadata, shape)
    return parquet


def _footer_size(file: BinaryIO) -> int:
    file.seek(-min(8, file.seek(0, os.SEEK_END)), os.SEEK_END)
    end = file.read(8)
    return int.from_bytes(end[:4], "little") if end.endswith(b"PAR1") else 0


def _check_groups(name: str, file: BinaryIO, metadata: pq.FileMetaData, shape: Shape) -> None:
    if metadata.num_rows > shape.n_rows:
        raise BundleFormatError(f"{name} has more rows than its manifest promises")
    if metadata.num_rows * metadata.num_columns > MOST_CELLS_PER_BYTE * file.seek(0, os.SEEK_END):
        raise BundleFormatError(f"{name} has more values than noise leaves room for in so few bytes")
    if metadata.num_row_groups > metadata.num_rows // max(1, shape.group_rows) + 2:
        raise BundleFormatError(f"{name} has more row groups than its rows need")
    limits = [shape.text_bytes if kind == pa.string() else None for kind in shape.schema.types]
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        if not 0 <= group.num_rows <= shape.group_rows:
            raise BundleFormatError(f"{name} has a row group of {group.num_rows} rows")
        for column, limit in enumerate(limits):
            _check_chunk(name, file, group.column(column), group.num_rows, limit)


def _check_chunk(name: str, file: BinaryIO, chunk: pq.ColumnChunkMetaData, n_rows: int, limit: int | None) -> None:
    """Check the pages of one column in one row group."""
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    position, end, found = start, start + chunk.total_compressed_size, 0
    if not 0 <= start <= end:
        raise BundleFormatError(f"{name} has a column outside the file")
    while position < end:
        is_first = position == start
        kind, size, stored, n_values, position = _page_at(name, file, position)
        position += stored
        if kind == _DICTIONARY:
            largest = n_values * _NUMBER if limit is None else limit
            sound = is_first and n_values <= (n_rows if limit is None else limit)
        else:
            largest = n_values * _NUMBER + _SLACK
            sound = kind in (_DATA, _DATA_V2) and n_values <= n_rows - found
            found += n_values
        if not sound or size > largest or stored > size + size // 8 + _LONGEST_HEADER:
            raise BundleFormatError(f"{name} has a page larger than its values need")
    if position != end or found != n_rows or chunk.num_values != n_rows:
        raise BundleFormatError(f"{name} has a column whose pages do not hold the values of its rows")


def _page_at(name: str, file: BinaryIO, position: int) -> tuple[int, int, int, int, int]:
    """Return a page's type, its size before and after compression, its number of values, and where it begins."""
    file.seek(position)
    reader = _Compact(file.read(_LONGEST_HEADER))
    try:
        header = reader.struct()
        kind, size, stored = header[1], header[2], header[3]
        n_values = header[{_DATA: 5, _DICTIONARY: 7}.get(kind, 8)][1]
    except (IndexError, KeyError, TypeError) as error:
        raise BundleFormatError(f"{name} has a page without a header") from error
    if min(size, stored, n_values) < 0:
        raise BundleFormatError(f"{name} has a page of negative size")
    return kind, size, stored, n_values, position + reader.position


class _Compact:
    """A reader of the Thrift compact protocol, as far as page headers need it: integers and structs of integers.

    Raises IndexError where the bytes end, and TypeError for what it does not know.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields by their numbers; what is no integer or struct of integers is skipped, as None."""
        if depth > 3:
            raise TypeError("structs in structs")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return None
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._skip(self._varint())
        if kind in (_BYTE, _DOUBLE):
            return self._skip(1 if kind == _BYTE else 8)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise TypeError("a kind that page headers do not have")

    def _skip(self, size: int) -> None:
        self.position += size
        if self.position > len(self.content):
            raise IndexError

    def _byte(self) -> int:
        self.position += 1
        return self.content[self.position - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
