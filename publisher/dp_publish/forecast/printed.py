"""Strengths as plans print them: rounded up, so that no figure promises more than the release it is of keeps."""

from __future__ import annotations

import math

from dp_bundle.base.quoting import MARGIN, round_up

_WHOLE_FROM, _WHOLE_TO = 100, 1e7


def printed_mu(mu: float) -> str:
    """Return mu with four significant digits."""
    return round_up(mu, 4)


def printed_epsilon(epsilon: float, digits: int = 3) -> str:
    """Return epsilon with so many significant digits, or as a whole number from 100 on; "-" where there is none."""
    if math.isnan(epsilon):
        return "-"
    if _WHOLE_FROM <= epsilon < _WHOLE_TO:
        return f"{math.ceil(epsilon * MARGIN):,}"
    return round_up(epsilon, digits)
