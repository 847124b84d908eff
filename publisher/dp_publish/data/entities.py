"""Ids of entities: one for everybody, however it is spelled.

An id is read without blanks around it, composed letters as one, and, if it is a whole number, without zeros before it
or behind its point, a plus sign or an exponent: "0100", "100 ", "100.0" and 1e2 are one person, in text as in numbers.
Two ids that are taken for one can only leave out more rows; one person who passed for two could have twice the rows
that the guarantee allows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import MissingValuesError
from dp_publish.data.cells import is_gap, trim

_ZERO = r"^[+-]?0+(?:\.0*|,00?)?$"
_WHOLE = r"^\+?(-?)0*(\d+)(?:\.0*|,00?)?$"  # three zeros behind a comma are thousands
_SHORT = r"^[+-]?(?:\.\d+|(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+|\d{20,}0)$"  # with an exponent, or better with one
_PARTS = re.compile(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?", re.ASCII)
_LONGEST_EXPONENT = 1000  # in digits
_MOST_ZEROS = 20  # that are spelled at the end of an id; more are an exponent


def identify(names: pa.Array, entity: str, missing: Sequence[str] = ()) -> pa.Array:
    """Return the ids of rows, each in its one spelling; they are private.

    Parameters
    ----------
    names : pyarrow.Array
        Ids as text.
    entity : str
        Their column, for messages.
    missing : sequence of str
        Words that name nobody, besides the usual ones for gaps.

    Raises
    ------
    MissingValuesError
        A row is nobody's.
    """
    spelled = names.dictionary_encode()
    ids = _plain(spelled.dictionary)
    nobody = pc.any(is_gap(ids, missing), min_count=0).as_py()
    if spelled.null_count or nobody:
        raise MissingValuesError(entity, names_entities=True)
    return ids.take(spelled.indices)


def _plain(words: pa.Array) -> pa.Array:
    """Return every id in its one spelling."""
    if not pc.all(pc.string_is_ascii(words), min_count=0).as_py():
        words = pc.utf8_normalize(_decoded(words), "NFKC")
    words = trim(words)
    words = pc.replace_substring_regex(words, _ZERO, "0")
    words = pc.replace_substring_regex(words, _WHOLE, r"\1\2")
    short = pc.match_substring_regex(words, _SHORT)
    if not pc.any(short, min_count=0).as_py():
        return words
    spelled = [_digits(word) for word in words.filter(short).to_pylist()]
    return pc.replace_with_mask(words, short, pa.array(spelled, words.type))


def _digits(word: str) -> str:
    """Return a number in digits if it is whole, with an exponent if many of them are zeros at its end; exactly."""
    parts = _PARTS.fullmatch(word)
    if parts is None or len(parts[4] or "") > _LONGEST_EXPONENT:
        return word
    sign, before, behind, exponent = parts.groups()
    digits = f"{before}{behind}".lstrip("0")
    if not digits:
        return "0"
    bare = digits.rstrip("0")
    zeros = len(digits) - len(bare) + int(exponent or 0) - len(behind)
    if zeros < 0:
        return word
    return f"{sign.strip('+')}{bare}{'0' * zeros if zeros <= _MOST_ZEROS else f'e{zeros}'}"


def _decoded(words: pa.Array) -> pa.Array:
    """Return ids as text, of bytes that are none their digits."""
    try:
        words.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_text(word) for word in pc.cast(words, pa.binary()).to_pylist()], pa.string())
    return words


def _text(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return f"bytes {word.hex()}"
