"""The noise on correlations that follows from the noise on sums of products: what forecasts compute with."""

from __future__ import annotations

import math

from dp_publish.covariance.scaling import Scaling


def scaled_variance(spread: float, scaling: Scaling) -> float:
    """Return the variance of a scaled column, rows being clipped to a radius, for an assumed spread of its values.

    Parameters
    ----------
    spread : float
        The column's standard deviation as a share of the width of its bounds.
    scaling : Scaling
        Where rows are put.
    """
    return min(4 * spread**2, scaling.radius**2 / scaling.n_features)


def correlation_noise(entry_variance: float, spread: float, scaling: Scaling) -> float:
    """Return the noise's standard deviation on n times a correlation near zero, from its variance on a sum of products.

    With means m_i and m_j, and the noise v on every sum, over the constant c in those of the columns themselves, n
    times a covariance of scaled columns has the noise ``v (1 + (m_i^2 + m_j^2) / c^2)`` to first order. Rows within the
    radius R leave a column of variance s a mean of at most ``m^2 = R^2 / p - s``, of which half is assumed. Over s, it
    is that of a correlation.

    Parameters
    ----------
    entry_variance : float
        v, in units of scaled columns.
    spread, scaling
        As for `scaled_variance`; a constant of 0 stands for means that are 0.
    """
    scaled = scaled_variance(spread, scaling)
    if not scaling.constant:
        return math.sqrt(entry_variance) / scaled
    means = max(0.0, min(1.0, scaling.radius**2 / scaling.n_features) - scaled)
    return math.sqrt(entry_variance * (1 + means / scaling.constant**2)) / scaled
