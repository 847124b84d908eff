"""Changes to honest files: bytes anywhere, and parts of their structure."""

import copy
import json
import math
from random import Random
from typing import Any

from tests.fuzz.compact import BINARY, FALSE, I32, I64, LIST, STRUCT, TRUE, Fields, Values
from tests.fuzz.hostile import join, split

from dp_bundle.files.tar import _header

_ODD_BYTES = (0, 1, 2, 0x10, 0x15, 0x16, 0x18, 0x19, 0x1C, 0x25, 0x2C, 0x4C, 0x5C, 0x7F, 0x80, 0xFE, 0xFF)
_ODD_NUMBERS = (0, 1, -1, 2, 3, 127, 128, 2**15, 2**16, 2**31 - 1, -(2**31), 2**32, 2**53, 2**62, 2**63 - 1, -(2**63))
_ODD_FLOATS = (0.0, 1.0, -1.0, 0.5, 1e-300, 5e-324, 1e300, 1.7e308, 2.0**-1022, 1e-6, 1e16, 9007199254740993.0)
_ODD_TEXTS = (
    "",
    "row",
    "cell",
    "entity:x",
    "2",
    "3",
    "1",
    "rows",
    "covariance",
    "\n",
    "\u202e",
    "x" * 2000,
    "=1+1",
    "0" * 64,
)
_BLOCK = 512


def mutate_bytes(content: bytes, random: Random, least: int = 0) -> bytes:
    """Return bytes with a few changes from some place on."""
    changed, least = bytearray(content), min(least, len(content) - 1)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if len(changed) <= least + 1:
            break
        place, length = random.randrange(least, len(changed)), random.randrange(1, 9)
        match random.randrange(8):
            case 0 | 1:
                changed[place] ^= 1 << random.randrange(8)
            case 2 | 3:
                changed[place] = random.choice(_ODD_BYTES)
            case 4:
                changed[place:place] = bytes(random.choice(_ODD_BYTES) for _ in range(length))
            case 5:
                del changed[place : place + length]
            case 6:
                other = random.randrange(least, len(changed))
                changed[place : place + length] = changed[other : other + length]
            case _:
                changed[place] = (changed[place] + random.choice((-2, -1, 1, 2))) & 255
    return bytes(changed)


def mutate_archive(content: bytes, other: bytes, random: Random) -> bytes:
    """Return an archive with changed bytes, blocks, headers or ends."""
    n_blocks = len(content) // _BLOCK
    place, length = _BLOCK * random.randrange(n_blocks), _BLOCK * random.randrange(1, 9)
    match random.randrange(10):
        case 0:
            return content[:place] + content[place + length :]
        case 1:
            return content[:place] + content[place : place + length] + content[place:]
        case 2:
            return content[:place] + other[place : place + length] + content[place + length :]
        case 3:
            return content[: random.randrange(len(content))] if random.random() < 0.5 else content[:place]
        case 4:
            return content + random.choice((b"\0", bytes(_BLOCK), bytes(10_240), content, b"x" * _BLOCK))
        case 5:
            name = random.choice(
                ("manifest.dsse.json", "README.md", "data/part-00000.parquet", "x", "../x", "a/b/c", "")
            )
            header = _header(name, random.choice((0, 1, 512, 10**9, random.randrange(9000))))
            return content[:place] + header + content[place + random.choice((0, _BLOCK)) :]
        case 6:
            return mutate_bytes(content[:2048], random) + content[2048:]
        case _:
            return mutate_bytes(content, random)


def mutate_payload(payload: bytes, random: Random) -> bytes:
    """Return a manifest's payload that says something else, mostly in its one spelling."""
    if random.random() < 0.1:
        return mutate_bytes(payload, random)
    document = json.loads(payload)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _mutate_entry(document, random)
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode()
    except UnicodeEncodeError:
        return payload[:-1]


def _mutate_entry(document: Any, random: Random) -> None:
    """Change one entry of a document, wherever it is."""
    places = [(document, key) for key in document]
    found = []
    while places:
        inside, key = places.pop()
        found.append((inside, key))
        value = inside[key]
        if isinstance(value, dict | list):
            places += [(value, each) for each in (value if isinstance(value, dict) else range(len(value)))]
    inside, key = random.choice(found)
    value = inside[key]
    match random.randrange(9):
        case 0:
            del inside[key]
        case 1:
            inside[key] = random.choice((None, True, False, [], {}, "", 0, 0.0, [value], {"a": value}))
        case 2:
            other, name = random.choice(found)
            inside[key] = copy.deepcopy(other[name])
        case 3 if isinstance(inside, dict):
            inside[random.choice(("x", "name", "sigma", "note"))] = copy.deepcopy(value)
        case 3:
            inside.append(copy.deepcopy(value))
        case 4 if isinstance(inside, list):
            random.shuffle(inside)
        case _:
            inside[key] = _other_value(value, random)


def _other_value(value: Any, random: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice((value + 1, value - 1, 2 * value, -value, float(value), random.choice(_ODD_NUMBERS)))
    if isinstance(value, float):
        nearby = value * random.choice((0.5, 0.9, 0.999, 1 - 1e-8, 1 + 1e-12, 1 + 1e-8, 1.001, 1.1, 2.0, 4.0, -1.0))
        found = random.choice((nearby, nearby, nearby, random.choice(_ODD_FLOATS), math.nextafter(value, 1e9)))
        return found if math.isfinite(found) else 0.0
    if isinstance(value, str):
        return random.choice((random.choice(_ODD_TEXTS), value + "x", value[:-1], value.upper()))
    if isinstance(value, list) and value:
        return random.choice((value[:-1], value + copy.deepcopy(value), value[::-1]))
    return random.choice((None, 0, "x", [], {}, 1.0))


def mutate_member(content: bytes, random: Random) -> bytes:
    """Return a Parquet file with changed bytes, or other fields in its footer."""
    body, footer = split(content)
    if random.random() < 0.6:
        return mutate_bytes(content, random, random.choice((0, len(body), len(content) // 2)))
    for _ in range(random.choice((1, 1, 2))):
        _mutate_struct(footer, random)
    return join(body, footer)


def _mutate_struct(struct: Fields, random: Random) -> None:
    """Change one field of a struct, or of one in it."""
    number, (kind, value) = random.choice(list(struct.items()))
    if isinstance(value, Values) and value.items and random.random() < 0.8:
        inner = [item for item in value.items if item] if value.kind == STRUCT else []
        if inner and random.random() < 0.9:
            _mutate_struct(random.choice(inner), random)
        else:
            place = random.randrange(len(value.items))
            value.items[place : place + random.randrange(2)] = [value.items[place]] * random.randrange(3)
    elif isinstance(value, Fields) and value and random.random() < 0.8:
        _mutate_struct(value, random)
    elif random.random() < 0.2:
        added = random.choice(
            ((I32, 1), (I64, 1), (BINARY, b"x"), (LIST, Values(I64, [1])), (STRUCT, Fields()), (TRUE, True))
        )
        struct[random.choice((*range(1, 18), 2**15 - 1))] = added
    elif random.random() < 0.2:
        del struct[number]
    elif kind in (TRUE, FALSE):
        struct[number] = (kind, not value)
    elif kind in (I32, I64):
        other = random.choice((value + 1, value - 1, 2 * value, random.choice(_ODD_NUMBERS)))
        struct[number] = (random.choice((kind, kind, kind, I32, I64)), other)
    elif kind == BINARY:
        struct[number] = (kind, random.choice((b"", value + b"x", value[:-1], b"\xff\xfe")))
