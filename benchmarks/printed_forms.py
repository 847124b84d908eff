"""The forms of covariance mechanisms that papers print, for comparison, some of which are not private at all."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.matrix_noise import MatrixNoise
from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import Strength
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import Mechanism, NoisyMoments, released
from dp_publish.covariance.mechanisms.eigenvectors import DOWN, Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.spectral import float_tools, with_fixed_signs
from dp_publish.covariance.mechanisms.wishart import Wishart, check_epsilon_and_delta
from dp_publish.sampling.bingham import sample_bingham
from dp_publish.sampling.keystream import Keystream

Floats = NDArray[np.float64]


def make(
    kind: type[Mechanism],
    moments: ExactMoments,
    strength: Strength,
    neighbours: str = "replace-one",
    max_rows: int = 1,
) -> Mechanism:
    """Return a mechanism for these sums."""
    return kind(moments.scaling, Neighbours(neighbours), strength, max_rows)


def release(
    kind: type[Mechanism],
    moments: ExactMoments,
    strength: Strength,
    *,
    neighbours: str = "replace-one",
    max_rows: int = 1,
    rng: Keystream | None = None,
) -> NoisyMoments:
    """Return these sums with a mechanism's noise."""
    return make(kind, moments, strength, neighbours, max_rows).draw(moments, rng)


def insecure_release(
    kind: type[Mechanism], moments: ExactMoments, strength: Strength, rng: Keystream, neighbours: str = "replace-one"
) -> NoisyMoments:
    """Return the same, drawn in floating point where that is sooner."""
    return make(kind, moments, strength, neighbours).insecure_draw(moments, rng)


class OneVariance(Gaussian):
    """Gaussian noise of one variance for all entries (Wang, Huai & Xu 2018, theorem 6)."""

    @staticmethod
    def off_diagonal(sigma: float) -> float:
        """Return the diagonal's."""
        return sigma


class PrintedLaplace(Laplace):
    """Laplace noise for the printed sensitivity, 2 d for rows in the unit ball."""

    @property
    def sensitivity(self) -> float:
        """What is printed."""
        return 2 * self.scaling.n_coordinates * self.scaling.square


class PrintedWishart(Wishart):
    """Wishart noise of as many degrees of freedom as Sheffet prints."""

    def degrees_for(self, delta: float) -> int:  # noqa: ARG002  as it is printed for the whole of it
        """Return his number."""
        return degrees_printed(self.scaling.n_coordinates, self.strength.epsilon, self.strength.delta)


class UniformEigenvectors(Eigenvectors):
    """Our form with equal parts of epsilon for all vectors."""

    def shares(self, eigenvalues: Floats) -> Floats:
        """Return equal parts."""
        return np.ones(max(len(eigenvalues) - 1, 1))


class _Printed(Eigenvectors):
    @property
    def sensitivity(self) -> float:
        return 2 * self.scaling.square

    @property
    def exponent(self) -> float:
        return 0.25

    def limit(self, noisy: Floats, most: float) -> Floats:
        return np.clip(noisy, 0.0, most)


class PrintedEigenvectors(_Printed):
    """The form of Amin et al. (2019), which pays for the last vector and shrinks nothing."""

    def shares(self, eigenvalues: Floats) -> Floats:
        """Return the adaptive parts of all vectors."""
        return np.sqrt(eigenvalues + 4 / self.row_epsilon * math.log(2 * len(eigenvalues) / 0.05))

    def coefficients(self, eigenvalues: Floats) -> Floats:
        """Return the eigenvalues."""
        return eigenvalues


class PrintedUniformEigenvectors(PrintedEigenvectors):
    """The same with equal parts of epsilon."""

    def shares(self, eigenvalues: Floats) -> Floats:
        """Return equal parts."""
        return np.ones(len(eigenvalues))


class PrintedKapralovTalwar(_Printed):
    """Kapralov & Talwar's (2013), insecurely alone: vectors of the whole sphere, lambda_i u_i u_i^T subtracted."""

    def insecure_draw(self, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return the sum of what was subtracted, which nothing shrinks."""
        eigenvalues, step = self.noisy_eigenvalues(moments, float_tools(moments, rng))
        d, square = len(eigenvalues), moments.scaling.square
        kappa = self.exponent * self.row_epsilon / (2 * d) * DOWN
        total = np.zeros((d, d))
        for eigenvalue in eigenvalues:
            spectrum, vectors = np.linalg.eigh(moments.matrix / square - total)
            u = with_fixed_signs(vectors) @ sample_bingham(kappa * spectrum, rng)
            total = total + eigenvalue * np.outer(u, u)
        return released(self, 0.5 * (total + total.T) * square, moments, MatrixNoise(step), total * square)


def degrees_printed(n_coordinates: int, epsilon: float, delta: float) -> int:
    """Return ``d + ceil(14 ln(4 / delta) / epsilon^2)``, which is stated for epsilon < 1 only.

    Raises
    ------
    ParameterError
        `epsilon` is not in [1e-6, 1), or `delta` not in (0, 0.01].
    """
    check_epsilon_and_delta(epsilon, delta)
    if epsilon >= 1:  # its theorem speaks of no other
        raise ParameterError("epsilon", "below 1", epsilon)
    return n_coordinates + math.ceil(14 / epsilon**2 * math.log(4 / delta))


def insecure_wishart_pure(
    second_moment: NDArray[np.float64], n_rows: int, epsilon: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return S + W_d(d + 1, 3 / (2 n epsilon) I), which is not private (Wang, Huai & Xu 2018, lemma 2, theorem 3).

    Parameters
    ----------
    second_moment : ndarray, shape (d, d)
        S, the mean of x x^T over rows in the unit ball.
    n_rows : int
        n.
    epsilon : float
        What the paper claims.
    rng : numpy.random.Generator
        An ordinary generator: nothing here is fit for a release.
    """
    return second_moment + _wishart(len(second_moment), 1.5 / (n_rows * epsilon), rng)


def insecure_output_perturbation(
    precision: NDArray[np.float64], n_rows: int, epsilon: float, alpha: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return Theta + W_d(d + 1, d^(5/2) / (n epsilon alpha^2) I), which is not private (the same paper, algorithm 1).

    Parameters
    ----------
    precision : ndarray, shape (d, d)
        Theta, the graphical lasso's estimate from the private covariance.
    n_rows : int
        n.
    epsilon : float
        What the paper claims.
    alpha : float
        The penalty that gave Theta.
    rng : numpy.random.Generator
        An ordinary generator: nothing here is fit for a release.
    """
    d = len(precision)
    return precision + _wishart(d, d**2.5 / (n_rows * epsilon * alpha**2), rng)


def _wishart(d: int, scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
    rows = rng.normal(scale=np.sqrt(scale), size=(d + 1, d))
    return rows.T @ rows
