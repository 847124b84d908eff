"""Privacy parameters and probabilities as numbers for a person to read, rounded to the side that promises less."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

MARGIN = 1 - 4e-12  # safety margins do not count


def round_up(value: float, digits: int = 6) -> str:
    """Return a privacy parameter for a person to read, with so many significant digits, rounded up.

    An excess of less than four parts in 10^12, which safety margins add to round numbers, does not count: else mu = 1
    would be shown as 1.00001.
    """
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value * MARGIN))
    return f"{float(shown):.{digits}g}"


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
