"""The law of the noise on a matrix.

`EntryLaw` describes noise that acts entry by entry. Other noise is tested in releases with two coordinates:

- wishart: the diagonal of the noise is chi-squared, with as many degrees of freedom as the release states, and these
  suffice for the policy's (epsilon, delta).
- wishart-difference: an entry on the diagonal is the difference of two chi-squared variables, an entry off it half of
  one with twice the degrees of freedom, and the scale suffices for the movement of the sums.
- eigenvectors: the first vector, which is the released matrix's largest, has the density exp(kappa u^T C u) on the
  circle, with kappa = epsilon / 4, or epsilon / 2 for add-remove neighbours. Its doubled angle is von Mises.

References
----------
Muirhead (1982), Aspects of multivariate statistical theory, theorem 3.2.5, for v^T W v. Kotz, Kozubowski & Podgorski
(2001), The Laplace distribution and generalizations, section 4.1, for differences of gamma variables. Mardia & Jupp
(2000), Directional statistics, section 9.4, for the doubled angle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special, stats

from dp_audit.checks import Check, make_check
from dp_audit.hypothesis_tests import Law, cdf_excess
from dp_bundle.manifest.matrix_noise import (
    DiscreteLaplace,
    MatrixNoise,
    RoundedGaussian,
    WishartDifferenceNoise,
    WishartNoise,
)
from dp_publish.accounting.conversions import SLACK
from dp_publish.accounting.strength import Strength
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.wishart import Wishart
from dp_publish.covariance.mechanisms.wishart_curve import delta_of_wishart

_Floats: TypeAlias = NDArray[np.float64]
_Laws: TypeAlias = dict[tuple[int, int], Callable[[_Floats], _Floats]]  # of entries: distribution functions

_CLEAR = 64  # steps between the eigenvalues
_TURN = 2.0**40  # steps of a doubled angle, so fine that they are no grid


@dataclass(frozen=True)
class EntryLaw:
    """A kind of noise on every entry of the triangle: its density falls with a power of the magnitude.

    Attributes
    ----------
    strength_name : str
        What `size_of` is called.
    allowed : callable
        Returns the largest size that a strength allows.
    sizes : callable
        Returns the scale of diagonal and of off-diagonal entries of a stated noise.
    distance : callable
        Returns how far a symmetric matrix is from zero, in the norm of the sensitivity.
    power : int
        Of the magnitude in the logarithm of the density, over which it is divided.
    variance, fourth : float
        The second and the fourth moment of noise of scale 1.
    cdf : callable
        Its distribution function.
    """

    strength_name: str
    allowed: Callable[[Strength], float]
    sizes: Callable[[Any], tuple[float, float]]
    distance: Callable[[_Floats], float]
    power: int
    variance: float
    fourth: float
    cdf: Callable[[_Floats], _Floats]

    def scales(self, noise: MatrixNoise, d: int) -> _Floats:
        """Return the stated scale of every entry's noise."""
        return np.where(np.eye(d, dtype=bool), *self.sizes(noise))

    def of_scale(self, scale: float) -> Law:
        """Return the law of an entry in steps that are far below its scale."""
        return Law(self.variance * scale**2, self.fourth * scale**4, lambda steps: self.cdf((steps + 0.5) / scale))

    def size_of(self, moved: _Floats) -> float:
        """Return the loss, in the strength's unit, of entries that are moved by so many scales."""
        return float(np.linalg.norm(moved, self.power))

    def chi_squared(self, found: _Floats) -> tuple[float, int]:
        """Return a sum over entries of scale 1, and the degrees of freedom of its chi-squared law."""
        factor = 2 // self.power
        return factor * float((np.abs(found) ** self.power).sum()), factor * len(found)

    def log_ratio(self, noisy: _Floats, one: _Floats, other: _Floats) -> _Floats:
        """Return the logarithm of the likelihood ratio of two tables, in scales, for noisy entries in rows."""
        far, near = (np.abs(noisy - center) ** self.power for center in (other, one))
        return np.asarray((far - near).sum(axis=1) / self.power)


_LAWS: dict[type[MatrixNoise], EntryLaw] = {
    RoundedGaussian: EntryLaw(
        "mu",
        allowed=lambda strength: strength.mu,
        sizes=lambda noise: (noise.diagonal_sigma, noise.off_diagonal_sigma),
        distance=lambda moved: float(np.linalg.norm(moved)),
        power=2,
        variance=1.0,
        fourth=3.0,
        cdf=stats.norm.cdf,
    ),
    DiscreteLaplace: EntryLaw(
        "epsilon",
        allowed=lambda strength: strength.pure_epsilon,
        sizes=lambda noise: (noise.scale, noise.scale),
        distance=lambda moved: float(np.abs(np.triu(moved)).sum()),
        power=1,
        variance=2.0,
        fourth=24.0,
        cdf=stats.laplace.cdf,
    ),
}


def entry_law(noise: type[MatrixNoise]) -> EntryLaw | None:
    """Return the law of noise of a kind, or None if it does not act on entries independently."""
    return _LAWS.get(noise)


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
    m, unit = noise.degrees_of_freedom, noise.granularity / noise.scale
    laws: _Laws = dict.fromkeys(((0, 0), (1, 1)), lambda steps: np.asarray(stats.chi2.cdf((steps + 0.5) * unit, m)))
    faults = []
    if not _follow(released, tables, noise.granularity, laws, alpha):
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
    m, unit = noise.degrees_of_freedom, noise.granularity / noise.scale
    on = chi_squared_difference(m, unit)
    laws: _Laws = {(0, 0): on, (1, 1): on, (0, 1): chi_squared_difference(2 * m, 2 * unit)}
    faults = []
    if not _follow(released, tables, noise.granularity, laws, alpha):
        faults = ["the noise is not the difference stated of two Wishart matrices"]

    moved = float(np.linalg.norm(tables[1].matrix - tables[0].matrix, "nuc"))
    given = moved / (2 * noise.scale)
    if given > epsilon * SLACK or m < len(released[0][0]) + 1:
        faults.append(f"{m:g} degrees of freedom and the scale give epsilon = {given:.4g}, above {epsilon:.4g}")
    return make_check("noise", faults, "the difference of two Wishart matrices as stated, of a scale that is enough")


def _follow(released: list[_Floats], tables: list[ExactMoments], step: float, laws: _Laws, alpha: float) -> bool:
    """Return True if the noise of entries may have the laws that are given of them."""
    noise = [part - table.matrix for part, table in zip(released, tables, strict=True)]
    steps = np.rint(np.concatenate(noise) / step)
    return all(cdf_excess(steps[:, *place], cdf, alpha / len(laws)) <= 1 for place, cdf in laws.items())


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
