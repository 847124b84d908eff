"""Markdown tables, and how their numbers are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

LEVELS = ("none", "100", "80", "60", "40", "20", "10", "0")  # of noise: the ratio of signal to noise in decibels


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> str:
    """Return a table whose first columns are words, and the others numbers."""
    lines = [list(head), [":--" if index < left else "--:" for index in range(len(head))]]
    lines += [[str(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def level_name(snr_db: str) -> str:
    """Return a level of noise as a reader sees it."""
    return "no noise" if snr_db == "none" else f"{snr_db} dB"


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many decimals, or a dash where there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def mean_and_sd(mean: float, sd: float, digits: int = 3) -> str:
    """Return a mean with its standard deviation in parentheses, in the mean's own digits."""
    if mean is None or math.isnan(mean):
        return "-"
    return number(mean, digits) if sd is None or math.isnan(sd) else f"{mean:.{digits}f} ({sd:.{digits}f})"


def short(value: float) -> str:
    """Return a number of any size with three digits."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
