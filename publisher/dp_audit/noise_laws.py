"""The law of the noise on a matrix.

`EntryLaw` describes noise that acts entry by entry. Other noise is tested in releases with two coordinates:

- wishart: the diagonal of the noise is chi-squared, with as many degrees of freedom as the release states, and these
  suffice for the policy's (epsilon, delta).
- wishart-difference: an entry on the diagonal is the difference of two chi-squared variables, an entry off it half of
  one with twice the degrees of freedom, and the scale suffices for the movement of the sums.
- eigenvectors: the first vector, which is the released matrix's largest, has the density exp(kappa u^T C u) on the
  circle, with kappa = epsilon / 4, or epsilon / 2 for add-remove neighbours. Its doubled angle is von Mises.
- kapralov-talwar: so has its first vector, with kappa half as large. It cannot be read from the releases of two rows,
  as the second vector is not orthogonal to it; but of a million times one row, it is the largest one up to an angle
  that is a thousandth of its spread.

References
----------
Muirhead (1982), Aspects of multivariate statistical theory, theorem 3.2.5, for v^T W v. Kotz, Kozubowski & Podgorski
(2001), The Laplace distribution and generalizations, section 4.1, for differences of gamma variables. Mardia & Jupp
(2000), Directional statistics, section 9.4, for the doubled angle.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special, stats

from dp_audit.checks import Check, make_check
from dp_audit.hypothesis_tests import cdf_excess
from dp_bundle.manifest.matrix_noise import (
    DiscreteLaplace,
    MatrixNoise,
    RoundedGaussian,
    WishartDifferenceNoise,
    WishartNoise,
)
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.conversions import SLACK
from dp_publish.accounting.strength import Strength
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.wishart import Wishart
from dp_publish.covariance.mechanisms.wishart_curve import delta_of_wishart

_Floats: TypeAlias = NDArray[np.float64]

_CLEAR = 64  # steps between the eigenvalues
_TURN = 2.0**40  # steps of a doubled angle, so fine that they are no grid


class EntryLaw(ABC):
    """The stated noise of every entry of the triangle, in steps.

    Attributes
    ----------
    strength_name : str
        What `loss` is called.
    """

    strength_name: ClassVar[str]

    def __init__(self, noise: MatrixNoise, upper: tuple[NDArray[np.intp], ...], free: NDArray[np.bool_]) -> None:
        self.diagonal = (upper[0] == upper[1])[free]
        self.scales = np.where(self.diagonal, *self.sizes(noise)) / noise.step

    @staticmethod
    @abstractmethod
    def sizes(noise: Any) -> tuple[float, float]:
        """Return the scale of diagonal and of off-diagonal entries."""

    @staticmethod
    @abstractmethod
    def allowed(strength: Strength) -> float:
        """Return the largest loss that a strength allows."""

    @staticmethod
    @abstractmethod
    def distance(moved: _Floats) -> float:
        """Return how far a symmetric matrix is from zero, in the norm of the sensitivity."""

    @staticmethod
    @abstractmethod
    def size_of(moved: _Floats) -> float:
        """Return the loss of entries that are moved by so many scales."""

    @staticmethod
    @abstractmethod
    def chi_squared(found: _Floats) -> tuple[float, int]:
        """Return a sum over entries of scale 1, and the degrees of freedom of its chi-squared law."""

    @abstractmethod
    def log_ratio(self, noisy: _Floats, one: _Floats, other: _Floats) -> _Floats:
        """Return the logarithm of the likelihood ratio of the two tables."""

    @abstractmethod
    def cdf(self, scale: float) -> Callable[[_Floats], _Floats]:
        """Return the distribution function of one entry's noise; a step is far below its scale."""

    @abstractmethod
    def moments(self, scale: float) -> tuple[float, float]:
        """Return the variance and the fourth moment of one entry's noise."""

    def loss(self, one: _Floats, other: _Floats) -> float:
        """Return the stated noise's mu, or epsilon, for two tables."""
        return self.size_of((one - other) / self.scales)


class GaussianLaw(EntryLaw):
    """Gaussian noise."""

    strength_name = "mu"

    @staticmethod
    def sizes(noise: RoundedGaussian) -> tuple[float, float]:
        """Return both standard deviations."""
        return noise.diagonal_sigma, noise.off_diagonal_sigma

    @staticmethod
    def allowed(strength: Strength) -> float:
        """Return mu."""
        return strength.mu

    @staticmethod
    def distance(moved: _Floats) -> float:
        """Return the Frobenius norm."""
        return float(np.linalg.norm(moved))

    @staticmethod
    def size_of(moved: _Floats) -> float:
        """Return the root of the sum of squares."""
        return float(np.linalg.norm(moved))

    @staticmethod
    def chi_squared(found: _Floats) -> tuple[float, int]:
        """Return the sum of squares."""
        return float(found @ found), len(found)

    def log_ratio(self, noisy: _Floats, one: _Floats, other: _Floats) -> _Floats:
        """Return the logarithm of the likelihood ratio of the two tables."""
        scaled = [(noisy - center) / self.scales for center in (other, one)]
        return np.asarray(0.5 * (scaled[0] ** 2 - scaled[1] ** 2).sum(axis=1))

    def cdf(self, scale: float) -> Callable[[_Floats], _Floats]:
        """Return the normal distribution function."""
        return lambda steps: np.asarray(special.ndtr((steps + 0.5) / scale))

    def moments(self, scale: float) -> tuple[float, float]:
        """Return the variance and the fourth moment."""
        return scale**2, 3 * scale**4


class LaplaceLaw(EntryLaw):
    """Laplace noise."""

    strength_name = "epsilon"

    @staticmethod
    def sizes(noise: DiscreteLaplace) -> tuple[float, float]:
        """Return the one scale twice."""
        return noise.scale, noise.scale

    @staticmethod
    def allowed(strength: Strength) -> float:
        """Return epsilon."""
        return strength.pure_epsilon

    @staticmethod
    def distance(moved: _Floats) -> float:
        """Return the L1 norm of the upper triangle."""
        return float(np.abs(moved[np.triu_indices(len(moved))]).sum())

    @staticmethod
    def size_of(moved: _Floats) -> float:
        """Return the sum of magnitudes."""
        return float(np.abs(moved).sum())

    @staticmethod
    def chi_squared(found: _Floats) -> tuple[float, int]:
        """Return twice the sum of magnitudes, which are exponential."""
        return 2 * float(np.abs(found).sum()), 2 * len(found)

    def log_ratio(self, noisy: _Floats, one: _Floats, other: _Floats) -> _Floats:
        """Return the logarithm of the likelihood ratio of the two tables."""
        scaled = [(noisy - center) / self.scales for center in (other, one)]
        return np.asarray((np.abs(scaled[0]) - np.abs(scaled[1])).sum(axis=1))

    def cdf(self, scale: float) -> Callable[[_Floats], _Floats]:
        """Return the Laplace distribution function."""
        return lambda steps: np.where(
            steps < 0, 0.5 * np.exp((steps + 0.5) / scale), 1 - 0.5 * np.exp(-(np.abs(steps) + 0.5) / scale)
        )

    def moments(self, scale: float) -> tuple[float, float]:
        """Return the variance and the fourth moment."""
        return 2 * scale**2, 24 * scale**4


_LAWS: dict[type[MatrixNoise], type[EntryLaw]] = {RoundedGaussian: GaussianLaw, DiscreteLaplace: LaplaceLaw}


def entry_law(noise: type[MatrixNoise]) -> type[EntryLaw] | None:
    """Return the law of noise of a kind, or None if it does not act on entries independently."""
    return _LAWS.get(noise)


def exponent_for(neighbours: Neighbours, epsilon: float) -> float:
    """Return the exponent that epsilon allows for a score that moves by 1, up or down, or one way only."""
    return epsilon / neighbours.nuclear


def check_directions(
    released: list[_Floats], tables: list[ExactMoments], kappa: float, epsilon: float, alpha: float, step: float = 0.0
) -> Check:
    """Check that the first vector has the density exp(kappa u^T C u), of matrices rounded to multiples of a step."""
    worst = 0.0
    for part, table in zip(released, tables, strict=True):
        spectrum, axes = np.linalg.eigh(table.matrix / table.scaling.square)
        eigenvalues, vectors = np.linalg.eigh(part)
        # else it has no direction, or the grid's
        clear = eigenvalues[:, 1] - eigenvalues[:, 0] > max(_CLEAR * step, 1e-9 * (1 + abs(eigenvalues).max()))
        along = vectors[clear, :, 1] @ axes[:, ::-1]
        turns = np.arctan2(along[:, 1], along[:, 0]) / math.pi
        law = stats.vonmises(kappa * (spectrum[1] - spectrum[0]) / 2 or 1e-12, loc=0.0)
        steps = np.rint((turns - np.rint(turns)) * _TURN)

        def cdf(steps: _Floats, law: Any = law) -> _Floats:
            return np.asarray(law.cdf(np.clip((steps + 0.5) / _TURN, -0.5, 0.5) * 2 * math.pi))

        if len(steps):
            worst = max(worst, cdf_excess(steps, cdf, alpha / len(tables)))
    faults = [f"the first vector does not have the density that epsilon = {epsilon:g} allows"] if worst > 1 else []
    return make_check("noise", faults, "the first vector has the density stated")


def check_wishart(
    released: list[_Floats], tables: list[ExactMoments], noise: WishartNoise, mechanism: Wishart, alpha: float
) -> Check:
    """Check that the noise's diagonal has the chi-squared law stated, and that its degrees of freedom suffice."""
    m, square, step = noise.degrees_of_freedom, noise.scale, noise.step
    faults = []
    residuals = [np.rint((part - table.matrix) / step) for part, table in zip(released, tables, strict=True)]
    for j in range(2):
        found = np.concatenate([part[:, j, j] for part in residuals])
        if cdf_excess(found, lambda steps: np.asarray(stats.chi2.cdf((steps + 0.5) * step / square, m)), alpha / 2) > 1:
            faults = [f"the noise on the diagonal is not chi-squared with the {m:g} degrees of freedom stated"]

    epsilon, delta = mechanism.strength.epsilon, mechanism.strength.delta
    nu = round(m) - mechanism.scaling.n_coordinates + 1
    given = delta_of_wishart(nu, epsilon, mechanism.neighbours) if nu >= 3 else 1.0
    if given > delta:
        faults.append(f"{m:g} degrees of freedom give delta = {given:.3g} at epsilon = {epsilon:g}, above {delta:g}")
    return make_check("noise", faults, f"chi-squared with {m:g} degrees of freedom as stated, which are enough")


def check_wishart_difference(
    released: list[_Floats], tables: list[ExactMoments], noise: WishartDifferenceNoise, epsilon: float, alpha: float
) -> Check:
    """Check that the noise has the law stated, and that its scale suffices for these two tables."""
    m, step = noise.degrees_of_freedom, noise.step
    residuals = [np.rint((part - table.matrix) / step) for part, table in zip(released, tables, strict=True)]
    faults = []
    for i, j, degrees, scale in ((0, 0, m, noise.scale), (1, 1, m, noise.scale), (0, 1, 2 * m, noise.scale / 2)):
        found = np.concatenate([part[:, i, j] for part in residuals])
        if cdf_excess(found, chi_squared_difference(degrees, step / scale), alpha / 3) > 1:
            faults = ["the noise is not the difference stated of two Wishart matrices"]

    moved = float(np.linalg.norm(tables[1].matrix - tables[0].matrix, "nuc"))
    given = moved / (2 * noise.scale)
    if given > epsilon * SLACK or m < len(released[0][0]) + 1:
        faults.append(f"{m:g} degrees of freedom and the scale give epsilon = {given:.4g}, above {epsilon:.4g}")
    return make_check("noise", faults, "the difference of two Wishart matrices as stated, of a scale that is enough")


def chi_squared_difference(degrees: float, step: float) -> Callable[[_Floats], _Floats]:
    """Return the distribution function of one chi-squared variable less another, rounded to steps, to about 1e-7.

    Without rounding, its density is ``(|x| / 4)^k K_k(|x| / 2) / (2 sqrt(pi) Gamma(degrees / 2))``, with k =
    (degrees - 1) / 2.
    """
    k = (degrees - 1) / 2
    x = np.linspace(0.0, 80 + 40 * math.sqrt(degrees), 40_001)[1:]
    logs = k * np.log(x / 4) + np.log(special.kve(k, x / 2)) - x / 2
    density = np.exp(logs - special.gammaln(degrees / 2)) / (2 * math.sqrt(math.pi))
    at_zero = math.exp(special.gammaln(k) - special.gammaln(degrees / 2)) / (4 * math.sqrt(math.pi))
    x, density = np.append(0.0, x), np.append(at_zero, density)
    above = 0.5 + integrate.cumulative_simpson(density, x=x, initial=0.0)

    def cdf(steps: _Floats) -> _Floats:
        values = (steps + 0.5) * step
        upper = np.interp(np.abs(values), x, above, right=1.0)
        return np.where(values < 0, 1 - upper, upper)

    return cdf
