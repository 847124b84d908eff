"""The kinds of noise that the matrix of a covariance release carries, and what each lets a reader check.

The sum of (z, c)(z, c)^T over rows with ||z|| <= R gets noise. Replacing a row moves it by at most
``sqrt(2) (R^2 + c^2)`` in the Frobenius norm, as c <= R attains; one row more or less by at most ``R^2 + c^2``.
With standard deviations s on the diagonal and t off it, where an entry counts twice in that norm, Gaussian noise has
``mu = D max(1 / s, 1 / (sqrt(2) t))``. Of other noise a reader sees less, namely bounds from below:

- Laplace: epsilon is at least the L1 norm by which a row with all z_j = R / sqrt(p) moves the sum, over the scale;
- Wishart: the sum's entry along a direction u is chi-squared with m degrees of freedom, and a row can move it by R^2,
  or by R^2 + c^2 where it is taken away, over the noise's scale; delta at epsilon is at least that of this one entry;
- the difference of two Wishart matrices: epsilon is at least the nuclear norm by which two orthogonal rows move the
  sum, over twice the scale, however it is divided between the matrices. With H the movement, the density at T H is
  ``exp(-T ||H||_* / 2 s)`` up to a polynomial in T, and it changes by e^epsilon at most from T to T + 1; where the
  corner is exact, all of this holds for the corner that makes the norm least, which for rows of equal length is 0.
  With fewer degrees of freedom than one more than the coordinates, the density has no bound, and there is no epsilon;
- noise that does not act entry by entry: nothing of epsilon shows in it. Drawn to a finite precision, on a grid, it
  excepts an event from its guarantee; an older version drew floating-point numbers and excepted none.

References
----------
Dong, Roth & Su (2022) for mu.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from dp_bundle.manifest.costs import steps_of_exception
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.guarantee_checks import CURVE_SLACK, SLACK, check_gaussian_strength, check_pure_epsilon
from dp_bundle.privacy.neighbours import Neighbours
from dp_bundle.privacy.noise import discrete_laplace_variance, rounded_gaussian_variance


@dataclass(frozen=True)
class RowLimits:
    """The rows (z, c) that are summed: ||z|| <= `radius` in `n_features` coordinates, and the constant c."""

    radius: float
    constant: float
    n_features: int


@dataclass(frozen=True)
class MatrixNoise:
    """Noise that does not act entry by entry, or, in classes made of this one, noise that does.

    Attributes
    ----------
    distribution : str or None
        What manifests call it.
    label : str
        What a person calls it.
    granularity : float or None
        Entries are multiples of this power of two; None where they were drawn in floating point.
    """

    distribution: ClassVar[str | None] = None
    label: ClassVar[str] = ""
    granularity: float | None

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the distribution's parameters."""
        return [field.name for field in fields(cls) if field.name != "granularity"]

    @property
    def parameters(self) -> dict[str, float]:
        """The distribution's parameters, in the matrix's units."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @property
    def step(self) -> float:
        """The granularity, or 1 where there is none."""
        return self.granularity or 1.0

    @property
    def diagonal_variance(self) -> float | None:
        """The variance of an entry on the diagonal, where noise acts entry by entry."""
        return None

    @property
    def off_diagonal_variance(self) -> float | None:
        """The variance of an off-diagonal entry, where noise acts entry by entry."""
        return None

    @property
    def bias(self) -> float:
        """The mean of the noise, as a multiple of the identity."""
        return 0.0

    def excepted_for_replacement(self, guarantee: Guarantee) -> float:
        """Return the delta that is excepted where a row is removed and another one added: for most, the same.

        What is computed to a finite precision is computed to one that leaves room for that.
        """
        return guarantee.excepted_delta

    def check_guarantee(self, guarantee: Guarantee, limits: RowLimits) -> None:  # noqa: ARG002  for those made of it
        """Refuse, by ValueError, a guarantee that this noise cannot give for rows within these limits."""
        check_pure_epsilon(guarantee, excepted=self.granularity is not None)


@dataclass(frozen=True)
class RoundedGaussian(MatrixNoise):
    """N(0, sigma^2), rounded to a multiple of the granularity; entries of the upper triangle are independent."""

    distribution: ClassVar[str | None] = "rounded-gaussian"
    label: ClassVar[str] = "Gaussian"
    diagonal_sigma: float
    off_diagonal_sigma: float

    @property
    def diagonal_variance(self) -> float:
        """The exact variance after rounding."""
        return self.step**2 * rounded_gaussian_variance(self.diagonal_sigma / self.step)

    @property
    def off_diagonal_variance(self) -> float:
        """The exact variance after rounding."""
        return self.step**2 * rounded_gaussian_variance(self.off_diagonal_sigma / self.step)

    def mu(self, guarantee: Guarantee, limits: RowLimits) -> float:
        """Return the mu of the unit of privacy; refuse, by ValueError, a guarantee that is not accounted for by mu."""
        if guarantee.accountant != "gaussian-dp" or guarantee.mu is None:
            raise ValueError("Gaussian noise is accounted for by mu")
        if guarantee.epsilon is not None or guarantee.excepted_delta:
            raise ValueError("Gaussian noise gives no pure epsilon")
        sensitivity = (limits.radius**2 + limits.constant**2) * guarantee.neighbours.frobenius
        one_row = sensitivity * max(1 / self.diagonal_sigma, 1 / (math.sqrt(2.0) * self.off_diagonal_sigma))
        mu = (guarantee.max_rows or 1) * one_row
        if not 0 < mu < math.inf:
            raise ValueError("the radius and the noise give no guarantee")
        return mu

    def check_guarantee(self, guarantee: Guarantee, limits: RowLimits) -> None:
        """Refuse a mu below what the noise leaves, or a guarantee that is not accounted for by mu."""
        check_gaussian_strength(guarantee, self.mu(guarantee, limits), with_curve=True)


@dataclass(frozen=True)
class DiscreteLaplace(MatrixNoise):
    """A multiple k of the granularity g with probability proportional to exp(-|k| g / scale), independent."""

    distribution: ClassVar[str | None] = "discrete-laplace"
    label: ClassVar[str] = "Laplace"
    scale: float

    @property
    def diagonal_variance(self) -> float:
        """The exact variance."""
        return self.step**2 * discrete_laplace_variance(self.scale / self.step)

    @property
    def off_diagonal_variance(self) -> float:
        """The exact variance, that of the diagonal."""
        return self.diagonal_variance

    def check_guarantee(self, guarantee: Guarantee, limits: RowLimits) -> None:
        """Refuse an epsilon below that of one row at a corner of the ball."""
        check_pure_epsilon(guarantee, excepted=False)
        least = (guarantee.max_rows or 1) * _l1_movement(limits, guarantee.neighbours) / self.scale
        if guarantee.epsilon is not None and guarantee.epsilon < least * (1 - SLACK):
            raise ValueError("the stated epsilon is smaller than the radius and the noise allow")


@dataclass(frozen=True)
class WishartNoise(MatrixNoise):
    """`scale` G^T G, rounded, G having `degrees_of_freedom` rows of standard normal numbers: uncorrelated entries."""

    distribution: ClassVar[str | None] = "wishart"
    label: ClassVar[str] = "Wishart"
    degrees_of_freedom: float
    scale: float

    @property
    def diagonal_variance(self) -> float:
        """The variance, with that of rounding."""
        return 2 * self.degrees_of_freedom * self.scale**2 + self.step**2 / 12

    @property
    def off_diagonal_variance(self) -> float:
        """The variance, with that of rounding."""
        return self.degrees_of_freedom * self.scale**2 + self.step**2 / 12

    @property
    def bias(self) -> float:
        """The mean, which a reader subtracts."""
        return self.degrees_of_freedom * self.scale

    def excepted_for_replacement(self, guarantee: Guarantee) -> float:
        """Return what two steps from table to table except, where a replacement takes two."""
        return guarantee.excepted_delta * steps_of_exception(
            guarantee.epsilon or 0.0, guarantee.neighbours.per_replacement
        )

    def check_guarantee(self, guarantee: Guarantee, limits: RowLimits) -> None:
        """Refuse a delta below that of one entry on the diagonal."""
        if (guarantee.max_rows or 1) > 1:
            raise ValueError("the guarantee of Wishart noise is for one row")
        check_pure_epsilon(guarantee, excepted=True)
        moved = limits.radius**2 + (0.0 if guarantee.neighbours.n_rows_public else limits.constant**2)
        least = _chi_squared_delta(self.degrees_of_freedom, moved / self.scale, guarantee.epsilon or 0.0)
        if guarantee.excepted_delta < least * (1 - CURVE_SLACK):
            raise ValueError("the stated delta is smaller than the radius and the noise allow")


@dataclass(frozen=True)
class WishartDifferenceNoise(MatrixNoise):
    """`scale` (G^T G - H^T H), rounded; G and H have `degrees_of_freedom` rows of standard normal numbers each."""

    distribution: ClassVar[str | None] = "wishart-difference"
    label: ClassVar[str] = "Wishart difference"
    degrees_of_freedom: float
    scale: float

    @property
    def diagonal_variance(self) -> float:
        """The variance, with that of rounding."""
        return 4 * self.degrees_of_freedom * self.scale**2 + self.step**2 / 12

    @property
    def off_diagonal_variance(self) -> float:
        """The variance, with that of rounding."""
        return 2 * self.degrees_of_freedom * self.scale**2 + self.step**2 / 12

    def check_guarantee(self, guarantee: Guarantee, limits: RowLimits) -> None:
        """Refuse an epsilon below that of two orthogonal rows, or too few degrees of freedom for any."""
        check_pure_epsilon(guarantee, excepted=True)
        if self.degrees_of_freedom < limits.n_features + bool(limits.constant) + 1:
            raise ValueError("the degrees of freedom are too few for a pure epsilon")
        least = (guarantee.max_rows or 1) * _nuclear_movement(limits, guarantee.neighbours) / (2 * self.scale)
        if guarantee.epsilon is not None and guarantee.epsilon < least * (1 - SLACK):
            raise ValueError("the stated epsilon is smaller than the radius and the noise allow")


_KINDS: dict[str | None, type[MatrixNoise]] = {
    kind.distribution: kind
    for kind in (MatrixNoise, RoundedGaussian, DiscreteLaplace, WishartNoise, WishartDifferenceNoise)
}


def noise_of(distribution: str | None, granularity: float | None, parameters: Mapping[str, float]) -> MatrixNoise:
    """Return the noise that a manifest states, or raise ValueError if its parameters are none of its kind."""
    kind = _KINDS[distribution]
    if set(parameters) != set(kind.parameter_names()) or min(parameters.values(), default=1.0) <= 0:
        raise ValueError("the noise's parameters are not those of its distribution")
    degrees = parameters.get("degrees_of_freedom", 3.0)
    if degrees != round(degrees) or degrees < 3:
        raise ValueError("the degrees of freedom are no whole number, or fewer than 3")
    return kind(granularity, **parameters)


def _l1_movement(limits: RowLimits, neighbours: Neighbours) -> float:
    """Return the L1 norm of the upper triangle by which a row with all z_j = R / sqrt(p), for one at 0, moves it."""
    r, c = limits.radius, limits.constant
    corner = 0.0 if neighbours.n_rows_public else c * c
    return r * r * (limits.n_features + 1) / 2 + c * r * math.sqrt(limits.n_features) + corner


def _nuclear_movement(limits: RowLimits, neighbours: Neighbours) -> float:
    """Return the nuclear norm by which a row of length R moves the sum, if one orthogonal to it goes, or none.

    (z, c) and (y, c) are orthogonal where z.y = -c^2; a single column has no such rows of full length.
    """
    return (limits.radius**2 + limits.constant**2) * (neighbours.nuclear if limits.n_features > 1 else 1.0)


def _chi_squared_delta(degrees: float, shift: float, epsilon: float) -> float:
    """Return delta at epsilon of chi-squared noise against the same noise moved upwards.

    With a = degrees / 2 the likelihood ratio ``(q / (q - s))^(a - 1) e^(-s / 2)`` falls in q, so that delta is
    ``F(q) - e^eps F(q - s)`` where it is e^eps: at ``q = s / (1 - exp(-(eps + s / 2) / (a - 1)))``.
    """
    a = degrees / 2
    exponent = (epsilon + shift / 2) / (a - 1)
    if not 0 < exponent < math.inf:
        return 1.0 if exponent else 0.0
    q = -shift / math.expm1(-exponent)
    from scipy import special

    moved = float(special.gammainc(a, max(q - shift, 0.0) / 2))
    rest = math.exp(min(0.0, epsilon + math.log(moved))) if moved else 0.0
    return max(0.0, float(special.gammainc(a, q / 2)) - rest)
