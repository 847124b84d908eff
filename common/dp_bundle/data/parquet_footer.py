"""The footer of a Parquet file, parsed here before a library sees it: what our writer writes, and nothing else.

A library trusts a footer: it allocates what lists announce, and some of its checks abort the process. An accepted
footer has the columns of the manifest, and row groups that are full except the last, each with a chunk for every
column. Chunks lie end to end from the start of the file to the footer. There is no index, filter, key or other text.

Headers are in the Thrift compact protocol, which is read strictly. A form says which fields a struct may have, each of
its type, once. Fields come in ascending order, numbers in their shortest spelling, and are never negative; texts and
lists have a maximal length, which is checked before anything is allocated.

References
----------
Apache Parquet format 2.10, parquet.thrift (FileMetaData). Apache Thrift compact protocol,
doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar, NamedTuple

import pyarrow as pa

from dp_bundle.base.errors import BundleFormatError

MOST_CELLS_PER_BYTE = 64
_MOST_BITS = 70  # of a number, in bytes of 7 bits
_MAGIC = b"PAR1"
_VERSION = 2  # of the format
_MAKER = re.compile(rb"parquet-cpp-arrow version [0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(-SNAPSHOT)?")
_INT64, _DOUBLE, _BYTE_ARRAY = 2, 5, 6
_TYPES = {pa.int64(): _INT64, pa.float64(): _DOUBLE, pa.string(): _BYTE_ARRAY}
_CODECS = (0, 1, 6)  # none, Snappy, Zstandard
_NUMBER = 8  # bytes of a value
_PER_FILE, _PER_COLUMN, _PER_GROUP, _PER_CHUNK = 256, 64, 64, 256  # bytes of a footer, in addition to names and labels
_OTHER_COLUMNS = "does not have the columns that its manifest describes"


@dataclass(frozen=True, slots=True)
class Integer:
    """A non-negative number: its type on the wire, and its largest value."""

    wire: int
    most: int

    def read(self, content: bytes, position: int) -> tuple[int, int]:
        """Return the number, and the position after it."""
        value, position = _varint(content, position)
        if value & 1 or value > 2 * self.most:  # zigzag: odd are the negative ones
            raise BundleFormatError("has a header with a number out of range")
        return value >> 1, position


@dataclass(frozen=True, slots=True)
class Bool:
    """A Boolean, which a field encodes in its type: 1 is true, 2 is false."""

    wire: ClassVar[int] = 2


I16, I32, I64 = Integer(4, 2**15 - 1), Integer(5, 2**31 - 1), Integer(6, 2**63 - 1)
BOOL = Bool()


@dataclass(frozen=True, slots=True)
class BoundedBytes:
    """Bytes, at most so many."""

    most: int
    wire: ClassVar[int] = 8

    def read(self, content: bytes, position: int) -> tuple[bytes, int]:
        """Return the bytes, and the position after them."""
        size, start = _varint(content, position)
        if size > self.most or start + size > len(content):
            raise BundleFormatError("has a header with a text that is too long")
        return content[start : start + size], start + size


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of one kind of values, of bounded length; `make` turns it into an object."""

    kind: Integer | BoundedBytes | Struct
    least: int
    most: int
    make: Callable[[list[Any]], Any] | None = None
    wire: ClassVar[int] = 9

    def read(self, content: bytes, position: int) -> tuple[Any, int]:
        """Return the values, or the object made of them, and the position after them."""
        size, wire = content[position] >> 4, content[position] & 15
        position += 1
        if size == 15:
            size, position = _varint(content, position)
        if wire != self.kind.wire or not self.least <= size <= self.most:
            raise BundleFormatError("has a header with a list that no release has")
        values = []
        for _ in range(size):
            value, position = self.kind.read(content, position)
            values.append(value)
        return (self.make(values) if self.make else values), position


@dataclass(frozen=True, slots=True)
class Struct:
    """A form: the allowed fields, the required ones, and `make`, which turns them into an object."""

    fields: Mapping[int, Kind]
    required: frozenset[int] = field(default=frozenset())
    make: Callable[[dict[int, Any]], Any] | None = None
    wire: ClassVar[int] = 12

    def read(self, content: bytes, position: int) -> tuple[Any, int]:
        """Return the fields by their numbers, or the object made of them, and the position after them."""
        fields, found, number = self.fields, dict[int, Any](), 0
        while head := content[position]:
            position += 1
            number += head >> 4
            kind, wire = fields.get(number), head & 15
            if kind is None or head < 16:  # a step of 0 is the long form, which no number needs
                raise BundleFormatError("has a header with a field that no release has")
            if isinstance(kind, Bool):
                found[number], wire = wire == 1, kind.wire if wire == 1 else wire
            elif wire == kind.wire:
                found[number], position = kind.read(content, position)
            if wire != kind.wire:
                raise BundleFormatError("has a header with a field of another type")
        if not self.required <= found.keys():
            raise BundleFormatError("has a header that lacks a field")
        return (self.make(found) if self.make else found), position + 1


Kind = Integer | Bool | BoundedBytes | Listing | Struct


def read_struct(content: bytes, position: int, form: Struct) -> tuple[Any, int]:
    """Read one struct.

    Parameters
    ----------
    content : bytes
        What holds it.
    position : int
        Where it begins.
    form : Struct
        What it may be.

    Returns
    -------
    tuple
        Its fields by their numbers, or what the form makes of them, and the position behind it.

    Raises
    ------
    BundleFormatError
        It is not of that form, or not whole; the sentence lacks its subject, the file.
    """
    try:
        return form.read(content, position)
    except IndexError as error:
        raise BundleFormatError("has a header that is cut off") from error


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < _MOST_BITS:
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if shift and not byte:
                break
            return value, position
        shift += 7
    raise BundleFormatError("has a header with a number that is not in its one spelling")


EMPTY = Struct({})


@dataclass(frozen=True)
class FileShape:
    """The expected content of one of our files.

    Attributes
    ----------
    n_rows : int
        The most rows there may be.
    group_rows : int
        The rows of every row group; the last may have fewer.
    schema : pyarrow.Schema
        Names and types of its columns: numbers of 8 bytes, and text.
    labels : tuple of str
        The texts that may occur.
    """

    n_rows: int
    group_rows: int
    schema: pa.Schema
    labels: tuple[str, ...] = ()

    @property
    def longest_label(self) -> int:
        """The length of the longest text in bytes."""
        return max((len(label.encode()) for label in self.labels), default=0)


class Chunk(NamedTuple):
    """One column in one row group: the place of its pages, and their sums."""

    column: int
    start: int
    data_start: int
    n_values: int
    size: int
    stored: int
    codec: int
    encodings: frozenset[int]
    pages: dict[tuple[int, int], int] | None  # their number for each type and encoding


def read_footer(file: BinaryIO, shape: FileShape) -> list[list[Chunk]]:
    """Return the chunks of each row group, if our writer could have written the footer of a file of that shape.

    Raises
    ------
    BundleFormatError
        It is not; the sentence lacks its subject, the file.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(len(_MAGIC))
    file.seek(max(0, size - 8))
    end = file.read(8)
    if size < len(start) + len(end) or start != _MAGIC or end[4:] != _MAGIC:
        raise BundleFormatError("is not readable as Parquet: ask the publisher for a sound bundle")

    length = int.from_bytes(end[:4], "little")
    most_rows = min(shape.n_rows, MOST_CELLS_PER_BYTE * size // max(1, len(shape.schema)))
    most_groups = max(1, -(-most_rows // shape.group_rows))
    if length > min(_largest_footer(shape, most_groups), size - len(start) - len(end)):
        raise BundleFormatError("has a footer larger than that of any release")
    file.seek(size - len(end) - length)
    footer, position = read_struct(file.read(length), 0, _file_form(shape, most_groups))
    if position != length:
        raise BundleFormatError("has stray bytes in its footer")

    if footer[1] != _VERSION or not _MAKER.fullmatch(footer[6]):
        raise BundleFormatError("was not written by dp-publish")
    _check_rows(footer[3], [group[3] for group in footer[4]], shape, size)
    _check_layout(footer[4], size - len(end) - length)
    return [group[1] for group in footer[4]]


def _largest_footer(shape: FileShape, n_groups: int) -> int:
    n_columns, names = len(shape.schema), sum(len(name.encode()) for name in shape.schema.names)
    group = _PER_GROUP + n_columns * _PER_CHUNK + names
    return _PER_FILE + n_columns * _PER_COLUMN + names + n_groups * group


def _file_form(shape: FileShape, most_groups: int) -> Struct:
    """Return the form of a footer."""
    n_columns = len(shape.schema)
    name = BoundedBytes(max(len(name.encode()) for name in shape.schema.names))
    element = Struct({1: I32, 3: I32, 4: BoundedBytes(_PER_FILE + name.most), 5: I32, 6: I32, 10: Struct({1: EMPTY})})

    count = Struct({1: I32, 2: I32, 3: I32}, frozenset({1, 2, 3}))
    no_levels = Listing(I64, 0, 0)
    sizes = Struct({1: I64, 2: no_levels, 3: no_levels}, frozenset({1}))
    described: dict[int, Kind] = {1: I32, 2: Listing(I32, 1, 5), 3: Listing(name, 1, 1), 4: I32}
    described |= dict.fromkeys((5, 6, 7, 9, 11), I64)
    described |= {12: EMPTY, 13: Listing(count, 1, 5), 16: sizes}
    columns = {column.encode(): index for index, column in enumerate(shape.schema.names)}
    types = [_TYPES[kind] for kind in shape.schema.types]
    about = Struct(described, frozenset({1, 2, 3, 4, 5, 6, 7, 9}))
    chunk_form = Struct({2: I64, 3: about}, frozenset({3}), lambda found: _chunk(found[3], columns, types))
    group = Struct(
        {1: Listing(chunk_form, n_columns, n_columns), 2: I64, 3: I64, 5: I64, 6: I64, 7: I16},
        frozenset({1, 2, 3, 5, 6}),
    )
    order = Struct({1: EMPTY}, frozenset({1}))

    def check_schema(found: list[dict[int, Any]]) -> None:
        if found != _elements(shape.schema):
            raise BundleFormatError(_OTHER_COLUMNS)

    return Struct(
        {
            1: I32,
            2: Listing(element, 1, 2 * n_columns + _PER_COLUMN, check_schema),
            3: I64,
            4: Listing(group, 1, most_groups),
            6: BoundedBytes(_PER_FILE),
            7: Listing(order, n_columns, n_columns),
        },
        frozenset({1, 2, 3, 4, 6, 7}),
    )


def _chunk(found: dict[int, Any], columns: dict[bytes, int], types: list[int]) -> Chunk:
    column = columns.get(found[3][0], -1)
    if column < 0 or found[1] != types[column]:
        raise BundleFormatError(_OTHER_COLUMNS)
    if found[4] not in _CODECS or (16 in found and found[1] != _BYTE_ARRAY):
        raise BundleFormatError("has a column that is not stored as dp-publish stores it")
    pages = {(each[1], each[2]): each[3] for each in found[13]} if 13 in found else None
    start = found.get(11, found[9])
    return Chunk(column, start, found[9], found[5], found[6], found[7], found[4], frozenset(found[2]), pages)


def _elements(schema: pa.Schema) -> list[dict[int, Any]]:
    """Return the schema as it stands in a footer: no cell may be empty, and text is UTF-8."""
    root = {3: 0, 4: b"schema", 5: len(schema)}
    columns = [{1: _TYPES[each.type], 3: 0, 4: each.name.encode()} for each in schema]
    text = {6: 0, 10: {1: {}}}
    return [root, *(each | text if each[1] == _BYTE_ARRAY else each for each in columns)]


def _check_rows(n_rows: int, groups: list[int], shape: FileShape, size: int) -> None:
    if n_rows > shape.n_rows:
        raise BundleFormatError("has more rows than its manifest promises")
    if n_rows * len(shape.schema) > MOST_CELLS_PER_BYTE * size:
        raise BundleFormatError("has more values than noise leaves room for in so few bytes")
    for index, rows in enumerate(groups):
        if not 0 < rows <= shape.group_rows or (rows < shape.group_rows and index < len(groups) - 1):
            raise BundleFormatError(f"has a row group of {rows} rows, where {shape.group_rows} are a full one")
    if sum(groups) != n_rows:
        raise BundleFormatError("has another number of rows than its row groups")


def _check_layout(groups: list[dict[int, Any]], end: int) -> None:
    """Check that chunks of all columns lie end to end in the file, and that what is said of groups is their sum."""
    position = len(_MAGIC)
    for index, group in enumerate(groups):
        chunks: list[Chunk] = group[1]
        said = [group[5], group[6], group[2], group.get(7, index)]
        if said != [position, sum(each.stored for each in chunks), sum(each.size for each in chunks), index]:
            raise BundleFormatError("has a row group that is not the sum of its columns")
        for column, chunk in enumerate(chunks):
            if chunk.column != column or chunk.start != position or chunk.n_values != group[3]:
                raise BundleFormatError("has columns that do not lie end to end, in their order")
            position += chunk.stored
    if position != end:
        raise BundleFormatError("has bytes that belong to no column")
