"""The strength of a two-round release, shared out over its steps.

Every step is mu_i-GDP for one row given what the steps before it released. So all of them together are mu-GDP with
``mu^2 = sum mu_i^2`` (adaptive composition). Shares are of mu^2, and depend on public facts alone: the numbers of rows
and columns, the strength, and which centers and scales are declared.

The noise that two rounds leave in correlations, forecast from public facts alone.

Rows are taken for standard normal ones, whose squared lengths have a chi-squared distribution with p degrees of
freedom. Uncorrelated columns are the worst case: with correlation R, a radius of the second round takes tr R^(1/4).

**The radius** of a round is chosen by how many rows exceed it. How many shall is public, so that the bias of shortening
them is known to be small. Or, in a small table, it is outweighed by the noise that a smaller radius saves.

A row moves that number by at most 1.

References
----------
Dong, Roth & Su (2022), corollary 3.3.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from dp_bundle.base.arrays import Integers
from dp_bundle.manifest.noise import epsilon_for_implied_mu
from dp_publish.covariance.scaling import scaling_around
from dp_publish.covariance.two_rounds.rows import RADIUS_BITS
from dp_publish.sampling.exponential import ExponentialMechanism

_PLACES = 14.0  # the share of centers and scales is so much times sqrt(p) / (n mu), within these limits:
_LEAST_PLACES, _MOST_PLACES = 0.03, 0.4
_RANGES = 24.0  # and that of the sizes of values p times the square of so much over n mu, within these:
_LEAST_RANGES, _MOST_RANGES = 0.005, 0.1
_CHOICE = 0.0075  # of either radius
_LENGTHS = 0.005
_MARGINS, _MORE_IN_MANY = 0.12, 0.2  # of the histograms of all columns, and more where rows are many
_FIRST_ROUND = 0.3  # of what is left
_ROUND_DOWN = 1 - 2.0**-40  # far above the rounding of the few operations on a share
_FAR = 3.0  # standard deviations from its median: a center there is lost
_POINTS = np.linspace(0.0, 1.0, 65) ** 2 * _FAR  # to integrate over
_LARGEST_EXPONENT = 700.0
_MOST_LEAST_CLIP = 5.0  # in scales
_WORTH_A_RADIUS, _LESS_IN_FEW = 2.0, 1.3  # a step to the next radius, and less where rows are few
_SHORTENED, _MOST_SHORTENED = 10.0, 0.65  # rows for each column, over mu; and the largest share of all
_FASTER, _LEAST_PART = 0.75, 0.6  # the power of scarcity that is left of them, and the least part
_FEW_COLUMNS, _FEW_ROWS = 8, 40.0  # p, and n mu / p: with more, rows are less scarce
_MOST_CELLS = 1 << 24  # of sums by length
_LEAST_RADII, _NEXT_RADIUS = 4, 1.1  # times the one before it


@dataclass(frozen=True)
class StepShares:
    """The mu of every step, for one row.

    Attributes
    ----------
    place : float
        Of every single choice of a center or a scale.
    n_places : int
        How many of these there are.
    choice : float
        Of the choice of the radius of either round.
    lengths : float
        Of the noise on the sum of the rows' lengths to the fourth.
    first, second : float
        Of the noise on the second moments of either round.
    range : float
        Of the noise on the sizes of a column's values, by which the search of its place is narrowed down.
    n_ranges : int
        How many columns have that.
    margins : float
        Of the noise on the histograms of all columns.
    """

    place: float
    n_places: int
    choice: float
    lengths: float
    first: float
    second: float
    range: float
    n_ranges: int
    margins: float

    @property
    def choices(self) -> float:
        """The mu of all that is found before the noise on second moments."""
        places, ranges = self.place * math.sqrt(self.n_places), self.range * math.sqrt(self.n_ranges)
        return math.hypot(places, ranges, self.choice * math.sqrt(2))

    @property
    def total(self) -> float:
        """The mu of all steps together."""
        return math.hypot(self.choices, self.margins, self.lengths, self.first, self.second)


def share_out(
    mu: float, n_rows: int, n_columns: int, n_searched: int, n_everywhere: int = 0, *, with_margins: bool = False
) -> StepShares:
    """Return the mu of every step.

    Parameters
    ----------
    mu : float
        The strength for one row.
    n_rows, n_columns : int
        The public size of the table.
    n_searched : int
        How many columns have no declared center and scale.
    n_everywhere : int
        How many of these have no bounds either.
    with_margins : bool
        Whether columns are counted in histograms.
    """
    wanted = _PLACES * math.sqrt(n_columns) / (n_rows * mu)
    for_places = min(max(wanted, _LEAST_PLACES), _MOST_PLACES) * n_searched / n_columns
    wanted = n_columns * (_RANGES / (n_rows * mu)) ** 2
    for_ranges = min(max(wanted, _LEAST_RANGES), _MOST_RANGES) * n_everywhere / n_columns
    many = 1 - scarcity(mu, n_rows, n_columns)
    for_margins = (_MARGINS + _MORE_IN_MANY * many**2) * with_margins
    left = 1 - for_places - for_ranges - for_margins - 2 * _CHOICE - _LENGTHS
    mu *= _ROUND_DOWN
    return StepShares(
        place=mu * math.sqrt(for_places / (2 * n_searched)) if n_searched else 0.0,
        n_places=2 * n_searched,
        choice=mu * math.sqrt(_CHOICE),
        lengths=mu * math.sqrt(_LENGTHS),
        first=mu * math.sqrt(left * _FIRST_ROUND),
        second=mu * math.sqrt(left * (1 - _FIRST_ROUND)),
        range=mu * math.sqrt(for_ranges / n_everywhere) if n_everywhere else 0.0,
        n_ranges=n_everywhere,
        margins=mu * math.sqrt(for_margins),
    )


def round_noise(n_features: int, shortened: float, mu: float, radii: tuple[float, float], offset: float) -> float:
    """Return the standard deviation of one round's noise on n times a correlation near zero.

    An entry off the diagonal has the noise ``(R^2 + c^2) / mu``. The rows that are shortened to R leave ``E min(|y|^2,
    R^2) / p`` of a covariance.

    Parameters
    ----------
    n_features : int
        p.
    shortened : float
        The share of rows that the radius R is to shorten, in (0, 1).
    mu : float
        The round's, for one row.
    radii : tuple of float
        The least and the largest R to choose from, over sqrt(p).
    offset : float
        As in `scaling_around`, from which c follows.
    """
    least, largest = radii
    wanted = 2 * float(special.gammainccinv(n_features / 2, shortened))
    square = min(max(wanted, least**2 * n_features), largest**2 * n_features)
    kept = float(special.gammainc(n_features / 2 + 1, square / 2))
    kept += square / n_features * float(special.gammaincc(n_features / 2, square / 2))
    return square * _unit_square(n_features, offset) / (mu * kept)


@functools.cache
def _unit_square(n_features: int, offset: float) -> float:
    """Return R^2 + c^2 for R = 1."""
    return scaling_around(np.zeros(n_features), np.ones(n_features), 256, offset).square


def share_lost(mu_each: float, n_rows: int, spread: float) -> float:
    """Return the probability that a normal column's center is chosen more than three standard deviations off.

    A place that Phi(t) - 1/2 of the values lie between it and the median has the score of the median and n times as
    much. Elsewhere within the bounds it is n / 2 more.

    Parameters
    ----------
    mu_each : float
        The mu of the choice, for one row.
    n_rows : int
        The number of rows, n.
    spread : float
        The column's standard deviation as a share of the width of its bounds.
    """
    outside = max(1 / spread - 2 * _FAR, 0.0)  # in standard deviations
    rate = epsilon_for_implied_mu(mu_each) * n_rows  # of the exponent in the share of values
    if not outside or 0.5 * rate > _LARGEST_EXPONENT:
        return 0.0
    weights = np.exp(-rate * (special.ndtr(_POINTS) - 0.5))
    within = float(((weights[1:] + weights[:-1]) * np.diff(_POINTS)).sum())  # on both sides of the median
    outside *= math.exp(-0.5 * rate)
    return outside / (outside + within)


@dataclass(frozen=True)
class RadiusSearch:
    """The private choice of a round's radius.

    Parameters
    ----------
    mechanism : ExponentialMechanism
        What it may cost.
    target : int
        How many rows shall exceed it.
    worth : float
        How much less probable each next radius is, where no more rows exceed it: times e to that.
    """

    mechanism: ExponentialMechanism
    target: int
    worth: float

    def scores(self, exceeding: Integers) -> Integers:
        """Return the score of every radius from the number of rows that exceed it; both are private."""
        each = math.ceil(self.worth / max(self.mechanism.rate, 2.0**-40))
        scores: Integers = np.maximum(exceeding - self.target, 0) + each * np.arange(len(exceeding))
        return scores


def scarcity(mu: float, n_rows: int, n_columns: int) -> float:
    """Return how few the rows are, by public facts: 1 where noise decides, and down to 0 as n mu / p grows."""
    return min(_FEW_ROWS * max(n_columns, _FEW_COLUMNS) / (n_rows * mu), 1.0)


def least_clip(mu: float, n_rows: int, n_columns: int) -> float:
    """Return the least clip, in scales: beyond it a normal column has its part of the rows that a radius shortens."""
    share = -math.expm1(math.log1p(-share_shortened(mu, n_rows, n_columns)) / n_columns)
    return min(-float(special.ndtri(share / 2)), _MOST_LEAST_CLIP)


def radius_search(mu_choice: float, mu: float, n_rows: int, n_columns: int) -> RadiusSearch:
    """Return the search of a round's radius, for a choice at `mu_choice` in a release at mu."""
    mechanism = ExponentialMechanism(mu_choice, one_sided=True)
    worth = _WORTH_A_RADIUS - _LESS_IN_FEW * scarcity(mu, n_rows, n_columns) ** 2
    return RadiusSearch(mechanism, _target(mu, n_rows, n_columns), worth)


def share_shortened(mu: float, n_rows: int, n_columns: int) -> float:
    """Return the share of rows that a round's radius shall shorten; it is that of the longest row if it shall none."""
    return min(max(_target(mu, n_rows, n_columns), 1) / n_rows, _MOST_SHORTENED)


def radii(smallest: float, n_columns: int) -> Integers:
    """Return the radii to choose from, in units of 1/256 of the largest: from a smallest one, ascending.

    There are fewer in a wide table, so that sums by length fit into memory.
    """
    wanted = 1 + math.ceil(math.log(1 / smallest) / math.log(_NEXT_RADIUS))
    n = min(max(_MOST_CELLS // (n_columns + 1) ** 2, _LEAST_RADII), wanted)
    steps = np.rint(2.0**RADIUS_BITS * np.geomspace(smallest, 1.0, n)).astype(np.int64)
    return np.unique(steps)


def _target(mu: float, n_rows: int, n_columns: int) -> int:
    fewer = max(scarcity(mu, n_rows, n_columns) ** _FASTER, _LEAST_PART)
    target: float = min(fewer * _SHORTENED * max(n_columns, _FEW_COLUMNS) / mu, _MOST_SHORTENED * n_rows)
    return math.floor(target)
