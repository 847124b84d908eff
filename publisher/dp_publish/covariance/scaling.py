"""The scaling of a row before its products are summed: into a ball around its bounds' middle, with a constant.

A row x becomes (z, c) with ``z_j = (x_j - center_j) / half_width_j`` in [-1, 1], so that ||z|| <= R = sqrt(p), or
clipped to a smaller R. Divided by ``sqrt(R^2 + c^2)`` it lies in the unit ball. The sum of ``(z, c)(z, c)^T`` over rows
holds second moments, sums and, as c^2 times their number, the rows.

**The constant.** With isotropic Gaussian noise and replace-one neighbours the sensitivity of the sum is
``sqrt(2) (R^2 + c^2)`` as long as c <= R. The covariance is the second moment less the square of the mean, m, whose
noise is that of an off-diagonal entry over c. To first order its mean squared error is proportional to

    (1 + x)^2 (p + 2 s / x),   x = (c / R)^2,   s = ||m||^2 / R^2 in [0, 1].

What is unknown about the data is s alone. The best constant is at the positive root of ``p x^2 + s x - s``. For bounds
it is the best for the largest error, s = 1. That raises the error for centred columns by the factor 1 + x and needs no
guess. For columns whose center was found, s is small.

The noise on correlations follows from that on sums of products, and is what forecasts compute with.

**Sensitivity** of the sum to one row, in the norms that the mechanisms need. Rows are v = (z, c) with ||z|| <= R and c
fixed; N^2 = R^2 + c^2. Neighbours "replace-one": one row takes another value, and the number of rows is public.
"add-remove": one row more or less, and the number of rows is private.

**Frobenius.** Add-remove: ||v v^T|| = ||v||^2 <= N^2. Replace-one: ||v v^T - w w^T||^2 = ||v||^4 + ||w||^4 - 2 (v.w)^2
<= 2 N^4, attained where v.w = 0, which c <= R allows.

**L1 of the upper triangle** with its diagonal. Add-remove: (||v||_1^2 + ||v||_2^2) / 2 <= N^2 (d + 1) / 2, d = p + 1;
directly, R^2 (p + 1) / 2 + c R sqrt(p) + c^2. Replace-one: the norm is the largest v^T H v - w^T H w over symmetric H
with +-1 on the diagonal and +-1/2 elsewhere. That is at most N^2 times the distance from the smallest to the largest of
H's eigenvalues and zero, as rows may be short. That spread is at most sqrt(2) times the Frobenius norm, so it is at
most ``sqrt(d (d + 3) / 2)``. Splitting off half the diagonal, it is also at most ``d / sqrt(2) + 1``. Both beat d + 1,
the sum of two rows' norms, by a factor that goes to 1.41, and the first is attained for d = 2. With the constant, whose
own entry does not move, H_cc is free: taken as 0, the first becomes ``N^2 sqrt(p (p + 5) / 2)``. Or it is, the
constant's entries apart, ``R^2 L(p) + 2 c R sqrt(p)``, L being the smaller of the two. The smallest valid bound is
used.

**Nuclear norm**, which bounds the sum of all eigenvalues' movements (Mirsky 1960): N^2 for add-remove, 2 N^2 for
replace-one.

References
----------
Su et al. (2022), Differentially private precision matrix estimation, for sqrt(2). Amin et al. (2019), Differentially
private covariance estimation. Mirsky (1956), The spread of a matrix, Mathematika 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_bundle.manifest.noise import Neighbours

GRID_BITS = 20  # scaled values are multiples of 2^-20
MAX_FEATURES = 8192
_CONSTANT_BITS = 8
UP = 1 + 2.0**-48  # far above the rounding of the few operations below


@dataclass(frozen=True, eq=False)
class Scaling:
    """A public map from rows to the ball, and back.

    Attributes
    ----------
    centers, half_widths : ndarray of float64, shape (p,)
        In data units.
    radius : float
        R, what scaled rows are clipped to, at most sqrt(p).
    squared_radius : Fraction
        R^2, exactly.
    constant : float
        c, a multiple of 2^-8; 0 if there is no constant coordinate.
    """

    centers: Floats
    half_widths: Floats
    radius: float
    squared_radius: Fraction
    constant: float

    def equals(self, other: Scaling) -> bool:
        """Return True if another scaling, perhaps made by another process, puts every row at the same place."""
        arrays = ((self.centers, other.centers), (self.half_widths, other.half_widths))
        numbers = (self.squared_radius, self.radius, self.constant)
        same = numbers == (other.squared_radius, other.radius, other.constant)
        return same and all(np.array_equal(one, two) for one, two in arrays)

    @property
    def n_features(self) -> int:
        """The number of columns of the data, p."""
        return len(self.centers)

    @property
    def n_coordinates(self) -> int:
        """The number of rows of the matrix: p + 1, or p without the constant."""
        return self.n_features + bool(self.constant)

    @property
    def clips(self) -> bool:
        """True if rows within their bounds may be clipped."""
        return self.squared_radius < self.n_features

    @property
    def square(self) -> float:
        """The largest squared norm of (z, c), R^2 + c^2, rounded up."""
        return next_float64(self.squared_radius + Fraction(self.constant) ** 2)


def scaling_for(
    bounds: Sequence[tuple[float, float]], *, radius: float | None = None, with_mean: bool = True
) -> Scaling:
    """Return the scaling for columns with these bounds.

    Parameters
    ----------
    bounds : sequence of (float, float)
        Every column's declared bounds, in data units.
    radius : float, optional
        R, in half-widths: rows longer than that are shortened. By default sqrt(p), which no row exceeds.
    with_mean : bool
        Whether to append the constant coordinate. Without it the release holds no mean, and columns count as centred
        in their bounds.

    Raises
    ------
    ParameterError
        A bound that is not finite, not an interval, or a radius outside (0, sqrt(p)].
    """
    low, high = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
    n_features = len(low)
    if not 1 <= n_features <= MAX_FEATURES:
        raise ParameterError("bounds", f"for 1 to {MAX_FEATURES} columns", n_features)
    with np.errstate(over="ignore"):
        half_widths = 0.5 * high - 0.5 * low
    if not (np.isfinite(half_widths) & (half_widths > 0)).all():
        raise ParameterError("bounds", "finite, each with a low end below its high end", list(bounds))

    squared_radius = Fraction(n_features)
    if radius is not None:
        if not 2.0**-_CONSTANT_BITS <= radius <= math.sqrt(n_features):
            raise ParameterError("radius", f"from {2.0**-_CONSTANT_BITS:g} to sqrt(p) = {n_features**0.5:.6g}", radius)
        squared_radius = min(squared_radius, Fraction(radius) ** 2)

    length = math.sqrt(squared_radius)
    return Scaling(
        centers=0.5 * low + 0.5 * high,
        half_widths=half_widths,
        radius=length,
        squared_radius=squared_radius,
        constant=_best_constant(n_features, length) if with_mean else 0.0,
    )


def scaling_around(centers: Floats, half_widths: Floats, steps: int, offset: float) -> Scaling:
    """Return the scaling of rows that lie around known centers, and are shortened to a radius.

    Parameters
    ----------
    centers, half_widths : ndarray of float64, shape (p,)
        In data units.
    steps : int
        256 times the radius, in half-widths; at most 256.
    offset : float
        What is expected of the squared distance of the mean from the centers, over that of the radius; at most 1.
    """
    radius = math.ldexp(steps, -_CONSTANT_BITS)
    constant = _best_constant(len(centers), radius, offset)
    return Scaling(centers, half_widths, radius, Fraction(radius) ** 2, constant)


def next_float64(number: Fraction) -> float:
    """Return the smallest float64 that is not below a number."""
    near = float(number)
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)


def _best_constant(n_features: int, radius: float, offset: float = 1.0) -> float:
    x = (math.sqrt(offset * (offset + 4 * n_features)) - offset) / (2 * n_features)
    steps = math.floor(radius * math.sqrt(x) * 2**_CONSTANT_BITS)
    return math.ldexp(max(steps, 1), -_CONSTANT_BITS)


def correlation_noise(entry_variance: float, spread: float, scaling: Scaling) -> float:
    """Return the noise's standard deviation on n times a correlation near zero, from its variance on a sum of products.

    Let m_i and m_j be means, and v the noise on every sum, over the constant c in those of the columns themselves. Then
    n times a covariance of scaled columns has the noise ``v (1 + (m_i^2 + m_j^2) / c^2)`` to first order. Rows within
    the radius R leave a column of variance s a mean of at most ``m^2 = R^2 / p - s``, of which half is assumed. Over s,
    it is that of a correlation.

    Parameters
    ----------
    entry_variance : float
        v, in units of scaled columns.
    spread : float
        The columns' standard deviation as a share of the width of their bounds.
    scaling : Scaling
        Where rows are put, clipped to a radius; a constant of 0 stands for means that are 0.
    """
    scaled = min(4 * spread**2, scaling.radius**2 / scaling.n_features)
    if not scaling.constant:
        return math.sqrt(entry_variance) / scaled
    means = max(0.0, min(1.0, scaling.radius**2 / scaling.n_features) - scaled)
    return math.sqrt(entry_variance * (1 + means / scaling.constant**2)) / scaled


def frobenius_sensitivity(scaling: Scaling, neighbours: Neighbours) -> float:
    """Return the largest Frobenius norm by which one row moves the sum, rounded up."""
    check_neighbours(scaling, neighbours)
    return scaling.square * neighbours.frobenius * UP


def l1_sensitivity(scaling: Scaling, neighbours: Neighbours) -> float:
    """Return a bound on the L1 norm by which one row moves the sum's upper triangle, rounded up."""
    check_neighbours(scaling, neighbours)
    p, c, radius = scaling.n_features, scaling.constant, math.sqrt(scaling.squared_radius)
    if not neighbours.n_rows_public:
        return (radius**2 * (p + 1) / 2 + c * radius * math.sqrt(p) + c * c) * UP
    bounds = [radius**2 * _spread(p) + 2 * c * radius * math.sqrt(p)]
    if c:
        bounds.append(scaling.square * math.sqrt(p * (p + 5) / 2))
    return min(bounds) * UP


def nuclear_sensitivity(scaling: Scaling, neighbours: Neighbours) -> float:
    """Return the largest sum by which one row moves the eigenvalues of the sum, rounded up."""
    check_neighbours(scaling, neighbours)
    return scaling.square * neighbours.nuclear * UP


def check_neighbours(scaling: Scaling, neighbours: Neighbours) -> None:
    """Refuse a neighbour relation that needs the constant coordinate where there is none.

    Raises
    ------
    PrivacyError
    """
    if not (neighbours.n_rows_public or scaling.constant):
        raise PrivacyError(
            "with add-remove neighbours the number of rows is private and can only be read from the constant "
            "coordinate: release the mean as well"
        )


def _spread(d: int) -> float:
    """Return a bound on the spread, zero included, of such a symmetric d x d matrix."""
    return 1.0 if d == 1 else min(math.sqrt(d * (d + 3) / 2), d / math.sqrt(2.0) + 1)
