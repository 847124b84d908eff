"""What the cells of a text file look like, how often each look occurs, and what a column of them is.

A look is a function of one cell alone. What a cell becomes once its column's kind is public is for `data.cells` to say.
"""

import enum
import math
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
    read_words,
    trim,
    without_signs,
)


class Look(enum.Enum):
    """What a cell looks like: the first of these that it matches, or a word."""

    GAP = "no value"
    TRUTH = "truth value"
    CODE = "code"  # digits that begin with a zero, such as a postal code
    WHOLE = "whole number"
    WHOLE_POINT = "whole number with a point and zeros"  # as programs write whole numbers of a column with gaps
    DOUBTFUL = "number with a mark that may separate thousands or decimals"
    POINT = "number with a decimal point, or thousands that commas separate"
    COMMA = "number with a decimal comma, or thousands that points separate"
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
    Look.TRUTH: f"(?i)^(?:{'|'.join(TRUTH)})$",
    Look.CODE: r"^0\d+$",
    Look.WHOLE: rf"^[+-]?(?:\d+|[1-9]\d{{0,2}}(?:[{BLANKS}]\d{{3}})+)$",
    Look.WHOLE_POINT: r"^[+-]?\d+\.00?$",
    Look.DOUBTFUL: r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$",
    Look.POINT: rf"^(?:{POINT}|{GROUPED['.']}|{INFINITE})$",
    Look.COMMA: rf"^(?:{COMMA}|{GROUPED[',']})$",
    Look.DATE: r"^\d{4}-\d\d-\d\d$",
    Look.TIME: r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?$",
    **{look: f"^{written}$" for look, written in _WRITTEN.items()},
    **{_TIMED[look]: f"^{written}{_CLOCK}$" for look, written in _WRITTEN.items()},
}
LOOKS = tuple(Look)
TIMES = tuple(_TIMED.values())
_DAYS = {Look.DOTTED: "%d.%m.%Y%T", Look.DAY_FIRST: "%d/%m/%Y%T", Look.MONTH_FIRST: "%m/%d/%Y%T"}
FORMATS = _DAYS | {_TIMED[look]: form for look, form in _DAYS.items()}
NUMBERS = (Look.WHOLE, Look.WHOLE_POINT, Look.DOUBTFUL, Look.POINT, Look.COMMA)
FRACTIONS = (Look.DOUBTFUL, Look.POINT, Look.COMMA)  # what may be one
_GROUPS = {  # what a column may be, and which looks count for that
    Look.TRUTH: (Look.TRUTH,),
    Look.WHOLE: NUMBERS,
    Look.DATE: (Look.DATE,),
    Look.TIME: (Look.TIME,),
    Look.DOTTED: (Look.DOTTED,),
    Look.DOTTED_TIME: (Look.DOTTED_TIME,),
    Look.DAY_FIRST: (Look.DAY_FIRST, Look.MONTH_FIRST, Look.SLASHED),
    Look.DAY_FIRST_TIME: (Look.DAY_FIRST_TIME, Look.MONTH_FIRST_TIME, Look.SLASHED_TIME),
    Look.WORD: (Look.WORD, Look.CODE),
}
_STANDS_OUT = 1.5  # standard deviations of the noise on a count


def count_looks(words: pa.Array, missing: tuple[str, ...]) -> Integers:
    """Return how many cells have each look, in the order of `LOOKS`; the counts are private.

    Signs of percent and money are no part of a number.

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
        cells = without_signs(cells, SIGNS) if look is Look.WHOLE else cells
        fits = is_gap(cells, missing) if look is Look.GAP else pc.match_substring_regex(cells, _PATTERNS[look])
        hit = fits.to_numpy(zero_copy_only=False)
        found[place] = numbers[hit].sum()
        numbers, cells = numbers[~hit], cells.filter(pa.array(~hit))
    found[-1] = numbers.sum()
    return found


def written_as(look: Look, decimal: str, missing: tuple[str, ...]) -> Written:
    """Return how the cells of a column are written that was found to be of this look."""
    is_truth = look is Look.TRUTH
    return Written(decimal, missing=missing, signs=() if is_truth else SIGNS, is_found=True, are_truths=is_truth)


def read_answers(words: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Return words without blanks around them; of a column of words, only empty cells and declared words are gaps.

    One of the usual words for gaps may be an answer, such as "None": if it is frequent, it is a level.
    """
    return read_words(words, (), missing, ("", *ERRORS))


def fitting(look: Look, decimal: str) -> tuple[Look, ...]:
    """Return the looks whose cells have a value in a column of a look."""
    if look in NUMBERS:
        of_decimal = (Look.COMMA,) if decimal == "," else (Look.POINT, Look.WHOLE_POINT)
        return (Look.CODE, Look.WHOLE, Look.TRUTH, Look.DOUBTFUL, *of_decimal)
    for date, timed in _TIMED.items():
        if look in (date, timed):
            either = (Look.SLASHED, Look.SLASHED_TIME) if date in (Look.DAY_FIRST, Look.MONTH_FIRST) else ()
            return (date, timed, *either)
    return (look,)


def decimal_mark(noisy: Sequence[Mapping[Look, float]], *, grouped: bool) -> str:
    """Return the decimal mark of a table, by noisy counts of its columns: the more frequent one.

    Numbers like 1,234 and 1.234 are no evidence for either, unless thousands are `grouped` by commas where they are.
    """
    return "," if sum(commas(each) - each[Look.DOUBTFUL] * grouped for each in noisy) > 0 else "."


def commas(noisy: Mapping[Look, float]) -> float:
    """Return how many more numbers have a decimal comma than a point."""
    return noisy[Look.COMMA] - noisy[Look.POINT] - noisy[Look.WHOLE_POINT]


def best_look(noisy: Mapping[Look, float], most_codes: float = math.inf, sigma: float = 0.0) -> Look:
    """Return what a column is, by noisy counts of its cells: what most of them are, whatever the others are.

    Digits of which more than so many begin with a zero are words. Counts that do not stand out from their noise are
    left out, as the noise of several together is larger than that of one.
    """
    clear = {look: count for look, count in noisy.items() if count > _STANDS_OUT * sigma} or noisy
    look = max(_GROUPS, key=lambda look: sum(clear.get(each, 0.0) for each in _GROUPS[look]))
    days, months = (noisy[each] + noisy[_TIMED[each]] for each in (Look.DAY_FIRST, Look.MONTH_FIRST))
    if look in (Look.DAY_FIRST, Look.DAY_FIRST_TIME) and months > days:
        return Look.MONTH_FIRST if look is Look.DAY_FIRST else Look.MONTH_FIRST_TIME
    return Look.WORD if look is Look.WHOLE and noisy[Look.CODE] > most_codes else look
