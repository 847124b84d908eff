"""Privacy parameters as numbers for a person to read, rounded up."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

_MARGIN = 1 - 4e-12


def round_up(value: float, digits: int = 6) -> str:
    """Return a privacy parameter for a person to read, with so many significant digits, rounded up.

    An excess of less than four parts in 10^12, which safety margins add to round numbers, does not count: else mu = 1
    would be shown as 1.00001.
    """
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value * _MARGIN))
    return f"{float(shown):.{digits}g}"
