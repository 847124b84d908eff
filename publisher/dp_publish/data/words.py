"""Words in cells of text: without blanks around them, and those that stand for no value."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dp_publish.data.cells import GAPS, missing_numbers

_UNSEEN = "\0\u200b\u200c\u200d\u2060\ufeff"  # have no width, and are no blanks by Unicode
_AROUND = "".join(mark for mark in map(chr, range(0x3001)) if mark.isspace()) + _UNSEEN


def is_text(kind: pa.DataType) -> bool:
    """Return True for a type whose cells are words."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def trim(words: pa.Array) -> pa.Array:
    """Return words without what cannot be seen around them."""
    return pc.utf8_trim(words, characters=_AROUND)


def is_gap(words: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Return which trimmed words stand for no value: the usual ones, and those of the policy.

    A number among those means every way to write it, as in `read_cell`.
    """
    usual = pc.is_in(pc.utf8_lower(words), value_set=pa.array(GAPS))
    if not missing:
        return usual
    listed = pc.is_in(words, value_set=pa.array([*dict.fromkeys(word.strip() for word in missing)], pa.string()))
    codes = [str(int(code)) for code in missing_numbers(tuple(missing), ".") if code.is_integer()]
    written = pc.replace_substring_regex(words, r"^\+?(-?\d+)(?:[.,]0*)?$", r"\1")
    return pc.or_(pc.or_(usual, listed), pc.is_in(written, value_set=pa.array(codes, pa.string())))


def read_words(values: pa.Array, levels: Sequence[str], missing: Sequence[str] | None) -> pa.Array:
    """Return words without blanks around them, and null where one stands for no value; a level is always a value.

    Parameters
    ----------
    values : pyarrow.Array
        As they are written.
    levels : sequence of str
        Those of their column; one that is declared with blanks around it has them.
    missing : sequence of str or None
        Words for gaps that the policy of a text file adds to the usual ones; None of a table that has gaps of its own.
    """
    values = pc.cast(values, pa.string())
    listed = pc.is_in(values, value_set=pa.array(levels, pa.string()))
    words = pc.if_else(listed, values, trim(values))
    if missing is None:
        return words
    gaps = pc.and_not(is_gap(words, missing), pc.is_in(words, value_set=pa.array(levels, pa.string())))
    return pc.if_else(gaps, pa.scalar(None, pa.string()), words)
