"""Gaussian noise on the second moments.

Noise that is isotropic in the Frobenius norm has density proportional to ``exp(-||E||_F^2 / (2 sigma^2))`` over
symmetric matrices. It has the variance sigma^2 on the diagonal and, as an off-diagonal entry counts twice, half of that
off it. The sum's Frobenius sensitivity D then makes it a Gaussian mechanism with mu = D / sigma, exactly. The printed
form, with one variance for all entries, spends twice as much on the off-diagonal ones for the same mu. Noise is rounded
to the grid (`base`), which is post-processing; D includes what rounding the sum adds.

References
----------
Balle & Wang (2018), arXiv 1805.06530. Dong, Roth & Su (2022). Wang, Huai & Xu (2018), theorem 6, and Su et al. (2022),
algorithm 1, for the printed form.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.matrix_noise import MatrixNoise, RoundedGaussian
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import DyadicGrid, NoisyMoments, OneSum, grid_for, released
from dp_publish.covariance.scaling import UP, frobenius_sensitivity
from dp_publish.sampling.gaussian import sample_rounded_gaussian
from dp_publish.sampling.keystream import Keystream

_MUS = (1e-4, 1e6)


@dataclass(frozen=True)
class Gaussian(OneSum):
    """Isotropic Gaussian noise of the least size for mu."""

    name: ClassVar[str] = "gaussian"
    noise: ClassVar[type[MatrixNoise]] = RoundedGaussian
    strength: GaussianDP

    def check_strength(self) -> None:
        """Refuse a mu for one row outside [1e-4, 1e6]."""
        check_mu(self.mu / self.max_rows)

    @property
    def mu(self) -> float:
        """The mu that was asked for."""
        return self.strength.mu

    @staticmethod
    def off_diagonal(sigma: float) -> float:
        """Return the standard deviation of off-diagonal entries where that of the diagonal's is sigma."""
        return sigma * math.sqrt(0.5) * UP

    @property
    def sensitivity(self) -> float:
        """The most that one row moves the sum in the Frobenius norm."""
        return frobenius_sensitivity(self.scaling, self.neighbours)

    def sigma_and_grid(self) -> tuple[float, DyadicGrid]:
        """Return the sensitivity over mu, with what rounding to the grid adds."""
        mu = self.mu / self.max_rows
        sigma = self.sensitivity / mu
        grid = grid_for(sigma)  # and not one for the sigma below, which may be twice as coarse
        sigma += grid.rounding * self.scaling.n_coordinates / mu
        return sigma * UP, grid

    @property
    def off_diagonal_variance(self) -> float:
        """Half the square of the sensitivity over mu."""
        return 0.5 * (self.sensitivity * self.max_rows / self.mu) ** 2

    def spends(self, rows: int, *, replaced: bool = False) -> GaussianDP:
        """Return the mu of so many rows: linear in them, and sqrt(2) times as much for a removal and an addition.

        That is because the largest of both move the sum at right angles.
        """
        mu = self.mu * (rows / self.max_rows)
        return GaussianDP(mu * math.sqrt(self.neighbours.per_replacement)) if replaced else GaussianDP(mu)

    def draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return the second moments with Gaussian noise, mu-GDP; see `Mechanism`."""
        sigma, grid = self.sigma_and_grid()
        d, steps = moments.scaling.n_coordinates, sigma / grid.step
        off_steps = self.off_diagonal(steps)

        noise = sample_rounded_gaussian(off_steps, (d, d), rng)
        np.fill_diagonal(noise, sample_rounded_gaussian(steps, d, rng))
        stated = RoundedGaussian(grid.step, steps * grid.step, off_steps * grid.step)
        return released(self, grid.add(moments, noise), moments, stated)


def check_mu(mu: float) -> None:
    """Refuse a mu outside [1e-4, 1e6].

    Raises
    ------
    ParameterError
    """
    if not _MUS[0] <= mu <= _MUS[1]:
        raise ParameterError("mu", f"from {_MUS[0]:g} to {_MUS[1]:g}", mu)


MECHANISM = Gaussian
