"""Draws from the law of the errors of a debiased covariance: sampling of Gaussian rows, and the stated noise.

Sampling errors are those of Gaussian rows times the root of their kurtosis, where a release tells it. Releases of the
same rows share one. Noise nu on rows x adds x nu' + nu x' + nu nu' to every row's products. The first two are as good
as normal in the sum over many rows. That on sums of second moments is drawn from the law that the release states.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_learn.covariance.estimate import NoisyCovariance, PooledCovariance, ReleasedCovariance, gaussian_noise, root_of
from dp_learn.matrices.linalg import FloatArray, draw_symmetric, sandwich


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """The law of the errors of the sources of a pooled covariance, if the rows have a given one.

    Attributes
    ----------
    pooled : PooledCovariance
        The sources, whose errors are known.
    covariance : ndarray of shape (n_features, n_features)
        Of the rows, positive semidefinite, in data units.
    share : float
        The share of the rows that are released, with as much noise on each row, or on each sum over rows.
    """

    pooled: PooledCovariance
    covariance: FloatArray
    share: float = 1.0

    def draw_each(self, rng: np.random.Generator) -> list[FloatArray]:
        """Return a draw of the error of every source's debiased covariance, in data units."""
        root, sources = self._root, self.pooled.sources
        shared = sandwich(root, draw_symmetric(rng, len(root))) if self.pooled.same_rows else None
        drawn = []
        for source in sources:
            own = sandwich(root, draw_symmetric(rng, len(root))) if shared is None else shared
            error = math.sqrt(self._sampling(source)) * own
            if isinstance(source, NoisyCovariance):
                # what the noise on so many rows adds to their covariance, less what it adds on average
                n_rows = self.n_rows(source)
                drawn_noise = gaussian_noise(source, n_rows, rng, root)
                fourth = np.sqrt(np.maximum(source.noise_fourth_cumulant, 0.0) / n_rows)
                error += drawn_noise + np.diag(fourth * rng.standard_normal(len(root)))
            else:
                error += source.known_noise.of_share(self.share).draw(rng, self.covariance)
            drawn.append(error)
        return drawn

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return a draw of the error of the pooled covariance."""
        each = zip(self.pooled.weights, self.draw_each(rng), strict=True)
        return np.asarray(sum(weight * error for weight, error in each))

    def draws(self, rng: np.random.Generator, count: int) -> Iterator[FloatArray]:
        """Yield so many draws of the error of the pooled covariance."""
        return (self.draw(rng) for _ in range(count))

    def n_rows(self, source: NoisyCovariance | ReleasedCovariance) -> int:
        """Return how many of a source's rows are released, at least 2."""
        return max(2, round(self.share * source.n_rows))

    @cached_property
    def _root(self) -> FloatArray:
        return root_of(self.covariance)

    def _sampling(self, source: NoisyCovariance | ReleasedCovariance) -> float:
        own = 1.0 if isinstance(source, NoisyCovariance) else source.kurtosis or 1.0
        kurtosis = self.pooled.kurtosis if self.pooled.same_rows else own
        return kurtosis / (self.n_rows(source) - 1)
