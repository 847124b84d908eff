"""Sources of covariances, as tests make them."""

import numpy as np
import numpy.typing as npt

from dp_learn.covariance.estimate import NoiseLaw, NoisyCovariance, PooledCovariance, combine_sources


def source_of(
    n_rows: int, noisy: np.ndarray, variance: npt.ArrayLike = 0.0, cumulant: npt.ArrayLike = 0.0
) -> NoisyCovariance:
    """Return a source whose rows have this covariance, noise of these variances and fourth cumulants included."""
    variances, cumulants = (np.broadcast_to(np.asarray(each, float), len(noisy)) for each in (variance, cumulant))
    return NoisyCovariance(n_rows, noisy, variances, cumulants)


def pooled_of(n_rows: int, clean: np.ndarray, variance: npt.ArrayLike = 0.0) -> PooledCovariance:
    """Return the covariance of one source that this covariance is left of, without the noise."""
    noise = np.diag(np.broadcast_to(np.asarray(variance, float), len(clean)))
    return combine_sources([f"c{place}" for place in range(len(clean))], [source_of(n_rows, clean + noise, variance)])


def law_of_two_rounds(rng: np.random.Generator, p: int, d: int) -> NoiseLaw:
    """Return a law with variances over twelve orders of magnitude."""
    stretch = np.geomspace(0.03, 30.0, d)
    variances = 1.0 / (1.0 + np.outer(stretch, stretch) ** 2)
    return NoiseLaw.of_two_rounds(rng.normal(size=(p, d)), variances, rng.normal(size=d))
