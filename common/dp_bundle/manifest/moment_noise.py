"""The noise on a covariance release in the manifest, with checks that its numbers belong together.

A covariance that was released in two rounds says what the second one needs to know of the first. Each round r
standardises the columns, u = (x - center_r) / scale_r, and adds noise to a sum of second moments of rows (y, c_r) with
||y|| <= R_r: of y = u in round 1, and of y = B u in round 2, where B is the published transform. All values are clipped
beforehand to center_1 +- k scale_1, k the column clip. Centers and scales of round 2 and B come from what round 1
released, and cost nothing; centers and scales of round 1, k and both radii were found privately, at a cost that is the
guarantee's `bounds_mu`.

A fourth moment of round 2 goes with them: replacing a row moves the sum over rows of (||y|| / R_2)^4 by at most 1.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import model_validator

from dp_bundle.manifest.base import Finite, Model, Positive
from dp_bundle.manifest.guarantee import Guarantee, check_gaussian_strength, check_unit
from dp_bundle.manifest.matrix_noise import (
    DiscreteLaplace,
    MatrixNoise,
    NoisyMatrix,
    RoundedGaussian,
    WishartDifferenceNoise,
    WishartNoise,
)
from dp_bundle.privacy.noise import rounded_gaussian_variance

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
    bounds, clipped to ||z|| <= `radius`, and c the `constant`. Where noise does not act entry by entry, the publisher
    may state estimates, on which no guarantee rests, of the root mean square errors of the columns' diagonal and
    off-diagonal entries.

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
            self._check_rounds(self.first_round, self.column_clip)
        return self

    def _check_rounds(self, first: NoisyMatrix, column_clip: float) -> None:
        """Refuse two rounds that cannot be read together."""
        if {first.distribution, self.distribution} != {RoundedGaussian.distribution}:
            raise ValueError("both rounds have Gaussian noise")
        if not (first.constant and self.constant):
            raise ValueError("both rounds have a constant")
        if max(first.radius, self.radius, column_clip) > _MOST:
            raise ValueError("a radius or the column clip is larger than that of any release")

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
