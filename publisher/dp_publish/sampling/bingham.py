"""Unit vectors with density proportional to exp(kappa u^T C u), the Bingham distribution, in floating point.

For estimates and experiments, never for a release: that is what `directions` is for, which draws the same law as
integers. Low bits of a vector drawn here depend on the coordinates that it was drawn in, and so on the data.

Let ``A = kappa (lambda_max I - C)``, of eigenvalues a_i >= 0, and ``Omega = I + 2 A / b``. Proposals come from the
angular central Gaussian law: x / ||x||, x ~ N(0, Omega^-1). Its density is proportional to (u^T Omega u)^(-d/2). At w =
u^T A u the ratio ``exp(-w) (1 + 2 w / b)^(d/2)`` is largest, M, at w = (d - b) / 2, for every b <= d. A proposal is
accepted with probability ratio / M. The most are where ``sum 1 / (b + 2 a_i) = 1``; then 1 <= b <= d.

**Work.** The chance to accept is ``(2 e / d)^(d/2) Gamma(d/2) h``. Here h is the density at 1, its mean, of ``sum
x_i^2`` with x_i ~ N(0, 1 / (b + 2 a_i)). It is near 1 where C is round, and 0.858 / sqrt(d) where one of its
eigenvalues stands out. That was the smallest over all spectra tried, which is not a proof. So a vector takes about
sqrt(d) proposals. After 200,000 of them the sampler gives up with an error, for which the chance is then below e^-1000
up to 10,000 dimensions.

References
----------
Kent, Ganeiban & Mardia (2013), A new method to simulate the Bingham and related distributions in directional data
analysis, arXiv 1310.8110. Their equation for b; Amin et al. (2019) print 0 for its right-hand side.
"""

import math

import numpy as np

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import PrivacyError
from dp_publish.sampling.gaussian import standard_normals
from dp_publish.sampling.keystream import Keystream

_MOST_PROPOSALS = 200_000
_BATCH = 1 << 16  # numbers at most


def sample_bingham(weights: Floats, rng: Keystream) -> Floats:
    """Return one unit vector with density proportional to ``exp(sum_i weights_i u_i^2)``.

    Parameters
    ----------
    weights : ndarray of float64, shape (d,)
        The eigenvalues of kappa C: the result is in the coordinates of its eigenvectors.
    rng : Keystream
        Where random bits come from.

    Returns
    -------
    ndarray of float64, shape (d,)

    Raises
    ------
    PrivacyError
        No proposal was accepted within the bound on work, which does not happen.
    """
    d = len(weights)
    if d == 1:
        return np.ones(1)

    a = weights.max() - weights
    b = envelope_parameter(a)
    deviations = 1 / np.sqrt(1 + 2 * a / b)
    log_most = 0.5 * d * math.log(d / b) - 0.5 * (d - b)

    n_tried, n_next = 0, max(8, math.isqrt(d))
    while n_tried < _MOST_PROPOSALS:
        x = standard_normals((n_next, d), rng) * deviations
        squares = x * x
        w = squares @ a / squares.sum(axis=1)

        words = np.empty(n_next, dtype=np.uint64)
        rng.fill(words)
        log_uniform = np.log((words + 0.5) * 2.0**-64)
        accepted = np.flatnonzero(log_uniform < 0.5 * d * np.log1p(2 * w / b) - w - log_most)
        if accepted.size:
            chosen: Floats = x[accepted[0]]
            return chosen / np.linalg.norm(chosen)

        n_tried += n_next
        n_next = max(1, min(4 * n_next, _BATCH // d))
    raise PrivacyError("the eigenvector sampler reached its bound on work: nothing was released, try again")


def envelope_parameter(a: Floats) -> float:
    """Return the b in [1, d] that solves ``sum 1 / (b + 2 a_i) = 1``, where the smallest a_i is 0.

    Newton's method from below on a convex, falling function; any b in the interval would be valid.
    """
    b = 1.0
    for _ in range(100):
        inverse = 1 / (b + 2 * a)
        step = (inverse.sum() - 1) / (inverse @ inverse)
        b += step
        if step <= 1e-12 * b:
            break
    return float(min(b, len(a)))
