"""One noisy sum of (z, c)(z, c)^T over rows in the manifest, with checks that its numbers belong together."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dp_bundle.manifest.base import Finite, Model, Name, Positive
from dp_bundle.manifest.guarantee_checks import SLACK
from dp_bundle.manifest.matrix_noise import MatrixNoise, noise_of


class NoisyMatrix(Model):
    """The noise on a sum over rows of (z, c)(z, c)^T with ||z|| <= `radius` and c the `constant`, in its own units.

    Noise has the mean `bias` times the identity, and where it acts entry by entry, a diagonal and an off-diagonal
    variance. `distribution` and `parameters`:

    `rounded-gaussian`: N(0, sigma^2), rounded to a multiple of `granularity`, with `diagonal_sigma` and
    `off_diagonal_sigma`. `discrete-laplace`: a multiple k of `granularity` with probability proportional to
    exp(-|k| `granularity` / `scale`). `wishart`: `scale` G^T G, rounded, where G has `degrees_of_freedom` rows of
    standard normal numbers; `wishart-difference`: one such matrix less another. None: the noise does not act entry by
    entry, and only its `granularity` is known. Without a granularity, the matrix comes from an older version that drew
    it in floating point.
    """

    radius: Positive
    constant: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    granularity: Positive | None = None
    distribution: Literal["rounded-gaussian", "discrete-laplace", "wishart", "wishart-difference"] | None = None
    parameters: dict[Name, Finite] = Field(default_factory=dict)
    diagonal_variance: Positive | None = None
    off_diagonal_variance: Positive | None = None
    bias: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

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
        if any((value is not None) != known for value in variances) or (known and self.granularity is None):
            raise ValueError("variances, with a granularity, are stated exactly where noise acts entry by entry")
        if self.granularity is not None and math.frexp(self.granularity)[0] != 0.5:
            raise ValueError("the granularity is not a power of two")

        # and its numbers follow from its parameters
        noise = self.noise
        exact = (noise.diagonal_variance or 0.0, noise.off_diagonal_variance or 0.0, noise.bias)
        stated = (self.diagonal_variance or 0.0, self.off_diagonal_variance or 0.0, self.bias)
        if not all(math.isclose(one, other, rel_tol=SLACK) for one, other in zip(stated, exact, strict=True)):
            raise ValueError("the stated variances and mean are not those of the stated noise")
