"""The choice of a limit by how many rows exceed it: the clip of columns, and the radius of a round.

How many rows shall exceed the limit is public, so that the bias of shortening them is known to be small, or, in a small
table, outweighed by the noise that a smaller radius saves. A row moves each of the numbers by at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_publish.covariance.two_rounds.rows import RADIUS_BITS
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import Keystream

CLIPS = np.array([1.3 * 1.25**power for power in range(11)])  # of columns, in scales: up to 12
_CLIPPED, _MOST_CLIPPED = 10.0, 0.7  # rows for each column, over mu; and the largest share of all
_WORTH_A_PASS = 1e-4  # of the rows: where fewer are to be clipped, the clip is the largest
_SHORTENED, _MOST_SHORTENED = 10.0, 0.65
_FEW_COLUMNS = 8
_MOST_CELLS = 1 << 24  # of sums by length
_N_RADII, _LEAST_RADII = 16, 4


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
    sensitivity = 1

    def scores(self, exceeding: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the score of every limit from the number of rows that exceed it; both are private."""
        scores: NDArray[np.int64] = np.abs(exceeding - self.target)
        return scores

    def choose(self, exceeding: NDArray[np.int64], rng: Keystream) -> int:
        """Return the place of the chosen limit."""
        return self.mechanism.choose(self.scores(exceeding), rng)

    def log_probabilities(self, exceeding: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-probability of every limit."""
        return self.mechanism.log_probabilities(self.scores(exceeding))


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
