"""The difference of two Wishart matrices as noise on the second moments: pure epsilon.

The noise is s (G^T G - H^T H), where G and H have d + 1 rows of d standard normal numbers each, and

    s = D / (2 epsilon),

D being the sensitivity of the sum in the nuclear norm (`scaling`): N^2 for one row more or less, 2 N^2 for a row
that is replaced. A Wishart matrix of d + 1 degrees of freedom has the density ``K exp(-tr A / 2 s)`` over all positive
definite A, and nothing else. Let P and Q be positive semidefinite. As A + P and B + Q are positive definite wherever A
and B are, the density f of A - B at X + P - Q is at least that part of it where both exceed P and Q:

    f(X + P - Q) >= integral of K^2 exp(-tr(A + P + B + Q) / 2 s) over A - B = X  =  exp(-(tr P + tr Q) / 2 s) f(X).

Neighbouring sums differ by P - Q with tr P + tr Q <= D, so that f changes by a factor of at most e^epsilon, either way.
The page docs/reference/proofs.md has every step, why s cannot be smaller, and why the constant's own entry may be exact
where it is public. Entries are uncorrelated, of mean zero and variance 4 (d + 1) s^2 on the diagonal and 2 (d + 1) s^2
off it.

**Precision.** That speaks of real numbers. Released is the sum of the exact moments and the noise of normal numbers to
P places. It is computed exactly (`exact_products`) and rounded to a grid of g, at most s / 256. It differs from the
ideal mechanism's sum, rounded alike, with a chance below 2^-t, whatever the data. As t is `security_for` the unit's
epsilon, the guarantee excepts less than 2^-40. Let b be d's length in bits, so that d < 2^b and m = d + 1 <= 2^b.

- One of 2 m d normal numbers is wrong with a chance of at most 2^(16 - P) (`fixed_point`).
- One of 2 d columns is longer than sqrt(m) + r with a chance of at most exp(-r^2 / 2), r^2 = 2 ln 2 (t + b + 3).
- Otherwise, numbers being within 2^-(P + 1) of normal ones, an entry is off by at most ``e = 2 s sqrt(m) (sqrt(m) + r +
  1) 2^-P``. The noise of an entry has a unimodal density of at most 1 / (2 s). For it is s or s / 2 times a difference
  of chi-squared variables of at least three degrees of freedom. These are log-concave with densities below 1/4. So it
  is within e of the middle between two steps with a chance of at most 2 e (1 / g + 2 / (2 s)) <= 4 e / g. There are d
  (d + 1) / 2 entries. The step g is above s / 512, and sqrt(m) (sqrt(m) + r + 1) <= 2^b (r + 2).

With ``P = t + 3 b + 13 + (t's length in bits)`` these chances are below 2^-(t + 3), 2^-(t + 2) and 2^-(t + 2).

References
----------
Muirhead (1982), Aspects of multivariate statistical theory, theorem 3.2.1, for the density. Mirsky (1960), for the
nuclear norm. We know of no earlier use of the difference.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats
from dp_bundle.manifest.matrix_noise import MatrixNoise, WishartDifferenceNoise
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import (
    EXCEPTED_DELTA,
    NoisyMoments,
    PureMechanism,
    grid_for,
    released,
    security_for,
)
from dp_publish.covariance.mechanisms.exact_products import LIMB, add_and_round, gram_in_parts, limbs_of
from dp_publish.covariance.scaling import UP, nuclear_sensitivity
from dp_publish.sampling.fixed_point import precise_normals
from dp_publish.sampling.keystream import Keystream

_FINENESS = 8
_SIZE_BITS = 12  # of a normal number; far beyond what the table of a sampler holds
_MOST_CHOSEN = 1000  # coordinates: its time grows with the cube, half a minute here


@dataclass(frozen=True)
class WishartDifference(PureMechanism):
    """Noise that is one Wishart matrix less another, of the fewest degrees of freedom that are private."""

    name: ClassVar[str] = "wishart-difference"
    noise: ClassVar[type[MatrixNoise]] = WishartDifferenceNoise
    excepted_delta: ClassVar[float] = EXCEPTED_DELTA

    @property
    def sensitivity(self) -> float:
        """The most that one row moves the sum in the nuclear norm."""
        return nuclear_sensitivity(self.scaling, self.neighbours)

    @property
    def degrees(self) -> int:
        """The degrees of freedom, one more than the coordinates: with fewer, no epsilon would do."""
        return self.scaling.n_coordinates + 1

    @property
    def scale(self) -> float:
        """The scale s of both Wishart matrices, in the matrix's units, rounded up."""
        return self.sensitivity / (2 * self.row_epsilon) * UP

    @property
    def places(self) -> int:
        """The binary places of the normal numbers."""
        security, bits = security_for(self.strength.epsilon), self.scaling.n_coordinates.bit_length()
        return security + 3 * bits + 13 + security.bit_length()

    @property
    def off_diagonal_variance(self) -> float:
        """Twice the degrees of freedom times the square of the scale."""
        return 2 * self.degrees * self.scale**2

    def draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return the second moments with noise, epsilon-differentially private but for 2^-40; see `Mechanism`."""
        scale, places, shape = self.scale, self.places, (self.degrees, self.scaling.n_coordinates)
        grid = grid_for(scale, _FINENESS)
        noise = _wishart(*shape, places, rng) - _wishart(*shape, places, rng)
        matrix = add_and_round(moments.steps, noise, 2 * (places + 1), scale, grid)
        return released(self, matrix, moments, WishartDifferenceNoise(grid.step, float(self.degrees), scale))

    def expected_error(self, n_rows: int) -> float | None:
        """Return the root mean square; None where it takes too long."""
        return None if self.scaling.n_coordinates > _MOST_CHOSEN else super().expected_error(n_rows)


def _wishart(m: int, d: int, places: int, rng: Keystream) -> NDArray[Any]:
    """Return G^T G for m rows of d normal numbers, in units of 2^-(2 places + 2), as Python integers."""

    def draw(rows: int) -> tuple[list[Floats], range]:
        numbers = np.array(precise_normals(rows * d, places, rng), dtype=object).reshape(rows, d)
        limbs = limbs_of(numbers, places + _SIZE_BITS)
        return limbs, range(0, LIMB * len(limbs), LIMB)

    return gram_in_parts(m, d, draw)


MECHANISM = WishartDifference
