"""Gaussian noise on the second moments, and the SULQ comparator.

Noise that is isotropic in the Frobenius norm has density proportional to ``exp(-||E||_F^2 / (2 sigma^2))`` over
symmetric matrices: variance sigma^2 on the diagonal and, as an entry beside it counts twice, half of that off it. The
sum's Frobenius sensitivity D then makes it a Gaussian mechanism with mu = D / sigma, exactly, where the printed form,
with one variance for all entries, spends twice as much on the off-diagonal ones for the same mu. Noise is rounded to
the grid (`noisy`), which is post-processing; D includes what rounding the sum adds.

References
----------
Balle & Wang (2018), arXiv 1805.06530. Dong, Roth & Su (2022). Wang, Huai & Xu (2018), theorem 6, and Su et al. (2022),
algorithm 1, for the printed form. Blum, Dwork, McSherry & Nissim (2005); its calibration is that of Chaudhuri, Sarwate
& Sinha (2013), A near-optimal algorithm for differentially-private principal components, JMLR 14, algorithm 1.
"""

from __future__ import annotations

import math

import numpy as np

from dp_bundle.errors import ParameterError, PrivacyError
from dp_bundle.privacy import rounded_gaussian_variance
from dp_publish.accounting import delta_for_epsilon
from dp_publish.covariance.mechanisms.base import Cost, Grid, NoisyMoments, grid_for
from dp_publish.covariance.scaling import Scaling
from dp_publish.covariance.second_moments import SecondMoments
from dp_publish.covariance.sensitivity import frobenius_sensitivity
from dp_publish.sampling import Keystream, sample_rounded_gaussian

__all__ = ["check_mu", "release_gaussian", "release_sulq", "sulq_mu", "sulq_sigma"]

_UP = 1 + 2.0**-48
_MUS = (1e-4, 1e6)


def release_gaussian(
    moments: SecondMoments,
    *,
    mu: float,
    neighbours: str = "replace-one",
    isotropic: bool = True,
    rng: Keystream | None = None,
) -> NoisyMoments:
    """Return the second moments with Gaussian noise, mu-GDP.

    Parameters
    ----------
    moments : SecondMoments
        The exact sums.
    mu : float
        The guarantee, from 1e-4 to 1e6.
    neighbours : {"replace-one", "add-remove"}
        What it speaks of.
    isotropic : bool
        Whether off-diagonal entries carry half the diagonal's variance. False is the printed form, for comparison.
    rng : Keystream, optional
        Where random bits come from; a new `SecureKeystream` unless given.

    Raises
    ------
    ParameterError, PrivacyError
        `mu` or `neighbours` is not allowed.
    """
    check_mu(mu)
    sigma = frobenius_sensitivity(moments.scaling, neighbours) / mu
    grid = grid_for(sigma)  # and not one for the sigma below, which may be twice as coarse
    sigma += grid.rounding * moments.scaling.n_coordinates / mu
    return _release(moments, sigma * _UP, grid, neighbours, Cost(mu=mu), "gaussian", isotropic, rng)


def release_sulq(
    moments: SecondMoments,
    *,
    epsilon: float,
    delta: float,
    neighbours: str = "replace-one",
    rng: Keystream | None = None,
) -> NoisyMoments:
    """Return the second moments with the larger, independent Gaussian noise of SULQ.

    Its cost holds the mu that this noise really has, and the printed (epsilon, delta), which follow from that mu.

    Parameters
    ----------
    moments, neighbours, rng
        As in `release_gaussian`.
    epsilon, delta : float
        What the printed calibration is for.

    Raises
    ------
    ParameterError
        `epsilon` is not positive, or `delta` not in (0, 1).
    PrivacyError
        The printed calibration does not give (epsilon, delta), which happens at very large epsilon.
    """
    sigma, mu = _sulq(moments.scaling, epsilon, delta, neighbours)
    if delta_for_epsilon(mu, epsilon) > delta:
        raise PrivacyError(
            f"SULQ's printed noise does not give epsilon = {epsilon:g} with delta = {delta:g} for {neighbours} "
            "neighbours: use the gaussian mechanism"
        )
    return _release(moments, sigma, grid_for(sigma), neighbours, Cost(mu, epsilon, delta), "sulq", False, rng)


def check_mu(mu: float) -> None:
    """Refuse a mu outside [1e-4, 1e6].

    Raises
    ------
    ParameterError
    """
    if not _MUS[0] <= mu <= _MUS[1]:
        raise ParameterError("mu", f"from {_MUS[0]:g} to {_MUS[1]:g}", mu)


def sulq_mu(scaling: Scaling, epsilon: float, delta: float, neighbours: str = "replace-one") -> float:
    """Return the mu that SULQ's noise really has; arguments as in `release_sulq`."""
    return _sulq(scaling, epsilon, delta, neighbours)[1]


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


def _sulq(scaling: Scaling, epsilon: float, delta: float, neighbours: str) -> tuple[float, float]:
    """Return sigma and mu."""
    sensitivity = frobenius_sensitivity(scaling, neighbours)
    sigma = sulq_sigma(scaling.n_coordinates, epsilon, delta) * scaling.square
    return sigma, (sensitivity + grid_for(sigma).rounding * scaling.n_coordinates) / sigma * _UP


def _release(
    moments: SecondMoments,
    sigma: float,
    grid: Grid,
    neighbours: str,
    cost: Cost,
    mechanism: str,
    isotropic: bool,
    rng: Keystream | None,
) -> NoisyMoments:
    d, steps = moments.scaling.n_coordinates, sigma / grid.step
    steps_beside = steps * math.sqrt(0.5) * _UP if isotropic else steps
    noise = sample_rounded_gaussian(steps_beside, (d, d), rng)
    np.fill_diagonal(noise, sample_rounded_gaussian(steps, d, rng))
    public_rows = neighbours == "replace-one"
    return NoisyMoments(
        matrix=grid.add(moments, noise, exact_corner=public_rows),
        mechanism=mechanism,
        neighbours=neighbours,
        scaling=moments.scaling,
        n_rows=moments.n_rows if public_rows else None,
        granularity=grid.step,
        distribution="rounded-gaussian",
        parameters={"diagonal_sigma": steps * grid.step, "off_diagonal_sigma": steps_beside * grid.step},
        diagonal_variance=grid.step**2 * rounded_gaussian_variance(steps),
        off_diagonal_variance=grid.step**2 * rounded_gaussian_variance(steps_beside),
        bias=0.0,
        cost=cost,
    )
