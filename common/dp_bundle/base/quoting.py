"""Foreign text shown to a person: on one line, visibly a quotation, without control sequences.

Titles, names and units are whatever their signer wrote, and a signer need not be trusted to be shown. A line break
could begin a line that looks like one of ours. An escape sequence could colour or move it, and an override of the
writing direction could reverse it.

Privacy parameters and probabilities as numbers for a person to read, rounded to the side that promises less, and sizes.
Our own objects in one line, however large their arrays are.
"""

import math
import os
import re
import reprlib
from collections.abc import Sequence
from dataclasses import fields
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_PLAIN = re.compile(r"[\w.-]{1,80}")  # without a space, a name cannot pass for a sentence
_PLAIN_PATH = re.compile(r"[\w./@+=~:%-]+")
_LONGEST_IN_SENTENCE = 60
_FORMULA = re.compile(r"'*\s*[=+@\uff1d\uff0b\uff0d\uff20-]")  # also in full width, which some spreadsheets read alike
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape(text: str) -> str:
    r"""Return the text with every character that is not printable as an escape sequence, ``\n`` or ``\x1b`` say."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def printable(text: str) -> str:
    """Return the text with a mark in the place of every character that is not printable."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in text)


def quote(text: str, *, longest: int | None = 300) -> str:
    """Return the text in double quotes, on one line, escaped, and cut after so many characters."""
    inner = text[:longest].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape(inner)}{"…" if len(text) > len(text[:longest]) else ""}"'


def quote_name(text: str, *, longest: int = 300) -> str:
    """Return a name as it is if it is one short word, otherwise as `quote` does."""
    plain = _PLAIN.fullmatch(text) and text.isprintable() and len(text) <= longest
    return text if plain else quote(text, longest=longest)


def name_columns(names: Sequence[str], most: int = 10) -> str:
    """Return so many names of columns for a sentence, each cut after 60 characters, and how many more there are."""
    return and_more([quote_name(name, longest=_LONGEST_IN_SENTENCE) for name in names], most)


def and_more(shown: Sequence[object], most: int, between: str = ", ") -> str:
    """Return so many things for a sentence, and how many more there are."""
    words = between.join(map(str, shown[:most]))
    return words if len(shown) <= most else f"{words} and {len(shown) - most} more"


def quote_path(path: str | os.PathLike[str]) -> str:
    """Return a file's name, which came with the file, as it is if it has no space, otherwise as `quote` does, whole."""
    text = os.fspath(path)
    return text if _PLAIN_PATH.fullmatch(text) and text.isprintable() else quote(text, longest=None)


def listed(names: list[str]) -> str:
    """Return the names for a message, the first eight of them."""
    return and_more([repr(name) for name in names], 8)


def counted(number: int, what: str) -> str:
    """Return a number of things for a message."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def require_one_line(text: str) -> str:
    """Return the text if it has no line break, control character or override of the writing direction.

    Raises
    ------
    ValueError
        It has one; the message says which.
    """
    found = _FORBIDDEN.search(text)
    if found is not None:
        raise ValueError(
            f"{quote(text)} holds {escape(found.group())}: write it on one line, without control characters"
        )
    return text


def guard_cell(text: str) -> str:
    """Return a text for a cell of a CSV file, after an apostrophe if a spreadsheet would take it for a formula.

    A column's name is whatever its signer wrote, and a name like ``=HYPERLINK("https://...")`` would be evaluated when
    the file is opened. Spreadsheets take what follows an apostrophe for text.

    References
    ----------
    OWASP, CSV Injection, https://owasp.org/www-community/attacks/CSV_Injection.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguard_cell(text: str) -> str:
    """Return the text that `guard_cell` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


MARGIN = 1 - 4e-12  # safety margins do not count


def round_up(value: float, digits: int = 6) -> str:
    """Return a privacy parameter for a person to read, with so many significant digits, rounded up.

    Safety margins add less than four parts in 10^12 to round numbers. Such an excess does not count, else mu = 1 would
    be shown as 1.00001.
    """
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value * MARGIN))
    return f"{float(shown):.{digits}g}"


def format_size(n_bytes: int) -> str:
    """Return a number of bytes as a size of at least two digits, rounded up; `machine.parse_size` is the inverse."""
    for unit, one in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if n_bytes >= one:
            tenths = -(-10 * n_bytes // one)
            return f"{tenths // 10}.{tenths % 10}{unit}" if tenths < 100 else f"{-(-tenths // 10)}{unit}"
    return f"{-(-n_bytes // 1000)}kB"


def percent_at_most(share: float) -> str:
    """Return a probability as a percentage, rounded up, with more digits where it is near 100 %."""
    percent = 100.0 * share
    left = 100.0 - percent
    if left < 1e-7:
        return "100 %"
    step = 10.0 ** (math.floor(math.log10(left)) - 1 if left < 1.0 else math.floor(math.log10(percent)) - 2)
    return f"{_plain(math.ceil(percent / step * (1 - 1e-12)) * step, step)} %"


def percent_at_least(share: float) -> str:
    """Return a probability as a percentage, rounded down."""
    percent = 100.0 * share
    if percent < 1e-7:
        return "0 %"
    step = 10.0 ** (math.floor(math.log10(percent)) - 2)
    return f"{_plain(math.floor(percent / step * (1 + 1e-12)) * step, step)} %"


def _plain(value: float, step: float) -> str:
    return f"{value:.{max(0, -math.floor(math.log10(step) + 0.5))}f}"


class Brief:
    """A dataclass with a repr of one line: arrays by their shapes, and everything else cut short.

    A subclass has this repr although `dataclass` would give it another one.
    """

    def __init_subclass__(cls) -> None:
        """Give a class the short repr, unless it has its own."""
        if "__repr__" not in vars(cls):
            cls.__repr__ = Brief.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Return the class, and its fields in short."""
        own: Any = self
        shown = (f"{each.name}={_in_short(getattr(self, each.name))}" for each in fields(own))
        return f"{type(self).__name__}({', '.join(shown)})"


def _in_short(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"<{type(value).__name__} of shape {shape}>"
    return f"<{type(value).__name__}>" if isinstance(value, Brief) else " ".join(_SHORT.repr(value).split())
