"""The power to see a partial correlation, given the error of a correlation.

**What is tested.** The desparsified estimate ``T = 2 Theta - Theta S Theta`` of Jankova & van de Geer (2015), with S
the debiased covariance and Theta the graphical lasso's answer at the universal penalty ``sqrt(2 log p)`` standard
errors, and the Benjamini-Hochberg rule at 5 %. In units of the signal's standard deviation Theta is close to I there,
since the penalty holds back whatever is not far above the error, so that T_ij = -S_ij and A = Theta S~ Theta = S~, S~
being the noisy covariance. With a noise-to-signal variance ratio r, ``a_ii = 1 + r`` and ``a_ij = rho``; the asymptotic
variance ``(a_ii a_jj + a_ij^2) / n`` becomes

    rows:            ((1 + r)^2 + rho^2) / n
    second moments:  (1 + rho^2) / n + tau^2 / 2         tau: the noise on a variance; tau / sqrt 2: on a covariance

and a pair is seen with 80 % power when rho is (z_t + z_0.8) such standard errors. Writing u for the variance at
rho = 0 and z for z_t + z_0.8, ``rho = z sqrt(u / (1 - z^2 / n))``.

**The threshold.** With m tests, m_1 = p/2 true edges and power b = 0.8, Benjamini-Hochberg at level q settles at the t
that solves ``t = q R / m`` for R = m_1 b + (m - m_1) t rejections: ``t = q b m_1 / (m - q (m - m_1))``, two-sided.

**Drowned columns.** A debiased variance has the standard error sqrt(2 u). Unless it is at most a fifth of the variance
itself, columns can no longer be told from their noise, and the forecast says "nothing" whatever rho is.

References
----------
Benjamini & Hochberg (1995), JRSS B 57(1). Genovese & Wasserman (2002), JRSS B 64(3), for where its threshold settles.
Jankova & van de Geer (2015), Confidence intervals for high-dimensional inverse covariance estimation, EJS 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import special

_SCALES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))

POWER = 0.8
FDR = 0.05
_DROWNED = 2.0  # standard errors of zero within which a reader takes a debiased variance for none
_CLEAR = 5.0  # standard errors that a debiased variance must stand clear of zero


def moments_error(n_rows: int, noise: float) -> float:
    """Return the standard error of a correlation near zero from a covariance release.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    noise : float
        The noise's standard deviation on n times a correlation: see `Mechanism.correlation_noise`.
    """
    return math.sqrt(1 / n_rows + (noise / n_rows) ** 2)


def is_clear(error: float) -> bool:
    """Return whether a column stands clear of its noise where a correlation has this standard error."""
    return 2 * (error * _CLEAR) ** 2 <= 1


def drowns(error: float) -> bool:
    """Return whether a column's variance is lost where a correlation of two like it has this standard error."""
    return error > 1.0 / (math.sqrt(2.0) * _DROWNED)


def smallest_seen(n_rows: int, n_features: int, error: float) -> float | None:
    """Return the smallest partial correlation that is seen where a correlation has this standard error, if any is."""
    z, variance = _standard_errors_needed(n_features), error**2
    if n_rows <= z * z or not is_clear(error):
        return None
    rho = z * math.sqrt(variance / (1 - z * z / n_rows))
    return rho if rho < 1 else None


def rows_needed(n_features: int, error: Callable[[int], float], rho: float | None = None) -> int:
    """Return the smallest n at which rho is seen, or, if it is None, any partial correlation at all.

    Parameters
    ----------
    n_features : int
        Number of columns; a single one is seen where its variance stands clear of zero.
    error : callable
        Returns the standard error of a correlation near zero from n rows, which falls with n.
    rho : float, optional
        The partial correlation, in (0, 1).
    """

    def suffices(n_rows: int) -> bool:
        if n_features == 1:
            return is_clear(error(n_rows))
        seen = smallest_seen(n_rows, n_features, error(n_rows))
        return seen is not None and (rho is None or seen <= rho)

    enough = 1
    while not suffices(enough):
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if suffices(middle) else (middle, enough)
    return enough


def _standard_errors_needed(n_features: int) -> float:
    """Return z_t + z_0.8: how many standard errors an edge needs; infinite for a single column, which has no edge."""
    m, m_1 = n_features * (n_features - 1) // 2, n_features // 2
    if m == 0:
        return math.inf
    t = FDR * POWER * m_1 / (m - FDR * (m - m_1))
    return float(special.ndtri(POWER) - special.ndtri(t / 2))


def describe_count(value: int) -> str:
    """Return a number of rows in figures, or in millions, billions and trillions."""
    if value >= 1e15:
        return f"{value:.1e}"
    for size, word in _SCALES:
        if value >= size:
            return f"{value / size:.3g} {word}"
    return f"{value:,}"
