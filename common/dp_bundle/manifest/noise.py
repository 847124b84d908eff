"""The exact variance of each kind of noise, which a reader subtracts from what he sees, and fourth cumulants.

The discrete Gaussian N_Z(0, sigma^2) has probabilities proportional to exp(-k^2 / (2 sigma^2)) on the integers, and its
variance is below sigma^2. The rounded Gaussian is round(N(0, sigma^2)), and its variance is above sigma^2 unless sigma
is small. Either variance is a series that converges at once below sigma = 1, and its dual by Poisson summation above.

References
----------
Canonne, Kamath & Steinke (2020), The discrete Gaussian for differential privacy, arXiv 2004.00010. Sheppard's
corrections in their exact form: Janson (2006), Rounding of continuous random variables, arXiv math/0509009.

The normal distribution by the standard library: importing scipy takes longer than verifying a bundle.

The mu that epsilon-DP implies, and the inverse.

References
----------
Balle & Wang (2018), Improving the Gaussian mechanism for differential privacy, arXiv 1805.06530.
Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2.

The two relations between neighbouring tables, and how far each lets the sum of v v^T over rows move.
"""

import math
from enum import StrEnum
from fractions import Fraction
from numbers import Real
from statistics import NormalDist

from dp_bundle.base.errors import ParameterError

MIN_SIGMA = 0.05  # in steps of the grid; below, hardly any value is ever moved
MAX_SIGMA = 1e9
_LAPLACE_SCALES = (0.05, 2.0**50)  # in steps
_TERMS = range(1, 13)  # at sigma <= 1 the thirteenth term is below 1e-33
_DUAL_TERMS = range(1, 4)  # from sigma = 1 on the fourth one is below 1e-130
_DUAL_FROM = 0.5  # where both series for a fourth cumulant converge, and neither cancels


def check_sigma(sigma: float, name: str = "sigma") -> float:
    """Return sigma as a float if it is a number from 0.05 to 1e9.

    Raises
    ------
    ParameterError
        It is not; the message calls it `name`.
    """
    if not isinstance(sigma, (float, Real)) or not MIN_SIGMA <= sigma <= MAX_SIGMA:
        raise ParameterError(name, f"a number from {MIN_SIGMA:g} to {MAX_SIGMA:g}", sigma)
    return float(sigma)


def discrete_gaussian_variance(sigma: float) -> float:
    """Return the variance of the discrete Gaussian, to a relative error below 1e-14.

    It is ``sum k^2 w_k / sum w_k`` with ``w_k = exp(-k^2 / (2 sigma^2))``, over all integers. Equally it is ``sigma^2 -
    4 pi^2 sigma^4 sum n^2 u_n / sum u_n`` with ``u_n = exp(-2 pi^2 sigma^2 n^2)``.

    Parameters
    ----------
    sigma : float
        The distribution's parameter, from 0.05 to 1e9; its standard deviation is slightly smaller.

    Returns
    -------
    float
        The variance; about 2 exp(-200) at sigma = 0.05.

    Raises
    ------
    ParameterError
        `sigma` is outside the range.
    """
    sigma = check_sigma(sigma)
    if sigma < 1.0:
        first = _exp_minus(Fraction(1, 2) / Fraction(sigma) ** 2)
        return _moment(2, [first ** (k * k) for k in _TERMS])  # each far below the one before, and so is its error
    duals = [math.exp(-2.0 * (math.pi * sigma * n) ** 2) for n in _DUAL_TERMS]
    moment = 2.0 * math.fsum(n * n * dual for n, dual in zip(_DUAL_TERMS, duals, strict=True))
    return sigma * sigma * (1.0 - 4.0 * (math.pi * sigma) ** 2 * moment / (1.0 + 2.0 * math.fsum(duals)))


def rounded_gaussian_variance(sigma: float) -> float:
    """Return the variance of round(N(0, sigma^2)), to a relative error below 1e-14.

    It is ``sum_{k>=1} (2k - 1) erfc((k - 1/2) / (sigma sqrt 2))``, or equally
    ``sigma^2 + 1/12 + sum_{n>=1} (-1)^n (4 sigma^2 + 1/(pi n)^2) exp(-2 pi^2 sigma^2 n^2)``.

    Parameters
    ----------
    sigma : float
        The standard deviation before rounding, in steps of the grid, from 0.05 to 1e9.

    Returns
    -------
    float
        The variance, in squared steps.

    Raises
    ------
    ParameterError
        `sigma` is outside the range.
    """
    sigma = check_sigma(sigma)
    if sigma < 1.0:
        # The first is far above the others, and so is its error.
        first = _erfc_root(Fraction(1, 8) / Fraction(sigma) ** 2)
        rest = ((2 * k - 1) * math.erfc((k - 0.5) / (sigma * math.sqrt(2.0))) for k in _TERMS[1:])
        return math.fsum((first, *rest))
    corrections = (
        (-1) ** n * (4.0 * sigma * sigma + (math.pi * n) ** -2) * math.exp(-2.0 * (math.pi * sigma * n) ** 2)
        for n in _DUAL_TERMS
    )
    return math.fsum((sigma * sigma, 1.0 / 12.0, *corrections))


def discrete_laplace_variance(scale: float) -> float:
    """Return the variance of the discrete Laplace distribution: 2 q / (1 - q)^2 = 1 / (2 sinh(1 / (2 scale))^2).

    It gives the integer k a probability proportional to q^|k|, with q = exp(-1 / scale).

    Raises
    ------
    ParameterError
        `scale` is not from 0.05 to 2^50.
    """
    root = math.sinh(0.5 / check_laplace_scale(scale))
    return 0.5 / (root * root)


def check_laplace_scale(scale: float) -> float:
    """Return the scale as a float if it is from 0.05 to 2^50 steps.

    Raises
    ------
    ParameterError
    """
    if not _LAPLACE_SCALES[0] <= scale <= _LAPLACE_SCALES[1]:
        raise ParameterError("scale", "from 0.05 to 2^50", scale)
    return float(scale)


def discrete_gaussian_fourth_cumulant(sigma: float) -> float:
    """Return E k^4 - 3 (E k^2)^2 of the discrete Gaussian, to a relative error below 1e-11.

    From the weights of `discrete_gaussian_variance` below sigma = 0.5. From there on, the logarithm of the generating
    function is ``sigma^2 t^2 / 2 + log sum_n u_n cos(2 pi n sigma^2 t)``. Its fourth derivative at zero is ``(2 pi
    sigma^2)^4 (m_4 - 3 m_2^2)``. Here ``m_j = sum n^j u_n / sum u_n``, and no Gaussian part is left to cancel.

    Parameters
    ----------
    sigma : float
        The distribution's parameter, from 0.05 to 1e9.

    Returns
    -------
    float
        The fourth cumulant: positive, at most 0.09, and zero in double precision from sigma = 7 on.

    Raises
    ------
    ParameterError
        `sigma` is outside the range.
    """
    sigma = check_sigma(sigma)
    if sigma < _DUAL_FROM:
        return _fourth_cumulant([_exp_minus(Fraction(k * k, 2) / Fraction(sigma) ** 2) for k in _TERMS])
    duals = [math.exp(-2.0 * (math.pi * sigma * n) ** 2) for n in _TERMS]
    return (2.0 * math.pi * sigma * sigma) ** 4 * _fourth_cumulant(duals)


def rounded_gaussian_fourth_cumulant(sigma: float) -> float:
    """Return E k^4 - 3 (E k^2)^2 of k = round(N(0, sigma^2)), to an error below 1e-15 of 1 + the squared variance.

    Below sigma = 0.5 from ``E k^4 = sum_{k>=1} (k^4 - (k - 1)^4) erfc((k - 1/2) / (sigma sqrt 2))``. Above it is that
    of the uniform rounding error, -1/120, but for exponentially small terms. These are the derivatives at 2 pi n of the
    characteristic function of a Gaussian plus a uniform variable.

    Parameters
    ----------
    sigma : float
        The standard deviation before rounding, in steps of the grid, from 0.05 to 1e9.

    Returns
    -------
    float
        The fourth cumulant, in steps to the fourth power.

    Raises
    ------
    ParameterError
        `sigma` is outside the range.
    """
    sigma = check_sigma(sigma)
    if sigma < _DUAL_FROM:
        tails = [_erfc_root(Fraction((2 * k - 1) ** 2, 8) / Fraction(sigma) ** 2) for k in _TERMS]
        fourth = math.fsum((k**4 - (k - 1) ** 4) * tail for k, tail in zip(_TERMS, tails, strict=True))
        return fourth - 3.0 * rounded_gaussian_variance(sigma) ** 2
    a, second, fourth = sigma * sigma, 0.0, 0.0
    for n in _TERMS:
        s = 2.0 * math.pi * n
        weight = (-1) ** n * math.exp(-0.5 * a * s * s)
        second += 4.0 * weight * (a + s**-2)
        fourth += 2.0 * weight * (a - 4.0 * a**3 * s * s - (12.0 * a - 1.0) * s**-2 - 24.0 * s**-4)
    return fourth - 6.0 * (a + 1.0 / 12.0) * second - 3.0 * second * second - 1.0 / 120.0


def _fourth_cumulant(weights: list[float]) -> float:
    """Return the fourth cumulant of the symmetric distribution with weights 1 at 0 and weights[k-1] at k and -k."""
    second = _moment(2, weights)
    return _moment(4, weights) - 3.0 * second * second


def _moment(order: int, weights: list[float]) -> float:
    """Return a moment of that distribution."""
    moment = math.fsum(k**order * weight for k, weight in zip(_TERMS, weights, strict=True))
    return 2.0 * moment / (1.0 + 2.0 * math.fsum(weights))


def _exp_minus(t: Fraction) -> float:
    """Return exp(-t) to the last digits also where t is large and its own rounding would show."""
    near = float(t)
    return math.exp(-near) * (1.0 - float(t - Fraction(near)))


def _erfc_root(t: Fraction) -> float:
    """Return erfc(sqrt(t)), corrected to first order for the rounding of the root."""
    root = math.sqrt(t)
    excess = float(t - Fraction(root) ** 2)
    return math.erfc(root) - excess * math.exp(-root * root) / (root * math.sqrt(math.pi))


_STANDARD = NormalDist()
_FAR = 25.0  # beyond it erfc(x) is nearly too small a number, and five terms of the series give all digits
_SERIES = (1.0, -1.0, 3.0, -15.0, 105.0, -945.0)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of mu-GDP at an epsilon (Balle & Wang 2018, theorem 8), which continuous noise attains."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return normal_tail(a) - math.exp(-0.5 * a * a) * scaled_tail(b)


def normal_tail(x: float) -> float:
    """Return the probability that a standard normal number exceeds x."""
    return 0.5 * math.erfc(x * math.sqrt(0.5))


def normal_quantile(probability: float) -> float:
    """Return the number that a standard normal one is below with this probability, in (0, 1)."""
    return _STANDARD.inv_cdf(probability)


def scaled_tail(x: float) -> float:
    """Return ``exp(x^2 / 2)`` times the probability that a standard normal number exceeds x >= 0.

    The product stays a number where its factors do not: far out by the asymptotic series (Abramowitz & Stegun, 7.1.23).
    """
    y = x * math.sqrt(0.5)
    if y < _FAR:
        return 0.5 * math.exp(y * y) * math.erfc(y)
    t = 0.5 / (y * y)
    terms = (factor * t**power for power, factor in enumerate(_SERIES))
    return 0.5 * math.fsum(terms) / (y * math.sqrt(math.pi))


_SMALL = 1e-3  # of epsilon: the next term is below 1e-12 of it


def mu_implied_by_epsilon(epsilon: float) -> float:
    """Return the mu that every epsilon-DP mechanism has: 2 Phi^-1(e^epsilon / (1 + e^epsilon)).

    The trade-off function of epsilon-DP consists of the chords from (0, 1) and (1, 0) to (a, a), a = 1/(1 + e^epsilon).
    That of mu-GDP is convex and passes through all three points if Phi(-mu/2) = a, so it lies below. No smaller mu
    would do (Dong, Roth & Su 2022, section 2). For small epsilon it is a series, as the logarithm of nearly a half
    loses the digits.
    """
    if 0 <= epsilon < _SMALL:
        return math.sqrt(math.pi / 2) * epsilon * (1 + epsilon * epsilon * (math.pi / 48 - 1 / 12))
    softplus = max(epsilon, 0.0) + math.log1p(math.exp(-abs(epsilon)))
    from scipy import special

    return float(-2 * special.ndtri_exp(-softplus))


def epsilon_for_implied_mu(mu: float) -> float:
    """Return ln(Phi(mu/2) / Phi(-mu/2)); the inverse of `mu_implied_by_epsilon`."""
    from scipy import special

    return float(special.log_ndtr(mu / 2) - special.log_ndtr(-mu / 2))


class Neighbours(StrEnum):
    """Tables that a guarantee makes hard to tell apart: one row is replaced by another, or there is one row more.

    Where the unit of privacy is an entity, the same holds for all of its rows.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ParameterError("neighbours", '"replace-one" or "add-remove"', value)

    @property
    def n_rows_public(self) -> bool:
        """True where neighbours have equally many rows, so that their number is not protected."""
        return self is Neighbours.REPLACE_ONE

    @property
    def per_replacement(self) -> int:
        """The steps from neighbour to neighbour that replace a row: to remove one and add another takes two."""
        return 1 if self is Neighbours.REPLACE_ONE else 2

    @property
    def frobenius(self) -> float:
        """The largest Frobenius norm by which the sum moves, for rows in the unit ball: that of v v^T - w w^T."""
        return math.sqrt(2 / self.per_replacement)

    @property
    def nuclear(self) -> float:
        """The largest nuclear norm by which it moves."""
        return 2 / self.per_replacement
