"""Two published private covariances, for comparison: CoinPress and AdaptiveCov.

Both are stated in zCDP for replace-one neighbours. They get rho = mu^2 / 2, which is what a mu-GDP release costs, and
the true mean: rows come to them centred, at no cost. As Gaussian noise on a symmetric matrix they get what the
sensitivity sqrt(2) r^2 / n in the Frobenius norm asks for, and no more: off the diagonal half of the variance on it.
The authors' programs add the diagonal's variance everywhere; so these are better than those.

References
----------
Biswas, Dong, Kamath & Ullman (2020), CoinPress: practical private mean and covariance estimation, arXiv 2006.06618, and
github.com/twistedcubic/coin-press. Dong, Liang & Yi (2022), Differentially private covariance revisited, arXiv
2205.14324, and github.com/hkustDB/PrivateCovariance. Constants that theory leaves open are those of these programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TAIL = 0.1  # the probability that the bounds of both papers may fail with, in their programs
_LEAST_NORM_LOG2 = -80  # of the unit ball, where AdaptiveCov's search ends
_LAST_SHARE = 0.75  # of the budget, for CoinPress's last iteration


def coinpress(centred: Floats, bound: float, mu: float, iterations: int, rng: np.random.Generator) -> Floats:
    """Return CoinPress's covariance, which may be singular.

    Parameters
    ----------
    centred : ndarray, shape (n, p)
        Rows, less their true mean.
    bound : float
        K, an upper bound on the covariance's eigenvalues.
    mu : float
        What it may cost; three quarters go into the last iteration, the rest into the others in equal parts.
    iterations : int
        t.
    rng : Generator
        Where the noise comes from.
    """
    n, p = centred.shape
    rho = mu * mu / 2
    early = [(1 - _LAST_SHARE) * rho / (iterations - 1)] * (iterations - 1) if iterations > 1 else []
    late = _LAST_SHARE * rho if iterations > 1 else rho

    transform = np.eye(p) / math.sqrt(bound)
    spread = math.sqrt(p / n) + 0.5 * p / n
    for part in early:
        scaled = _clipped_covariance(centred @ transform.T, part, rng)
        values, vectors = np.linalg.eigh(scaled + spread * np.eye(p))
        transform = (vectors / np.sqrt(values)) @ vectors.T @ transform

    inverse = np.linalg.inv(transform)
    return inverse @ _clipped_covariance(centred @ transform.T, late, rng) @ inverse.T


def _clipped_covariance(rows: Floats, rho: float, rng: np.random.Generator) -> Floats:
    """Return the noisy second moments, per row, of rows that are presumed to be standard normal."""
    n, p = rows.shape
    radius = _normal_norm(p, _TAIL)
    clipped = _clip(rows, radius)
    return _semidefinite(clipped.T @ clipped / n + _noise(p, math.sqrt(2) * radius**2 / n, rho, rng))


def adaptive_cov(centred: Floats, radius: float, mu: float, rng: np.random.Generator) -> Floats:
    """Return AdaptiveCov's covariance.

    An eighth of the budget goes into the trace, an eighth into the sparse vector technique that looks for the radius
    to clip to, and the rest into the Gaussian mechanism or SeparateCov, whichever bound is smaller there.

    Parameters
    ----------
    centred : ndarray, shape (n, p)
        Rows, less their true mean.
    radius : float
        A bound on their norms.
    mu : float
        What it may cost.
    rng : Generator
        Where the noise comes from.
    """
    rows = centred / radius
    n, p = rows.shape
    rho = mu * mu / 2
    trace = float((rows**2).sum()) / n + 2 / (math.sqrt(rho) * n) * rng.standard_normal()
    trace = min(max(trace + math.sqrt(8 / rho * math.log(8 / _TAIL)) / n, 1e-16), 1.0)
    bounds = _ErrorBounds.of(n, p, trace, 0.75 * rho)

    level = _find_level(np.linalg.norm(rows, axis=1), bounds, math.sqrt(rho) / 2, rng)
    clipped_at = min(2.0 ** (level + 1), 1.0)
    clipped = _clip(rows, clipped_at)
    if bounds.separate(2.0**level) < bounds.gaussian(2.0**level):
        found = _separate_cov(clipped, clipped_at, 0.75 * rho, rng)
    else:
        found = _gauss_cov(clipped, clipped_at, 0.75 * rho, rng)
    return _semidefinite(found, clipped_at**2) * radius**2


@dataclass(frozen=True)
class _ErrorBounds:
    """Bounds on the Frobenius errors of both mechanisms, as functions of the radius that rows are clipped to."""

    gaussian_square: float
    separate_linear: float
    separate_square: float

    @classmethod
    def of(cls, n: int, p: int, trace: float, rho: float) -> _ErrorBounds:
        tail = 0.75 * _TAIL
        linear = 2**1.25 * math.sqrt(trace / n * _wigner_norm(p, tail / 2)) / rho**0.25 / 6
        return cls(
            gaussian_square=_wigner_frobenius(p, tail) / (math.sqrt(rho) * n),
            separate_linear=linear,
            separate_square=math.sqrt(2 / rho) * _normal_norm(p, tail / 2) / n,
        )

    def gaussian(self, radius: float) -> float:
        """Return the Gaussian mechanism's."""
        return radius**2 * self.gaussian_square

    def separate(self, radius: float) -> float:
        """Return SeparateCov's."""
        return radius * self.separate_linear + radius**2 * self.separate_square


def _find_level(norms: Floats, bounds: _ErrorBounds, epsilon: float, rng: np.random.Generator) -> int:
    """Return the first power of two, from 2^0 down, at which clipping seems to cost more than noise."""
    threshold = rng.laplace(scale=2 / epsilon)
    levels = np.ceil(np.log2(np.maximum(norms, 2.0**_LEAST_NORM_LOG2))).astype(int)  # the power above every norm
    for level in range(0, _LEAST_NORM_LOG2, -1):
        above = levels[levels > level]
        bias = float((4.0**above - 4.0**level).sum())
        noise = len(norms) * min(bounds.gaussian(2.0**level), bounds.separate(2.0**level))
        if bias - noise + rng.laplace(scale=4 / epsilon) >= threshold:
            return level
    return _LEAST_NORM_LOG2


def _gauss_cov(rows: Floats, radius: float, rho: float, rng: np.random.Generator) -> Floats:
    n, p = rows.shape
    noisy: Floats = rows.T @ rows / n + _noise(p, math.sqrt(2) * radius**2 / n, rho, rng)
    return noisy


def _separate_cov(rows: Floats, radius: float, rho: float, rng: np.random.Generator) -> Floats:
    """Return noisy eigenvalues in the eigenvectors of a noisy matrix, half of the budget for either."""
    n, p = rows.shape
    vectors = np.linalg.eigh(_gauss_cov(rows, radius, rho / 2, rng))[1]
    values = np.linalg.eigvalsh(rows.T @ rows / n)
    values = values + math.sqrt(2) * radius**2 / (n * math.sqrt(rho)) * rng.standard_normal(p)
    separate: Floats = (vectors * values) @ vectors.T
    return separate


def _noise(p: int, sensitivity: float, rho: float, rng: np.random.Generator) -> Floats:
    """Return symmetric Gaussian noise that makes a matrix of this sensitivity in the Frobenius norm rho-zCDP."""
    upper = np.triu(rng.standard_normal((p, p)), 1)
    noise: Floats = (upper + upper.T) / math.sqrt(2) + np.diag(rng.standard_normal(p))
    return noise * (sensitivity / math.sqrt(2 * rho))


def _clip(rows: Floats, radius: float) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    clipped: Floats = rows * np.minimum(1.0, radius / np.maximum(norms, np.finfo(float).tiny))
    return clipped


def _semidefinite(matrix: Floats, largest: float = math.inf) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    projected: Floats = (vectors * np.clip(values, 0.0, largest)) @ vectors.T
    return projected


def _normal_norm(p: int, tail: float) -> float:
    """Return a bound on the norm of a standard normal vector."""
    log = math.log(1 / tail)
    return math.sqrt(p + 2 * math.sqrt(p * log) + 2 * log)


def _wigner_norm(p: int, tail: float) -> float:
    """Return a bound on the spectral norm of a symmetric matrix of standard normals."""
    theta = min((math.log(p) / p) ** 0.3, 0.5)
    bulk = 2 * math.sqrt(p) + 6 * math.sqrt(math.log(p)) / math.sqrt(math.log1p(theta))
    return (1 + theta) * bulk + math.sqrt(2 * math.log(2 / tail))


def _wigner_frobenius(p: int, tail: float) -> float:
    """Return a bound on its Frobenius norm."""
    log = math.log(2 / tail)
    return math.sqrt(p * p + 2 * math.sqrt(p * log) * (1 + math.sqrt(2 * (p - 1))) + 6 * log)
