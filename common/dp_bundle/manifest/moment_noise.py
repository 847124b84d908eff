"""The noise on a covariance release in the manifest, with checks that its numbers belong together."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from dp_bundle.manifest.base import Positive
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.guarantee_checks import check_unit
from dp_bundle.manifest.matrix_noise import (
    DiscreteLaplace,
    MatrixNoise,
    RoundedGaussian,
    RowLimits,
    WishartDifferenceNoise,
    WishartNoise,
)
from dp_bundle.manifest.noisy_matrix import NoisyMatrix
from dp_bundle.manifest.two_rounds import FourthMoment, check_rounds, check_two_rounds_guarantee

_NOISE: dict[str, type[MatrixNoise]] = {
    "gaussian": RoundedGaussian,
    "two-round": RoundedGaussian,
    "sulq": RoundedGaussian,
    "laplace": DiscreteLaplace,
    "wishart": WishartNoise,
    "wishart-difference": WishartDifferenceNoise,
    "eigenvectors": MatrixNoise,
    "kapralov-talwar": MatrixNoise,
}


class SecondMoments(NoisyMatrix):
    """The noise on a covariance release, in units of the released matrix.

    That is the noisy sum over rows of (z, c)(z, c)^T, with z_j = (x_j - center_j) / half_width_j from each column's
    bounds, clipped to ||z|| <= `radius`, and c the `constant`. Where noise does not act entry by entry, the publisher
    may state estimates, on which no guarantee rests, of the root mean square errors of the columns' diagonal and
    off-diagonal entries.

    Of a `two-round` release, this describes the final round. The `first_round` has a matrix of its own, and z is that
    of `two_rounds`, after values were clipped to `column_clip` scales about their centers.
    """

    mechanism: Literal[
        "gaussian",
        "two-round",
        "laplace",
        "wishart",
        "wishart-difference",
        "eigenvectors",
        "sulq",
        "kapralov-talwar",
    ]
    estimated_diagonal_error: Positive | None = None
    estimated_off_diagonal_error: Positive | None = None
    first_round: NoisyMatrix | None = None
    column_clip: Positive | None = None
    fourth_moment: FourthMoment | None = None

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
        if self.first_round is not None and self.column_clip is not None:
            check_rounds(self.first_round, self, self.column_clip)
        return self

    def check_guarantee(self, guarantee: Guarantee, n_features: int) -> None:
        """Refuse, by ValueError, a guarantee that the noise cannot give."""
        check_unit(guarantee)
        if guarantee.unit == "change":
            raise ValueError("changes of counts are no unit of privacy of second moments")
        if self.first_round is not None and self.fourth_moment is not None:
            check_two_rounds_guarantee(guarantee, self.first_round, self, self.fourth_moment, n_features)
            return
        if guarantee.unit == "cell" and not guarantee.neighbours.n_rows_public:
            raise ValueError("rows and entities may come and go, cells may not")
        if guarantee.bounds_mu or guarantee.centers_mu:
            raise ValueError("a covariance release has declared bounds and no centers, which cost nothing")
        if not (guarantee.neighbours.n_rows_public or self.constant):
            raise ValueError("the number of rows is private, and can only be read from a constant that is not there")
        self.noise.check_guarantee(guarantee, RowLimits(self.radius, self.constant, n_features))
