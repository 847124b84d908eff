"""The noise on a covariance release in the manifest, with checks that its numbers belong together."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dp_bundle.manifest.base import Finite, Model, Name, Positive
from dp_bundle.privacy import discrete_laplace_variance, rounded_gaussian_variance

__all__ = ["SecondMoments"]

_SLACK = 1e-9  # relative: what separately rounded floats may differ by
_DISTRIBUTIONS = {
    "gaussian": "rounded-gaussian",
    "sulq": "rounded-gaussian",
    "laplace": "discrete-laplace",
    "wishart": "wishart",
    "eigenvectors": None,
    "kapralov-talwar": None,
}
_PARAMETERS = {
    "rounded-gaussian": {"diagonal_sigma", "off_diagonal_sigma"},
    "discrete-laplace": {"scale"},
    "wishart": {"degrees_of_freedom", "scale"},
    None: set[str](),
}


class SecondMoments(Model):
    """The noise on a covariance release, in units of the released matrix.

    That is the noisy sum over rows of (z, c)(z, c)^T, with z_j = (x_j - center_j) / half_width_j from each column's
    bounds, clipped to ||z|| <= `radius`, and c the `constant`. Noise has the mean `bias` times the identity, and where
    it acts entry by entry a variance on the diagonal and one beside it. `distribution` and `parameters`:

    `rounded-gaussian`: N(0, sigma^2), rounded to a multiple of `granularity`, with `diagonal_sigma` and
    `off_diagonal_sigma`. `discrete-laplace`: a multiple k of `granularity` with probability proportional to
    exp(-|k| `granularity` / `scale`). `wishart`: `scale` G^T G, G having `degrees_of_freedom` rows of standard normal
    numbers; rounded. None: the noise does not act entry by entry, and no number of it is known but the `granularity`.
    Then the publisher may state an estimate, of no part in the guarantee, of the root mean square error of the columns'
    entries on the diagonal and beside it. Where even the granularity is missing, the matrix comes from an older version
    that drew it in floating point.
    """

    mechanism: Literal["gaussian", "laplace", "wishart", "eigenvectors", "sulq", "kapralov-talwar"]
    radius: Positive
    constant: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    granularity: Positive | None = None
    distribution: Literal["rounded-gaussian", "discrete-laplace", "wishart"] | None = None
    parameters: dict[Name, Finite] = Field(default_factory=dict)
    diagonal_variance: Positive | None = None
    off_diagonal_variance: Positive | None = None
    bias: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    estimated_diagonal_error: Positive | None = None
    estimated_off_diagonal_error: Positive | None = None

    @property
    def square(self) -> float:
        """The largest squared norm of (z, c): radius^2 + constant^2."""
        return self.radius * self.radius + self.constant * self.constant

    @model_validator(mode="after")
    def _check(self) -> SecondMoments:
        if self.constant > self.radius:
            raise ValueError("the constant is larger than the radius")
        if math.fmod(256 * self.constant, 1):
            raise ValueError("the constant is no multiple of 1/256")
        if self.distribution != _DISTRIBUTIONS[self.mechanism]:
            raise ValueError(f"{self.mechanism} has noise of another distribution")
        if set(self.parameters) != _PARAMETERS[self.distribution] or min(self.parameters.values(), default=1.0) <= 0:
            raise ValueError("the noise's parameters are not those of its distribution")
        known = self.distribution is not None
        variances = (self.diagonal_variance, self.off_diagonal_variance)
        if any((value is not None) != known for value in variances) or (known and self.granularity is None):
            raise ValueError("variances, with a granularity, are stated exactly where noise acts entry by entry")
        estimated = {self.estimated_diagonal_error is None, self.estimated_off_diagonal_error is None}
        if estimated != {True} and (self.distribution is not None or estimated != {False}):
            raise ValueError("errors are estimated in pairs, and only where noise does not act entry by entry")
        if self.granularity is not None and math.frexp(self.granularity)[0] != 0.5:
            raise ValueError("the granularity is not a power of two")
        exact = self._exact()
        stated = (self.diagonal_variance or 0.0, self.off_diagonal_variance or 0.0, self.bias)
        if not all(math.isclose(one, other, rel_tol=_SLACK) for one, other in zip(stated, exact, strict=True)):
            raise ValueError("the stated variances and mean are not those of the stated noise")
        return self

    def _exact(self) -> tuple[float, float, float]:
        """Return the variances on and beside the diagonal, and the mean, that the parameters give."""
        step, numbers = self.granularity or 1.0, self.parameters
        if self.distribution == "rounded-gaussian":
            sigmas = (numbers["diagonal_sigma"], numbers["off_diagonal_sigma"])
            diagonal, beside = (step * step * rounded_gaussian_variance(sigma / step) for sigma in sigmas)
            return diagonal, beside, 0.0
        if self.distribution == "discrete-laplace":
            variance = step * step * discrete_laplace_variance(numbers["scale"] / step)
            return variance, variance, 0.0
        if self.distribution == "wishart":
            degrees, scale = numbers["degrees_of_freedom"], numbers["scale"]
            if degrees != round(degrees) or degrees < 3:
                raise ValueError("the degrees of freedom are no whole number, or fewer than 3")
            beside, rounding = degrees * scale * scale, step * step / 12
            return 2 * beside + rounding, beside + rounding, degrees * scale
        return 0.0, 0.0, 0.0
