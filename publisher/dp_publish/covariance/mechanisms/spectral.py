"""The exact and the fast draws of the mechanism that samples eigenvectors, and what its guarantee excepts.

**What is covered.** Only integers are drawn, each by a step that is private on its own. Everything else is made of them
and of the policy, so that there is nothing of the data in the low bits of the result. In detail:

- Eigenvalues are computed to 3/4 of a step of a grid of 2^-28 of the noise, and get discrete Laplace noise. Its scale
  includes 3/2 of a step an eigenvalue for the rounding.
- A vector is ``u_i = B y / ||B y||``. B is an integer matrix, near an orthonormal basis of what the vectors before
  leave, and made of those. The coordinates y are drawn from the sphere with density ``exp(kappa_i y^T K y)``, ``K = B^T
  C B / (beta N^2)``. Here C is the exact sum and beta a bound on the eigenvalues of B^T B (Gershgorin). A row v of
  length N or less adds ``(v.B y)^2 / (beta N^2)`` to the score, between 0 and 1 whatever B is. So a basis that is not
  quite orthonormal costs accuracy and no privacy. What is kept of y is rounded to a grid.
- The matrix is computed from these in floating point, and rounded to a grid of about 2^-12 of the eigenvalues' noise.
  That grid is a coarse one, which it shares with the other mechanisms.

What the computer draws differs from that with a chance below a sum over eigenvalues and vectors, delta_0, whatever the
data. These are the total variations that `sampling.laplace` and what is below prove, for a precision of our choice. So
for a unit of privacy of m rows

    P[S | C] <= e^(m epsilon) P[S | C'] + (1 + e^(m epsilon)) delta_0,

The precision is such that this delta is below 2^-40, also with 2 m epsilon for m epsilon, as the ledger counts an
add-remove release. EXCEPTED_DELTA, 2^-40, is stated as what the guarantee excepts. How long the sampler takes depends
on the data.

References
----------
Amin, Dick, Kulesza, Munoz Medina & Vassilvitskii (2019), Differentially private covariance estimation, for the noise of
the eigenvalues.

Unit vectors with density proportional to exp(u^T A u), to any precision: the Bingham distribution by rejection.

A is an exact matrix of k rows. For a number rho, an invertible matrix L and m > 0 with

    R = rho I - 2 A,    E = L^T R L,    E - m I positive semidefinite,

propose x = L g with normal numbers g. Its direction u has a density proportional to omega^(-k/2), with
``omega = u^T (L L^T)^-1 u = |g|^2 / |x|^2``. With ``sigma = u^T R u = g^T E g / |x|^2``, accept it with probability

    y^(k/2),    y = (m omega / k) exp(1 - sigma / k).

That is a probability, as m omega <= sigma and v exp(1 - v) <= 1. What is accepted has a density proportional to
``exp(-sigma / 2)``, which is ``exp(u^T A u)`` but for a constant. So the law is right whatever rho and L are: they come
from A, and decide only how many proposals it takes. They are chosen with ``tr R^-1`` near 1, where most are accepted
(Kent et al.), and L from Cholesky's decomposition of R.

**Proposals.** Let E be between m I and M I, and s <= 1 a lower bound of R's eigenvalues. Let J be the mean of
``exp(-sigma / 2)`` over the sphere. The chance to accept is at least ``(m e / (M k))^(k/2) det(R)^(1/2) J``. Let z be
N(0, R^-1). In polar coordinates, with ``exp(-r^2 sigma / 2) <= exp(-sigma / 2) exp((1 - r^2) s / 2)`` for r >= 1,

    P(|z|^2 >= 1) <= det(R)^(1/2) J s^(-k/2) e^(s/2),

and a weighted sum of chi-squared variables exceeds its mean, here tr R^-1 >= 1, with a chance of at least 1/60 (its
fourth central moment is at most 15 times its variance squared; Paley & Zygmund). `_ellipsoid` confirms in integers
that M / m <= 1 + 1 / (2 k), that ``tr R^-1 >= |L|_F^2 / M >= 1``, and ``s >= m / |L|_F^2 >= 1 / 3``. So the chance is
above 2^-l, l = 8 + k (log2(k) + 0.4) / 2. It is far larger in fact, about 0.86 / sqrt(k) for the worst spectrum known;
the bound serves to choose the precision. There is no limit on the number of proposals, so that nothing fails; how long
it takes depends on A.

**Precision.** The result is ``floor(2^PLACES u_j + D_j)``, with uniform numbers D_j: a vector on a grid. That of the
real numbers above, drawn with the same coins, differs from what the computer returns with a chance below 2^-t. Let P
be the places of g, and 2^-c the length below which a vector g counts as an error. Then |x| has a relative error of at
most h = 4 sqrt(k) 2^(c - P) |R|^(1/2), as |L|^2 <= 3 m and |L^-1|^2 <= |R| / m. In one proposal, normal numbers are
wrong with a chance of at most k 2^(16 - P), |g| < 2^-c has one of at most 4^-c / 2, and the decision differs by

    (k / 2) |dy| <= (k / 2) (16 h + 2^-P),

as dy = y (d omega / omega - d sigma / k), sigma / k y <= (sigma / k)^2 exp(1 - sigma / k) < 1.5, and the arithmetic has
more places than P. Summed over proposals that is at most 2^l times as much. A real and a computed sampler part company
at the n-th proposal only if the real one has got there. The coordinates of the accepted one are off by at most 3 h.
Each is rounded differently with a chance of at most 2^PLACES times that, whatever their density, because D_j is
uniform. `_places` makes these 2^-(t + 1) each.

**Eigenvalues** of an integer matrix, each with an error below a stated bound that is proven, by Jacobi's method on
integers. A rotation by the angle 2 arctan(p / q), with whole numbers p and q, is exactly orthogonal, whatever angle
floating point has suggested. What it changes, two rows and two columns, is rounded down to integers, which moves all
eigenvalues by at most 2 sqrt(d) (Weyl). Where the method ends, they differ from the diagonal by at most the Frobenius
norm of the rest. That norm is below an eighth of a unit. So is what rotations have added, unless there were 2^60 /
sqrt(d) of them, as an eighth of a unit is 2^61 integers.

References
----------
Kent, Ganeiban & Mardia (2013), A new method to simulate the Bingham and related distributions in directional data
analysis, arXiv 1310.8110. Golub & Van Loan (2013), Matrix computations, section 8.5, for the method. Forsythe & Henrici
(1960), The cyclic Jacobi method for computing the principal values of a complex matrix, for its convergence. Horn &
Johnson (2013), Matrix analysis, section 4.3, for Weyl's inequality.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import (
    DyadicGrid,
    security_for,
)
from dp_publish.covariance.scaling import GRID_BITS
from dp_publish.sampling.bingham import envelope_parameter, sample_bingham
from dp_publish.sampling.fixed_point import exp_minus, integers, power_of_root, precise_normals
from dp_publish.sampling.keystream import Keystream, uniform_bits
from dp_publish.sampling.laplace import sample_discrete_laplace

_PLACES = 52  # of a basis


@dataclass(frozen=True)
class Tools:
    """The two steps that see the data.

    `eigenvalues` takes a grid and a scale in its steps, and returns noisy ones, in steps. `vector` takes an orthonormal
    basis, as columns, and kappa; it returns coordinates.
    """

    eigenvalues: Callable[[DyadicGrid, float], Floats]
    vector: Callable[[Floats, float], Floats]
    granular: bool


def exact_tools(moments: ExactMoments, epsilon: float, max_rows: int, rng: Keystream) -> Tools:
    """Return steps of integers alone, for an epsilon of one row and as many rows as a unit has."""
    d, square = moments.scaling.n_coordinates, Fraction(moments.scaling.square)
    security = security_for(max_rows * epsilon) + d.bit_length() + 1
    bits = 64 * math.ceil(max(192, security + 8) / 64)

    def eigenvalues(grid: DyadicGrid, scale: float) -> Floats:
        noise = sample_discrete_laplace(scale, d, rng, bits=bits).tolist()
        exact = eigenvalues_in_units(moments.steps, grid.exponent)
        return np.array([one + other for one, other in zip(exact, noise, strict=True)], dtype=np.float64)

    def vector(basis: Floats, kappa: float) -> Floats:
        if basis.shape[1] == 1:
            return np.ones(1)
        b = integers(basis, _PLACES)
        beta = int(np.abs(b.T @ b).sum(axis=1).max())
        factor = Fraction(kappa) / (beta * square * 4**GRID_BITS)
        exponent = max(0, 64 + (factor.denominator // max(factor.numerator, 1)).bit_length())
        drawn = draw_direction(b.T @ moments.steps @ b * int(factor * 2**exponent), exponent, security, rng)
        y = np.array(drawn, dtype=np.float64)
        unit: Floats = y / np.linalg.norm(y)
        return unit

    return Tools(eigenvalues, vector, granular=True)


def float_tools(moments: ExactMoments, rng: Keystream) -> Tools:
    """Return steps in floating point, which are sooner done, and whose low bits tell of the data."""
    matrix = moments.matrix

    def eigenvalues(grid: DyadicGrid, scale: float) -> Floats:
        noise = sample_discrete_laplace(scale, len(matrix), rng)
        return np.asarray(np.rint(np.linalg.eigvalsh(matrix)[::-1] / grid.step) + noise)

    def vector(basis: Floats, kappa: float) -> Floats:
        spectrum, vectors = np.linalg.eigh(basis.T @ (matrix / moments.scaling.square) @ basis)
        return np.asarray(with_fixed_signs(vectors) @ sample_bingham(kappa * spectrum, rng))

    return Tools(eigenvalues, vector, granular=False)


def with_fixed_signs(vectors: Floats) -> Floats:
    """Return eigenvectors, as columns, each with the sign that gives it a positive product with a fixed vector.

    LAPACK leaves the signs open, and they differ between processors; so would what a seed draws.
    """
    fixed = np.sqrt(np.arange(2.0, len(vectors) + 2.0))
    signed: Floats = vectors * np.where(fixed @ vectors < 0.0, -1.0, 1.0)
    return signed


PLACES = 48  # of the released vectors
_WORD = 64
_UNIT_BITS = 64


def draw_direction(matrix: NDArray[Any], exponent: int, security: int, rng: Keystream) -> list[int]:
    """Return a unit vector with density proportional to exp(u^T A u), rounded to multiples of 2^-PLACES at random.

    Parameters
    ----------
    matrix : ndarray of Python int, shape (k, k)
        A, symmetric, in units of 2^-exponent.
    exponent : int
        At least 0.
    security : int
        t: the law is exact up to a total variation of 2^-t.
    rng : Keystream
        Where random bits come from.

    Returns
    -------
    list of int
        In units of 2^-PLACES.
    """
    k = len(matrix)
    if k == 1:
        return [1 << PLACES]
    shape = _ellipsoid(matrix, exponent)
    places = _places(k, shape, security)
    work = places + 2 * places.bit_length() + 16
    e = (1 << (2 * work)) // exp_minus(1 << work, work)
    while True:
        g = np.array(precise_normals(k, places, rng), dtype=object)
        x = shape.inverse.T @ g
        length, squared = max(int(x @ x), 1), int(g @ g)
        sigma = (int(x @ (shape.form @ x)) << work) // ((length * k) << exponent)
        omega = ((squared * shape.least) << work) // ((length * k) << exponent)
        y = (((omega * exp_minus(sigma, work)) >> work) * e) >> work
        if uniform_bits(work, rng) < power_of_root(y, k, work):
            break
    norm = math.isqrt(length)
    dither = [uniform_bits(places, rng) for _ in range(k)]
    return [(((int(part) << (PLACES + places)) // norm) + d) >> places for part, d in zip(x, dither, strict=True)]


@dataclass(frozen=True, eq=False)
class _Ellipsoid:
    """R and L^T, and m in units of those of R times the square of those of L^T."""

    form: NDArray[Any]
    inverse: NDArray[Any]
    least: int
    bits: int  # |R| is at most 4^bits


def _ellipsoid(matrix: NDArray[Any], exponent: int) -> _Ellipsoid:
    """Return R, L and m for A in units of 2^-exponent, with tr R^-1 between 1 and about 3.

    The trace falls in rho from infinity to below 1, so that halving the interval ends, wherever it starts.
    """
    k = len(matrix)
    doubled = 2 * matrix
    lowest = int(max(np.diagonal(doubled)))
    highest = int(np.abs(doubled).sum(axis=1).max()) + (k << exponent)
    norm_bits = (2 * highest >> exponent).bit_length()
    rho, q = _likely_rho(matrix, exponent), norm_bits + 2 * k.bit_length() + _WORD

    while True:
        # L from the rho in the middle, if R is positive definite there
        if not lowest < rho < highest:
            rho = (lowest + highest) >> 1
        form = -doubled
        form[np.diag_indices(k)] += rho
        inverse = _inverse_factor(form * (1 << (2 * q)) >> exponent, q)
        if inverse is None:
            lowest = rho
            continue

        # halve the interval, or take more places where L is not near enough
        least, most = _bounds(inverse @ form @ inverse.T)
        trace = int((inverse * inverse).sum()) << exponent
        if 2 * k * (most - least) > least:
            q += _WORD
        elif trace < most:
            highest = rho
        elif trace > 3 * least:
            lowest = rho
        else:
            return _Ellipsoid(form, inverse, least, (norm_bits + 1) // 2)


def _likely_rho(matrix: NDArray[Any], exponent: int) -> int:
    """Return about the rho for which tr R^-1 is a little above 1; any number would do."""
    try:
        spectrum = np.linalg.eigvalsh((matrix / (1 << exponent)).astype(np.float64))
    except np.linalg.LinAlgError:
        return 0
    rho = 2 * spectrum[-1] + (1 - 2.0**-8) * envelope_parameter(spectrum[-1] - spectrum)
    top, bottom = float(rho).as_integer_ratio()
    return (top << exponent) // bottom


def _inverse_factor(form: NDArray[Any], q: int) -> NDArray[Any] | None:
    """Return about C^-1 for the lower triangular C with C C^T = R; None if R is not positive definite.

    R is in units of 2^-2q, the result in those of 2^-q.
    """
    k = len(form)
    rest, factor, inverse = form.copy(), np.zeros_like(form), np.zeros_like(form)
    for j in range(k):
        pivot = math.isqrt(max(int(rest[j, j]), 0))
        if not pivot:
            return None
        factor[j:, j] = rest[j:, j] // pivot
        rest[j + 1 :, j + 1 :] -= np.multiply.outer(factor[j + 1 :, j], factor[j + 1 :, j])
    for j in range(k):
        inverse[j, :j] = -(factor[j, :j] @ inverse[:j, :j]) // factor[j, j]
        inverse[j, j] = (1 << (2 * q)) // factor[j, j]
    return inverse


def _bounds(matrix: NDArray[Any]) -> tuple[int, int]:
    """Return numbers that all eigenvalues lie between (Gershgorin)."""
    diagonal = np.diagonal(matrix)
    others = np.abs(matrix).sum(axis=1) - np.abs(diagonal)
    return int(min(diagonal - others)), int(max(diagonal + others))


def _places(k: int, shape: _Ellipsoid, security: int) -> int:
    """Return P, a multiple of 64: tables of normal numbers are made for each."""
    proposals = 8 + math.ceil(k * (math.log2(k) + 0.4) / 2)  # l
    short = (security + proposals + 4) // 2 + 1  # c
    least = security + max(proposals, PLACES) + short + shape.bits + 2 * k.bit_length() + 24
    return -(-least // _WORD) * _WORD


def eigenvalues_in_units(matrix: NDArray[Any], exponent: int) -> list[int]:
    """Return the eigenvalues in units of 2^exponent, the largest first, each less than 3/4 from the true one.

    Parameters
    ----------
    matrix : ndarray of Python int, shape (d, d)
        Symmetric.
    exponent : int
        At least 0.
    """
    spare = max(0, _UNIT_BITS - exponent)
    rotated, unit = matrix * (1 << spare), exponent + spare
    most = (1 << (unit - 3)) // len(matrix)
    upper = np.triu_indices(len(matrix), 1)
    while True:
        left = np.flatnonzero(np.abs(rotated[upper]) > most)
        if not left.size:
            break
        for i, j in zip(upper[0][left], upper[1][left], strict=True):
            if rotated[i, j]:
                _rotate(rotated, i, j)
    found = [(int(entry) + (1 << (unit - 1))) >> unit for entry in np.diagonal(rotated)]
    return sorted(found, reverse=True)


def _rotate(matrix: NDArray[Any], i: int, j: int) -> None:
    """Make the entry (i, j) about zero by an exact rotation, in place."""
    a, b, h = int(matrix[i, i]), int(matrix[j, j]), int(matrix[i, j])
    ratio = (b - a) / (2 * h)
    tangent = math.copysign(1 / (abs(ratio) + math.hypot(1, ratio)), ratio)
    p, q = (tangent / (1 + math.hypot(1, tangent))).as_integer_ratio()
    c, s, whole = q * q - p * p, 2 * p * q, q * q + p * p

    first, second = (c * matrix[i] - s * matrix[j]) // whole, (s * matrix[i] + c * matrix[j]) // whole
    matrix[i], matrix[j] = first, second
    matrix[:, i], matrix[:, j] = first, second
    matrix[i, i] = (c * c * a - 2 * c * s * h + s * s * b) // (whole * whole)
    matrix[j, j] = (s * s * a + 2 * c * s * h + c * c * b) // (whole * whole)
    matrix[i, j] = matrix[j, i] = (c * s * (a - b) + (c * c - s * s) * h) // (whole * whole)
