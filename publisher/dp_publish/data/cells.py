"""Cells of text: a number, a truth value, nothing, or a fault, one by one; and words, many at once.

`read_cell` is the rule. It looks at no other cell, so that what a cell means does not depend on the rest of a private
table; the fast reader in `text_file` gives the same values and falls back on it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

GAPS = ("", "na", "n/a", "#n/a", "#na", "nan", "-nan", "null", "none", "<na>", "?", "-", "--", ".")  # in lower case
TRUTH = {"true": 1, "yes": 1, "false": 0, "no": 0}
_FLOAT = r"[+-]?(?:\d+(?:{0}\d*)?|{0}\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?"
_PLAIN = {
    **dict.fromkeys((("integer", "."), ("integer", ",")), re.compile(r"\s*-?\d{1,18}\s*", re.ASCII)),
    ("continuous", "."): re.compile(rf"\s*(?:{_FLOAT.format('[.]')})\s*", re.ASCII | re.IGNORECASE),
    ("continuous", ","): re.compile(rf"\s*(?:{_FLOAT.format('[,]')})\s*", re.ASCII | re.IGNORECASE),
}
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:([,.' \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d*)?", re.ASCII)
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?:[ T].*)?", re.ASCII)
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(?::\d{2}.*)?", re.ASCII)
_LIKE_A_NUMBER = re.compile(r"[+-]?[\d.,'\s]*\d[\d.,'\s]*(?:[eE][+-]?\d+)?\s*%?|[+-]?inf(?:inity)?|0x[\da-f]+", re.I)
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_QUANTITY = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s?(?:[kcmµ]?[mg]|[kmc]?l|s|min|h|°?[CF]|mmHg|years?|yrs?|[€$£])")

_UNSEEN = "\0\u200b\u200c\u200d\u2060\ufeff"  # have no width, and are no blanks by Unicode
_AROUND = "".join(mark for mark in map(chr, range(0x3001)) if mark.isspace()) + _UNSEEN
KINDS_OF_WORDS = '"category", "ordered" or "boolean"'  # what a policy may say of a column of words
MISSING = tuple(dict.fromkeys(form for word in GAPS for form in (word, word.upper(), word.title(), "NaN", "-NaN")))


class Fault(enum.Enum):
    """A reason why a cell cannot be read, and what to do; the words follow those that name the cell."""

    DATE = (
        'is a date or a time: in the policy, give its column kind = "date" or "time", with format = "%d.%m.%Y", say, '
        "unless all are like 2026-01-31, or set drop = true"
    )
    DECIMAL = "has a decimal comma, unlike other numbers: set decimal under [table] in the policy, or correct it"
    ENCODING = "is not in the file's encoding: set encoding under [table] in the policy"
    FRACTION = 'is a fraction in an integer column: give it kind = "continuous" in the policy, or round it first'
    LARGE = 'is beyond the largest integer: give it kind = "continuous" in the policy'
    POINT = "has a decimal point where the file has decimal commas: set decimal under [table] in the policy"
    TEXT = (
        f"is not a number: in the policy (`dp-publish policy DATA` writes one), give words a kind ({KINDS_OF_WORDS}), "
        "list those for gaps in missing_values under [table], or set drop = true"
    )
    THOUSANDS = "has thousands separators: write numbers without them, or set decimal under [table] in the policy"
    TIME_OF_DAY = (
        'is a time of the day: in the policy, give its column kind = "time" and format = "%H:%M", say, or set drop = '
        "true"
    )


def read_cell(word: str, kind: str, decimal: str, missing: Collection[str] = ()) -> float | Fault | None:
    """Return what a cell of a numeric column holds; None if nothing.

    Parameters
    ----------
    word : str
        The cell, without its quotes.
    kind : {"continuous", "integer"}
        What the column holds.
    decimal : {".", ","}
        The decimal mark.
    missing : collection of str
        Words that mean a missing value, besides the usual ones; a number among them means every way to write it.
    """
    value = _read(word, kind, decimal, missing)
    codes = missing_numbers(tuple(missing), decimal) if missing else frozenset()
    return None if codes and isinstance(value, int | float) and value in codes else value


@lru_cache
def missing_numbers(missing: tuple[str, ...], decimal: str) -> frozenset[float]:
    """Return the numbers among the words that mean a missing value: -999 is meant by -999.00 as well."""
    words = [word.strip() for word in missing]
    return frozenset(float(word.replace(",", ".")) for word in words if _PLAIN["continuous", decimal].fullmatch(word))


def _read(word: str, kind: str, decimal: str, missing: Collection[str]) -> float | Fault | None:
    bare = word.strip()
    if bare.lower() in GAPS or word in missing or bare in missing:
        return None
    if (truth := TRUTH.get(bare.lower())) is not None:
        return truth
    if not _PLAIN["continuous", decimal].fullmatch(bare):
        return _fault_of(bare, decimal)
    if kind == "continuous":
        return float(bare.replace(",", "."))
    if _INTEGER.fullmatch(bare):
        return int(bare) if -(2**63) <= int(bare) < 2**63 else Fault.LARGE
    number = float(bare.replace(",", "."))
    if abs(number) > 2**53:
        return Fault.LARGE
    return int(number) if number.is_integer() else Fault.FRACTION


def plain_number(word: str, kind: str, decimal: str) -> bool:
    """Return True if every reader would take a cell for the same number."""
    return _PLAIN[kind, decimal].fullmatch(word) is not None


def is_thousands(word: str) -> bool:
    """Return True if a cell could be an integer with separated thousands."""
    return _THOUSANDS.fullmatch(word.strip()) is not None


def describe_as_record(name: str, missing: Collection[str] = ()) -> str | None:
    """Return what a cell of the first line is, if it looks like a person's rather than a column's name."""
    bare = name.strip().replace("\u2212", "-")
    if not bare:
        return "is empty"
    if bare.lower() in GAPS or bare in missing:
        return "stands for a missing value"
    if bare.lower() in TRUTH:
        return "is a truth value"
    if _DATE.fullmatch(bare) or _TIME_OF_DAY.fullmatch(bare):
        return "is a date or a time"
    if _ADDRESS.fullmatch(bare):
        return "is an e-mail address"
    if _QUANTITY.fullmatch(bare):
        return "is a number with a unit"
    return "is a number" if _LIKE_A_NUMBER.fullmatch(bare) else None


def _fault_of(bare: str, decimal: str) -> Fault:
    if _DATE.fullmatch(bare):
        return Fault.DATE
    if _TIME_OF_DAY.fullmatch(bare):
        return Fault.TIME_OF_DAY
    other = "," if decimal == "." else "."
    if is_thousands(bare):
        return Fault.THOUSANDS
    if plain_number(bare, "continuous", other):
        return Fault.DECIMAL if decimal == "." else Fault.POINT
    return Fault.TEXT


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


def without_point(words: pa.Array) -> pa.Array:
    """Return whole numbers without a plus sign, and without zeros behind their point; other words as they are."""
    return pc.replace_substring_regex(words, r"^\+?(-?\d+)(?:\.0*|,00?)?$", r"\1")  # ,000 are thousands


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
