"""What a cell of text means: a number, nothing, or what does not fit, from itself and from what is public alone.

`read_numbers` is the rule for text files, spreadsheets, and words in Parquet, Arrow and data frames, whether a column's
kind is declared or was found. `read_words` is that for words, and `dates.read_moments` that for dates and times. None
of them looks at another cell. Where Arrow reads a whole column at once, it reads the same numbers, and what it does not
take for finite ones goes through the rule.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

ERRORS = ("#n/a", "#div/0!", "#ref!", "#value!", "#name?", "#num!", "#null!")  # of spreadsheets, in lower case
GAPS = ("", "na", "n/a", "#na", "nan", "-nan", "null", "none", "<na>", "?", "-", "--", ".", r"\n", *ERRORS)
TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_CODES = ("EUR", "USD", "GBP", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "BRL", "JPY", "CNY", "INR")
SIGNS = ("%", "$", "€", "£", "¥", "₹", "R$", "kr", "zł", "Kč", "元", "円", *_CODES)
BLANKS = r"' \x{a0}\x{202f}"
POINT = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
COMMA = r"[+-]?(?:\d+,?\d*|,\d+)(?:[eE][+-]?\d+)?"
GROUPED = {  # by decimal mark
    ".": rf"[+-]?[1-9]\d{{0,2}}(?:[,{BLANKS}]\d{{3}})+(?:\.\d*)?",
    ",": rf"[+-]?[1-9]\d{{0,2}}(?:[.{BLANKS}]\d{{3}})+(?:,\d*)?",
}
INFINITE = r"(?i)[+-]?inf(?:inity)?"
_MARKED = {".": POINT, ",": COMMA}
FIRST = 64  # cells that are tried before all are cast, as a cast that fails takes longer than all else

DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?:[ T].*)?", re.ASCII)
TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(?::\d{2}.*)?", re.ASCII)
_RECORD = {  # what cells are that are no names of columns
    "is a date or a time": re.compile(f"{DATE.pattern}|{TIME_OF_DAY.pattern}", re.ASCII),
    "is an e-mail address": re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"),
    "is a number with a unit": re.compile(
        r"[+-]?\d+(?:[.,]\d+)?\s?(?:[kcmµ]?[mg]|[kmc]?l|s|min|h|°?[CF]|mmHg|years?|yrs?|[€$£])"
    ),
    "is a number": re.compile(r"[+-]?[\d.,'\s]*\d[\d.,'\s]*(?:[eE][+-]?\d+)?\s*%?|[+-]?inf(?:inity)?|0x[\da-f]+", re.I),
}

_UNSEEN = "\0\u200b\u200c\u200d\u2060\ufeff"  # have no width, and are no blanks by Unicode
_AROUND = "".join(mark for mark in map(chr, range(0x3001)) if mark.isspace()) + _UNSEEN
LOST = "\ufffd"  # stands for what is not in the file's encoding
FARTHEST = 2.0**63  # of whole numbers


@dataclass(frozen=True)
class Written:
    """How the cells of a table are written, as far as that is public.

    Attributes
    ----------
    decimal : {".", ",", ""}
        The decimal mark; nothing where no policy says: then a number may have either, unless it means another one with
        each, such as 1,234.
    has_points : bool
        Whether a point is a decimal mark in that case, as where commas separate the cells.
    missing : tuple of str
        Words for no value, besides the usual ones; a number among them means every way to write it.
    signs : tuple of str
        What may stand before a number of a column or behind it: signs of money or percent, or a unit.
    is_found : bool
        Whether a column's kind was found by noisy counts: then what does not fit is a gap, and is not refused.
    are_truths : bool
        Whether the numbers 0 and 1 alone fit.
    """

    decimal: str = ""
    has_points: bool = True
    missing: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    is_found: bool = False
    are_truths: bool = False


class Read(NamedTuple):
    """What cells are: their values, null where there is none, and which have one or are gaps, and so fit."""

    values: pa.Array
    fits: pa.Array


def read_numbers(words: pa.Array, written: Written) -> Read:
    """Return the numbers that cells are; an infinite one is a number.

    Parameters
    ----------
    words : pyarrow.Array of string
        As they are written; a null is a gap.
    written : Written
        How their column is written.
    """
    has_points = written.decimal == "." or (written.has_points and not written.decimal)
    marked = words if has_points else pc.replace_substring(words, ".", ",")
    try:
        for cells in (marked[:FIRST], marked):
            numbers = pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:  # some cell is no number to Arrow
        plain = pc.match_substring_regex(words, r"^-?\d{1,15}(?:\.\d{1,15})?$" if has_points else r"^-?\d{1,15}$")
        numbers = pc.cast(pc.if_else(plain, words, None), pa.float64())
    else:
        plain = pc.is_finite(numbers)  # nan is a gap to one and a word to the other
    plain = pc.fill_null(plain, True)
    fits = plain
    if not pc.all(plain, min_count=0).as_py():
        others = pc.if_else(plain, None, words).dictionary_encode()
        found, fits = (each.take(others.indices) for each in _numbers(others.dictionary, written))
        numbers, fits = pc.if_else(plain, numbers, found), pc.fill_null(pc.or_(plain, fits), True)
    if codes := missing_numbers(written.missing, written.decimal):
        numbers = pc.if_else(pc.is_in(numbers, value_set=pa.array([*codes])), None, numbers)
    if not written.are_truths:
        return Read(numbers, fits)
    odd = pc.and_not(pc.is_valid(numbers), pc.is_in(numbers, value_set=pa.array([0.0, 1.0])))
    return Read(pc.if_else(odd, None, numbers), pc.and_not(fits, odd))


def _numbers(words: pa.Array, written: Written) -> Read:
    """Return what each of several words is as a number, by the rule."""
    cells = trim(words)
    gaps = is_gap(cells, written.missing, written.decimal)
    numbers = _by_marks(cells, written)
    if written.signs:  # of what is no number with them
        numbers = pc.coalesce(numbers, _by_marks(without_signs(cells, written.signs), written))

    truth = pc.index_in(pc.utf8_lower(cells), value_set=pa.array([*TRUTH]))
    numbers = pc.coalesce(numbers, pa.array([*TRUTH.values()]).take(truth))
    infinite = pc.match_substring_regex(cells, f"^{INFINITE}$")
    signed = pc.if_else(pc.starts_with(cells, "-"), float("-inf"), float("inf"))
    numbers = pc.coalesce(numbers, pc.if_else(infinite, signed, None))
    return Read(pc.if_else(gaps, None, numbers), pc.or_(gaps, pc.is_valid(numbers)))


def without_signs(cells: pa.Array, signs: Sequence[str]) -> pa.Array:
    """Return cells without some signs of percent or money before them or behind, with a blank between or without."""
    either = "|".join(map(re.escape, sorted(signs, key=len, reverse=True)))
    return pc.replace_substring_regex(cells, rf"^(?:{either})[{BLANKS}]?|[{BLANKS}]?(?:{either})$", "")


def _by_marks(cells: pa.Array, written: Written) -> pa.Array:
    """Return numbers by the decimal mark of a table, or by either, and null of what is none or has two meanings."""
    if written.decimal:
        return _with_mark(cells, written.decimal)
    of_point, of_comma = _with_mark(cells, "."), _with_mark(cells, ",")
    has_point = pc.and_(written.has_points, pc.match_substring_regex(cells, f"^{POINT}$"))
    doubtful = pc.and_not(pc.fill_null(pc.not_equal(of_point, of_comma), False), has_point)
    return pc.if_else(doubtful, None, pc.coalesce(of_point, of_comma))


def _with_mark(cells: pa.Array, decimal: str) -> pa.Array:
    """Return numbers by a decimal mark, and null of what is none; a point, a comma or a blank separates thousands."""
    grouped = pc.match_substring_regex(cells, f"^{GROUPED[decimal]}$")
    separators = f"[,{BLANKS}]" if decimal == "." else f"[.{BLANKS}]"
    cells = pc.if_else(grouped, pc.replace_substring_regex(cells, separators, ""), cells)
    fits = pc.match_substring_regex(cells, f"^{_MARKED[decimal]}$")
    cells = pc.utf8_ltrim(pc.replace_substring(pc.if_else(fits, cells, None), ",", "."), "+")
    return pc.cast(cells, pa.float64())


def read_integers(words: pa.Array, written: Written) -> Read:
    """Return the whole numbers that cells are, where bounds may be exactly; a fraction does not fit, and 3.0 is whole.

    Beyond 2^53, where no bounds are, they are the nearest that float64 has.
    """
    numbers, fits = read_numbers(words, written)
    whole = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less_equal(pc.abs(numbers), FARTHEST))
    inside = pc.min_element_wise(pc.if_else(whole, numbers, None), math.nextafter(FARTHEST, 0.0), skip_nulls=False)
    return Read(pc.cast(inside, pa.int64()), pc.and_(fits, pc.fill_null(whole, True)))


def read_words(
    values: pa.Array, levels: Sequence[str], missing: Sequence[str], usual: Sequence[str] = GAPS
) -> pa.Array:
    """Return words without blanks around them, and null where one stands for no value; a level is always a value.

    Parameters
    ----------
    values : pyarrow.Array
        As they are written.
    levels : sequence of str
        Those of their column; one that is declared with blanks around it has them.
    missing, usual : sequence of str
        Words for gaps besides the usual ones, and these, in lower case.
    """
    values = pc.cast(values, pa.string())
    listed = pc.is_in(values, value_set=pa.array(levels, pa.string()))
    words = pc.if_else(listed, values, trim(values))
    gaps = pc.and_not(is_gap(words, missing, usual=usual), pc.is_in(words, value_set=pa.array(levels, pa.string())))
    return pc.if_else(gaps, None, words)


def is_lost(words: pa.Array) -> pa.Array:
    """Return which words hold what is not in the file's encoding."""
    return pc.match_substring(words, LOST) if holds(words, LOST.encode()) else pa.repeat(False, len(words))


def holds(words: pa.Array, mark: bytes) -> bool:
    """Return True if a mark is in some word, in far less time than it takes to look at each."""
    letters = words.buffers()[2]
    return letters is not None and mark in letters.to_pybytes()


def trim(words: pa.Array) -> pa.Array:
    """Return words without what cannot be seen around them."""
    return pc.utf8_trim(words, characters=_AROUND)


def is_gap(words: pa.Array, missing: Sequence[str], decimal: str = "", usual: Sequence[str] = GAPS) -> pa.Array:
    """Return which trimmed words stand for no value: the usual ones, and those of a policy, numbers however written.

    Numbers are read by the decimal mark, as in the column that the words are of; by a point, where none is known.
    """
    gaps = pc.is_in(pc.utf8_lower(words), value_set=pa.array(usual))
    if missing:
        gaps = pc.or_(gaps, pc.is_in(words, value_set=pa.array([word.strip() for word in missing])))
        codes = pa.array([*missing_numbers(tuple(missing), decimal)], pa.float64())
        gaps = pc.or_(gaps, pc.is_in(_with_mark(words, decimal or "."), value_set=codes))
    return gaps


@lru_cache
def missing_numbers(missing: tuple[str, ...], decimal: str) -> frozenset[float]:
    """Return the numbers among the words that mean a missing value: -999 is meant by -999.00 as well."""
    found = _with_mark(pa.array([*map(str.strip, missing)], pa.string()), decimal or ".")
    return frozenset(found.drop_null().to_pylist())


def without_point(words: pa.Array) -> pa.Array:
    """Return whole numbers without a plus sign, and without zeros behind their point; other words as they are."""
    return pc.replace_substring_regex(words, r"^\+?(-?\d+)(?:\.0*|,00?)?$", r"\1")  # ,000 are thousands


def describe_as_record(name: str, missing: Collection[str] = ()) -> str | None:
    """Return what a cell of the first line is, if it looks like a person's rather than a column's name."""
    bare = name.strip().replace("\u2212", "-")
    if not bare:
        return "is empty"
    if bare.lower() in GAPS or bare in missing:
        return "stands for a missing value"
    if bare.lower() in TRUTH:
        return "is a truth value"
    return next((said for said, pattern in _RECORD.items() if pattern.fullmatch(bare)), None)
