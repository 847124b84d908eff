"""The Thrift compact protocol for whoever writes hostile files: fields of all types, in any order, and back.

References
----------
Apache Thrift compact protocol, doc/specs/thrift-compact-protocol.md.
"""

from dataclasses import dataclass, field
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, _, BINARY, LIST, _, _, STRUCT = range(1, 13)


@dataclass
class Values:
    """A list: the type of its elements, and they."""

    kind: int
    items: list[Any] = field(default_factory=list)


class Fields(dict[int, tuple[int, Any]]):
    """A struct: the type and the value of each field by its number."""

    def at(self, *path: int) -> Any:
        """Return what is found by numbers of fields and places in lists, one after another."""
        found: Any = self
        for step in path:
            found = found.items[step] if isinstance(found, Values) else found[step][1]
        return found

    def put(self, number: int, kind: int, value: Any) -> None:
        """Set a field, in the place of the old one or in the order of numbers."""
        self[number] = (kind, value)


def read(content: bytes, position: int, kind: int = STRUCT) -> tuple[Any, int]:
    """Return a value and where it ends."""
    if kind in (TRUE, FALSE):
        return kind == TRUE, position
    if kind == BYTE:
        return content[position], position + 1
    if kind in (I16, I32, I64):
        value, position = _varint(content, position)
        return (value >> 1) ^ -(value & 1), position
    if kind == BINARY:
        size, position = _varint(content, position)
        return content[position : position + size], position + size
    if kind == LIST:
        return _read_list(content, position)
    return _read_struct(content, position)


def write(value: Any, kind: int = STRUCT) -> bytes:
    """Return a value's bytes; the inverse of `read`."""
    if kind in (TRUE, FALSE):
        return b""
    if kind == BYTE:
        return bytes([value])
    if kind in (I16, I32, I64):
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == LIST:
        size = len(value.items)
        head = bytes([size << 4 | value.kind]) if size < 15 else bytes([0xF0 | value.kind]) + varint(size)
        return head + b"".join(write(item, value.kind) for item in value.items)
    return b"".join(fields(value)) + b"\0"


def fields(struct: Fields) -> list[bytes]:
    """Return the bytes of each field of a struct, in ascending order."""
    written, last = [], 0
    for number, (kind, value) in sorted(struct.items()):
        tag = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        step = number - last
        head = bytes([step << 4 | tag]) if 0 < step < 16 else bytes([tag]) + write(number, I16)
        written.append(head + write(value, kind))
        last = number
    return written


def varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position


def _read_list(content: bytes, position: int) -> tuple[Values, int]:
    size, kind = content[position] >> 4, content[position] & 15
    position += 1
    if size == 15:
        size, position = _varint(content, position)
    values = Values(kind)
    for _ in range(size):
        value, position = read(content, position, kind)
        values.items.append(value)
    return values, position


def _read_struct(content: bytes, position: int) -> tuple[Fields, int]:
    struct, number = Fields(), 0
    while head := content[position]:
        position += 1
        if head >> 4:
            number += head >> 4
        else:
            number, position = read(content, position, I16)
        value, position = read(content, position, head & 15)
        struct[number] = (head & 15, value)
    return struct, position + 1
