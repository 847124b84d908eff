"""Worlds whose edges are known, noise of known law, and what is observed of both."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dp_bundle.manifest.noise import (
    discrete_gaussian_fourth_cumulant,
    discrete_gaussian_variance,
    rounded_gaussian_variance,
)
from dp_learn.covariance.estimate import NoisyCovariance

Rows = np.ndarray
Draw = Callable[[np.random.Generator, tuple[int, int]], Rows]


@dataclass(frozen=True)
class Noise:
    """How to draw noise, its variance and its fourth cumulant."""

    draw: Draw
    variance: float
    fourth_cumulant: float = 0.0


def gaussian_noise(variance: float) -> Noise:
    """Return Gaussian noise."""
    return Noise(lambda rng, shape: np.sqrt(variance) * rng.normal(size=shape), variance)


def discrete_noise(sigma: float) -> Noise:
    """Return discrete Gaussian noise, drawn from its probabilities."""
    support = np.arange(-12, 13)
    weights = np.exp(-(support**2) / (2 * sigma**2))

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Rows:
        return rng.choice(support, size=shape, p=weights / weights.sum()).astype(float)

    return Noise(draw, discrete_gaussian_variance(sigma), discrete_gaussian_fourth_cumulant(sigma))


@dataclass(frozen=True)
class World:
    """A precision matrix, and how to draw clean rows that have it."""

    precision: np.ndarray
    draw: Callable[[np.random.Generator, int], Rows]

    @property
    def partial(self) -> np.ndarray:
        """The true partial correlations."""
        root = np.sqrt(np.diagonal(self.precision))
        return -self.precision / np.outer(root, root)


def gaussian_world(precision: np.ndarray, degrees: float | None = None) -> World:
    """Return Gaussian rows with unit variances, or rows of Student's t with the same covariance."""
    root = np.sqrt(np.diagonal(np.linalg.inv(precision)))
    scaled = precision * np.outer(root, root)
    factor = np.linalg.cholesky(np.linalg.inv(scaled))

    def draw(rng: np.random.Generator, n_rows: int) -> Rows:
        rows = rng.normal(size=(n_rows, len(scaled))) @ factor.T
        return rows if degrees is None else rows * np.sqrt((degrees - 2) / rng.chisquare(degrees, size=(n_rows, 1)))

    return World(scaled, draw)


def chain(p: int) -> World:
    """Return an autoregression: partial correlations of 0.4 to 0.45 between neighbours."""
    return gaussian_world(chain_precision(p))


def chain_precision(p: int) -> np.ndarray:
    """Return the precision matrix of an autoregression with coefficient 1/2, exactly tridiagonal."""
    precision = np.diag(np.full(p, 1.25)) - 0.5 * (np.eye(p, k=1) + np.eye(p, k=-1))
    precision[0, 0] = precision[-1, -1] = 1.0
    return precision


def random_graph(p: int, degree: float = 3.0) -> World:
    """Return a random graph with partial correlations of both signs, mostly of 0.15 to 0.3."""
    rng = np.random.default_rng(p)
    edges = np.triu(rng.random((p, p)) < degree / (p - 1), 1) * rng.choice([-0.3, 0.3], (p, p))
    precision = edges + edges.T
    return gaussian_world(precision + np.diag(np.abs(precision).sum(axis=1) + 0.5))


def integer_chains(p: int) -> World:
    """Return chains of four integer columns, each the one before plus an independent rounded Gaussian."""
    return _chains(p, rounded_gaussian_variance(1.5), lambda rng, shape: np.rint(1.5 * rng.normal(size=shape)))


def count_chains(p: int, rate: float = 0.5) -> World:
    """Return the same chains of rare counts, skewed and far from Gaussian."""
    return _chains(p, rate, lambda rng, shape: rng.poisson(rate, shape))


def _chains(p: int, variance: float, draw: Callable[..., Rows]) -> World:
    sums = np.kron(np.eye(p // 4), np.tril(np.ones((4, 4))))
    differences = np.linalg.inv(sums)
    return World(differences.T @ differences / variance, lambda rng, n_rows: draw(rng, (n_rows, p)) @ sums.T)


def observe(rows: Rows, noise: Noise, rng: np.random.Generator) -> tuple[Rows, NoisyCovariance]:
    """Return the published rows and what is known about them."""
    noisy = rows + noise.draw(rng, rows.shape)
    p = rows.shape[1]
    known = np.full(p, noise.variance), np.full(p, noise.fourth_cumulant)
    return noisy, NoisyCovariance(len(rows), np.cov(noisy, rowvar=False), *known)


def names(p: int) -> tuple[str, ...]:
    """Return column names."""
    return tuple(f"c{index}" for index in range(p))
