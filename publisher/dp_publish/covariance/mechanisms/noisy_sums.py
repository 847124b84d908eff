"""The step of a release in rounds that adds noise to the second moments of one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.scaling import GRID_BITS
from dp_publish.sampling.keystream import Keystream


@dataclass(frozen=True)
class NoisySums:
    """Gaussian noise on the second moments of one round.

    Rows lie in a ball of radius R (`two_rounds.rows`), and end with the constant c. Replacing one moves the sum by
    vv' - ww', and ||vv' - ww'||_F^2 = |v|^4 + |w|^4 - 2 (v'w)^2 <= 2 (R^2 + c^2)^2.
    """

    name: str
    gaussian: Gaussian

    @property
    def mu(self) -> float:
        """The most that it may cost a row."""
        return self.gaussian.mu

    @property
    def sensitivity(self) -> float:
        """The most that replacing a row moves the sum in the Frobenius norm, in the matrix's units."""
        return self.gaussian.sensitivity

    @staticmethod
    def moved(one: ExactMoments, other: ExactMoments) -> float:
        """Return the Frobenius norm of the difference, from exact integers."""
        return math.ldexp(_norm(one.steps - other.steps), -2 * GRID_BITS)

    def draw(self, statistic: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return the sum with noise."""
        return self.gaussian.draw(statistic, rng)

    def log_density(self, outcome: NoisyMoments, statistic: ExactMoments) -> float:
        """Return ``-||E||_F^2 / (2 sigma^2)``, the logarithm of the density of noise that is rounded to a fine grid."""
        sigma, grid = self.gaussian.sigma_and_grid()
        exact = grid.round(statistic.steps).astype(np.float64) * grid.step
        return -0.5 * float(np.sum(((outcome.matrix - exact) / sigma) ** 2))

    def loss(self, one: ExactMoments, other: ExactMoments) -> float:
        """Return the distance of both sums on the grid over the noise's standard deviation on the diagonal."""
        sigma, grid = self.gaussian.sigma_and_grid()
        return grid.step * _norm(grid.round(one.steps) - grid.round(other.steps)) / sigma


def _norm(integers: NDArray[Any]) -> float:
    """Return the Frobenius norm of a matrix of Python integers."""
    return math.sqrt(sum(int(entry) ** 2 for entry in integers.flat))
