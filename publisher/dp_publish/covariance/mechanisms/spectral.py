"""The common parts of the mechanisms that sample eigenvectors: noisy eigenvalues, exact and fast draws, the exception.

**What is covered.** Only integers are drawn, each by a step that is private on its own, and everything else is made of
them and of the policy, so that there is nothing of the data in the low bits of the result. In detail:

- Eigenvalues are computed to 3/4 of a step of a grid of 2^-28 of the noise (`directions`), and get discrete Laplace
  noise; its scale includes 3/2 of a step an eigenvalue for the rounding.
- A vector is ``u_i = B y / ||B y||``. B is an integer matrix, near an orthonormal basis of what the vectors before
  leave, and made of those. The coordinates y are drawn from the sphere with density ``exp(kappa_i y^T K y)``, ``K =
  B^T C B / (beta N^2)``, where C is the exact sum and beta a bound on the eigenvalues of B^T B (Gershgorin). A row v
  of length N or less adds ``(v.B y)^2 / (beta N^2)`` to the score, between 0 and 1 whatever B is, so that a basis that
  is not quite orthonormal costs accuracy and no privacy. What is kept of y is rounded to a grid (`directions`).
- The matrix is computed from these in floating point, and rounded to a grid of about 2^-12 of the eigenvalues' noise:
  a coarse one, which it shares with the other mechanisms.

What the computer draws differs from that with a chance below a sum over eigenvalues and vectors, delta_0, whatever the
data: the total variations that `laplace_sampling` and `directions` prove, for a precision of our choice. So for a unit
of privacy of m rows

    P[S | C] <= e^(m epsilon) P[S | C'] + (1 + e^(m epsilon)) delta_0,

and the precision is such that this delta is below 2^-40, also with 2 m epsilon for m epsilon, as the ledger counts an
add-remove release. EXCEPTED_DELTA, 2^-40, is stated as what the guarantee excepts. How long the sampler takes depends
on the data.

References
----------
Amin, Dick, Kulesza, Munoz Medina & Vassilvitskii (2019), Differentially private covariance estimation, for the noise of
the eigenvalues.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_bundle.manifest.matrix_noise import MatrixNoise
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import (
    EXCEPTED_DELTA,
    DyadicGrid,
    Mechanism,
    NoisyMoments,
    PureMechanism,
    grid_for,
    released,
    security_for,
)
from dp_publish.covariance.mechanisms.directions import draw_direction, eigenvalues_in_units
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.scaling import GRID_BITS, nuclear_sensitivity
from dp_publish.sampling.bingham import sample_bingham
from dp_publish.sampling.fixed_point import integers
from dp_publish.sampling.keystream import Keystream, SecureKeystream
from dp_publish.sampling.laplace import sample_discrete_laplace

DOWN = 1 - 2.0**-40  # far above the rounding of the few operations on a share

_FINENESS = 28
_COARSENESS = 12
_PLACES = 52  # of a basis
_UP = 1 + 2.0**-48  # the same for a scale
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Tools:
    """The two steps that see the data.

    `eigenvalues` takes a grid and a scale in its steps, and returns noisy ones, in steps. `vector` takes an orthonormal
    basis, as columns, a matrix to subtract from the data's, in units of N^2, and kappa; it returns coordinates.
    """

    eigenvalues: Callable[[DyadicGrid, float], Floats]
    vector: Callable[[Floats, Floats, float], Floats]
    granular: bool


def _exact_tools(moments: ExactMoments, epsilon: float, max_rows: int, rng: Keystream) -> Tools:
    d, square = moments.scaling.n_coordinates, Fraction(moments.scaling.square)
    security = security_for(max_rows * epsilon) + d.bit_length() + 1
    bits = 64 * math.ceil(max(192, security + 8) / 64)

    def eigenvalues(grid: DyadicGrid, scale: float) -> Floats:
        noise = sample_discrete_laplace(scale, d, rng, bits=bits).tolist()
        exact = eigenvalues_in_units(moments.steps, grid.exponent)
        return np.array([one + other for one, other in zip(exact, noise, strict=True)], dtype=np.float64)

    def vector(basis: Floats, subtracted: Floats, kappa: float) -> Floats:
        if basis.shape[1] == 1:
            return np.ones(1)
        b = integers(basis, _PLACES)
        beta = int(np.abs(b.T @ b).sum(axis=1).max())
        rest = moments.steps - integers(subtracted * float(square), 2 * GRID_BITS)
        factor = Fraction(kappa) / (beta * square * 4**GRID_BITS)
        exponent = max(0, 64 + (factor.denominator // max(factor.numerator, 1)).bit_length())
        drawn = draw_direction(b.T @ rest @ b * int(factor * 2**exponent), exponent, security, rng)
        y = np.array(drawn, dtype=np.float64)
        unit: Floats = y / np.linalg.norm(y)
        return unit

    return Tools(eigenvalues, vector, granular=True)


def _float_tools(moments: ExactMoments, rng: Keystream) -> Tools:
    matrix = moments.matrix

    def eigenvalues(grid: DyadicGrid, scale: float) -> Floats:
        noise = sample_discrete_laplace(scale, len(matrix), rng)
        return np.asarray(np.rint(np.linalg.eigvalsh(matrix)[::-1] / grid.step) + noise)

    def vector(basis: Floats, subtracted: Floats, kappa: float) -> Floats:
        spectrum, vectors = np.linalg.eigh(basis.T @ (matrix / moments.scaling.square - subtracted) @ basis)
        return np.asarray(with_fixed_signs(vectors) @ sample_bingham(kappa * spectrum, rng))

    return Tools(eigenvalues, vector, granular=False)


def with_fixed_signs(vectors: Floats) -> Floats:
    """Return eigenvectors, as columns, each with the sign that gives it a positive product with a fixed vector.

    LAPACK leaves the signs open, and they differ between processors; so would what a seed draws.
    """
    fixed = np.sqrt(np.arange(2.0, len(vectors) + 2.0))
    signed: Floats = vectors * np.where(fixed @ vectors < 0.0, -1.0, 1.0)
    return signed


@dataclass(frozen=True)
class SpectralMechanism(PureMechanism):
    """A mechanism of half an epsilon on the eigenvalues and half on vectors; its noise does not act entry by entry."""

    noise: ClassVar[type[MatrixNoise]] = MatrixNoise
    draws_depend_on_data: ClassVar[bool] = True
    forecast_as: ClassVar[type[Mechanism] | None] = Laplace
    excepted_delta: ClassVar[float] = EXCEPTED_DELTA

    @property
    def sensitivity(self) -> float:
        """The most that one row moves the eigenvalues of the sum, all movements added up."""
        return nuclear_sensitivity(self.scaling, self.neighbours)

    @property
    def exponent(self) -> float:
        """The exponent's kappa that an epsilon of one vector allows, over that epsilon."""
        return 1 / self.neighbours.nuclear

    def draw(self, moments: ExactMoments, rng: Keystream | None = None) -> NoisyMoments:
        """Return second moments made of integers alone; see `Mechanism`."""
        keystream = SecureKeystream() if rng is None else rng
        return self._release(moments, _exact_tools(moments, self.row_epsilon, self.max_rows, keystream))

    def insecure_draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return what `draw` would, drawn in floating point, sooner: to measure errors, never to release.

        Low bits of the result tell of the data, so that no guarantee is stated.
        """
        return self._release(moments, _float_tools(moments, rng))

    @abstractmethod
    def put_together(self, eigenvalues: Floats, tools: Tools) -> tuple[Floats, Floats]:
        """Return the matrix, and what it was before it was shrunk, in units of N^2, from noisy eigenvalues."""

    def coefficients(self, eigenvalues: Floats) -> Floats:
        """Return what the vectors are multiplied by: the eigenvalues, unless they are shrunk."""
        return eigenvalues

    def _release(self, moments: ExactMoments, tools: Tools) -> NoisyMoments:
        eigenvalues, step = self._noisy_eigenvalues(moments, tools)
        matrix, unshrunk = self.put_together(eigenvalues, tools)
        scaled = 0.5 * (matrix + matrix.T) * moments.scaling.square
        if tools.granular:
            scaled = np.rint(scaled / step) * step
        return released(self, scaled, moments, MatrixNoise(step), unshrunk * moments.scaling.square)

    def _noisy_eigenvalues(self, moments: ExactMoments, tools: Tools) -> tuple[Floats, float]:
        """Return eigenvalues with noise in units of N^2, the largest first, and the step of the grid for the matrix."""
        d, square, moved = moments.scaling.n_coordinates, moments.scaling.square, self.sensitivity
        grid = eigenvalue_grid(moved, self.row_epsilon)
        scale = 2 * (moved + 1.5 * d * grid.step) / self.row_epsilon * _UP
        noisy = tools.eigenvalues(grid, scale / grid.step) * (grid.step / square)
        most = float(moments.n_rows) if self.neighbours.n_rows_public else math.inf
        return self.limit(noisy, most), grid_for(scale, _COARSENESS).step

    def limit(self, noisy: Floats, most: float) -> Floats:
        """Return the nearest eigenvalues, descending, that are not negative and have a sum of at most `most`."""
        eigenvalues = np.sort(noisy)[::-1]
        excess = 0.0
        if np.maximum(eigenvalues, 0.0).sum() > most:
            excesses = (np.cumsum(eigenvalues) - most) / np.arange(1, len(eigenvalues) + 1)
            excess = excesses[np.flatnonzero(eigenvalues >= excesses)[-1]]
        allowed: Floats = np.maximum(eigenvalues - excess, 0.0)
        return allowed


def eigenvalue_grid(moved: float, epsilon: float) -> DyadicGrid:
    """Return the grid of the eigenvalues' noise, for the sum of their movements; in the matrix's units."""
    return grid_for(2 * moved / epsilon, _FINENESS)
