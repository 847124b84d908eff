"""A strict reader of the Thrift compact protocol: only fields that a form names, each of its type, once.

A form says which fields a struct may have. Fields come in ascending order, numbers in their shortest spelling, and are
never negative; texts and lists have a maximal length, which is checked before anything is allocated.

References
----------
Apache Thrift compact protocol, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dp_bundle.base.errors import BundleFormatError

_MOST_BITS = 70  # of a number, in bytes of 7 bits


@dataclass(frozen=True, slots=True)
class Integer:
    """A non-negative number: its type on the wire, and its largest value."""

    wire: int
    most: int

    def read(self, content: bytes, position: int) -> tuple[int, int]:
        """Return the number, and the position after it."""
        value = content[position]
        if value < 128:
            position += 1
        else:
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
