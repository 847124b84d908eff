"""Laplace noise on the second moments: pure epsilon.

Every entry of the upper triangle gets discrete Laplace noise of scale b = D / epsilon on the grid (`base`). D is the
tight L1 sensitivity (`scaling`) plus a step for every noisy entry that is rounded. The printed form, ``Lap(2 d /
epsilon)`` for rows in the unit ball, has between 2 and 2.8 times that scale.

References
----------
Dwork, McSherry, Nissim & Smith (2006). Wang, Huai & Xu (2018), theorem 4, and Amin et al. (2019) for the printed form.
"""

from dataclasses import dataclass
from typing import ClassVar

from dp_bundle.manifest.matrix_noise import DiscreteLaplace, MatrixNoise
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import NoisyMoments, PureMechanism, grid_for, released
from dp_publish.covariance.scaling import UP, l1_sensitivity
from dp_publish.sampling.keystream import Keystream
from dp_publish.sampling.laplace import sample_discrete_laplace

_FINENESS = 45  # so that rounding thousands of entries adds next to nothing to their L1 norm


@dataclass(frozen=True)
class Laplace(PureMechanism):
    """Independent Laplace noise on every entry."""

    name: ClassVar[str] = "laplace"
    noise: ClassVar[type[MatrixNoise]] = DiscreteLaplace
    diagonal_ratio: ClassVar[float] = 1.0

    @property
    def sensitivity(self) -> float:
        """The most that one row moves the upper triangle of the sum in the L1 norm."""
        return l1_sensitivity(self.scaling, self.neighbours)

    @property
    def off_diagonal_variance(self) -> float:
        """Twice the square of the sensitivity over epsilon."""
        return 2 * (self.sensitivity * self.max_rows / self.strength.epsilon) ** 2

    def draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return the second moments with Laplace noise, epsilon-differentially private; see `Mechanism`."""
        d, moved, epsilon = moments.scaling.n_coordinates, self.sensitivity, self.row_epsilon
        grid = grid_for(moved / epsilon, _FINENESS)
        scale = (moved + grid.rounding * d * (d + 1) / 2) / epsilon * UP
        matrix = grid.add(moments, sample_discrete_laplace(scale / grid.step, (d, d), rng))
        return released(self, matrix, moments, DiscreteLaplace(grid.step, scale))


MECHANISM = Laplace
