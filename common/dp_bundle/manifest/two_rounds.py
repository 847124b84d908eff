"""A covariance that was released in two rounds: what the second one needs to know of the first.

Each round r standardises the columns, u = (x - center_r) / scale_r, and adds noise to a sum of second moments of rows
(y, c_r) with ||y|| <= R_r: of y = u in round 1, and of y = B u in round 2, where B is the published transform.
All values are clipped beforehand to center_1 +- k scale_1, k the column clip. Centers and scales of round 2 and B come
from what round 1 released, and cost nothing; centers and scales of round 1, k and both radii were found privately, at
a cost that is the guarantee's `bounds_mu`.

A fourth moment of round 2 goes with them: replacing a row moves the sum over rows of (||y|| / R_2)^4 by at most 1.
"""

from __future__ import annotations

import math

from pydantic import model_validator

from dp_bundle.manifest.base import Finite, Model, Positive
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.guarantee_checks import check_gaussian_strength
from dp_bundle.manifest.matrix_noise import RoundedGaussian, RowLimits
from dp_bundle.manifest.noisy_matrix import NoisyMatrix
from dp_bundle.privacy.noise import rounded_gaussian_variance

MOST = 1e9  # radii, and the column clip, in standardised units
ROUNDS = 2


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


def check_rounds(first: NoisyMatrix, final: NoisyMatrix, column_clip: float) -> None:
    """Refuse, by ValueError, two rounds that cannot be read together."""
    if {first.distribution, final.distribution} != {RoundedGaussian.distribution}:
        raise ValueError("both rounds have Gaussian noise")
    if not (first.constant and final.constant):
        raise ValueError("both rounds have a constant")
    if max(first.radius, final.radius, column_clip) > MOST:
        raise ValueError("a radius or the column clip is larger than that of any release")


def check_two_rounds_guarantee(
    guarantee: Guarantee, first: NoisyMatrix, final: NoisyMatrix, fourth: FourthMoment, n_features: int
) -> None:
    """Refuse, by ValueError, a guarantee better than that of all that was found privately and of both rounds."""
    if not guarantee.neighbours.n_rows_public:
        raise ValueError("two rounds are private for replaced rows")
    if not guarantee.bounds_mu or guarantee.centers_mu:
        raise ValueError("two rounds have radii that were found privately, at a cost, and no rows at a center")
    mus = [guarantee.bounds_mu, (guarantee.max_rows or 1) / fourth.sigma]
    for each in (first, final):
        noise = each.noise
        if not isinstance(noise, RoundedGaussian):
            raise TypeError("both rounds have Gaussian noise")
        mus.append(noise.mu(guarantee, RowLimits(each.radius, each.constant, n_features)))
    check_gaussian_strength(guarantee, math.hypot(*mus), with_curve=True)
