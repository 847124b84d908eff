"""A covariance from two noisy sums of second moments, weighted for least variance, entry by entry; its noise; kurtosis.

In units of round 1 a row with its constant is v = (u, 1). Round r published T_r X T_r' + E_r of the sum X of v v^T: T_1
= diag(1, c_1), and T_2 = (B (u - m) / d, c_2) with the center m and the scales d of round 2 in these units. Entries of
E_r are independent with variance t_r off the diagonal and 2 t_r on it, which no rotation changes. With the singular
values s of T_2 T_1^-1 = P diag(s) V' and U = T_1^-1 V, all entries of Y = U^-1 X U^-T are seen independently,

    V' M_1 V with variance t_1,   P' M_2 P / s_k s_l with variance t_2 / (s_k s_l)^2,

and generalised least squares is their mean, weighted by the inverse variances. The constant's own entry of X is the
number of rows, exactly; all others move by their regression on the error that it would have. The mean's noise would
raise the expected m m' by its covariance, which is added back.

*The noise.* On second moments it is U E U' with independent entries E_kl, of variance w_kl off the diagonal and twice
that on it. A form f_ij = b_i' S^ b_j then errs, to first order in 1/n, with beta = A' b and A the basis U in data
units, by

    Var f_ij = sum_kl w_kl (beta_ik^2 beta_jl^2 + beta_ik beta_jk beta_il beta_jl).

W is smooth, and so of low rank in floating point: W = sum_r omega_r g_r g_r'. With N_r = A diag(g_r) A' this is a sum
of Isserlis' formula, omega_r (N_ii N_jj + N_ij^2). The constant's own entry, in the direction v, is known without
noise. Given it, variances are smaller by 2 k_ij^2 / sum_kl w_kl v_k^2 v_l^2 with K = A (W o vv') A'.

*The kurtosis.* For elliptical rows y with covariance S, ``E |y|^4 = (1 + kappa) (tr(S)^2 + 2 tr(S^2))``, and the
sampling variances of correlations and partial correlations are 1 + kappa times those of Gaussian rows. The release has
a noisy sum of ``(|y| / R)^4``, and S from the same rows. These are the rows as they were shortened, which is what is
estimated from. The noise makes the ratio uncertain, the more the fewer rows there are. Its estimate is the mean of
kappa given what was seen. Beforehand kappa is exponential with mean 1, which is that of t with 6 degrees of freedom. It
is what was seen where that is precise, and the factor 2 where the noise leaves nothing to see. Intervals are then too
long for Gaussian rows rather than too short for others.

References
----------
Aitken (1935), On least squares and linear combination of observations, Proceedings of the Royal Society of Edinburgh
55. Golub & Van Loan (2013), Matrix Computations, section 8.7, for the simultaneous diagonalisation. Isserlis (1918), On
a formula for the product-moment coefficient, Biometrika 12. Rao (1973), Linear Statistical Inference and its
Applications, section 8a.2, for the variance of a normal vector given one of its components. Muirhead (1982), Aspects of
Multivariate Statistical Theory, sections 1.6 and 5.1.3 (elliptical rows). Browne (1984), Asymptotically
distribution-free methods for the analysis of covariance structures, section 4. A covariance of one round is a noisy sum
of (z, c)(z, c)^T over rows. Let noise E have variance t on its off-diagonal entries and u on its diagonal. Then the
form b_i' S^ b_j errs, to first order in 1/n, by b~_i' E b~_j / n. Here b~ = (h b, -(h b)'m / c) for columns of
half-width h and scaled mean m beside the constant c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.errors import EstimationError
from dp_bundle.data.matrix import mean_and_covariance
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.matrix_noise import NoisyMatrix, SecondMoments
from dp_bundle.manifest.noise import normal_tail, scaled_tail
from dp_learn.covariance.estimate import IndependentEntries, NoiseLaw, ReleasedCovariance
from dp_learn.matrices.linalg import FloatArray

PRIOR_MEAN = 1.0  # of kappa
_FAR = -1e3  # standard deviations, below which the mean of a normal number's tail is as that of an exponential one


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
    law = NoiseLaw.of_two_rounds(basis, noise[1], noise[2])
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


def kurtosis_factor(moments: SecondMoments, matrix: FloatArray, n_rows: int) -> float:
    """Return 1 + kappa of the rows of the final round, at least 1.

    Parameters
    ----------
    moments : SecondMoments
        What the manifest says of a release of two rounds.
    matrix : ndarray of shape (p + 1, p + 1)
        The noisy sum of the final round, the constant last.
    n_rows : int
        The number of rows.
    """
    fourth = moments.fourth_moment
    if fourth is None:
        return 1.0
    p = len(matrix) - 1
    t, u = (moments.off_diagonal_variance or 0.0) / n_rows**2, (moments.diagonal_variance or 0.0) / n_rows**2

    # tr(S)^2 + 2 tr(S^2), less what the noise adds to the squares
    s = matrix[:p, :p] / n_rows
    trace = float(np.trace(s))
    if not trace > 0.0:
        return 1.0 + PRIOR_MEAN
    of_square = max(float(np.vdot(s, s)) - p * u - p * (p - 1) * t, trace * trace / p)
    gaussian = (trace * trace - p * u) + 2.0 * of_square
    if not gaussian > 0.0:
        return 1.0 + PRIOR_MEAN

    # the ratio, and the standard deviation of what the noise does to it
    unit = moments.radius**4 / n_rows / gaussian
    ratio = unit * fourth.total
    error = math.hypot(unit * math.sqrt(fourth.variance), 2.0 * ratio * math.sqrt(p * u) / trace)
    return 1.0 + expected_kurtosis(ratio - 1.0, error)


def expected_kurtosis(seen: float, error: float) -> float:
    """Return the mean of an exponential kappa given that a normal number about it was seen.

    It is the mean of a normal number about ``seen - error^2 / PRIOR_MEAN``, of the same standard deviation, above 0.

    Parameters
    ----------
    seen : float
        What was seen.
    error : float
        Its standard deviation, positive.
    """
    center = seen - error * error / PRIOR_MEAN
    z = center / error
    if z < _FAR:
        return error / -z
    if z < 0.0:
        return center + error / (math.sqrt(2.0 * math.pi) * scaled_tail(-z))
    return center + error * math.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * normal_tail(-z))


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
        noise = noise_of_one_round(round(rows), half_widths, scaled_mean, moments.constant, (u, t), exact_count=counted)
    debiased = covariance * (rows / (rows - 1))
    return mean, ReleasedCovariance(round(rows), debiased, noise, estimated=estimated)


def _square(error: float | None) -> float | None:
    return None if error is None else error * error


def noise_of_one_round(
    n_rows: int,
    half_widths: FloatArray,
    scaled_mean: FloatArray,
    constant: float,
    variances: tuple[float, float],
    *,
    exact_count: bool = True,
) -> NoiseLaw:
    """Return the law of the noise on a covariance that was released in one round.

    Parameters
    ----------
    n_rows : int
        How many rows, as stated or as read from the release.
    half_widths : ndarray of shape (n_features,)
        Of the columns' bounds: one unit of z, in data units.
    scaled_mean : ndarray of shape (n_features,)
        The mean of z.
    constant : float
        c; 0 if the sum was released without a constant coordinate.
    variances : tuple of float
        u and t, of the noise on diagonal and off-diagonal entries of the sum, uncorrelated between entries.
    exact_count : bool
        Whether the constant's own entry, which counts the rows, is exact.
    """
    basis, (u, t) = np.diag(half_widths), (each / n_rows**2 for each in variances)
    inexact = 0.0
    if constant:
        basis = np.column_stack([basis, -half_widths * scaled_mean / constant])
        inexact = 0.0 if exact_count else constant**-2.0
    d = basis.shape[1]
    is_constant = (np.arange(d) == len(half_widths)).astype(float)
    law = np.array([t]), np.ones((d, 1)), np.full(d, u - 2.0 * t), is_constant, inexact
    return NoiseLaw(basis, IndependentEntries(np.full((d, d), t), *law))
