"""The part of mu that goes into what columns are, by public facts: the number of rows, and of columns of either kind.

Noise on counts of looks and gaps is to be a few percent of the rows, and the threshold of levels as few as noise on
second moments leaves worth telling apart; but the rest, which is what correlations are released with, is to be most of
mu (ADR 0043 has the measurement).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_COUNTS, _LEAST_COUNTS, _MOST_COUNTS = 0.015, 0.001, 0.04  # noise over rows; the share, at least and at most
_LEVELS, _LEAST_LEVELS, _MOST_LEVELS = 0.006, 0.002, 0.12
_ROUND_DOWN = 1 - 2.0**-40  # far above the rounding of the few operations on a share


@dataclass(frozen=True)
class DiscoveryShares:
    """The mu of one row: of all counts of cells, of all counts of levels, and the rest.

    Attributes
    ----------
    counts, levels, rest : float
    """

    counts: float
    levels: float
    rest: float


def share_mu(mu: float, n_rows: int, squares: float, n_listed: int) -> DiscoveryShares:
    """Return the shares of the strength for one row.

    Parameters
    ----------
    mu : float
        The strength.
    n_rows : int
        How many rows are counted.
    squares : float
        The square of the sensitivity of all counts of looks and gaps together.
    n_listed : int
        Of how many columns the values are counted.
    """
    counts = _share(squares, _COUNTS * n_rows * mu, _LEAST_COUNTS, _MOST_COUNTS)
    levels = _share(2 * n_listed, _LEVELS * n_rows * mu, _LEAST_LEVELS, _MOST_LEVELS)
    mu *= _ROUND_DOWN
    return DiscoveryShares(mu * math.sqrt(counts), mu * math.sqrt(levels), mu * math.sqrt(1 - counts - levels))


def _share(squares: float, sigma: float, least: float, most: float) -> float:
    return min(max(squares / sigma**2, least), most) if squares else 0.0
