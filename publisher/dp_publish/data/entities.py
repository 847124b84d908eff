"""Whose row it is: one id for everybody, however it is spelled.

An id is read without blanks around it, composed letters as one, and, if it is a whole number, without zeros before it
or behind its point, a plus sign or an exponent: "0100", "100 ", "100.0" and 1e2 are one person, in text as in numbers.
Two ids that are taken for one can only leave out more rows; one person who passed for two could have twice the rows
that the guarantee allows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.errors import MissingValuesError
from dp_publish.data.words import is_gap, trim

_ZERO = r"^[+-]?0+(?:\.0*|,00?)?$"
_WHOLE = r"^\+?(-?)0*(\d+)(?:\.0*|,00?)?$"  # three zeros behind a comma are thousands
_EXPONENT = r"^[+-]?\d+(?:\.\d*)?[eE]\+?\d{1,2}$"
_LARGEST = 2.0**63  # of a float that is cast to an integer


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
    large = pc.match_substring_regex(words, _EXPONENT)
    if pc.any(large, min_count=0).as_py():
        numbers = pc.cast(pc.if_else(large, words, "0"), pa.float64())
        whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), _LARGEST))
        digits = pc.cast(pc.cast(pc.if_else(whole, numbers, 0.0), pa.int64()), pa.string())
        words = pc.if_else(pc.and_(large, whole), digits, words)
    words = pc.replace_substring_regex(words, _ZERO, "0")
    return pc.replace_substring_regex(words, _WHOLE, r"\1\2")


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
