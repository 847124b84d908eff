"""Dates and times in text: by ISO 8601, with a zone or without, or by a format that the policy declares.

What a cell means depends on the cell and the declared format alone. A format is written in the letters of `strptime`,
and applied exactly. It is applied to the whole cell, with English names of months, and to days that exist. One letter
is its own: `%T` is a time of the day behind a date, in hours and minutes, with seconds, with AM or PM, or none at all.
"""

import contextlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_bundle.base.arrays import Integers
from dp_bundle.base.errors import PolicyError
from dp_bundle.base.wording import BY_POLICY, LEAVE_OUT
from dp_publish.data.cells import DATE, FIRST, TIME_OF_DAY, Read

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_OFFSET_PARTS = ("side", "hours", "minutes")  # groups of a zone
_ZONE = r"Z|(?P<side>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?"
_LETTERS = {
    "Y": r"\d{4}",
    "y": r"\d\d",
    "m": r"\d{1,2}",
    "b": f"(?i:{'|'.join(name[:3] for name in _MONTHS)})",
    "B": f"(?i:{'|'.join(_MONTHS)})",
    "d": r"\d{1,2}",
    "H": r"\d{1,2}",
    "I": r"0?[1-9]|1[0-2]",
    "M": r"\d{1,2}",
    "S": r"\d{1,2}",
    "f": r"\d{1,9}",
    "p": r"(?i:[AP]M)",
    "z": _ZONE,
    "T": (r"(?:(?:,? |T|\b)(?P<H>\d\d?):(?P<M>\d\d)(?::(?P<S>\d\d)(?:\.(?P<f>\d+))?)?(?: ?(?P<p>(?i:[AP]M)))?)?"),
}
_NUMBERS = "YymdHIMSf"  # of one or two digits, but for the first two and the last
_SAME = ("Yy", "mbB", "HIT", "MT", "ST", "fT", "pT")  # letters of which a format has one
_PIVOT = 69  # years of two digits from here on are of the last century, as POSIX has it
_TOKEN = re.compile(r"%(.?)|([^%]+)", re.DOTALL)
_ISO = (
    r"^(?P<Y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)"
    rf"(?:[T ](?P<H>\d\d)(?::?(?P<M>\d\d)(?::?(?P<S>\d\d)(?:\.(?P<f>\d+))?)?)? ?(?P<z>{_ZONE}|z|UTC|GMT)?)?$"
)
_US = pa.timestamp("us")
_MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0}

_DAYS = (
    *("%d.%m.%Y", "%d.%m.%y", "%Y.%m.%d"),  # with points, nobody begins with the month
    *("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y"),
    *("%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d", "%d-%m-%y", "%m-%d-%y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d. %b %Y", "%d-%b-%y", "%d%b%Y"),
    *("%d %B %Y", "%d-%B-%Y", "%B %d, %Y", "%d. %B %Y"),
    *("%Y%m%d", "%Y-%m", "%m/%Y"),
)
_TIMES = ["%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p"]


def require_format(form: str) -> None:
    """Refuse a format that is no date and no time of the day."""
    letters = [found[1] for found in _TOKEN.finditer(form) if found[2] is None and found[1] != "%"]
    given = {*letters}
    if unknown := given - {*_LETTERS}:
        raise PolicyError(f"format may hold %{', %'.join(_LETTERS)} and %%, not %{min(unknown)}", "format")

    year, month, hour = given & {*"Yy"}, given & {*"mbB"}, given & {*"HI"}
    has_all = bool(year and month) if year or month or "d" in given else bool(hour)
    is_whole = has_all and ("I" in given) == ("p" in given) and bool(hour or not given & {*"MSfz"})
    said_twice = len(given) < len(letters) or any(len(given & {*same}) > 1 for same in _SAME)
    if said_twice or not is_whole:
        raise PolicyError(
            "format must hold a year and a month, a time of the day, or both, and nothing twice: %d.%m.%Y, "
            "%m/%d/%Y %I:%M %p or %H:%M, for instance, where %I and %p go together",
            "format",
        )


def has_date(form: str) -> bool:
    """Return True for a format of dates, with a time or without, and False for one of times of the day."""
    return any(f"%{letter}" in form.replace("%%", "") for letter in "Yy")


def read_moments(words: pa.Array, form: str = "", *, local: bool = False) -> Read:
    """Return the moments that cells are, in microseconds; a day that does not exist is none.

    Parameters
    ----------
    words : pyarrow.Array of string
        Without blanks around them, null where there is none.
    form : str
        Their format, or nothing for ISO 8601. In one of times of the day, the day is 1970-01-01.
    local : bool
        Whether the clock is the one where a cell's zone is, and not UTC's, which is meant without a zone.
    """
    if not form:
        with contextlib.suppress(pa.ArrowInvalid):  # some cell is none, or has a zone or more decimals
            pc.cast(words[:FIRST], _US)
            return Read(pc.cast(words, _US), pa.array(np.ones(len(words), dtype=bool)))
    moments, fits = _microseconds(words, form, local=local)
    return Read(pa.array(moments, mask=~fits).cast(_US), pc.or_(pa.array(fits), pc.is_null(words)))


def _microseconds(words: pa.Array, form: str, *, local: bool) -> tuple[Integers, NDArray[np.bool_]]:
    """Return microseconds since 1970, and which words are moments."""
    fields, nothing = pc.extract_regex(words, _compiled(form) if form else _ISO), pa.nulls(len(words), pa.string())
    given = {part.name for part in fields.type}
    found = dict.fromkeys([*_LETTERS, *_OFFSET_PARTS], nothing) | {
        name: pc.struct_field(fields, name) for name in given
    }

    def number(letter: str, otherwise: int = 0) -> Integers:
        return _integers(found[letter], otherwise)

    year, month, hour = number("Y", 1970), number("m", 1), number("I" if "I" in given else "H")
    if "y" in given:
        year = number("y")
        year = np.where(year < _PIVOT, 2000, 1900) + year
    for name in {"b", "B"} & given:
        months = pa.array([each[:3].lower() for each in _MONTHS])
        month = 1 + _integers(pc.index_in(pc.utf8_lower(pc.utf8_slice_codeunits(found[name], 0, 3)), months), 0)
    half = pc.utf8_lower(found["p"])
    late, halved = _are(half, "pm"), _are(half, "am", "pm")
    parts = _integers(pc.utf8_slice_codeunits(pc.utf8_rpad(found["f"], 6, "0"), 0, 6), 0)

    first = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    days = first.astype("datetime64[D]") + (number("d", 1) - 1)
    fits = pc.is_valid(fields).to_numpy(zero_copy_only=False) & (days.astype("datetime64[M]") == first)
    fits &= (month >= 1) & (month <= 12) & (hour <= np.where(halved, 12, 23)) & (number("M") < 60) & (number("S") < 60)
    ahead = 0 if local else np.where(_are(found["side"], "-"), -60, 60) * (60 * number("hours") + number("minutes"))

    hour = np.where(halved, hour % 12 + 12 * late, hour)
    seconds = days.astype(np.int64) * 86_400 + hour * 3_600 + number("M") * 60 + number("S")
    return (seconds - ahead) * 10**6 + parts, fits


def _are(words: pa.Array, *these: str) -> NDArray[np.bool_]:
    """Return which words are one of these."""
    found: NDArray[np.bool_] = pc.is_in(words, pa.array(these)).to_numpy(zero_copy_only=False)
    return found


def _integers(words: pa.Array, otherwise: int) -> Integers:
    words = pc.if_else(pc.equal(words, ""), None, words) if pa.types.is_string(words.type) else words
    found: Integers = pc.fill_null(pc.cast(words, pa.int64()), otherwise).to_numpy()
    return found


@lru_cache(256)
def _compiled(form: str) -> str:
    """Return a regular expression with a group for each letter of a format."""
    tokens = [(found[1], found[2]) for found in _TOKEN.finditer(form)]
    pattern = ""
    for place, (letter, text) in enumerate(tokens):
        if text is not None or letter == "%":
            pattern += re.escape(text or "%")
            continue
        beside = [tokens[other][0] for other in (place - 1, place + 1) if 0 <= other < len(tokens)]
        alone = not any(other and other in _NUMBERS for other in beside)
        digits = _LETTERS[letter] if alone else _LETTERS[letter].replace("{1,2}", "{2}").replace("0?", "0")
        pattern += digits if letter == "T" else f"(?P<{letter}>{digits})"
    return f"^{pattern}$"


def days(values: pa.Array) -> pa.Array:
    """Return days since 1970-01-01, of a moment those of the date where its zone is."""
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = pc.local_timestamp(values)
    return pc.cast(pc.cast(pc.cast(values, pa.date32(), safe=False), pa.int32()), pa.int64())


def seconds(values: pa.Array) -> pa.Array:
    """Return seconds, to a millionth: of moments those since 1970, of others those since midnight, or how many."""
    unit = values.type.unit
    counted = pc.cast(pc.cast(values, pa.int32() if values.type.bit_width == 32 else pa.int64()), pa.int64())
    if unit == "ns":
        counted, unit = pc.divide(counted, 1000), "us"
    return pc.multiply(pc.multiply(pc.cast(counted, pa.float64(), safe=False), _MICROSECONDS[unit]), 1e-6)


def fit(words: Sequence[str], form: str = "") -> bool:
    """Return True for words that are all dates or times of a format, or that need none."""
    if not words or (form and re.match(_compiled(form), words[0]) is None):
        return False
    return bool(pc.all(read_moments(pa.array(words, pa.string()), form).fits).as_py())


def fitting_formats(words: Sequence[str]) -> list[str]:
    """Return the usual formats that all words fit; times of the day fit one without a date."""
    with_times = (day + time for day in _DAYS for time in ("", *(f"{a}{b}" for a in " T" for b in _TIMES)))
    return [form for form in (*with_times, *_TIMES) if fit(words, form)]


def advise_format(words: Sequence[str], *, with_date: bool = False) -> str | None:
    """Return the entry of a policy that gives words a format, and what it rests on; None if none fits them."""
    fitting = [f'"{form}"' for form in fitting_formats(words) if has_date(form) or not with_date]
    if not fitting:
        return None
    rests = "whichever is meant, as the first rows fit each" if fitting[1:] else "as the first rows are written"
    return f"format = {' or '.join(fitting)}, {rests}"


def describe_dates(cell: str, words: Sequence[str]) -> str | None:
    """Return what is wrong with a date or a time in a column of numbers, and what to do, or None.

    It is None of a cell that is no date and no time.

    Parameters
    ----------
    cell : str
        The cell.
    words : sequence of str
        Those of its column: if all are dates or times, it is one of them.
    """
    in_iso = fit(words)
    advice = None if in_iso else advise_format(words)
    if in_iso or advice:
        kind = "time" if ":" in words[0] else "date"
        given = f" and {advice}" if advice else ""
        return f'is a {kind}: {BY_POLICY}give its column kind = "{kind}"{given}, or {LEAVE_OUT}'
    if DATE.fullmatch(cell):
        return (
            f'is a date or a time: {BY_POLICY}give its column kind = "date" or "time", with format = "%d.%m.%Y", say, '
            f"unless all are like 2026-01-31, or {LEAVE_OUT}"
        )
    if TIME_OF_DAY.fullmatch(cell):
        return (
            f'is a time of the day: {BY_POLICY}give its column kind = "time" and format = "%H:%M", say, or {LEAVE_OUT}'
        )
    return None
