"""Rows on their way into a round: clipped, standardised, transformed, and cut to integers, with their lengths.

A round has a largest radius, which is one in its units, and a few smaller ones. One of them is chosen after the rows
have been summed. A radius is a / 256 with an integer a. A row y becomes

- **inside** the radius: the integers q = trunc(2^20 y), as they are;
- **outside**: a times the integers u = trunc(2^12 y / |y|), that is, the row shortened to the radius, in the same units
  of 2^-20.

Its integers show which of the two it is: inside is where ``|q|^2 <= (2^12 a)^2``. So |q|^2 <= (2^12 a)^2 and |a u|^2 <=
(2^12 a)^2 hold of the very integers that are summed. The row lies in the ball exactly. Like all else that happens to a
row before, this is a function of that row alone.

A product of floating-point matrices is none: how BLAS rounds a row depends on where in the batch it stands. So rows and
transform are rounded first, to so many bits that sums of p products are below 2^53 of them, and exact.

**The frame of the second round** follows what the first released: rows are recentred, rescaled, and partly whitened.
Noise of the second round is isotropic in the frame y = B D^-1 (z - m). Here m is the mean, D^2 the variances and R the
correlations that the first round shows, and B = R^(-g/2). A radius takes tr(B R B) = tr R^(1 - g), and the noise comes
back through the inverse of B. On the entries of the covariance g = 1/2 is best. There g = 3/4 costs next to nothing,
and helps its inverse, from which partial correlations are made.

R is noisy and may be indefinite. In its place is a correlation matrix near it, without eigenvalues below half of what
noise alone makes of zero ones, sigma sqrt(p).
"""

import math
from dataclasses import dataclass

import numpy as np

from dp_bundle.base.arrays import Floats, Integers
from dp_publish.covariance.scaling import GRID_BITS

RADIUS_BITS = 8
BLOCK = 1 << (52 - 2 * GRID_BITS)  # rows whose sums of products float64 holds exactly
LIMB = 32  # bits of the low limb of a sum
LOW_LIMB = (1 << LIMB) - 1
INSIDE = 2.0**GRID_BITS  # a length of 1 in the integers of rows inside
DIRECTION = 2.0 ** (GRID_BITS - RADIUS_BITS)  # and in those of directions
SHORTER = 1 - 2.0**-36  # far above the relative error of a norm of 2^13 floats, and of the products with its inverse
_EXACT_BITS, _TRANSFORM_BITS = 53, 20
_POWER = 0.75  # g
_ROUNDS = 20
_CLOSE = 1e-9
_FLOOR = 0.5  # of eigenvalues, in what noise alone makes of zero ones
_LARGEST_CONDITION = 1e6  # of R


@dataclass(frozen=True, eq=False)
class RoundMap:
    """The map of raw rows into the ball of one round: public.

    Attributes
    ----------
    low, high : ndarray of float64, shape (p,)
        What values are clipped to first, in data units.
    centers, half_widths : ndarray of float64, shape (p,)
        In data units; a half-width holds the largest radius.
    transform : ndarray of float64, shape (p, p), or None
        Symmetric, and as `round_transform` returns it; None for the identity.
    """

    low: Floats
    high: Floats
    centers: Floats
    half_widths: Floats
    transform: Floats | None = None

    def place(self, values: Floats) -> Floats:
        """Return rows in the units of the round; they may still lie outside its ball."""
        standard = (np.clip(values, self.low, self.high) - self.centers) * (1 / self.half_widths)
        if self.transform is None:
            return standard
        standard = np.rint(standard / self.row_step) * self.row_step
        product: Floats = standard @ self.transform  # of integers, whose sums are exact in any order
        return product

    @property
    def row_step(self) -> float:
        """The power of two that standardised rows are rounded to before they are transformed."""
        ends = np.abs((np.stack([self.low, self.high]) - self.centers) * (1 / self.half_widths))
        bits = _EXACT_BITS - _TRANSFORM_BITS - math.ceil(math.log2(len(self.centers)))
        return _step(float(ends.max()), bits)


def round_transform(transform: Floats) -> Floats:
    """Return a matrix rounded to 20 bits below its largest entry."""
    step = _step(float(np.abs(transform).max()), _TRANSFORM_BITS)
    rounded: Floats = np.rint(transform / step) * step
    return rounded


@dataclass(frozen=True, eq=False, repr=False)
class Placed:
    """Rows as integers.

    Attributes
    ----------
    inside : ndarray of float64, shape (n, p)
        q, of rows within the largest radius; rows beyond it are at its surface.
    directions : ndarray of float64, shape (n, p)
        u.
    bins : ndarray of int64, shape (n,)
        The place of the smallest radius that the row is inside of, or the number of radii.
    squares : ndarray of int64, shape (n,)
        |q|^2 / 2^20, rounded down.
    """

    inside: Floats
    directions: Floats
    bins: Integers
    squares: Integers


def cut_to_integers(rows: Floats, radii: Integers) -> Placed:
    """Return rows as integers.

    Parameters
    ----------
    rows : ndarray, shape (n, p)
        In units of the largest radius.
    radii : ndarray of int64, shape (m,)
        a, ascending; the last is 256.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    beyond = norms > SHORTER
    inside = np.trunc(rows * np.where(beyond, SHORTER * INSIDE / np.where(beyond, norms, 1.0), INSIDE)[:, None])
    directions = np.trunc(rows * (SHORTER * DIRECTION / np.where(norms > 0, norms, 1.0))[:, None])

    squares = np.einsum("ij,ij->i", inside, inside)  # of integers below 2^53: exact
    bins = np.where(beyond, len(radii), np.searchsorted(limits_of(radii), squares))
    return Placed(inside, directions, bins, np.floor(squares / INSIDE).astype(np.int64))


def limits_of(radii: Integers) -> Floats:
    """Return the largest squared length of a row inside every radius, in its integers."""
    limits: Floats = (radii.astype(np.float64) * DIRECTION) ** 2
    return limits


def _step(largest: float, bits: int) -> float:
    """Return the power of two of which numbers up to a largest one are so many bits."""
    return math.ldexp(1.0, math.frexp(largest)[1] - bits)


def whiten(covariance: Floats, noise: float, least: Floats) -> tuple[Floats, Floats, float]:
    """Return the second round's transform, the deviations of the columns, and how long a typical row is in its frame.

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        What the first round shows, in its own units; symmetric.
    noise : float
        The standard deviation of the noise on an entry off the diagonal.
    least : ndarray, shape (p,)
        The least deviation that a column is given.

    Returns
    -------
    transform : ndarray, shape (p, p)
        B, symmetric and positive definite, rounded so that rows can be multiplied exactly.
    deviations : ndarray, shape (p,)
        D, positive.
    length : float
        The root of tr(B R B).
    """
    p = len(covariance)
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), least * least))
    floor = _FLOOR * noise * math.sqrt(p) / float(np.median(deviations)) ** 2
    values, vectors = _nearby_correlation(covariance / np.outer(deviations, deviations), floor)
    transform = (vectors * values ** (-_POWER / 2)) @ vectors.T
    length = math.sqrt(float((values ** (1 - _POWER)).sum()))
    return round_transform(0.5 * (transform + transform.T)), deviations, length


def _nearby_correlation(correlation: Floats, floor: float) -> tuple[Floats, Floats]:
    """Return eigenvalues and vectors of a correlation matrix without eigenvalues below the floor, or nearly so."""
    floor = min(max(floor, len(correlation) / _LARGEST_CONDITION), 0.5)
    for _ in range(_ROUNDS):
        values, vectors = np.linalg.eigh(correlation)
        values = np.maximum(values, floor)
        raised = (vectors * values) @ vectors.T
        roots = np.sqrt(np.diagonal(raised))
        before, correlation = correlation, raised / np.outer(roots, roots)
        if np.abs(correlation - before).max() < _CLOSE:
            break
    values, vectors = np.linalg.eigh(correlation)
    return np.maximum(values, 0.5 * floor), vectors
