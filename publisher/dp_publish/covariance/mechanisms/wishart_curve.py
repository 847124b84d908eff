"""The exact privacy curve of Wishart noise, and the fewest degrees of freedom for a guarantee.

Let W ~ W_d(m, I) and u a unit vector. One more row adds s u u^T, 0 <= s <= 1, to the sum. The densities' ratio at
X = M + W depends on X only through ``Q = 1 / (u^T W^-1 u)``, because det(W - s u u^T) = det(W) (1 - s / Q); Q is a
chi-squared variable with ``nu = m - d + 1`` degrees of freedom, and that of W + s u u^T is Q + s. So the mechanism is
as private as chi-squared noise on a number that moves by s; the worst is s = 1, as that noise is log-concave for
nu >= 2. With a = nu / 2, the likelihood ratio ``(q / (q - 1))^(a - 1) e^(-1/2)`` falls in q, which gives both
directions:

    H(noise || noise + 1) = F(q) - e^eps F(q - 1),   q = 1 / (1 - exp(-(eps + 1/2) / (a - 1)))
    H(noise + 1 || noise) = S(q - 1) - e^eps S(q),   q = 1 / (1 - exp(-(1/2 - eps) / (a - 1))),   0 from eps = 1/2 on

with F and S the chi-squared law and its complement, H the hockey-stick divergence at eps. Add-remove neighbours need
the larger. Replace-one neighbours are two such steps, M + v v^T to M to M + w w^T or by way of M + v v^T + w w^T, and
H(P || R) <= H_e1(P || T) + e^e1 H_(eps - e1)(T || R) for every e1. That is a bound, not the exact curve.

P(Q < 1) is what no epsilon covers: outputs that are impossible under the neighbour. Hence Wishart noise is never mu-GDP
and never pure, and its guarantee is (epsilon, delta) only.

Sheffet's degrees of freedom, ``d + 14 ln(4 / delta) / epsilon^2`` for epsilon < 1, are about 14 times as many as that.

References
----------
Sheffet (2015), Private approximations of the 2nd-moment matrix, arXiv 1507.00056, for the mechanism. Muirhead (1982),
Aspects of multivariate statistical theory, theorem 3.2.12, for Q. Dong, Roth & Su (2022), proposition A.3, for
log-concave noise.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_bundle.privacy.neighbours import Neighbours

_EPSILONS = (1e-6, 100.0)
_LARGEST_DELTA = 0.01  # what an exception may be called
_LEAST = 3  # nu: below, the noise is not log-concave
_MOST = 1 << 22
_SPLITS = np.linspace(0.0, 1.0, 65)


def delta_of_wishart(nu: int, epsilon: float, neighbours: Neighbours) -> float:
    """Return a delta that Wishart noise of scale N^2 I has at epsilon; exact for add-remove neighbours.

    Parameters
    ----------
    nu : int
        m - d + 1, at least 3.
    epsilon : float
        In [0, inf).
    neighbours : Neighbours
        What the guarantee speaks of.
    """
    if not neighbours.n_rows_public:
        return max(_removed(nu, epsilon), _added(nu, epsilon))
    best = 1.0
    for split in _SPLITS * min(epsilon, 0.5):
        first, second = float(split), epsilon - float(split)
        best = min(
            best,
            _added(nu, first) + math.exp(first) * _removed(nu, second),
            _removed(nu, second) + math.exp(second) * _added(nu, first),
        )
    return best


def degrees_tight(n_coordinates: int, epsilon: float, delta: float, neighbours: Neighbours) -> int:
    """Return the fewest degrees of freedom m that are known to give (epsilon, delta).

    Raises
    ------
    ParameterError
        `epsilon` is not in [1e-6, 100], or `delta` not in (0, 0.01].
    PrivacyError
        It would take more than 2^22.
    """
    check_epsilon_and_delta(epsilon, delta)
    high = _LEAST
    while delta_of_wishart(high, epsilon, neighbours) > delta:
        high *= 2
        if high > _MOST:
            raise PrivacyError(
                f"epsilon = {epsilon:g} with delta = {delta:g} takes too much Wishart noise: use gaussian"
            )
    low = max(_LEAST, high // 2)
    while low < high:  # any nu that passes is good; this finds the smallest as delta falls in nu
        middle = (low + high) // 2
        low, high = (low, middle) if delta_of_wishart(middle, epsilon, neighbours) <= delta else (middle + 1, high)
    return high + n_coordinates - 1


def _removed(nu: int, epsilon: float) -> float:
    """Return H(noise || noise + 1)."""
    a = nu / 2
    q = -1 / math.expm1(-(epsilon + 0.5) / (a - 1))
    return max(0.0, float(special.gammainc(a, q / 2) - math.exp(epsilon) * special.gammainc(a, max(q - 1, 0.0) / 2)))


def _added(nu: int, epsilon: float) -> float:
    """Return H(noise + 1 || noise)."""
    if epsilon >= 0.5:
        return 0.0
    a = nu / 2
    q = -1 / math.expm1(-(0.5 - epsilon) / (a - 1))
    return max(0.0, float(special.gammaincc(a, max(q - 1, 0.0) / 2) - math.exp(epsilon) * special.gammaincc(a, q / 2)))


def check_epsilon_and_delta(epsilon: float, delta: float) -> None:
    """Refuse an epsilon outside [1e-6, 100], or a delta outside (0, 0.01]."""
    if not _EPSILONS[0] <= epsilon <= _EPSILONS[1]:
        raise ParameterError("epsilon", f"from {_EPSILONS[0]:g} to {_EPSILONS[1]:g} for Wishart noise", epsilon)
    if not 0 < delta <= _LARGEST_DELTA:
        raise ParameterError("delta", f"in (0, {_LARGEST_DELTA:g}] for Wishart noise", delta)
