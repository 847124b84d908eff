"""The kurtosis of the rows of a release of two rounds, by which sampling errors exceed those of Gaussian rows.

For elliptical rows y with covariance S, ``E |y|^4 = (1 + kappa) (tr(S)^2 + 2 tr(S^2))``, and the sampling variances of
correlations and partial correlations are 1 + kappa times those of Gaussian rows. The release has a noisy sum of
``(|y| / R)^4``, and S from the same rows. These are the rows as they were shortened, which is what is estimated from.

The noise makes the ratio uncertain, the more the fewer rows there are. Its estimate is the mean of kappa given what was
seen, for a kappa that is exponential with mean 1 beforehand (that of t with 6 degrees of freedom): what was seen where
that is precise, and the factor 2 where the noise leaves nothing to see. Intervals are then too long for Gaussian rows
rather than too short for others.

References
----------
Muirhead (1982), Aspects of Multivariate Statistical Theory, sections 1.6 and 5.1.3 (elliptical rows). Browne (1984),
Asymptotically distribution-free methods for the analysis of covariance structures, section 4.
"""

from __future__ import annotations

import math

import numpy as np

from dp_bundle.manifest.moment_noise import SecondMoments
from dp_bundle.privacy.normal import normal_tail, scaled_tail
from dp_learn.matrices.linalg import FloatArray

PRIOR_MEAN = 1.0  # of kappa
_FAR = -1e3  # standard deviations, below which the mean of a normal number's tail is as that of an exponential one


def kurtosis_factor(moments: SecondMoments, matrix: FloatArray, n_rows: int) -> float:
    """Return 1 + kappa of the rows of the final round, at least 1.

    Parameters
    ----------
    moments : SecondMoments
        What the manifest says of a release of two rounds.
    matrix : ndarray of shape (p + 1, p + 1)
        The noisy sum of the final round, the constant last.
    n_rows : int
        The number of rows.
    """
    fourth = moments.fourth_moment
    if fourth is None:
        return 1.0
    p = len(matrix) - 1
    t, u = (moments.off_diagonal_variance or 0.0) / n_rows**2, (moments.diagonal_variance or 0.0) / n_rows**2

    # tr(S)^2 + 2 tr(S^2), less what the noise adds to the squares
    s = matrix[:p, :p] / n_rows
    trace = float(np.trace(s))
    if not trace > 0.0:
        return 1.0 + PRIOR_MEAN
    of_square = max(float(np.vdot(s, s)) - p * u - p * (p - 1) * t, trace * trace / p)
    gaussian = (trace * trace - p * u) + 2.0 * of_square
    if not gaussian > 0.0:
        return 1.0 + PRIOR_MEAN

    # the ratio, and the standard deviation of what the noise does to it
    unit = moments.radius**4 / n_rows / gaussian
    ratio = unit * fourth.total
    error = math.hypot(unit * math.sqrt(fourth.variance), 2.0 * ratio * math.sqrt(p * u) / trace)
    return 1.0 + expected_kurtosis(ratio - 1.0, error)


def expected_kurtosis(seen: float, error: float) -> float:
    """Return the mean of an exponential kappa given that a normal number about it was seen.

    It is the mean of a normal number about ``seen - error^2 / PRIOR_MEAN``, of the same standard deviation, above 0.

    Parameters
    ----------
    seen : float
        What was seen.
    error : float
        Its standard deviation, positive.
    """
    center = seen - error * error / PRIOR_MEAN
    z = center / error
    if z < _FAR:
        return error / -z
    if z < 0.0:
        return center + error / (math.sqrt(2.0 * math.pi) * scaled_tail(-z))
    return center + error * math.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * normal_tail(-z))
