"""The noise that two rounds leave in correlations, forecast from public facts alone.

Rows are taken for standard normal ones, whose squared lengths have a chi-squared distribution with p degrees of
freedom. Uncorrelated columns are the worst case: with correlation R, a radius of the second round takes tr R^(1/4).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy import special

from dp_bundle.privacy.pure_epsilon import epsilon_for_implied_mu
from dp_publish.covariance.scaling import scaling_around

_FAR = 3.0  # standard deviations from its median: a center there is lost
_POINTS = np.linspace(0.0, 1.0, 65) ** 2 * _FAR  # to integrate over
_LARGEST_EXPONENT = 700.0


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
