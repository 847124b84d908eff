"""The strength of a two-round release, shared out over its steps.

Every step is mu_i-GDP for one row given what the steps before it released, so that all of them together are mu-GDP with
``mu^2 = sum mu_i^2`` (adaptive composition). Shares are of mu^2, and depend on public facts alone: the numbers of rows
and columns, the strength, and which centers and scales are declared.

References
----------
Dong, Roth & Su (2022), corollary 3.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_PLACES = 14.0  # the share of centers and scales is so much times sqrt(p) / (n mu), within these limits:
_LEAST_PLACES, _MOST_PLACES = 0.03, 0.4
_CHOICE = 0.01  # of the clip, and of either radius
_LENGTHS = 0.005
_FIRST_ROUND = 0.3  # of what is left
_ROUND_DOWN = 1 - 2.0**-40  # far above the rounding of the few operations on a share


@dataclass(frozen=True)
class Shares:
    """The mu of every step, for one row.

    Attributes
    ----------
    place : float
        Of every single choice of a center or a scale.
    n_places : int
        How many of these there are.
    choice : float
        Of the choice of the radius of either round, and of the clip where there is one.
    n_choices : int
        How many of these there are.
    lengths : float
        Of the noise on the sum of the rows' lengths to the fourth.
    first, second : float
        Of the noise on the second moments of either round.
    """

    place: float
    n_places: int
    choice: float
    n_choices: int
    lengths: float
    first: float
    second: float

    @property
    def choices(self) -> float:
        """The mu of all that is chosen by the exponential mechanism."""
        return math.hypot(self.place * math.sqrt(self.n_places), self.choice * math.sqrt(self.n_choices))

    @property
    def total(self) -> float:
        """The mu of all steps together."""
        return math.hypot(self.choices, self.lengths, self.first, self.second)


def share_out(mu: float, n_rows: int, n_columns: int, n_searched: int, n_choices: int) -> Shares:
    """Return the mu of every step.

    Parameters
    ----------
    mu : float
        The strength for one row.
    n_rows, n_columns : int
        The public size of the table.
    n_searched : int
        How many columns have no declared center and scale.
    n_choices : int
        How many clips and radii are chosen.
    """
    wanted = _PLACES * math.sqrt(n_columns) / (n_rows * mu)
    for_places = min(max(wanted, _LEAST_PLACES), _MOST_PLACES) * n_searched / n_columns
    left = 1 - for_places - n_choices * _CHOICE - _LENGTHS
    mu *= _ROUND_DOWN
    return Shares(
        place=mu * math.sqrt(for_places / (2 * n_searched)) if n_searched else 0.0,
        n_places=2 * n_searched,
        choice=mu * math.sqrt(_CHOICE),
        n_choices=n_choices,
        lengths=mu * math.sqrt(_LENGTHS),
        first=mu * math.sqrt(left * _FIRST_ROUND),
        second=mu * math.sqrt(left * (1 - _FIRST_ROUND)),
    )
