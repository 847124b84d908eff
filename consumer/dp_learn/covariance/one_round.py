"""A covariance that was released in one round, as a noisy sum of (z, c)(z, c)^T over rows, and the law of its noise.

With noise E of variance t on its off-diagonal entries and u on its diagonal, the form b_i' S^ b_j errs, to first order
in 1/n, by b~_i' E b~_j / n, where b~ = (h b, -(h b)'m / c) for columns of half-width h and scaled mean m beside the
constant c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import EstimationError
from dp_bundle.data.recovery import mean_and_covariance
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.moment_noise import SecondMoments
from dp_learn.covariance.estimate import (
    FormErrors,
    Part,
    ReleasedCovariance,
    fourth_order,
    inner_product,
    isserlis,
    one_entry,
    squares_of_pairs,
)
from dp_learn.matrices.linalg import FloatArray, dense, draw_symmetric, sandwich, scale_columns


def debias_one_round(
    moments: SecondMoments, matrix: FloatArray, columns: Sequence[Column], n_rows: int | None
) -> tuple[FloatArray, ReleasedCovariance]:
    """Return the mean and the debiased covariance of a noisy sum, in data units.

    Parameters
    ----------
    moments : SecondMoments
        What the manifest says of the matrix.
    matrix : ndarray of shape (d, d)
        The noisy sum, with the constant last where there is one.
    columns : sequence of Column
        The columns, in the order of the matrix.
    n_rows : int or None
        The number of rows where it is public; otherwise it is read from the matrix.

    Raises
    ------
    EstimationError
        There are fewer than two rows, or the noise hides how many there are.
    """
    bounds = np.array([column.bounds for column in columns], dtype=float)
    centers, half_widths = 0.5 * bounds[:, 0] + 0.5 * bounds[:, 1], 0.5 * bounds[:, 1] - 0.5 * bounds[:, 0]
    mean, covariance, rows = mean_and_covariance(
        matrix,
        centers,
        half_widths,
        moments.constant,
        n_rows=n_rows,
        bias=moments.bias,
        off_diagonal_variance=moments.off_diagonal_variance or 0.0,
    )

    counted, estimated = n_rows is not None, moments.estimated_diagonal_error is not None
    if counted and not rows >= 2:
        raise EstimationError("a covariance needs at least two rows, and the release has one")
    if not rows >= 2:
        raise EstimationError("the noise hides how many rows there are: learn from a release with less noise")

    t = moments.off_diagonal_variance or _square(moments.estimated_off_diagonal_error)
    u = moments.diagonal_variance or _square(moments.estimated_diagonal_error)
    noise = None
    if t is not None and u is not None:
        scaled_mean = (mean - centers) / half_widths
        noise = OneRound(round(rows), half_widths, scaled_mean, moments.constant, u, t, exact_count=counted)
    debiased = covariance * (rows / (rows - 1))
    return mean, ReleasedCovariance(round(rows), debiased, noise, estimated=estimated)


def _square(error: float | None) -> float | None:
    return None if error is None else error * error


@dataclass(frozen=True)
class OneRound:
    """The law of the noise on a covariance that was released in one round.

    Attributes
    ----------
    n_rows : int
        How many rows, as stated or as read from the release.
    half_widths : ndarray of shape (n_features,)
        Of the columns' bounds: one unit of z, in data units.
    scaled_mean : ndarray of shape (n_features,)
        The mean of z.
    constant : float
        c; 0 if the sum was released without a constant coordinate.
    diagonal_variance, off_diagonal_variance : float
        The variances u and t of the noise on the sum, uncorrelated between entries.
    exact_count : bool
        Whether the constant's own entry, which counts the rows, is exact.
    """

    n_rows: int
    half_widths: FloatArray
    scaled_mean: FloatArray
    constant: float
    diagonal_variance: float
    off_diagonal_variance: float
    exact_count: bool = True

    def keep(self, kept: npt.NDArray[np.int64]) -> OneRound:
        """Return the noise on some of the columns."""
        return replace(self, half_widths=self.half_widths[kept], scaled_mean=self.scaled_mean[kept])

    def of_forms(self, forms: FloatArray) -> OneRound:
        """Return the noise on forms of the columns of which no two have one in common.

        Their noise is as if they were columns themselves: exactly where u is 2t, and off the diagonal where not.
        """
        h = np.sqrt(forms**2 @ self.half_widths**2)
        return replace(self, half_widths=h, scaled_mean=forms @ (self.half_widths * self.scaled_mean) / h)

    def of_share(self, share: float) -> OneRound:
        """Return the law of as much noise on the sums over a share of the rows."""
        return replace(self, n_rows=max(2, round(share * self.n_rows)))

    def draw(self, rng: np.random.Generator, covariance: FloatArray) -> FloatArray:
        """Return noise drawn from the law: B~ E B~' / n, with the error of an inexact row count."""
        scaled = np.diag(self.half_widths)
        corner = np.zeros(len(scaled))
        if self.constant:
            corner = -self.half_widths * self.scaled_mean / self.constant
            scaled = np.column_stack([scaled, corner])
        noise = draw_symmetric(rng, scaled.shape[1])
        diagonal = noise.diagonal() * np.sqrt(self.diagonal_variance / 2.0)
        noise *= np.sqrt(self.off_diagonal_variance)
        np.fill_diagonal(noise, diagonal)
        drawn = sandwich(scaled, noise)
        if self.constant:
            exact = np.outer(corner, corner) if self.exact_count else covariance / self.constant**2
            drawn -= noise[-1, -1] * exact
        return drawn / self.n_rows

    def form_errors(self, c: FloatArray, b: Any) -> Part:
        """Return the errors of b~_i' E b~_j / n, with those that an inexact row count causes.

        With N = B~ B~', t (n_ii n_jj + n_ij^2) + (u - 2t) sum_k b~_ik^2 b~_jk^2, over n^2.
        """
        t, u = self.off_diagonal_variance, self.diagonal_variance
        scaled = dense(scale_columns(b, self.half_widths))
        corner = np.zeros(len(scaled))
        if self.constant:
            corner = -(scaled @ self.scaled_mean) / self.constant
            scaled = np.column_stack([scaled, corner])
        n = scaled @ scaled.T
        square = scaled * scaled
        squares, cubes = square @ square.T, (square * scaled) @ scaled.T
        own = np.outer(corner, corner)

        def part(rows: slice) -> FormErrors:
            errors = isserlis(n, n, rows).times(t) + fourth_order(squares, cubes, rows).times(u - 2.0 * t)
            if self.constant:  # above, the constant's own entry was counted as if it were any other
                errors = errors + one_entry(own, rows).times(-u)
                if not self.exact_count:
                    errors = errors + one_entry(own - c / self.constant**2, rows).times(u)
            return errors.times(1.0 / self.n_rows**2)

        return part

    def entry_variances(self, deviations: FloatArray, correlation: FloatArray | None) -> FloatArray:
        """Return the noise's part of the variances of entries on the correlation scale.

        Off the diagonal it is (t |b~_i|^2 |b~_j|^2 - t o_ij^2) / n^2 with b~_i = (h_i, -h_i m_i / c) and
        o_ij = h_i m_i h_j m_j / c^2.
        """
        t, u = self.off_diagonal_variance, self.diagonal_variance
        h = self.half_widths / deviations
        corner = -h * self.scaled_mean / self.constant if self.constant else np.zeros_like(h)
        length = h * h + corner * corner
        part = np.outer(t * length, length)
        part -= np.outer(t * corner**2, corner**2)
        np.fill_diagonal(part, 2.0 * part.diagonal() + (u - 2.0 * t) * h**4)
        if self.constant and not self.exact_count:
            own = np.outer(corner, corner)
            own -= (np.eye(len(own)) if correlation is None else correlation) / self.constant**2
            part += u * own * own
        part /= self.n_rows**2
        return part

    def variances_of_variances(self) -> FloatArray:
        """Return the variances, in data units to the fourth, of the debiased variances of columns of noise alone."""
        h = self.half_widths
        return self.entry_variances(np.ones_like(h), np.zeros(h.shape * 2)).diagonal().copy()

    def sum_over_pairs(self, b: Any, c: Any) -> float:
        """Return the sum over i < j of the noise's variance of b_i' S^ b_j, with C of unit diagonal, sparse or not."""
        t, u = self.off_diagonal_variance, self.diagonal_variance
        scaled = scale_columns(b, self.half_widths)
        corner = -(scaled @ self.scaled_mean) / self.constant if self.constant else np.zeros(b.shape[0])
        inner = scaled @ scaled.T
        d = inner.diagonal() + corner * corner
        size = inner_product(inner, inner) + 2.0 * float(corner @ (inner @ corner)) + float(corner @ corner) ** 2
        own = (float(corner @ corner) ** 2 - float((corner**4).sum())) / 2.0
        total = t * ((float(d.sum()) ** 2 + size) / 2.0 - float(d @ d))
        total += (u - 2.0 * t) * (float(squares_of_pairs(scaled).sum()) + own)
        if self.constant:
            total -= u * own
            if not self.exact_count:  # the constant's entry counts the rows, and multiplies C by its own error
                crossed = (float(corner @ (c @ corner)) - float(corner @ corner)) / self.constant**2
                total += u * (own - crossed + (inner_product(c, c) - len(corner)) / 2.0 / self.constant**4)
        return total / self.n_rows**2
