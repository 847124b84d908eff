"""The scaling of a row before its products are summed: into a ball around its bounds' middle, with a constant.

A row x becomes (z, c) with ``z_j = (x_j - center_j) / half_width_j`` in [-1, 1], so that ||z|| <= R = sqrt(p), or
clipped to a smaller R. Divided by ``sqrt(R^2 + c^2)`` it lies in the unit ball. The sum of ``(z, c)(z, c)^T`` over rows
holds second moments, sums and, as c^2 times their number, the rows.

**The constant.** With isotropic Gaussian noise and replace-one neighbours the sensitivity of the sum is
``sqrt(2) (R^2 + c^2)`` as long as c <= R. The covariance is the second moment less the square of the mean, m, whose
noise is that of an off-diagonal entry over c. To first order its mean squared error is proportional to

    (1 + x)^2 (p + 2 s / x),   x = (c / R)^2,   s = ||m||^2 / R^2 in [0, 1].

What is unknown about the data is s alone. The best constant is at the positive root of ``p x^2 + s x - s``. For bounds
it is the best for the largest error, s = 1, which raises the error for centred columns by the factor 1 + x and needs no
guess; for columns whose center was found, s is small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import ParameterError

GRID_BITS = 20  # scaled values are multiples of 2^-20
MAX_FEATURES = 8192
_CONSTANT_BITS = 8


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

    centers: NDArray[np.float64]
    half_widths: NDArray[np.float64]
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


def scaling_around(
    centers: NDArray[np.float64], half_widths: NDArray[np.float64], steps: int, offset: float
) -> Scaling:
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
