"""The noise on a covariance release in the manifest, with checks that its numbers belong together."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dp_bundle.manifest.base import Finite, Model, Name, Positive
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.guarantee_checks import SLACK, check_unit
from dp_bundle.manifest.matrix_noise import (
    DiscreteLaplace,
    MatrixNoise,
    RoundedGaussian,
    RowLimits,
    WishartDifferenceNoise,
    WishartNoise,
    noise_of,
)

_NOISE: dict[str, type[MatrixNoise]] = {
    "gaussian": RoundedGaussian,
    "sulq": RoundedGaussian,
    "laplace": DiscreteLaplace,
    "wishart": WishartNoise,
    "wishart-difference": WishartDifferenceNoise,
    "eigenvectors": MatrixNoise,
    "kapralov-talwar": MatrixNoise,
}


class SecondMoments(Model):
    """The noise on a covariance release, in units of the released matrix.

    That is the noisy sum over rows of (z, c)(z, c)^T, with z_j = (x_j - center_j) / half_width_j from each column's
    bounds, clipped to ||z|| <= `radius`, and c the `constant`. Noise has the mean `bias` times the identity, and where
    it acts entry by entry, a diagonal and an off-diagonal variance. `distribution` and `parameters`:

    `rounded-gaussian`: N(0, sigma^2), rounded to a multiple of `granularity`, with `diagonal_sigma` and
    `off_diagonal_sigma`. `discrete-laplace`: a multiple k of `granularity` with probability proportional to
    exp(-|k| `granularity` / `scale`). `wishart`: `scale` G^T G, rounded, where G has `degrees_of_freedom` rows of
    standard normal numbers; `wishart-difference`: one such matrix less another. None: the noise does not act entry by
    entry, and only its `granularity` is known. Then the publisher may state estimates, on which no guarantee rests, of
    the root mean square errors of the columns' diagonal and off-diagonal entries. Without a granularity, the matrix
    comes from an older version that drew it in floating point.
    """

    mechanism: Literal[
        "gaussian", "laplace", "wishart", "wishart-difference", "eigenvectors", "sulq", "kapralov-talwar"
    ]
    radius: Positive
    constant: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    granularity: Positive | None = None
    distribution: Literal["rounded-gaussian", "discrete-laplace", "wishart", "wishart-difference"] | None = None
    parameters: dict[Name, Finite] = Field(default_factory=dict)
    diagonal_variance: Positive | None = None
    off_diagonal_variance: Positive | None = None
    bias: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    estimated_diagonal_error: Positive | None = None
    estimated_off_diagonal_error: Positive | None = None

    @property
    def noise(self) -> MatrixNoise:
        """The noise that `distribution` and `parameters` state."""
        return noise_of(self.distribution, self.granularity, self.parameters)

    @model_validator(mode="after")
    def _check(self) -> SecondMoments:
        if self.constant > self.radius:
            raise ValueError("the constant is larger than the radius")
        if math.fmod(256 * self.constant, 1):
            raise ValueError("the constant is no multiple of 1/256")

        # the noise is of the mechanism's kind, and all of it is stated
        if self.distribution != _NOISE[self.mechanism].distribution:
            raise ValueError(f"{self.mechanism} has noise of another distribution")
        known = self.distribution is not None
        variances = (self.diagonal_variance, self.off_diagonal_variance)
        if any((value is not None) != known for value in variances) or (known and self.granularity is None):
            raise ValueError("variances, with a granularity, are stated exactly where noise acts entry by entry")

        estimated = {self.estimated_diagonal_error is None, self.estimated_off_diagonal_error is None}
        if estimated != {True} and (self.distribution is not None or estimated != {False}):
            raise ValueError("errors are estimated in pairs, and only where noise does not act entry by entry")
        if self.granularity is not None and math.frexp(self.granularity)[0] != 0.5:
            raise ValueError("the granularity is not a power of two")

        # and its numbers follow from its parameters
        noise = self.noise
        exact = (noise.diagonal_variance or 0.0, noise.off_diagonal_variance or 0.0, noise.bias)
        stated = (self.diagonal_variance or 0.0, self.off_diagonal_variance or 0.0, self.bias)
        if not all(math.isclose(one, other, rel_tol=SLACK) for one, other in zip(stated, exact, strict=True)):
            raise ValueError("the stated variances and mean are not those of the stated noise")
        return self

    def check_guarantee(self, guarantee: Guarantee, n_features: int) -> None:
        """Refuse, by ValueError, a guarantee that the noise cannot give."""
        check_unit(guarantee)
        if guarantee.unit == "cell" and not guarantee.neighbours.n_rows_public:
            raise ValueError("rows and entities may come and go, cells may not")
        if guarantee.bounds_mu or guarantee.centers_mu:
            raise ValueError("a covariance release has declared bounds and no centers, which cost nothing")
        if not (guarantee.neighbours.n_rows_public or self.constant):
            raise ValueError("the number of rows is private, and can only be read from a constant that is not there")
        self.noise.check_guarantee(guarantee, RowLimits(self.radius, self.constant, n_features))
