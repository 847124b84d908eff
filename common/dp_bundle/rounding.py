"""Privacy parameters as numbers for a person to read: what is stated is never less than what holds."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

_MARGIN = 1 - 4e-12  # what a stated number is above the exact one for safety (twice that for rho), and may not show


def round_up(value: float, digits: int = 6) -> str:
    """Return a privacy parameter for a person to read, with so many significant digits and never a smaller one."""
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value * _MARGIN))
    return f"{float(shown):.{digits}g}"
