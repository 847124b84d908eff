"""Dates and times in text: by ISO 8601, with a zone or without, or by a format that the policy declares.

What a cell means depends on the cell and the declared format alone. A format is written in the letters of `strptime`,
and applied exactly: to the whole cell, with English names of months, and to days that exist.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ZONE = r"Z|[+-]\d\d(?::?\d\d)?"
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
}
_NUMBERS = "YymdHIMSf"  # of one or two digits, but for the first two and the last
_PIVOT = 69  # years of two digits from here on are of the last century, as POSIX has it
_TOKEN = re.compile(r"%(.?)|([^%]+)", re.DOTALL)
_WITH_ZONE = rf"^(?P<local>\d{{4}}-\d\d-\d\d[T ]\d\d(?::?\d\d){{0,2}}(?:\.\d+)?) ?(?P<zone>{_ZONE}|z|UTC|GMT)$"
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")  # a zone without a name
_US = pa.timestamp("us")

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
    """Refuse, by ValueError, a format that is no date and no time of the day."""
    letters = [found[1] for found in _TOKEN.finditer(form) if found[2] is None and found[1] != "%"]
    given = {*letters}
    if unknown := [letter for letter in letters if letter not in _LETTERS]:
        raise ValueError(f"format may hold %{', %'.join(_LETTERS)} and %%, not %{unknown[0]}")
    if len(given) < len(letters) or any(len(given & {*same}) > 1 for same in ("Yy", "mbB", "HI")):
        raise ValueError("format says something twice: leave one of the two out")
    year, month, hour = given & {*"Yy"}, given & {*"mbB"}, given & {*"HI"}
    whole = bool(year and month) if year or month or "d" in given else bool(hour)
    if not whole or ("I" in given) != ("p" in given) or (given & {*"MSfz"} and not hour):
        raise ValueError(
            "format must hold a year and a month, a time of the day, or both, such as %d.%m.%Y, %m/%d/%Y %I:%M %p (%I "
            "and %p go together) or %H:%M"
        )


def has_date(form: str) -> bool:
    """Return True for a format of dates, with a time or without, and False for one of times of the day."""
    return any(f"%{letter}" in form.replace("%%", "") for letter in "Yy")


def to_iso(words: pa.Array, form: str) -> pa.Array:
    """Return dates and times in ISO 8601, of a time of the day on 1970-01-01; null stays null.

    Raises
    ------
    ValueError
        A word does not fit the format.
    """
    pattern, letters = _compiled(form)
    fields = pc.extract_regex(words, pattern)
    if fields.null_count > words.null_count:
        raise ValueError("a word does not fit the format")
    found = {letter: pc.if_else(pc.is_valid(fields), fields.field(letter), "1") for letter in letters}

    def digits(letter: str, otherwise: str = "0") -> pa.Array:
        return pc.utf8_lpad(found.get(letter, pa.scalar(otherwise)), 2, "0")

    year = found.get("Y", pa.scalar("1970"))
    if "y" in found:
        century = pc.if_else(pc.less(pc.cast(found["y"], pa.int64()), _PIVOT), "20", "19")
        year = pc.binary_join_element_wise(century, found["y"], "")
    month = digits("m", "1")
    for name in {"b", "B"} & {*found}:
        months = pa.array([each[:3].lower() for each in _MONTHS])
        place = pc.index_in(pc.utf8_lower(pc.utf8_slice_codeunits(found[name], 0, 3)), months)
        month = pc.utf8_lpad(pc.cast(pc.add(place, 1), pa.string()), 2, "0")
    hour = digits("H")
    if "I" in found:
        twelve = pc.cast(found["I"], pa.int64())
        since = pc.if_else(pc.equal(twelve, 12), 0, twelve)
        late = pc.equal(pc.utf8_lower(found["p"]), "pm")
        hour = pc.utf8_lpad(pc.cast(pc.if_else(late, pc.add(since, 12), since), pa.string()), 2, "0")

    parts = [year, "-", month, "-", digits("d", "1"), "T", hour, ":", digits("M"), ":", digits("S")]
    parts += [".", found["f"]] if "f" in found else []
    parts += [found["z"]] if "z" in found else []
    return pc.if_else(pc.is_valid(fields), pc.binary_join_element_wise(*parts, ""), pa.scalar(None, pa.string()))


@lru_cache
def _compiled(form: str) -> tuple[str, list[str]]:
    """Return a regular expression with a group for each letter of a format, and the letters."""
    tokens = [(found[1], found[2]) for found in _TOKEN.finditer(form)]
    pattern, letters = "", []
    for place, (letter, text) in enumerate(tokens):
        if text is not None or letter == "%":
            pattern += re.escape(text or "%")
            continue
        beside = [tokens[other][0] for other in (place - 1, place + 1) if 0 <= other < len(tokens)]
        alone = not any(other and other in _NUMBERS for other in beside)
        digits = _LETTERS[letter] if alone else _LETTERS[letter].replace("{1,2}", "{2}").replace("0?", "0")
        pattern += f"(?P<{letter}>{digits})"
        letters.append(letter)
    return f"^{pattern}$", letters


def _split(words: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return local times, to a microsecond, and zones, null where there is none."""
    words = pc.replace_substring_regex(words, r"(\.\d{6})\d+", r"\1")
    parts = pc.extract_regex(words, _WITH_ZONE)
    zoned = pc.is_valid(parts)
    zones = pc.if_else(zoned, parts.field("zone"), pa.scalar(None, pa.string()))
    named = pc.is_in(zones, value_set=pa.array(["z", "UTC", "GMT"]))
    return pc.if_else(zoned, parts.field("local"), words), pc.if_else(named, "Z", zones)


def days(values: pa.Array) -> pa.Array:
    """Return days since 1970-01-01, of a moment those of the date where its zone is."""
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = _where_the_zone_is(values)
    if pa.types.is_string(values.type):
        values, _ = _split(values)
    if pa.types.is_string(values.type) or pa.types.is_timestamp(values.type):
        values = pc.floor_temporal(pc.cast(values, _US), unit="day")
    return pc.cast(pc.cast(pc.cast(values, pa.date32()), pa.int32()), pa.int64())


def _where_the_zone_is(values: pa.Array) -> pa.Array:
    """Return the local times of moments, without their zone; older versions of Arrow know none that is an offset."""
    offset = _OFFSET.fullmatch(values.type.tz)
    if offset is None:
        return pc.local_timestamp(values)
    sign, hours, minutes = offset.groups()
    ahead = datetime.timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    unit = values.type.unit
    moments = pc.cast(pc.cast(values, pa.int64()), pa.timestamp(unit))
    return pc.add(moments, pa.scalar(ahead, pa.duration(unit)))


def seconds(values: pa.Array, of: pa.DataType) -> pa.Array:
    """Return seconds, to a millionth, of values in a type of microseconds."""
    return pc.multiply(pc.cast(pc.cast(pc.cast(values, of, safe=False), pa.int64()), pa.float64()), 1e-6)


def moments(values: pa.Array) -> pa.Array:
    """Return seconds since 1970-01-01T00:00:00Z; without a zone, UTC is meant."""
    if not pa.types.is_string(values.type):
        return seconds(values, pa.timestamp("us", values.type.tz if pa.types.is_timestamp(values.type) else None))
    local, zones = _split(values)
    if zones.null_count == len(zones):
        return seconds(local, _US)
    zoned, none = pc.is_valid(zones), pa.scalar(None, pa.string())
    instants = pc.cast(pc.binary_join_element_wise(local, zones, ""), pa.timestamp("us", "UTC"))
    return pc.coalesce(seconds(instants, instants.type), seconds(pc.if_else(zoned, none, local), _US))


def seconds_of_day(values: pa.Array) -> pa.Array:
    """Return seconds since midnight, of times of the day or what `to_iso` makes of them."""
    return moments(values) if pa.types.is_string(values.type) else seconds(values, pa.time64("us"))


def is_iso(words: Sequence[str]) -> bool:
    """Return True for dates and times that need no format."""
    return _fits(words, "")


def fitting_formats(words: Sequence[str]) -> list[str]:
    """Return the usual formats that all words fit; times of the day fit one without a date."""
    dated = [day for day in _DAYS if words and re.match(_compiled(day)[0].removesuffix("$"), words[0])]
    with_times = (day + time for day, time in product(dated, ["", *(f"{a}{b}" for a in " T" for b in _TIMES)]))
    return [form for form in (*with_times, *_TIMES) if _fits(words, form)]


def advise_format(words: Sequence[str], *, with_date: bool = False) -> str | None:
    """Return the entry of a policy that gives words a format, and what it rests on; None if none fits them."""
    fitting = [f'"{form}"' for form in fitting_formats(words) if has_date(form) or not with_date]
    if not fitting:
        return None
    rests = "whichever is meant, as the first rows fit each" if fitting[1:] else "as the first rows are written"
    return f"format = {' or '.join(fitting)}, {rests}"


def describe_dates(words: Sequence[str]) -> str | None:
    """Return what is wrong with dates or times in a column of numbers, and what to do; None of what are none."""
    in_iso = is_iso(words)
    advice = None if in_iso else advise_format(words)
    if not (in_iso or advice):
        return None
    kind = "time" if ":" in words[0] else "date"
    given = f" and {advice}" if advice else ""
    return f'is a {kind}: in the policy, give its column kind = "{kind}"{given}, or set drop = true'


def _fits(words: Sequence[str], form: str) -> bool:
    if not words or (form and re.match(_compiled(form)[0], words[0]) is None):
        return False
    try:
        moments(to_iso(pa.array(words, pa.string()), form) if form else pa.array(words, pa.string()))
    except (ValueError, pa.ArrowException):
        return False
    return True
