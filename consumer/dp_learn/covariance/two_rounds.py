"""A covariance from two noisy sums of second moments, weighted for least variance, entry by entry.

In units of round 1 a row with its constant is v = (u, 1), and round r published T_r X T_r' + E_r of the sum X of v v^T:
T_1 = diag(1, c_1), and T_2 = (B (u - m) / d, c_2) with the center m and the scales d of round 2 in these units. Entries
of E_r are independent with variance t_r off the diagonal and 2 t_r on it, which no rotation changes. With the singular
values s of T_2 T_1^-1 = P diag(s) V' and U = T_1^-1 V, all entries of Y = U^-1 X U^-T are seen independently,

    V' M_1 V with variance t_1,   P' M_2 P / s_k s_l with variance t_2 / (s_k s_l)^2,

and generalised least squares is their mean, weighted by the inverse variances. The constant's own entry of X is the
number of rows, exactly; all others move by their regression on the error that it would have (`two_round_noise`).

The mean's noise would raise the expected m m' by its covariance, which is added back.

References
----------
Aitken (1935), On least squares and linear combination of observations, Proceedings of the Royal Society of Edinburgh
55. Golub & Van Loan (2013), Matrix Computations, section 8.7, for the simultaneous diagonalisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.errors import EstimationError
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.matrix_noise import NoisyMatrix
from dp_bundle.manifest.moment_noise import SecondMoments
from dp_learn.covariance.debias import ReleasedCovariance
from dp_learn.covariance.kurtosis import kurtosis_factor
from dp_learn.covariance.two_round_noise import TwoRounds
from dp_learn.matrices.linalg import FloatArray


@dataclass(frozen=True)
class RoundMatrices:
    """A release of two rounds: both noisy sums, the constant last, and the transform between them."""

    first: FloatArray
    final: FloatArray
    transform: FloatArray

    @classmethod
    def from_bundle(cls, bundle: Bundle, places: Sequence[int] | None = None) -> RoundMatrices:
        """Return the matrices of a bundle, with its columns at these places in this order, or as they are."""
        chosen = list(range(len(bundle.release.columns)) if places is None else places)
        order, beside = np.ix_(chosen, chosen), np.ix_(*[[*chosen, len(chosen)]] * 2)
        return cls(bundle.first_round()[beside], bundle.second_moments()[beside], bundle.transform()[order])


def combine_rounds(
    moments: SecondMoments, matrices: RoundMatrices, columns: Sequence[Column], n_rows: int
) -> tuple[FloatArray, ReleasedCovariance]:
    """Return the mean and the debiased covariance of two rounds, in data units.

    Parameters
    ----------
    moments : SecondMoments
        What the manifest says of both.
    matrices : RoundMatrices
        Of shapes (p + 1, p + 1), (p + 1, p + 1) and (p, p).
    columns : sequence of Column
        The columns, in the order of the matrices.
    n_rows : int
        The number of rows, which is public.

    Raises
    ------
    EstimationError
        There are fewer than two rows, or numbers so far apart that nothing can be computed from them.
    """
    if n_rows < 2:
        raise EstimationError("a covariance needs at least two rows, and the release has one")
    centers, scales = (np.array([[getattr(each, name) for each in c.standards] for c in columns]).T for name in _NAMES)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        shift, ratio = (centers[1] - centers[0]) / scales[0], scales[1] / scales[0]
        second = _second_transform(matrices.transform, shift, ratio, moments.constant)
        mean, covariance, noise = _combine(moments, matrices, second, n_rows)

        # from units of round 1 to those of the data
        location = centers[0] + scales[0] * mean
        debiased = covariance * np.outer(scales[0], scales[0]) * (n_rows / (n_rows - 1))
        basis = scales[0][:, None] * noise[0]
    if not all(np.isfinite(each).all() for each in (location, debiased, basis, noise[1])):
        raise EstimationError("the release holds numbers too far apart to compute with: ask for one in other units")
    law = TwoRounds.from_variances(basis, noise[1], noise[2])
    kurtosis = kurtosis_factor(moments, matrices.final, n_rows)
    return location, ReleasedCovariance(n_rows, debiased, law, kurtosis=kurtosis)


_NAMES = ("center", "scale")


def _second_transform(transform: FloatArray, shift: FloatArray, ratio: FloatArray, constant: float) -> FloatArray:
    """Return T_2, which takes a row with its 1, in units of round 1, to what round 2 summed."""
    p = len(shift)
    second = np.zeros((p + 1, p + 1))
    second[:p, :p] = transform / ratio
    second[:p, p] = -second[:p, :p] @ shift
    second[p, p] = constant
    return second


def _combine(
    moments: SecondMoments, matrices: RoundMatrices, second: FloatArray, n_rows: int
) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray, FloatArray]]:
    """Return mean, covariance with divisor n, and basis, variances and constant of the noise, in units of round 1."""
    first = moments.first_round
    if first is None:
        raise EstimationError("the release has one round")
    p = len(second) - 1
    c, t = (first.constant, moments.constant), (_variance(first), _variance(moments))

    # both sums in the basis where their entries are seen independently
    inverse = np.append(np.ones(p), 1.0 / c[0])  # of T_1
    if not np.isfinite(second).all():
        raise EstimationError("the release holds numbers too far apart to compute with: ask for one in other units")
    left, stretch, right = np.linalg.svd(second * inverse)
    weight = np.outer(stretch, stretch)
    seen = (right @ matrices.first @ right.T) / t[0] + weight * (left.T @ matrices.final @ left) / t[1]
    variances = 1.0 / (1.0 / t[0] + weight * weight / t[1])
    u = inverse[:, None] * right.T
    sums = u @ (seen * variances) @ u.T

    # the constant's own entry is the number of rows, without noise
    v = u[p]
    crossed = (u * v) @ variances @ (u * v).T
    sums -= crossed * ((sums[p, p] - n_rows) / crossed[p, p])

    # mean and covariance, less what the mean's noise adds on average
    mean = sums[:p, p] / n_rows
    q = u[:p]
    known = np.outer(crossed[:p, p], crossed[:p, p]) * (2.0 / crossed[p, p])
    noise = (q * (variances @ (v * v))) @ q.T + crossed[:p, :p] - known
    covariance = sums[:p, :p] / n_rows - np.outer(mean, mean) + noise / n_rows**2
    basis = q - np.outer(mean, v)
    return mean, (covariance + covariance.T) / 2.0, (basis, variances / n_rows**2, v)


def _variance(matrix: NoisyMatrix) -> float:
    return matrix.off_diagonal_variance or 0.0
