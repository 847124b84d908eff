"""SULQ, a comparator: the larger, independent Gaussian noise of the first papers.

References
----------
Blum, Dwork, McSherry & Nissim (2005); its calibration is that of Chaudhuri, Sarwate & Sinha (2013), A near-optimal
algorithm for differentially-private principal components, JMLR 14, algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_publish.accounting.conversions import delta_for_epsilon
from dp_publish.accounting.strength import ApproximateDP, Strength
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import DyadicGrid, NoisyMoments, grid_for
from dp_publish.covariance.mechanisms.gaussian import UP, GaussianEntries, check_mu
from dp_publish.covariance.mechanisms.wishart import require_epsilon_and_delta
from dp_publish.sampling.keystream import Keystream


@dataclass(frozen=True)
class Sulq(GaussianEntries):
    """The printed noise for (epsilon, delta), which spends the mu that it really has."""

    name: ClassVar[str] = "sulq"
    strength: ApproximateDP

    @classmethod
    def form_of(cls, strength: Strength) -> ApproximateDP:
        """Return an (epsilon, delta) as it is."""
        return require_epsilon_and_delta(cls.name, strength)

    def check_strength(self) -> None:
        """Refuse an epsilon or delta whose noise has a mu outside [1e-4, 1e6], and units of several rows."""
        if self.max_rows > 1:
            self.refuse_entities()
        check_mu(self.mu)

    @staticmethod
    def off_diagonal(sigma: float) -> float:
        """Return the same for all entries."""
        return sigma

    def sigma_and_grid(self) -> tuple[float, DyadicGrid]:
        """Return the printed standard deviation."""
        sigma = sulq_sigma(self.scaling.n_coordinates, self.strength.epsilon, self.strength.delta) * self.scaling.square
        return sigma, grid_for(sigma)

    @property
    def mu(self) -> float:
        """The mu that the printed noise really has."""
        sigma, grid = self.sigma_and_grid()
        return (self.sensitivity + grid.rounding * self.scaling.n_coordinates) / sigma * UP

    @property
    def off_diagonal_variance(self) -> float:
        """The square of the printed standard deviation."""
        return self.sigma_and_grid()[0] ** 2

    def draw(self, moments: ExactMoments, rng: Keystream | None = None) -> NoisyMoments:
        """Return the second moments with the printed noise, if that gives the printed guarantee; see `Mechanism`."""
        epsilon, delta = self.strength.epsilon, self.strength.delta
        if delta_for_epsilon(self.mu, epsilon) > delta:  # which happens at very large epsilon
            raise PrivacyError(
                f"SULQ's printed noise does not give epsilon = {epsilon:g} with delta = {delta:g} for "
                f"{self.neighbours} neighbours: use the gaussian mechanism"
            )
        return super().draw(moments, rng)


def sulq_sigma(n_coordinates: int, epsilon: float, delta: float) -> float:
    """Return n times ``(d+1)/(n eps) sqrt(2 ln((d^2+d) / (delta 2 sqrt(2 pi)))) + 1/(n sqrt(eps))``, for unit rows.

    Parameters
    ----------
    n_coordinates : int
        d; the noise on the sum does not depend on n.
    epsilon, delta : float
        The printed guarantee.
    """
    if not 0 < epsilon < math.inf:
        raise ParameterError("epsilon", "in (0, inf)", epsilon)
    if not 0 < delta < 1:
        raise ParameterError("delta", "in (0, 1)", delta)
    d = n_coordinates
    log = math.log((d * d + d) / (delta * 2 * math.sqrt(2 * math.pi)))
    return (d + 1) / epsilon * math.sqrt(2 * max(log, 0.0)) + 1 / math.sqrt(epsilon)


MECHANISM = Sulq
