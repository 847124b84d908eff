"""Eigenvalues with Laplace noise, and eigenvectors drawn one after another from the sphere: pure epsilon.

In units of N^2, rows v lie in the unit ball. The eigenvalues together move by at most 2 in L1 when a row is replaced
(`scaling`). So Laplace noise of scale 2 / eps_0 on each makes them eps_0-private. The i-th vector is drawn from the
sphere of the space that those before it leave, with density proportional to ``exp(kappa_i u^T C u)``. This is an
exponential mechanism, whose score moves by at most 1, as ``-1 <= (u.v)^2 - (u.w)^2 <= 1``. So ``kappa_i = eps_i / 2``
costs eps_i. The printed form has eps_i / 4, for a movement of 2. One row more or less moves all scores upwards, or all
downwards. So with add-remove neighbours ``kappa_i = eps_i``, and the eigenvalues move by at most 1. The last vector is
determined by the others and costs nothing; the printed form pays for it.

**After the noise**, which costs nothing either. Eigenvalues are sorted, and projected on those that the rows allow.
These are not negative and, where their number n is public, have a sum of at most n. The set is convex and holds the
truth, so that both steps can only bring them nearer. And ``||C - sum_i c_i u_i u_i^T||`` is smallest at c_i = u_i^T C
u_i, not at lambda_i. So the coefficients are what the scores are expected to be for these eigenvalues. The drawn
direction's share of the j-th eigenvector, ``E (u.v_j)^2``, is taken as 1 / (b + 2 a_j) (`bingham`). The matrix is then
compressed to that direction's complement, vector after vector. The printed form only limits each eigenvalue to [0, n].

What is covered to the last bit says `spectral`.

The bound on the error, by which `auto` chooses. With exact eigenvalues as coefficients, ``||C^ - C||^2 = 2 sum lambda_i
(lambda_i - u_i^T C u_i)``. By interlacing, what is in brackets is at most the distance between the largest eigenvalue
left and the vector's score. On average that is about (d - i + 1) / (2 kappa_i) at most. And it is at most lambda_i less
the mean of lambda_i, ..., lambda_d. Noise of scale s on d eigenvalues adds sqrt(2 d) s. All of it is at most sqrt(n^2 +
sum lambda_i^2), as both matrices are positive semidefinite, one with a trace of at most n. The bound is taken at
eigenvalues that stand for values spread evenly within their bounds, and related. They are in the proportions 1, 1/2,
1/3, ..., with the sum ``n (R^2 / 3 + c^2) / (R^2 + c^2)``. That is an assumption, which `auto` rests on; the guarantee
does not.

References
----------
Amin, Dick, Kulesza, Munoz Medina & Vassilvitskii (2019), Differentially private covariance estimation, algorithms 1 and
2, theorem 1, corollary 1. McSherry & Talwar (2007), Mechanism design via differential privacy, FOCS.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dp_bundle.base.arrays import Floats
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
)
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.spectral import Tools, exact_tools, float_tools
from dp_publish.covariance.scaling import UP, nuclear_sensitivity
from dp_publish.sampling.bingham import envelope_parameter
from dp_publish.sampling.keystream import Keystream

DOWN = 1 - 2.0**-40  # far above the rounding of the few operations on a share

_FINENESS = 28
_COARSENESS = 12
_MISS = 0.05  # beta: how often the shares may underestimate some eigenvalue
_MOST_CHOSEN = 100  # coordinates: its time grows with the fourth power, half a minute here


@dataclass(frozen=True)
class Eigenvectors(PureMechanism):
    """Eigenvectors sampled one after another, each from what those before it leave, with half of epsilon."""

    name: ClassVar[str] = "eigenvectors"
    noise: ClassVar[type[MatrixNoise]] = MatrixNoise
    draws_depend_on_data: ClassVar[bool] = True
    forecast_as: ClassVar[type[Mechanism] | None] = Laplace
    error_kind: ClassVar[str] = "a bound on it for evenly spread values"
    excepted_delta: ClassVar[float] = EXCEPTED_DELTA

    @property
    def sensitivity(self) -> float:
        """The most that one row moves the eigenvalues of the sum, all movements added up."""
        return nuclear_sensitivity(self.scaling, self.neighbours)

    @property
    def exponent(self) -> float:
        """The exponent's kappa that an epsilon of one vector allows, over that epsilon."""
        return 1 / self.neighbours.nuclear

    def draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return second moments made of integers alone; see `Mechanism`."""
        return self._release(moments, exact_tools(moments, self.row_epsilon, self.max_rows, rng))

    def insecure_draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return what `draw` would, drawn in floating point, sooner: to measure errors, never to release.

        Low bits of the result tell of the data, so that no guarantee is stated.
        """
        return self._release(moments, float_tools(moments, rng))

    def _release(self, moments: ExactMoments, tools: Tools) -> NoisyMoments:
        """Return the vectors with the coefficients that they are expected to deserve, and with the eigenvalues."""
        eigenvalues, step = self.noisy_eigenvalues(moments, tools)
        coefficients, square = self.coefficients(eigenvalues), moments.scaling.square
        u = _sample_basis(tools, self.kappas(eigenvalues))
        matrix, unshrunk = ((u.T * weights) @ u for weights in (coefficients, eigenvalues))
        scaled = 0.5 * (matrix + matrix.T) * square
        if tools.granular:
            scaled = np.rint(scaled / step) * step
        return released(self, scaled, moments, MatrixNoise(step), unshrunk * square)

    def noisy_eigenvalues(self, moments: ExactMoments, tools: Tools) -> tuple[Floats, float]:
        """Return eigenvalues with noise in units of N^2, the largest first, and the step of the grid for the matrix."""
        d, square, moved = moments.scaling.n_coordinates, moments.scaling.square, self.sensitivity
        grid = eigenvalue_grid(moved, self.row_epsilon)
        scale = 2 * (moved + 1.5 * d * grid.step) / self.row_epsilon * UP
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

    def kappas(self, eigenvalues: Floats) -> Floats:
        """Return every vector's exponent: its share of epsilon / 2, times what an epsilon of one vector allows."""
        d = len(eigenvalues)
        shares = self.shares(eigenvalues)
        shares = shares / shares.sum() * (self.row_epsilon / 2) * DOWN
        return np.append(shares, 0.0)[:d] * self.exponent

    def shares(self, eigenvalues: Floats) -> Floats:
        """Return the parts of all vectors but the last: ``sqrt(lambda_i + tau)``, tau = (2 / eps_0) ln(2 d / beta)."""
        d = len(eigenvalues)
        tau = 4 / self.row_epsilon * math.log(2 * d / _MISS)
        shares: Floats = np.sqrt(eigenvalues[: max(d - 1, 1)] + tau)
        return shares

    def coefficients(self, eigenvalues: Floats) -> Floats:
        """Return about what u_i^T C u_i will be, if C has these eigenvalues."""
        spectrum: Floats = eigenvalues
        scores = []
        for kappa in self.kappas(eigenvalues):
            a = kappa * (spectrum.max() - spectrum)
            weights = 1 / (envelope_parameter(a) + 2 * a)
            weights /= weights.sum()
            scores.append(float(weights @ spectrum))
            if len(spectrum) > 1:
                others = complement(np.sqrt(weights))
                spectrum = np.asarray(np.linalg.eigvalsh(others.T @ (spectrum[:, None] * others)), np.float64)
        return np.array(scores)

    def expected_error(self, n_rows: int) -> float | None:
        """Return the bound above; None where it would take too long."""
        scaling, d, epsilon = self.scaling, self.scaling.n_coordinates, self.row_epsilon
        if d > _MOST_CHOSEN:
            return None
        places = np.arange(1, d + 1)
        trace = (float(scaling.squared_radius) / 3 + scaling.constant**2) / scaling.square
        eigenvalues = trace * n_rows / places / (1 / places).sum()
        shares = np.sqrt(eigenvalues + 4 / epsilon * math.log(2 * d / _MISS))
        kappas = epsilon / 2 * self.exponent * shares / shares.sum()

        left = places[::-1]  # d - i + 1
        means = np.cumsum(eigenvalues[::-1])[::-1] / left
        vectors = math.sqrt(2 * eigenvalues @ np.minimum(left / (2 * kappas), eigenvalues - means))
        scale = self.sensitivity / scaling.square * 2 / epsilon
        return min(vectors + math.sqrt(2 * d) * scale, math.hypot(n_rows, *eigenvalues)) / n_rows


def eigenvalue_grid(moved: float, epsilon: float) -> DyadicGrid:
    """Return the grid of the eigenvalues' noise, for the sum of their movements; in the matrix's units."""
    return grid_for(2 * moved / epsilon, _FINENESS)


def _sample_basis(tools: Tools, kappas: Floats) -> Floats:
    """Return the u_i as rows, each drawn from the complement of those before it."""
    drawn = []
    d = len(kappas)
    basis = np.eye(d)
    for kappa in kappas:
        y = tools.vector(basis, float(kappa))
        drawn.append(basis @ y)
        basis = basis @ complement(y)
    return np.array(drawn)


def complement(g: Floats) -> Floats:
    """Return an orthonormal basis of the complement of a unit vector: all but the first column of its reflector."""
    v = g.copy()
    v[0] += math.copysign(1.0, g[0])
    reflector: Floats = np.eye(len(g)) - np.outer(v, v) * (2 / (v @ v))
    return reflector[:, 1:]


MECHANISM = Eigenvectors
