"""What the cells of a text file look like, how often each look occurs, and cells as what their column was found to be.

A look is a function of one cell alone. So is what a cell becomes once its column's kind is public: one that does not
fit is no value.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_publish.data.cells import TRUTH, is_gap, trim


class Look(enum.Enum):
    """What a cell looks like: the first of these that it matches, or a word."""

    GAP = "no value"
    TRUTH = "truth value"
    CODE = "code"  # digits that begin with a zero, such as a postal code
    WHOLE = "whole number"
    POINT = "number"
    GROUPED = "number with separated thousands"
    COMMA = "number with a decimal comma"
    GROUPED_COMMA = "number with separated thousands and a decimal comma"
    SIGNED_COMMA = "number with a sign of percent or money, and a decimal comma"
    SIGNED = "number with a sign of percent or money"
    DATE = "date"
    TIME = "time"
    DOTTED = "date with dots"
    DAY_FIRST = "date with slashes, the day first"
    MONTH_FIRST = "date with slashes, the month first"
    SLASHED = "date with slashes"
    WORD = "word"


_EXPONENT = r"(?:[eE][+-]?\d+)?"
_BLANKS = r"' \x{a0}\x{202f}"
_SIGN = r"(?:[%$€£¥]|EUR|USD|GBP|CHF)"
_SIGN_BEFORE, _SIGN_BEHIND = rf"{_SIGN}[{_BLANKS}]?", rf"[{_BLANKS}]?{_SIGN}"
_BODY = rf"[+-]?(?:\d[\d.,{_BLANKS}]*|[.,]\d+)"
_BODY_COMMA = rf"[+-]?(?:\d*,\d\d?|[1-9]\d{{0,2}}(?:(?:[.{_BLANKS}]\d{{3}})+,\d*|(?:\.\d{{3}}){{2,}}))"
_DAY, _MONTH = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])"
_PATTERNS = {
    Look.CODE: r"^0\d+$",
    Look.WHOLE: r"^[+-]?\d+$",
    Look.POINT: rf"^[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}$",
    Look.GROUPED: rf"^[+-]?[1-9]\d{{0,2}}(?:[,{_BLANKS}]\d{{3}})+(?:\.\d*)?$",
    Look.COMMA: rf"^[+-]?(?:\d+,\d*|,\d+){_EXPONENT}$",
    Look.GROUPED_COMMA: rf"^[+-]?[1-9]\d{{0,2}}(?:(?:[.{_BLANKS}]\d{{3}})+,\d*|(?:\.\d{{3}}){{2,}})$",
    Look.SIGNED_COMMA: rf"^(?:{_SIGN_BEFORE}{_BODY_COMMA}(?:{_SIGN_BEHIND})?|{_BODY_COMMA}{_SIGN_BEHIND})$",
    Look.SIGNED: rf"^(?:{_SIGN_BEFORE}{_BODY}(?:{_SIGN_BEHIND})?|{_BODY}{_SIGN_BEHIND})$",
    Look.DATE: r"^\d{4}-\d\d-\d\d$",
    Look.TIME: r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?$",
    Look.DOTTED: rf"^{_DAY}\.{_MONTH}\.\d{{4}}$",
    Look.DAY_FIRST: rf"^(?:1[3-9]|2\d|3[01])/{_MONTH}/\d{{4}}$",
    Look.MONTH_FIRST: rf"^{_MONTH}/(?:1[3-9]|2\d|3[01])/\d{{4}}$",
    Look.SLASHED: rf"^{_MONTH}/{_MONTH}/\d{{4}}$",
}
LOOKS = tuple(Look)
_FORMATS = {Look.DOTTED: "%d.%m.%Y", Look.DAY_FIRST: "%d/%m/%Y", Look.MONTH_FIRST: "%m/%d/%Y"}
WITH_COMMA = (Look.COMMA, Look.GROUPED_COMMA, Look.SIGNED_COMMA)  # for decimals, whatever else it may separate
NUMBERS = (Look.WHOLE, Look.POINT, Look.GROUPED, Look.SIGNED, *WITH_COMMA)
FRACTIONS = tuple(look for look in NUMBERS if look is not Look.WHOLE)  # what may be one
_THOUSANDS = {
    ".": (_PATTERNS[Look.GROUPED], rf"[,{_BLANKS}]"),
    ",": (rf"^[+-]?[1-9]\d{{0,2}}(?:[.{_BLANKS}]\d{{3}})+(?:,\d*)?$", rf"[.{_BLANKS}]"),
}


def count_looks(words: pa.Array, missing: tuple[str, ...]) -> NDArray[np.int64]:
    """Return how many cells have each look, in the order of `LOOKS`; the counts are private.

    Parameters
    ----------
    words : pyarrow.Array of string
        Cells of one column, as they are written; a null is no value.
    missing : tuple of str
        Words for no value besides the usual ones.
    """
    counted = pc.value_counts(pc.fill_null(pc.cast(words, pa.string()), ""))
    numbers, cells = counted.field("counts").to_numpy(), trim(counted.field("values"))
    found, left = np.zeros(len(LOOKS), dtype=np.int64), np.ones(len(cells), dtype=bool)
    for place, look in enumerate(LOOKS[:-1]):
        if not left.any():
            break
        hit = left & _as_bools(_is_so(look, cells, missing))
        found[place], left = numbers[hit].sum(), left & ~hit
    found[-1] = numbers[left].sum()
    return found


def _is_so(look: Look, cells: pa.Array, missing: tuple[str, ...]) -> pa.Array:
    if look is Look.GAP:
        return is_gap(cells, missing)
    if look is Look.TRUTH:
        return pc.is_in(pc.utf8_lower(cells), value_set=_truth_words())
    return pc.match_substring_regex(cells, _PATTERNS[look])


def _as_bools(values: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False).astype(bool)
    return found


def converter(look: Look, decimal: str, missing: tuple[str, ...]) -> Callable[[pa.Array], pa.Array]:
    """Return what makes values of the cells of a column of this look, and null of those that do not have it."""
    convert: Callable[[pa.Array], pa.Array]
    if look is Look.WORD:
        return partial(_words, missing=missing)
    if look is Look.TRUTH:
        return _truths
    if look in NUMBERS:
        codes = tuple(word for word in missing if word.strip())
        convert = partial(_numbers, decimal=decimal, missing=codes)
        return convert
    if look is Look.TIME:
        return partial(_matching, pattern=_PATTERNS[Look.TIME], convert=_instants)
    if look is Look.DATE:
        return partial(_matching, pattern=_PATTERNS[Look.DATE], convert=partial(_dates, format="%Y-%m-%d"))
    return partial(_matching, pattern=r"^[\d./]+$", convert=partial(_dates, format=_FORMATS[look]))


def _truth_words() -> pa.Array:
    return pa.array([*TRUTH], pa.string())  # not before it is asked for: pyarrow then loads pandas


def _words(words: pa.Array, missing: tuple[str, ...]) -> pa.Array:
    """Return words without blanks around them; of a column of words, only empty cells and declared words are gaps.

    One of the usual words for gaps may be an answer, such as "None": if it is frequent, it is a level.
    """
    cells = trim(pc.cast(words, pa.string()))
    gaps = pa.array(["", *(word.strip() for word in missing)], pa.string())
    return pc.if_else(pc.is_in(cells, value_set=gaps), pa.scalar(None, pa.string()), cells)


def _truths(words: pa.Array) -> pa.Array:
    places = pc.index_in(pc.utf8_lower(trim(pc.cast(words, pa.string()))), value_set=_truth_words())
    return pc.take(pa.array([float(number) for number in TRUTH.values()]), places)


def _numbers(words: pa.Array, decimal: str, missing: tuple[str, ...]) -> pa.Array:
    """Return numbers, and null of cells that are none or infinite; fast where all cells are numbers."""
    cells = None
    if not missing and decimal == ".":
        with contextlib.suppress(pa.ArrowInvalid):  # a cell that Arrow does not read, though the pattern may
            cells = pc.cast(pc.if_else(pc.equal(words, ""), pa.scalar(None, pa.string()), words), pa.float64())
    if cells is None:
        cells = trim(pc.cast(words, pa.string()))
        cells = pc.if_else(is_gap(cells, missing), pa.scalar(None, pa.string()), cells)
        cells = pc.replace_substring_regex(cells, rf"^{_SIGN_BEFORE}|{_SIGN_BEHIND}$", "")
        pattern, separators = _THOUSANDS[decimal]
        grouped = pc.match_substring_regex(cells, pattern)
        cells = pc.if_else(grouped, pc.replace_substring_regex(cells, separators, ""), cells)
        cells = pc.replace_substring(cells, ",", ".") if decimal == "," else cells
        fits = pc.match_substring_regex(cells, _PATTERNS[Look.POINT])
        cells = pc.cast(pc.if_else(pc.fill_null(fits, False), cells, pa.scalar(None, pa.string())), pa.float64())
    return pc.if_else(pc.is_finite(cells), cells, pa.scalar(None, pa.float64()))


def _matching(words: pa.Array, pattern: str, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    cells = trim(pc.cast(words, pa.string()))
    fits = pc.fill_null(pc.match_substring_regex(cells, pattern), False)
    return convert(pc.if_else(fits, cells, pa.scalar(None, pa.string())))


def _dates(cells: pa.Array, format: str) -> pa.Array:  # noqa: A002  as pandas calls it
    """Return dates; a day that does not exist is none."""
    return pc.cast(pa.array(_parsed(cells, format).dt.as_unit("s"), pa.timestamp("s"), from_pandas=True), pa.date32())


def _instants(cells: pa.Array) -> pa.Array:
    """Return moments, to a microsecond; without a zone, UTC is meant, and a day that does not exist is none."""
    cells = pc.replace_substring_regex(cells, r"(\.\d{6})\d+", r"\1")  # by more, pandas would take all for nanoseconds
    return pa.array(_parsed(cells, "ISO8601", utc=True).dt.as_unit("us"), pa.timestamp("us", "UTC"), from_pandas=True)


def _parsed(cells: pa.Array, format: str, *, utc: bool = False) -> Any:  # noqa: A002
    import pandas as pd  # which files of other kinds have no need of

    return pd.to_datetime(cells.to_pandas(), utc=utc, errors="coerce", format=format)


def fitting(look: Look, decimal: str) -> tuple[Look, ...]:
    """Return the looks whose cells have a value in a column of a look that is no word."""
    if look in NUMBERS:
        of_comma = WITH_COMMA if decimal == "," else ()
        return (Look.CODE, Look.WHOLE, Look.POINT, Look.GROUPED, Look.SIGNED, *of_comma)
    return (look, Look.SLASHED) if look in (Look.DAY_FIRST, Look.MONTH_FIRST) else (look,)


def decimal_mark(noisy: Sequence[Mapping[Look, float]], delimiter: str) -> str:
    """Return the decimal mark of a table, by noisy counts of its columns: the more frequent one.

    A number like 1,234 has separated thousands unless other numbers have a decimal comma; where semicolons separate the
    cells, it is no evidence for either.
    """
    points = sum(each[Look.POINT] + (each[Look.GROUPED] if delimiter == "," else 0) for each in noisy)
    return "," if sum(each[look] for each in noisy for look in WITH_COMMA) > points else "."


def best_look(noisy: Mapping[Look, float]) -> Look:
    """Return what a column is, by noisy counts of its cells: what most of them are, whatever the others are."""
    slashed = [noisy[Look.DAY_FIRST], noisy[Look.MONTH_FIRST], noisy[Look.SLASHED]]
    groups = {
        Look.TRUTH: noisy[Look.TRUTH],
        Look.WHOLE: sum(noisy[look] for look in NUMBERS),
        Look.DATE: noisy[Look.DATE],
        Look.TIME: noisy[Look.TIME],
        Look.DOTTED: noisy[Look.DOTTED],
        Look.DAY_FIRST if slashed[0] >= slashed[1] else Look.MONTH_FIRST: sum(slashed),
        Look.WORD: noisy[Look.WORD] + noisy[Look.CODE],
    }
    return max(groups, key=groups.__getitem__)
