"""The kinds of noise that the matrix of a covariance release carries, and what each lets a reader check.

The sum of (z, c)(z, c)^T over rows with ||z|| <= R gets noise. Replacing a row moves it by at most ``sqrt(2) (R^2 +
c^2)`` in the Frobenius norm, as c <= R attains. One row more or less moves it by at most ``R^2 + c^2``. Let standard
deviations be s on the diagonal and t off it, where an entry counts twice in that norm. Then Gaussian noise has ``mu = D
max(1 / s, 1 / (sqrt(2) t))``. Of other noise a reader sees less, namely bounds from below:

- Laplace: epsilon is at least the L1 norm by which a row with all z_j = R / sqrt(p) moves the sum, over the scale;
- Wishart: the sum's entry along a direction u is chi-squared with m degrees of freedom. A row can move it by R^2, or by
  R^2 + c^2 where it is taken away, over the noise's scale. Delta at epsilon is at least that of this one entry;
- the difference of two Wishart matrices: epsilon is at least the nuclear norm by which two orthogonal rows move the
  sum, over twice the scale. That holds however it is divided between the matrices. With H the movement, the density at
  T H is ``exp(-T ||H||_* / 2 s)`` up to a polynomial in T. It changes by e^epsilon at most from T to T + 1. Where the
  corner is exact, all of this holds for the corner that makes the norm least, which for rows of equal length is 0. With
  fewer degrees of freedom than one more than the coordinates, the density has no bound, and there is no epsilon;
- noise that does not act entry by entry: nothing of epsilon shows in it. Drawn to a finite precision, on a grid, it
  excepts an event from its guarantee.

The noise on a covariance release in the manifest, with checks that its numbers belong together.

A covariance that was released in two rounds says what the second one needs to know of the first. Each round r
standardises the columns, u = (x - center_r) / scale_r. It adds noise to a sum of second moments of rows (y, c_r) with
||y|| <= R_r. In round 1, y = u. In round 2, y = B u, where B is the published transform. All values are clipped
beforehand to center_1 +- k scale_1, k the column clip. Centers and scales of round 2 and B come from what round 1
released, and cost nothing. Centers and scales of round 1, k and both radii were found privately, at a cost that is the
guarantee's `bounds_mu`.

A fourth moment of round 2 goes with them: replacing a row moves the sum over rows of (||y|| / R_2)^4 by at most 1.

References
----------
Dong, Roth & Su (2022) for mu.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from dp_bundle.manifest.columns import Finite, Model, Name, NotNegative, Positive
from dp_bundle.manifest.costs import steps_of_exception
from dp_bundle.manifest.guarantee import (
    CURVE_SLACK,
    SLACK,
    Guarantee,
    check_gaussian_strength,
    check_pure_epsilon,
    check_unit,
)
from dp_bundle.manifest.noise import Neighbours, discrete_laplace_variance, rounded_gaussian_variance


@dataclass(frozen=True)
class MatrixNoise:
    """Noise that does not act entry by entry, or, in classes made of this one, noise that does.

    Attributes
    ----------
    distribution : str or None
        What manifests call it.
    label : str
        What a person calls it.
    granularity : float
        Entries are multiples of this power of two.
    """

    distribution: ClassVar[str | None] = None
    label: ClassVar[str] = ""
    granularity: float

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the distribution's parameters."""
        return [field.name for field in fields(cls) if field.name != "granularity"]

    @property
    def parameters(self) -> dict[str, float]:
        """The distribution's parameters, in the matrix's units."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @property
    def variances(self) -> tuple[float, float] | None:
        """The exact variances of an entry on the diagonal and of one beside it, where noise acts entry by entry."""
        return None

    @property
    def diagonal_variance(self) -> float | None:
        """The first of `variances`."""
        return self.variances and self.variances[0]

    @property
    def off_diagonal_variance(self) -> float | None:
        """The second of `variances`."""
        return self.variances and self.variances[1]

    @property
    def bias(self) -> float:
        """The mean of the noise, as a multiple of the identity."""
        return 0.0

    def excepted_for_replacement(self, guarantee: Guarantee) -> float:
        """Return the delta that is excepted where a row is removed and another one added: for most, the same.

        What is computed to a finite precision is computed to one that leaves room for that.
        """
        return guarantee.excepted_delta

    def check_guarantee(self, guarantee: Guarantee, rows: NoisyMatrix, n_features: int) -> None:  # noqa: ARG002
        """Refuse, by ValueError, a guarantee that this noise cannot give for rows within a matrix's limits."""
        check_pure_epsilon(guarantee, excepted=True)


@dataclass(frozen=True)
class RoundedGaussian(MatrixNoise):
    """N(0, sigma^2), rounded to a multiple of the granularity; entries of the upper triangle are independent."""

    distribution = "rounded-gaussian"
    label = "Gaussian"
    diagonal_sigma: float
    off_diagonal_sigma: float

    @property
    def variances(self) -> tuple[float, float]:
        """The exact variances after rounding."""
        on, beside = (
            self.granularity**2 * rounded_gaussian_variance(sigma / self.granularity)
            for sigma in (self.diagonal_sigma, self.off_diagonal_sigma)
        )
        return on, beside

    def mu(self, guarantee: Guarantee, rows: NoisyMatrix) -> float:
        """Return the mu of the unit of privacy; refuse, by ValueError, a guarantee that is not accounted for by mu."""
        if guarantee.accountant != "gaussian-dp" or guarantee.mu is None:
            raise ValueError("Gaussian noise is accounted for by mu")
        if guarantee.epsilon is not None or (guarantee.excepted_delta and not guarantee.discovery_mu):
            raise ValueError("Gaussian noise gives no pure epsilon")
        sensitivity = (rows.radius**2 + rows.constant**2) * guarantee.neighbours.frobenius
        one_row = sensitivity * max(1 / self.diagonal_sigma, 1 / (math.sqrt(2.0) * self.off_diagonal_sigma))
        mu = (guarantee.max_rows or 1) * one_row
        if not 0 < mu < math.inf:
            raise ValueError("the radius and the noise give no guarantee")
        return mu

    def check_guarantee(self, guarantee: Guarantee, rows: NoisyMatrix, n_features: int) -> None:  # noqa: ARG002
        """Refuse a mu below what the noise leaves, or a guarantee that is not accounted for by mu."""
        check_gaussian_strength(guarantee, self.mu(guarantee, rows), with_curve=True)


@dataclass(frozen=True)
class DiscreteLaplace(MatrixNoise):
    """A multiple k of the granularity g with probability proportional to exp(-|k| g / scale), independent."""

    distribution = "discrete-laplace"
    label = "Laplace"
    scale: float

    @property
    def variances(self) -> tuple[float, float]:
        """The exact variance, twice."""
        variance = self.granularity**2 * discrete_laplace_variance(self.scale / self.granularity)
        return variance, variance

    def check_guarantee(self, guarantee: Guarantee, rows: NoisyMatrix, n_features: int) -> None:
        """Refuse an epsilon below that of one row at a corner of the ball."""
        check_pure_epsilon(guarantee, excepted=False)
        _check_least_epsilon(guarantee, _l1_movement(rows, n_features, guarantee.neighbours) / self.scale)


@dataclass(frozen=True)
class _Wishart(MatrixNoise):
    """Noise from matrices with `degrees_of_freedom` rows of standard normal numbers, of which there are `matrices`."""

    matrices: ClassVar[int]
    degrees_of_freedom: float
    scale: float

    @property
    def variances(self) -> tuple[float, float]:
        """The variances, with that of rounding."""
        beside = self.matrices * self.degrees_of_freedom * self.scale**2
        return 2 * beside + self.granularity**2 / 12, beside + self.granularity**2 / 12


@dataclass(frozen=True)
class WishartNoise(_Wishart):
    """`scale` G^T G, rounded, G having `degrees_of_freedom` rows of standard normal numbers: uncorrelated entries."""

    distribution = "wishart"
    label = "Wishart"
    matrices = 1

    @property
    def bias(self) -> float:
        """The mean, which a reader subtracts."""
        return self.degrees_of_freedom * self.scale

    def excepted_for_replacement(self, guarantee: Guarantee) -> float:
        """Return what two steps from table to table except, where a replacement takes two."""
        return guarantee.excepted_delta * steps_of_exception(
            guarantee.epsilon or 0.0, guarantee.neighbours.per_replacement
        )

    def check_guarantee(self, guarantee: Guarantee, rows: NoisyMatrix, n_features: int) -> None:  # noqa: ARG002
        """Refuse a delta below that of one entry on the diagonal."""
        if (guarantee.max_rows or 1) > 1:
            raise ValueError("the guarantee of Wishart noise is for one row")
        check_pure_epsilon(guarantee, excepted=True)
        moved = rows.radius**2 + (0.0 if guarantee.neighbours.n_rows_public else rows.constant**2)
        least = _chi_squared_delta(self.degrees_of_freedom, moved / self.scale, guarantee.epsilon or 0.0)
        if guarantee.excepted_delta < least * (1 - CURVE_SLACK):
            raise ValueError("the stated delta is smaller than the radius and the noise allow")


@dataclass(frozen=True)
class WishartDifferenceNoise(_Wishart):
    """`scale` (G^T G - H^T H), rounded; G and H have `degrees_of_freedom` rows of standard normal numbers each."""

    distribution = "wishart-difference"
    label = "Wishart difference"
    matrices = 2

    def check_guarantee(self, guarantee: Guarantee, rows: NoisyMatrix, n_features: int) -> None:
        """Refuse an epsilon below that of two orthogonal rows, or too few degrees of freedom for any."""
        check_pure_epsilon(guarantee, excepted=True)
        if self.degrees_of_freedom < n_features + bool(rows.constant) + 1:
            raise ValueError("the degrees of freedom are too few for a pure epsilon")
        # (z, c) and (y, c) are orthogonal where z.y = -c^2; a single column has no such rows of full length
        nuclear = guarantee.neighbours.nuclear if n_features > 1 else 1.0
        _check_least_epsilon(guarantee, (rows.radius**2 + rows.constant**2) * nuclear / (2 * self.scale))


_KINDS: dict[str | None, type[MatrixNoise]] = {
    kind.distribution: kind
    for kind in (MatrixNoise, RoundedGaussian, DiscreteLaplace, WishartNoise, WishartDifferenceNoise)
}


def noise_of(distribution: str | None, granularity: float, parameters: Mapping[str, float]) -> MatrixNoise:
    """Return the noise that a manifest states, or raise ValueError if its parameters are none of its kind."""
    kind = _KINDS[distribution]
    if set(parameters) != set(kind.parameter_names()) or min(parameters.values(), default=1.0) <= 0:
        raise ValueError("the noise's parameters are not those of its distribution")
    degrees = parameters.get("degrees_of_freedom", 3.0)
    if degrees != round(degrees) or degrees < 3:
        raise ValueError("the degrees of freedom are no whole number, or fewer than 3")
    return kind(granularity, **parameters)


def _check_least_epsilon(guarantee: Guarantee, of_one_row: float) -> None:
    """Refuse an epsilon below that of one row, as often as there are rows of one entity."""
    least = (guarantee.max_rows or 1) * of_one_row
    if guarantee.epsilon is not None and guarantee.epsilon < least * (1 - SLACK):
        raise ValueError("the stated epsilon is smaller than the radius and the noise allow")


def _l1_movement(rows: NoisyMatrix, n_features: int, neighbours: Neighbours) -> float:
    """Return the L1 norm of the upper triangle by which a row with all z_j = R / sqrt(p), for one at 0, moves it."""
    r, c = rows.radius, rows.constant
    corner = 0.0 if neighbours.n_rows_public else c * c
    return r * r * (n_features + 1) / 2 + c * r * math.sqrt(n_features) + corner


def _chi_squared_delta(degrees: float, shift: float, epsilon: float) -> float:
    """Return delta at epsilon of chi-squared noise against the same noise moved upwards.

    With a = degrees / 2 the likelihood ratio ``(q / (q - s))^(a - 1) e^(-s / 2)`` falls in q. So delta is ``F(q) -
    e^eps F(q - s)`` where it is e^eps, at ``q = s / (1 - exp(-(eps + s / 2) / (a - 1)))``.
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


class NoisyMatrix(Model):
    """The noise on a sum over rows of (z, c)(z, c)^T with ||z|| <= `radius` and c the `constant`, in its own units.

    Noise has the mean `bias` times the identity, and where it acts entry by entry, a diagonal and an off-diagonal
    variance. `distribution` and `parameters`:

    `rounded-gaussian`: N(0, sigma^2), rounded to a multiple of `granularity`, with `diagonal_sigma` and
    `off_diagonal_sigma`. `discrete-laplace`: a multiple k of `granularity` with probability proportional to
    exp(-|k| `granularity` / `scale`). `wishart`: `scale` G^T G, rounded, where G has `degrees_of_freedom` rows of
    standard normal numbers; `wishart-difference`: one such matrix less another. None: the noise does not act entry by
    entry, and only its `granularity` is known.
    """

    radius: Positive
    constant: NotNegative
    granularity: Positive
    distribution: Literal["rounded-gaussian", "discrete-laplace", "wishart", "wishart-difference"] | None = None
    parameters: dict[Name, Finite] = Field(default_factory=dict)
    diagonal_variance: Positive | None = None
    off_diagonal_variance: Positive | None = None
    bias: NotNegative = 0.0

    @property
    def noise(self) -> MatrixNoise:
        """The noise that `distribution` and `parameters` state."""
        return noise_of(self.distribution, self.granularity, self.parameters)

    @model_validator(mode="after")
    def _check(self) -> NoisyMatrix:
        self.check_noise()
        return self

    def check_noise(self) -> None:
        """Refuse, by ValueError, numbers that contradict each other."""
        if self.constant > self.radius:
            raise ValueError("the constant is larger than the radius")
        if math.fmod(256 * self.constant, 1):
            raise ValueError("the constant is no multiple of 1/256")

        # all of the noise is stated
        known = self.distribution is not None
        variances = (self.diagonal_variance, self.off_diagonal_variance)
        if any((value is not None) != known for value in variances):
            raise ValueError("variances are stated exactly where noise acts entry by entry")
        if math.frexp(self.granularity)[0] != 0.5:
            raise ValueError("the granularity is not a power of two")

        # and its numbers follow from its parameters
        noise = self.noise
        exact = (*(noise.variances or (0.0, 0.0)), noise.bias)
        stated = (self.diagonal_variance or 0.0, self.off_diagonal_variance or 0.0, self.bias)
        if not all(math.isclose(one, other, rel_tol=SLACK) for one, other in zip(stated, exact, strict=True)):
            raise ValueError("the stated variances and mean are not those of the stated noise")


_MOST = 1e9  # radii, and the column clip, in standardised units
_NOISE: dict[str, type[MatrixNoise]] = {
    "gaussian": RoundedGaussian,
    "two-round": RoundedGaussian,
    "laplace": DiscreteLaplace,
    "wishart": WishartNoise,
    "wishart-difference": WishartDifferenceNoise,
    "eigenvectors": MatrixNoise,
}


class FourthMoment(Model):
    """A noisy sum over rows of (||y|| / R_2)^4: N(0, sigma^2) is added, rounded to a multiple of the granularity."""

    total: Finite
    sigma: Positive
    granularity: Positive

    @property
    def variance(self) -> float:
        """The exact variance of the noise."""
        return self.granularity**2 * rounded_gaussian_variance(self.sigma / self.granularity)

    @model_validator(mode="after")
    def _check(self) -> FourthMoment:
        if math.frexp(self.granularity)[0] != 0.5:
            raise ValueError("the granularity of the fourth moment is not a power of two")
        if math.fmod(self.total, self.granularity):
            raise ValueError("the fourth moment is no multiple of its granularity")
        if not 0 < self.variance < math.inf:
            raise ValueError("the noise of the fourth moment has no variance")
        return self


class Margins(Model):
    """Noisy counts of rows by cell, for each raw column: round(N(0, sigma^2)) is added to every count.

    Replacing a row moves two counts of each raw column by 1.
    """

    sigma: Positive

    @property
    def variance(self) -> float:
        """The exact variance of the noise on a count."""
        return rounded_gaussian_variance(self.sigma)

    def mu(self, n_raw: int, max_rows: int = 1) -> float:
        """Return the mu of the histograms of so many raw columns, for so many rows."""
        return max_rows * math.sqrt(2 * n_raw) / self.sigma

    @model_validator(mode="after")
    def _check(self) -> Margins:
        if not 0.05 <= self.sigma <= _MOST:
            raise ValueError("the noise on the histograms is none that counts can have")
        return self


class SecondMoments(NoisyMatrix):
    """The noise on a covariance release, in units of the released matrix.

    That is the noisy sum over rows of (z, c)(z, c)^T, with z_j = (x_j - center_j) / half_width_j from each column's
    bounds. The row z is clipped to ||z|| <= `radius`, and c is the `constant`. Where noise does not act entry by entry,
    the publisher may state estimates, on which no guarantee rests. They are of the root mean square errors of the
    columns' diagonal and off-diagonal entries.

    Of a `two-round` release, this describes the final round. The `first_round` has a matrix of its own, and z is that
    of `two_rounds`, after values were clipped to `column_clip` scales about their centers. With `margins`, there is
    a histogram of each column, and the values of some may have been replaced by normal scores before all else.
    """

    mechanism: Literal["gaussian", "two-round", "laplace", "wishart", "wishart-difference", "eigenvectors"]
    estimated_diagonal_error: Positive | None = None
    estimated_off_diagonal_error: Positive | None = None
    first_round: NoisyMatrix | None = None
    column_clip: Positive | None = None
    fourth_moment: FourthMoment | None = None
    margins: Margins | None = None

    @model_validator(mode="after")
    def _check(self) -> SecondMoments:
        if self.distribution != _NOISE[self.mechanism].distribution:
            raise ValueError(f"{self.mechanism} has noise of another distribution")
        self.check_noise()
        estimated = {self.estimated_diagonal_error is None, self.estimated_off_diagonal_error is None}
        if estimated != {True} and (self.distribution is not None or estimated != {False}):
            raise ValueError("errors are estimated in pairs, and only where noise does not act entry by entry")

        two_rounds = self.mechanism == "two-round"
        if any((each is not None) != two_rounds for each in (self.first_round, self.column_clip, self.fourth_moment)):
            raise ValueError("a first round, a column clip and a fourth moment are stated exactly with two rounds")
        if self.margins is not None and not two_rounds:
            raise ValueError("histograms go with two rounds")
        if self.first_round is not None and self.column_clip is not None:
            if {self.first_round.distribution, self.distribution} != {RoundedGaussian.distribution}:
                raise ValueError("both rounds have Gaussian noise")
            if not (self.first_round.constant and self.constant):
                raise ValueError("both rounds have a constant")
            if max(self.first_round.radius, self.radius, self.column_clip) > _MOST:
                raise ValueError("a radius or the column clip is larger than that of any release")
        return self

    def check_guarantee(self, guarantee: Guarantee, n_features: int, n_raw: int | None = None) -> None:
        """Refuse, by ValueError, a guarantee that the noise cannot give.

        Parameters
        ----------
        guarantee : Guarantee
            What is stated.
        n_features, n_raw : int
            The numbers of published columns, and of raw ones behind them, as many by default.
        """
        check_unit(guarantee)
        if guarantee.unit == "change":
            raise ValueError("changes of counts are no unit of privacy of second moments")
        if self.first_round is not None and self.fourth_moment is not None:
            self._check_guarantee_of_rounds(guarantee, self.first_round, self.fourth_moment, n_raw or n_features)
            return
        if guarantee.unit == "cell" and not guarantee.neighbours.n_rows_public:
            raise ValueError("rows and entities may come and go, cells may not")
        if guarantee.bounds_mu:
            raise ValueError("a covariance release has declared bounds, which cost nothing")
        if not (guarantee.neighbours.n_rows_public or self.constant):
            raise ValueError("the number of rows is private, and can only be read from a constant that is not there")
        self.noise.check_guarantee(guarantee, self, n_features)

    def _check_guarantee_of_rounds(
        self, guarantee: Guarantee, first: NoisyMatrix, fourth: FourthMoment, n_raw: int
    ) -> None:
        """Refuse a guarantee better than that of all that was found privately and of both rounds."""
        if not guarantee.neighbours.n_rows_public:
            raise ValueError("two rounds are private for replaced rows")
        if not guarantee.bounds_mu:
            raise ValueError("two rounds have radii that were found privately, at a cost")
        mus = [guarantee.bounds_mu, guarantee.discovery_mu, (guarantee.max_rows or 1) / fourth.sigma]
        if self.margins is not None:
            mus.append(self.margins.mu(n_raw, guarantee.max_rows or 1))
        for each in (first, self):
            noise = each.noise
            if not isinstance(noise, RoundedGaussian):
                raise TypeError("both rounds have Gaussian noise")
            mus.append(noise.mu(guarantee, each))
        check_gaussian_strength(guarantee, math.hypot(*mus), with_curve=True)
