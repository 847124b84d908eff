"""A lower bound on mu from the guesses that an attacker gets right who knows everything but one coin.

A canary unit (a cell, or a whole row) is put low or high by a fair coin, noise is added, and the attacker guesses the
coin from the best linear test, the log-likelihood ratio of Gaussian noise. Units carry independent noise, so the number
of correct guesses is binomial, and Clopper & Pearson's bound p holds for his chance of success.

Continuous columns: whatever is mu-GDP lets nobody succeed more often than Phi(mu / 2), so mu >= 2 Phi^-1(p). That
supposes nothing about the noise.

Integer columns: the mu of discrete Gaussian noise is that of its best threshold, and over many columns no attacker
reaches all of it, so that this bound would be too low. There p is compared with the exact chance of success against
noise of the stated kind that is s times as wide, which falls as s grows (the noise is symmetric and unimodal, so sums
of it are ordered by peakedness: Birnbaum 1948), and mu is at least that of noise so wide. The
chance comes from inverting the characteristic function of the test statistic, to which the attacker adds a little
Gaussian noise of his own where it would otherwise live on a lattice; this costs him 0.5 % of mu.

References
----------
Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2.2. Steinke, Nasr & Jagielski (2023),
Privacy auditing with one (1) training run, arXiv 2305.08846. Clopper & Pearson (1934). Gil-Pelaez (1951), Note on the
inversion theorem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dp_audit.hypothesis_tests import least_chance
from dp_bundle.manifest.columns import Column
from dp_bundle.privacy.discrete_mu import discrete_gaussian_mu

_LEAST_SMOOTH = 0.01  # the share of the statistic's variance that must be continuous
_SCALES = (1 / 8, 8.0)  # noise is judged up to eight times as narrow or as wide as stated
_REACH = 8.5  # standard deviations, where a Gaussian characteristic function is below 1e-15


@dataclass(frozen=True)
class Attack:
    """The best linear test of one unit's coin.

    Parameters
    ----------
    columns : sequence of Column
        Those that hold the unit: one for a cell, all for a row.
    distances : ndarray of shape (n_columns,)
        How far apart the two canaries are in each column, in steps of the grid.
    """

    columns: Sequence[Column]
    distances: NDArray[np.float64]

    @property
    def mu(self) -> float:
        """The stated distinguishability at these distances: the root of the sum of squares over columns."""
        return self.mu_at(1.0)

    def mu_at(self, scale: float) -> float:
        """Return that of noise which is `scale` times as wide as stated."""
        discrete, sigmas = self._discrete, scale * self._sigmas
        whole = zip(self.distances[discrete].tolist(), sigmas[discrete].tolist(), strict=True)
        mus = [discrete_gaussian_mu(abs(round(distance)), sigma) for distance, sigma in whole]
        return math.hypot(*mus, *(self.distances / sigmas)[~discrete].tolist())

    def count_correct(
        self, centred: NDArray[np.float64], coins: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[int, int]:
        """Return how many coins are guessed correctly, and of how many.

        Parameters
        ----------
        centred : ndarray of shape (n_units, n_columns)
            What came out, minus the middle of the two canaries, in steps.
        coins : ndarray of shape (n_units,)
            Whether each canary was the higher one.
        rng : numpy.random.Generator
            Where the attacker's own noise comes from.
        """
        scores = centred @ (self._weights / self._sigmas)
        if self._own_variance > 0:
            scores += rng.normal(0, math.sqrt(self._own_variance), len(scores))
        return int(np.count_nonzero((scores > 0) == coins)), len(coins)

    def mu_bound(self, correct: int, total: int, alpha: float) -> float:
        """Return a lower bound on mu at these distances that is too high with probability at most `alpha`."""
        if not any(self._discrete):
            return guessed_mu(correct, total, alpha)
        chance, (least, most) = float(least_chance(correct, total, alpha)), _SCALES
        if chance <= self.success(most):
            return 0.0
        if chance >= self.success(least):
            return self.mu_at(least)
        root = optimize.brentq(lambda log: self.success(math.exp(log)) - chance, math.log(least), math.log(most))
        return self.mu_at(math.exp(float(root)))

    def describe_bound(self, bound: float) -> str:
        """Return what guesses say of mu, after "which": of whole numbers, if their noise is of the stated kind."""
        if any(self._discrete):
            return f"discrete Gaussian noise allows from mu = {bound:.4g} on"
        return f"proves mu >= {bound:.4g}"

    def success(self, scale: float) -> float:
        """Return the chance of a correct guess when the noise is `scale` times as wide as stated."""
        half, discrete = 0.5 * self._ratio, self._discrete
        smooth = float(np.sum(self._weights[~discrete] ** 2)) * scale**2 + self._own_variance
        if not any(discrete):
            return float(special.ndtr(half / scale))
        if half > 10 * _REACH * scale:
            return 1.0
        step = 2 * math.pi / (half + 2 * _REACH * max(scale, 1))  # the sum is that of a periodic law of this period
        t = step * (np.arange(math.ceil(_REACH / math.sqrt(smooth) / step)) + 0.5)
        product = np.exp(-0.5 * smooth * t * t)
        for sigma, weight in zip(self._sigmas[discrete], self._weights[discrete], strict=True):
            product *= _discrete_characteristic(scale * sigma, weight / sigma * t)
        return 0.5 + step / math.pi * float(np.sum(product * np.sin(half * t) / t))

    @property
    def _sigmas(self) -> NDArray[np.float64]:
        return np.array([column.cell_noise.sigma / column.cell_noise.granularity for column in self.columns])

    @property
    def _weights(self) -> NDArray[np.float64]:
        return self.distances / self._sigmas / self._ratio

    @property
    def _ratio(self) -> float:
        """The distance of the two canaries in units of sigma."""
        return float(np.linalg.norm(self.distances / self._sigmas))

    @property
    def _discrete(self) -> NDArray[np.bool_]:
        return np.array([column.kind == "integer" for column in self.columns])

    @property
    def _own_variance(self) -> float:
        if not any(self._discrete):
            return 0.0
        return max(0.0, _LEAST_SMOOTH - float(np.sum(self._weights[~self._discrete] ** 2)))


def guessed_mu(correct: int, total: int, alpha: float) -> float:
    """Return the lower bound on mu that so many correct guesses prove, whatever the noise is."""
    chance = float(least_chance(correct, total, alpha))
    return 2 * float(special.ndtri(chance)) if chance > 0.5 else 0.0


def _discrete_characteristic(sigma: float, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sum cos(k t) w_k / sum w_k with w_k = exp(-k^2 / (2 sigma^2)), or its dual by Poisson summation."""
    if sigma < 1:
        k = np.arange(1, 13)
        weights = np.exp(-0.5 * (k / sigma) ** 2)
        direct: NDArray[np.float64] = (1 + 2 * np.cos(np.outer(t, k)) @ weights) / (1 + 2 * weights.sum())
        return direct
    near = np.remainder(t + math.pi, 2 * math.pi) - math.pi
    shifts = 2 * math.pi * np.arange(-2, 3)
    terms = np.exp(-0.5 * (sigma * (near[:, None] - shifts)) ** 2)
    dual: NDArray[np.float64] = terms.sum(axis=1) / np.exp(-0.5 * (sigma * shifts) ** 2).sum()
    return dual
