"""Positive semidefinite stand-ins for an indefinite covariance, each named and with its price.

The nearest one in a weighted max norm (CoCoLasso's step) comes with a proof of its distance. The matrix found bounds
the smallest distance from above. A positive semidefinite certificate Z bounds it from below. Every positive
semidefinite W within distance t has ``0 <= <W, Z> <= <S, Z> + t sum_ij w_ij |Z_ij|``. Each entry may also have an
allowance, a distance that costs nothing. The same loop then decides whether a box holds a definite matrix (see
`feasibility`).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dp_bundle.base.errors import ParameterError
from dp_learn.matrices.checks import check_covariance, check_free_diagonal
from dp_learn.matrices.choices import RepairMethod
from dp_learn.matrices.linalg import (
    MOST_BALANCING,
    FloatArray,
    balancing_factor,
    eigendecomposition,
    is_positive_definite,
    negative_part,
    raise_to_semidefinite,
    smallest_eigenpair,
    smallest_eigenvalue,
)

RELAXATION = 1.6
CHECK_EVERY = 5  # iterations between two evaluations of the bounds
BALANCE_EVERY = 5  # iterations between two changes of rho
FIRST_CHANGE_OF_UNITS = 10  # the next at twice as many iterations
LEAST_SHARE = 0.01  # columns that the certificate leaves out count as this much of an average one in a change of units
MOST_STEPS, ROUNDING = 100, 1e-15  # of Michelot's iteration
ROUGH = 0.01  # a relative tolerance for which steps in single precision do at first; bounds are in double precision
SINGLE = 1e-6  # relative to the matrix: what steps in single precision can lower a negative eigenvalue to
RESOLUTION = 1e-13  # eigenvalues below this are rounding, relative to the entries


@dataclass(frozen=True, eq=False)
class Repair:
    """A repaired covariance and what was done to it.

    Attributes
    ----------
    covariance : ndarray, shape (p, p)
        The matrix to go on with.
    method : RepairMethod
        What was done: `none` where the matrix was kept, because that was asked for or nothing had to be repaired.
    distance : float
        The largest absolute change of an entry.
    lower_bound : float
        Proven: no positive semidefinite matrix is closer than this in the max norm.
    """

    covariance: FloatArray
    method: RepairMethod
    distance: float
    lower_bound: float


def repair_covariance(covariance: ArrayLike, method: str, *, rtol: float = 1e-3) -> Repair:
    """Return a positive semidefinite covariance, or the matrix itself where it is one already.

    Parameters
    ----------
    covariance : array, shape (p, p)
        Symmetric, possibly indefinite.
    method : {"none", "maxnorm", "clip", "shrink"}
        `none` returns the matrix as it is, and `maxnorm` the nearest in the max norm. `clip` sets negative eigenvalues
        to zero (nearest in the Frobenius norm). `shrink` scales all covariances by one factor and keeps the variances.
    rtol : float
        Relative width of the proven bounds on the max-norm distance.

    Raises
    ------
    ParameterError
        For an unknown method, a matrix that is not a covariance, or `shrink` with a variance <= 0.

    References
    ----------
    Datta and Zou (2017), section 2.2, for `maxnorm`.
    """
    if method not in list(RepairMethod):
        raise ParameterError("repair", "one of " + ", ".join(RepairMethod), method)
    s = check_covariance(covariance)
    if is_positive_definite(s):
        return Repair(s, RepairMethod.NONE, 0.0, 0.0)

    lowest, direction = smallest_eigenpair(s)
    bound = max(0.0, -lowest) / float(np.abs(direction).sum()) ** 2  # certificate: the outer product of the direction
    if method == RepairMethod.NONE or lowest >= 0.0:
        return Repair(s, RepairMethod.NONE, 0.0, bound)

    if method == RepairMethod.MAXNORM:
        projection = nearest_psd_max_norm(s, rtol=rtol)
        return Repair(projection.matrix, RepairMethod.MAXNORM, projection.distance, projection.lower_bound)
    if method == RepairMethod.CLIP:
        d, q = eigendecomposition(s)
        root: FloatArray = q * np.sqrt(np.maximum(d, 0.0))
        repaired = root @ root.T
    else:
        repaired = _shrink(s)
    return Repair(repaired, RepairMethod(method), float(np.abs(repaired - s).max()), bound)


def _shrink(s: FloatArray) -> FloatArray:
    """Return S with every covariance divided by the smallest factor that makes it positive semidefinite."""
    check_free_diagonal(s, np.zeros_like(s))
    scale = 1.0 / np.sqrt(s.diagonal())
    excess = -smallest_eigenvalue(s * np.outer(scale, scale))
    shrunk: FloatArray = s / (1.0 + excess)
    np.fill_diagonal(shrunk, s.diagonal())
    return shrunk


@dataclass(frozen=True, eq=False)
class MaxNormProjection:
    """A positive semidefinite matrix near S, with both bounds on the smallest possible distance.

    With an allowance A the distance is the least t with ``|matrix - S| <= A + t w``.

    Attributes
    ----------
    matrix : ndarray, shape (p, p)
        Positive semidefinite.
    distance : float
        ``max_ij (|matrix_ij - S_ij| - A_ij) / w_ij``, an upper bound on the smallest distance.
    lower_bound : float
        No positive semidefinite matrix is closer: ``-(<S, Z> + sum_ij A_ij |Z_ij|) / sum_ij w_ij |Z_ij|``.
    certificate : ndarray, shape (p, p)
        The positive semidefinite Z that proves it.
    n_iter : int
        Iterations, one eigendecomposition each.
    """

    matrix: FloatArray
    distance: float
    lower_bound: float
    certificate: FloatArray
    n_iter: int


def nearest_psd_max_norm(
    covariance: FloatArray, *, fix_diagonal: bool = False, rtol: float = 1e-4, max_iter: int = 5000
) -> MaxNormProjection:
    r"""Return the positive semidefinite matrix nearest in the max norm, between proven bounds.

    .. math:: \min_{W \succeq 0} \max_{ij} |W_{ij} - S_{ij}|

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        S, symmetric.
    fix_diagonal : bool
        Keep the variances, which must be positive, and move covariances only.
    rtol : float
        Stop when the bounds on the smallest distance are this close, relative to the upper one.
    max_iter : int
        Most eigendecompositions; the bounds are proven even when it is reached.

    References
    ----------
    Datta and Zou (2017), section 2.2.
    """
    s = check_covariance(covariance)
    if smallest_eigenvalue(s) >= 0.0:
        return MaxNormProjection(s, 0.0, 0.0, np.zeros_like(s), 0)
    scale = float(np.abs(s).max())
    weights = np.ones_like(s)
    if fix_diagonal:
        np.fill_diagonal(weights, 0.0)
        check_free_diagonal(s, weights)
        inside = np.diag(s.diagonal() / scale)
    else:
        inside = np.eye(s.shape[0])
    unit = project_max_norm(s / scale, np.zeros_like(s), weights, inside, rtol=rtol, max_iter=max_iter)
    matrix = scale * unit.matrix
    return MaxNormProjection(
        matrix, float(np.abs(matrix - s).max()), scale * unit.lower_bound, unit.certificate, unit.n_iter
    )


def project_max_norm(
    s: FloatArray,
    allowance: FloatArray,
    weights: FloatArray,
    inside: FloatArray,
    *,
    rtol: float = 0.0,
    decide: tuple[float, float] = (-math.inf, math.inf),
    max_iter: int,
) -> MaxNormProjection:
    """Minimise t >= 0 subject to W positive semidefinite and ``|W - S| <= allowance + t * weights``.

    ADMM, over-relaxed. Its map is one of the matrix H alone. It gives the matrix of the widened box nearest to H, what
    is left over (the scaled dual), and the semidefinite projection. Now and then the units of the columns are changed
    so that certificate and matrix have proportional diagonals. Many matrices may be equally near; Anderson acceleration
    would let rounding, and so the processor, choose among them, and saves few steps here.

    Parameters
    ----------
    s : ndarray, shape (p, p)
        Symmetric, with entries of order one.
    allowance : ndarray, shape (p, p)
        Symmetric, non-negative, inf where an entry moves at no cost.
    weights : ndarray, shape (p, p)
        Symmetric, non-negative, finite; 0 where an entry keeps to its allowance.
    inside : ndarray, shape (p, p)
        A positive definite matrix within the allowance where the weights are zero: iterates are drawn towards it
        until they are positive semidefinite themselves.
    rtol : float
        As in `nearest_psd_max_norm`.
    decide : (float, float)
        Stop also when the distance is below the first number, or the lower bound above the second.
    max_iter : int
        Most eigendecompositions.

    References
    ----------
    Boyd, Parikh, Chu, Peleato and Eckstein (2011), sections 3.3 to 3.4.
    """
    size = _Sizes(s, allowance, weights, np.ones_like(s))
    floor = max(smallest_eigenvalue(inside), float(np.finfo(float).tiny))
    matrix, upper, certificate, lower = inside, size.distance(inside), np.zeros_like(s), 0.0

    bounded = bool(np.isfinite(allowance).all())
    h = s.copy()
    rounding = 10.0 * RESOLUTION * (1.0 + upper / floor)  # what is lost by drawing a singular matrix inside
    rho, n_iter, next_change, roughly = 1.0 / s.shape[0], 0, FIRST_CHANGE_OF_UNITS, rtol >= ROUGH

    while n_iter < max_iter and upper - lower > max(rtol * upper, rounding):
        n_iter += 1
        dual = size.excess(h, 1.0 / rho)
        box = h - dual
        negative = negative_part(box - dual, roughly=roughly)
        psd = box - dual + negative

        if n_iter % CHECK_EVERY == 0:
            z = (negative if bounded else raise_to_semidefinite(dual)) * size.outer
            bound, norm = size.bound(z)
            if bound > lower:
                certificate, lower = z / norm, bound
            first = box / size.outer
            lacking = max(0.0, -smallest_eigenvalue(first)) + RESOLUTION
            roughly = roughly and lacking > SINGLE * float(np.linalg.norm(first))
            share = lacking / (lacking + floor)  # just enough of a definite matrix to be semidefinite
            candidate = (1.0 - share) * first + share * inside
            distance = size.distance(candidate)
            if distance < upper:
                matrix, upper = candidate, distance
            if upper < decide[0] or lower > decide[1]:
                break

        h = RELAXATION * psd + (1.0 - RELAXATION) * box + dual

        if n_iter % BALANCE_EVERY == 0:
            dual = size.excess(h, 1.0 / rho)
            after = h - dual
            moved, step = _beyond_rounding(box - size.s), _beyond_rounding(after - box)
            factor = balancing_factor(psd - box, moved, step, dual) if moved.any() else MOST_BALANCING
            if n_iter >= next_change:
                next_change *= 2
                change = size.change_units(negative, after)
                h = after * change + dual / change
            elif factor != 1.0:
                rho, h = rho * factor, after + dual / factor
    return MaxNormProjection(matrix, upper, lower, certificate, n_iter)


class _Sizes:
    """The widening box in the units of the moment: ``outer`` takes a matrix there and a certificate back."""

    def __init__(self, s: FloatArray, allowance: FloatArray, weights: FloatArray, outer: FloatArray) -> None:
        self.first = s, allowance, weights
        self.s, self.allowance, self.weights, self.outer = s, allowance, weights, outer
        self.costly = weights > 0.0

    def distance(self, matrix: FloatArray) -> float:
        """Return the least t at which the box in its first units holds `matrix`."""
        s, allowance, weights = (x[self.costly] for x in self.first)
        return float(((np.abs(matrix[self.costly] - s) - allowance) / weights).max(initial=0.0))

    def bound(self, z: FloatArray) -> tuple[float, float]:
        """Return the lower bound on t that Z in the first units proves, and ``sum w |Z|``."""
        s, allowance, weights = self.first
        norm = float((weights * np.abs(z)).sum())
        if norm <= 0.0:
            return 0.0, 1.0
        nonzero = z != 0.0
        linear = float(s[nonzero] @ z[nonzero] + allowance[nonzero] @ np.abs(z[nonzero]))
        return -linear / norm, norm

    def excess(self, h: FloatArray, radius: float) -> FloatArray:
        """Return the excess of H over the box that is just wide enough for ``sum w |excess| <= radius``."""
        moved = h - self.s
        beyond = np.abs(moved) - self.allowance
        w = self.weights[self.costly]
        a, b = beyond[self.costly] * w, w * w
        width, active = 0.0, a > 0.0
        if a[active].sum() > radius:
            for _ in range(MOST_STEPS):
                a, b = a[active], b[active]
                wider = (float(a.sum()) - radius) / float(b.sum())
                if wider <= width * (1.0 + ROUNDING):
                    break
                width = wider
                active = a > width * b
        outside: FloatArray = np.sign(moved) * np.maximum(beyond - width * self.weights, 0.0)
        return outside

    def change_units(self, z: FloatArray, w: FloatArray) -> FloatArray:
        """Make the diagonals of certificate and matrix proportional; return the factor of the matrix."""
        d, e = z.diagonal(), w.diagonal()
        share = d / d.mean() + LEAST_SHARE if d.mean() > 0.0 else np.ones_like(d)
        spread = np.maximum(e / e.mean(), LEAST_SHARE) if e.mean() > 0.0 else np.ones_like(e)
        root = (share / spread) ** 0.25
        root = root / np.exp(np.log(root).mean())
        factor: FloatArray = np.outer(root, root)
        self.s, self.allowance, self.weights = self.s * factor, self.allowance * factor, self.weights * factor
        self.outer = self.outer * factor
        return factor


def _beyond_rounding(change: FloatArray) -> FloatArray:
    """Return a change of entries of order one without what is but rounding, which must not decide on a step."""
    return np.where(np.abs(change) > RESOLUTION, change, 0.0)
