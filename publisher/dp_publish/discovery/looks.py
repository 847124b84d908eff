"""What the cells of a text file look like, how often each look occurs, and what a column of them is.

A look is a function of one cell alone. What a cell becomes once its column's kind is public is for `data.cells` to say.
"""

import enum
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.arrays import Integers
from dp_publish.data.cells import (
    BLANKS,
    COMMA,
    ERRORS,
    GROUPED,
    INFINITE,
    POINT,
    SIGNS,
    TRUTH,
    Written,
    is_gap,
    read_numbers,
    read_words,
    trim,
)
from dp_publish.data.dates import read_moments


class Look(enum.Enum):
    """What a cell looks like: the first of these that it matches, or a word."""

    GAP = "no value"
    TRUTH = "truth value"
    CODE = "code"  # digits that begin with a zero, such as a postal code
    WHOLE = "whole number"
    WHOLE_POINT = "whole number with a point and zeros"  # as programs write whole numbers of a column with gaps
    GROUPED_POINT = "number with a point that may separate thousands or decimals"
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
    DOTTED_TIME = "date with dots and a time"
    DAY_FIRST_TIME = "date with slashes and a time, the day first"
    MONTH_FIRST_TIME = "date with slashes and a time, the month first"
    SLASHED_TIME = "date with slashes and a time"
    WORD = "word"


_EITHER = "|".join(map(re.escape, SIGNS))
_SIGN_BEFORE, _SIGN_BEHIND = rf"(?:{_EITHER})[{BLANKS}]?", rf"[{BLANKS}]?(?:{_EITHER})"
_BODY = rf"[+-]?(?:\d[\d.,{BLANKS}]*|[.,]\d+)"
_BODY_COMMA = rf"[+-]?(?:\d*,\d\d?|[1-9]\d{{0,2}}(?:(?:[.{BLANKS}]\d{{3}})+,\d*|(?:\.\d{{3}}){{2,}}))"
_DAY, _LATE, _MONTH = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:1[3-9]|2\d|3[01])", r"(?:0?[1-9]|1[0-2])"
_CLOCK = r"(?:,? |T)\d\d?:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AaPp][Mm])?"
_WRITTEN = {  # dates as people write them, which may have a time behind
    Look.DOTTED: rf"{_DAY}\.{_MONTH}\.\d{{4}}",
    Look.DAY_FIRST: rf"{_LATE}/{_MONTH}/\d{{4}}",
    Look.MONTH_FIRST: rf"{_MONTH}/{_LATE}/\d{{4}}",
    Look.SLASHED: rf"{_MONTH}/{_MONTH}/\d{{4}}",
}
_TIMED = {
    Look.DATE: Look.TIME,
    Look.DOTTED: Look.DOTTED_TIME,
    Look.DAY_FIRST: Look.DAY_FIRST_TIME,
    Look.MONTH_FIRST: Look.MONTH_FIRST_TIME,
    Look.SLASHED: Look.SLASHED_TIME,
}
_PATTERNS = {
    Look.CODE: r"^0\d+$",
    Look.WHOLE: r"^[+-]?\d+$",
    Look.WHOLE_POINT: r"^[+-]?\d+\.00?$",
    Look.GROUPED_POINT: r"^[+-]?[1-9]\d{0,2}\.\d{3}$",
    Look.POINT: rf"^(?:{POINT}|{INFINITE})$",
    Look.GROUPED: f"^{GROUPED['.']}$",
    Look.COMMA: f"^{COMMA}$",
    Look.GROUPED_COMMA: rf"^[+-]?[1-9]\d{{0,2}}(?:(?:[.{BLANKS}]\d{{3}})+,\d*|(?:\.\d{{3}}){{2,}})$",
    Look.SIGNED_COMMA: rf"^(?:{_SIGN_BEFORE}{_BODY_COMMA}(?:{_SIGN_BEHIND})?|{_BODY_COMMA}{_SIGN_BEHIND})$",
    Look.SIGNED: rf"^(?:{_SIGN_BEFORE}{_BODY}(?:{_SIGN_BEHIND})?|{_BODY}{_SIGN_BEHIND})$",
    Look.DATE: r"^\d{4}-\d\d-\d\d$",
    Look.TIME: r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?$",
    **{look: f"^{written}$" for look, written in _WRITTEN.items()},
    **{_TIMED[look]: f"^{written}{_CLOCK}$" for look, written in _WRITTEN.items()},
}
LOOKS = tuple(Look)
TIMES = tuple(_TIMED.values())
_BY_DATE = {Look.DOTTED: "%d.%m.%Y%T", Look.DAY_FIRST: "%d/%m/%Y%T", Look.MONTH_FIRST: "%m/%d/%Y%T"}
FORMATS = {either: form for look, form in _BY_DATE.items() for either in (look, _TIMED[look])}
WITH_COMMA = (Look.COMMA, Look.GROUPED_COMMA, Look.SIGNED_COMMA)  # for decimals, whatever else it may separate
WITH_POINT = (Look.POINT, Look.WHOLE_POINT)
NUMBERS = (Look.WHOLE, *WITH_POINT, Look.GROUPED_POINT, Look.GROUPED, Look.SIGNED, *WITH_COMMA)
_STANDS_OUT = 1.5  # standard deviations of the noise on a count
FRACTIONS = tuple(look for look in NUMBERS if look not in (Look.WHOLE, Look.WHOLE_POINT))  # what may be one


def count_looks(words: pa.Array, missing: tuple[str, ...]) -> Integers:
    """Return how many cells have each look, in the order of `LOOKS`; the counts are private.

    Parameters
    ----------
    words : pyarrow.Array of string
        Cells of one column, as they are written; a null is no value.
    missing : tuple of str
        Words for no value besides the usual ones.
    """
    values, counts = pc.value_counts(pc.fill_null(pc.cast(words, pa.string()), "")).flatten()
    numbers, cells = counts.to_numpy(), trim(values)
    found = np.zeros(len(LOOKS), dtype=np.int64)
    for place, look in enumerate(LOOKS[:-1]):
        hit = _is_so(look, cells, missing).to_numpy(zero_copy_only=False)
        found[place] = numbers[hit].sum()
        numbers, cells = numbers[~hit], cells.filter(pa.array(~hit))
    found[-1] = numbers.sum()
    return found


def _is_so(look: Look, cells: pa.Array, missing: tuple[str, ...]) -> pa.Array:
    if look is Look.GAP:
        return is_gap(cells, missing)
    if look is Look.TRUTH:
        return pc.is_in(pc.utf8_lower(cells), value_set=pa.array([*TRUTH]))
    return pc.match_substring_regex(cells, _PATTERNS[look])


def as_they_look(cells: pa.Array, written: Written) -> tuple[Look, pa.Array]:
    """Return what most cells of text look like, and their values as such; for the publisher's eyes alone."""
    counts = dict(zip(LOOKS, count_looks(cells, written.missing).tolist(), strict=True))
    look = best_look(counts)
    if look is Look.WORD:
        return look, read_answers(cells, written.missing)
    if look in NUMBERS or look is Look.TRUTH:
        decimal = written.decimal or decimal_mark([counts], grouped=written.has_points)
        return look, read_numbers(cells, written_as(look, decimal, written.missing)).values
    moments = read_moments(read_words(cells, (), written.missing), FORMATS.get(look, ""), local=look not in TIMES)
    return look, moments.values if look in TIMES else moments.values.cast(pa.date32(), safe=False)


def written_as(look: Look, decimal: str, missing: tuple[str, ...]) -> Written:
    """Return how the cells of a column are written that was found to be of this look."""
    is_truth = look is Look.TRUTH
    return Written(decimal, missing=missing, signs=() if is_truth else SIGNS, is_found=True, are_truths=is_truth)


def read_answers(words: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Return words without blanks around them; of a column of words, only empty cells and declared words are gaps.

    One of the usual words for gaps may be an answer, such as "None": if it is frequent, it is a level.
    """
    cells = trim(pc.cast(words, pa.string()))
    gaps = pa.array(["", *ERRORS, *map(str.upper, ERRORS), *map(str.strip, missing)])
    return pc.if_else(pc.is_in(cells, value_set=gaps), None, cells)


def fitting(look: Look, decimal: str) -> tuple[Look, ...]:
    """Return the looks whose cells have a value in a column of a look that is no word."""
    if look in NUMBERS:
        of_decimal = WITH_COMMA if decimal == "," else WITH_POINT
        return (Look.CODE, Look.WHOLE, Look.TRUTH, Look.GROUPED, Look.GROUPED_POINT, Look.SIGNED, *of_decimal)
    for date, timed in _TIMED.items():
        if look in (date, timed):
            either = (Look.SLASHED, Look.SLASHED_TIME) if date in (Look.DAY_FIRST, Look.MONTH_FIRST) else ()
            return (date, timed, *either)
    return (look,)


def decimal_mark(noisy: Sequence[Mapping[Look, float]], *, grouped: bool) -> str:
    """Return the decimal mark of a table, by noisy counts of its columns: the more frequent one.

    Numbers like 1,234 and 1.234 are no evidence for either, unless thousands are `grouped` by commas where they are.
    """
    points = sum(
        each[Look.POINT] + each[Look.WHOLE_POINT] + (each[Look.GROUPED] + each[Look.GROUPED_POINT]) * grouped
        for each in noisy
    )
    return "," if sum(each[look] for each in noisy for look in WITH_COMMA) > points else "."


def best_look(noisy: Mapping[Look, float], most_codes: float = math.inf, sigma: float = 0.0) -> Look:
    """Return what a column is, by noisy counts of its cells: what most of them are, whatever the others are.

    Digits of which more than so many begin with a zero are words. Counts that do not stand out from their noise are
    left out, as the noise of several together is larger than that of one.
    """
    clear = {look: count for look, count in noisy.items() if count > _STANDS_OUT * sigma} or noisy

    def number(*looks: Look) -> float:
        return sum(clear.get(look, 0.0) for look in looks)

    days, months = (noisy[look] + noisy[_TIMED[look]] for look in (Look.DAY_FIRST, Look.MONTH_FIRST))
    slashed = Look.DAY_FIRST if days >= months else Look.MONTH_FIRST
    groups = {
        Look.TRUTH: number(Look.TRUTH),
        Look.WHOLE: number(*NUMBERS),
        **{look: number(look) for date in (Look.DATE, Look.DOTTED) for look in (date, _TIMED[date])},
        slashed: number(Look.DAY_FIRST, Look.MONTH_FIRST, Look.SLASHED),
        _TIMED[slashed]: number(Look.DAY_FIRST_TIME, Look.MONTH_FIRST_TIME, Look.SLASHED_TIME),
        Look.WORD: number(Look.WORD, Look.CODE),
    }
    look = max(groups, key=groups.__getitem__)
    return Look.WORD if look is Look.WHOLE and noisy[Look.CODE] > most_codes else look
