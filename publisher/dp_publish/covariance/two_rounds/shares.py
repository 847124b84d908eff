"""The strength of a two-round release, shared out over its steps.

Every step is mu_i-GDP for one row given what the steps before it released, so that all of them together are mu-GDP with
``mu^2 = sum mu_i^2`` (adaptive composition). Shares are of mu^2, and depend on public facts alone: the numbers of rows
and columns, the strength, and which centers and scales are declared.

The noise that two rounds leave in correlations, forecast from public facts alone.

Rows are taken for standard normal ones, whose squared lengths have a chi-squared distribution with p degrees of
freedom. Uncorrelated columns are the worst case: with correlation R, a radius of the second round takes tr R^(1/4).

**Thresholds** are chosen by how many rows exceed them: the clip of columns, and the radius of a round. How many rows
shall exceed the limit is public, so that the bias of shortening them is known to be small, or, in a small table,
outweighed by the noise that a smaller radius saves. A row moves each of the numbers by at most 1.

References
----------
Dong, Roth & Su (2022), corollary 3.3.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dp_bundle.privacy.normal import epsilon_for_implied_mu
from dp_publish.covariance.scaling import scaling_around
from dp_publish.covariance.two_rounds.rows import RADIUS_BITS
from dp_publish.sampling.exponential import ExponentialMechanism

_PLACES = 14.0  # the share of centers and scales is so much times sqrt(p) / (n mu), within these limits:
_LEAST_PLACES, _MOST_PLACES = 0.03, 0.4
_CHOICE = 0.01  # of the clip, and of either radius
_LENGTHS = 0.005
_FIRST_ROUND = 0.3  # of what is left
_ROUND_DOWN = 1 - 2.0**-40  # far above the rounding of the few operations on a share
_FAR = 3.0  # standard deviations from its median: a center there is lost
_POINTS = np.linspace(0.0, 1.0, 65) ** 2 * _FAR  # to integrate over
_LARGEST_EXPONENT = 700.0
CLIPS = np.array([1.3 * 1.25**power for power in range(11)])  # of columns, in scales: up to 12
_CLIPPED, _MOST_CLIPPED = 10.0, 0.7  # rows for each column, over mu; and the largest share of all
_WORTH_A_PASS = 1e-4  # of the rows: where fewer are to be clipped, the clip is the largest
_SHORTENED, _MOST_SHORTENED = 10.0, 0.65
_FEW_COLUMNS = 8
_MOST_CELLS = 1 << 24  # of sums by length
_N_RADII, _LEAST_RADII = 16, 4


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


def share_out(mu: float, n_rows: int, n_columns: int, n_searched: int, n_choices: int) -> StepShares:
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
    return StepShares(
        place=mu * math.sqrt(for_places / (2 * n_searched)) if n_searched else 0.0,
        n_places=2 * n_searched,
        choice=mu * math.sqrt(_CHOICE),
        n_choices=n_choices,
        lengths=mu * math.sqrt(_LENGTHS),
        first=mu * math.sqrt(left * _FIRST_ROUND),
        second=mu * math.sqrt(left * (1 - _FIRST_ROUND)),
    )


def round_noise(n_features: int, shortened: float, mu: float, radii: tuple[float, float], offset: float) -> float:
    """Return the standard deviation of one round's noise on n times a correlation near zero.

    An entry off the diagonal has the noise ``(R^2 + c^2) / mu``, and the rows that are shortened to R leave
    ``E min(|y|^2, R^2) / p`` of a covariance.

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
    much; elsewhere within the bounds it is n / 2 more.

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
class ThresholdSearch:
    """The private choice of a limit.

    Parameters
    ----------
    mechanism : ExponentialMechanism
        What it may cost.
    target : int
        How many rows shall exceed it.
    """

    mechanism: ExponentialMechanism
    target: int

    def scores(self, exceeding: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the score of every limit from the number of rows that exceed it; both are private."""
        scores: NDArray[np.int64] = np.abs(exceeding - self.target)
        return scores


def chooses_clip(mu: float, n_rows: int, n_columns: int) -> bool:
    """Return whether the clip is chosen, at the price of a pass over the table, or is the largest without a choice.

    Where so few rows would be clipped, the radius, which shortens about as many, does nearly the same.
    """
    return _target(mu, n_rows, n_columns, _CLIPPED, _MOST_CLIPPED) >= _WORTH_A_PASS * n_rows


def clip_search(mu_choice: float, mu: float, n_rows: int, n_columns: int) -> ThresholdSearch:
    """Return the search of the columns' clip, for a choice at `mu_choice` in a release at mu."""
    return _search(mu_choice, mu, n_rows, n_columns, _CLIPPED, _MOST_CLIPPED)


def radius_search(mu_choice: float, mu: float, n_rows: int, n_columns: int) -> ThresholdSearch:
    """Return the search of a round's radius."""
    return _search(mu_choice, mu, n_rows, n_columns, _SHORTENED, _MOST_SHORTENED)


def share_shortened(mu: float, n_rows: int, n_columns: int) -> float:
    """Return the share of rows that a round's radius shall shorten."""
    return _target(mu, n_rows, n_columns, _SHORTENED, _MOST_SHORTENED) / n_rows


def radii(smallest: float, n_columns: int) -> NDArray[np.int64]:
    """Return the radii to choose from, in units of 1/256 of the largest: from a smallest one, ascending.

    There are fewer in a wide table, so that sums by length fit into memory.
    """
    n = min(max(_MOST_CELLS // (n_columns + 1) ** 2, _LEAST_RADII), _N_RADII)
    steps = np.rint(2.0**RADIUS_BITS * np.geomspace(smallest, 1.0, n)).astype(np.int64)
    return np.unique(steps)


def count_beyond_clips(
    values: NDArray[np.float64], centers: NDArray[np.float64], scales: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return how many rows, of shape (n, p), have a value beyond every clip; it is private."""
    from dp_publish.covariance.two_rounds._kernels import count_reaching

    counts = count_reaching(values, centers, scales, CLIPS)
    beyond: NDArray[np.int64] = len(values) - np.cumsum(counts)[:-1]
    return beyond


def _search(mu_choice: float, mu: float, n_rows: int, n_columns: int, each: float, most: float) -> ThresholdSearch:
    return ThresholdSearch(ExponentialMechanism(mu_choice), _target(mu, n_rows, n_columns, each, most))


def _target(mu: float, n_rows: int, n_columns: int, each: float, most: float) -> int:
    return math.floor(min(each * max(n_columns, _FEW_COLUMNS) / mu, most * n_rows))
