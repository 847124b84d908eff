"""Eigenvalues with Laplace noise, and eigenvectors drawn one after another from the sphere: pure epsilon.

In units of N^2, rows v lie in the unit ball. The eigenvalues together move by at most 2 in L1 when a row is replaced
(`sensitivity`), so Laplace noise of scale 2 / eps_0 on each makes them eps_0-private. The i-th vector is drawn from the
sphere of the space that those before it leave, with density proportional to ``exp(kappa_i u^T C u)``: an exponential
mechanism, whose score moves by at most 1, ``-1 <= (u.v)^2 - (u.w)^2 <= 1``, so that ``kappa_i = eps_i / 2`` costs
eps_i. The printed form has eps_i / 4, for a movement of 2. One row more or less moves all scores upwards, or all
downwards, so that with add-remove neighbours ``kappa_i = eps_i``, and the eigenvalues move by at most 1. The last
vector is determined by the others and costs nothing; the printed form pays for it.

**After the noise**, which costs nothing either. Eigenvalues are sorted, and projected on those that the rows allow: not
negative and, where their number n is public, with a sum of at most n; the set is convex and holds the truth, so that
both steps can only bring them nearer. And as ``||C - sum_i c_i u_i u_i^T||`` is smallest at c_i = u_i^T C u_i, not at
lambda_i, the coefficients are what the scores are expected to be for these eigenvalues: with ``E (u.v_j)^2`` taken as
1 / (b + 2 a_j) (`bingham`), the drawn direction's share of the j-th eigenvector, and the compression of the matrix to
that direction's complement, vector after vector. The printed form only limits each eigenvalue to
[0, n].

**What is covered.** Eigenvalue noise is exact, on a grid; the sensitivity includes the grid's rounding and an error of
d 2^-52 n for each float64 eigenvalue, which is LAPACK's in practice and not proven. With add-remove neighbours, where n
is private, 2^31 stands for it. Vectors are float64 (`bingham` says what that leaves open).

Kapralov & Talwar's comparator draws every vector from the whole sphere and subtracts ``lambda_i u_i u_i^T`` instead of
projecting.

References
----------
Amin, Dick, Kulesza, Munoz Medina & Vassilvitskii (2019), Differentially private covariance estimation, algorithms 1 and
2, corollary 1. Kapralov & Talwar (2013), On differentially private low rank approximation, SODA. McSherry & Talwar
(2007), Mechanism design via differential privacy, FOCS.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_bundle.claims import mu_implied_by_epsilon
from dp_bundle.errors import ParameterError
from dp_publish.covariance.bingham import envelope_parameter, sample_bingham
from dp_publish.covariance.laplace import check_epsilon
from dp_publish.covariance.noisy import Cost, NoisyMoments, with_exact_corner
from dp_publish.covariance.second_moments import SecondMoments
from dp_publish.covariance.sensitivity import check_neighbours, nuclear_sensitivity
from dp_publish.keystream import Keystream, SecureKeystream
from dp_publish.laplace_sampling import sample_discrete_laplace

__all__ = ["BY_EIGENVECTORS", "release_eigenvectors", "release_kapralov_talwar"]

BY_EIGENVECTORS = ("eigenvectors", "kapralov-talwar")  # their errors, and very rarely their work, depend on the values

_MOST_ROWS = 2.0**31
_MISS = 0.05  # beta: how often the adaptive split may underestimate some eigenvalue
_FINENESS = 28


def release_eigenvectors(
    moments: SecondMoments,
    *,
    epsilon: float,
    neighbours: str = "replace-one",
    split: str = "adaptive",
    sensitivity: str = "tight",
    rng: Keystream | None = None,
) -> NoisyMoments:
    """Return second moments put together from noisy eigenvalues and sampled eigenvectors, epsilon-DP.

    Parameters
    ----------
    moments : SecondMoments
        The exact sums.
    epsilon : float
        The guarantee, from 1e-6 to 700. Half of it goes to the eigenvalues.
    neighbours : {"replace-one", "add-remove"}
        What it speaks of.
    split : {"adaptive", "uniform"}
        How the other half is divided among vectors: in proportion to ``sqrt(lambda_i + tau)`` with the noisy
        eigenvalue and ``tau = (2 / eps_0) ln(2 d / beta)``, or equally.
    sensitivity : {"tight", "printed"}
        "printed" is the paper's form, for comparison.
    rng : Keystream, optional
        Where random bits come from; a new `SecureKeystream` unless given.

    Raises
    ------
    ParameterError, PrivacyError
        An argument is not allowed.
    """
    if split not in ("adaptive", "uniform"):
        raise ParameterError("split", '"adaptive" or "uniform"', split)
    tight = _is_tight(sensitivity)
    rng = SecureKeystream() if rng is None else rng
    exact, noisy = _start(moments, epsilon, neighbours, tight, rng)
    d = len(noisy)
    n_paid = max(d - 1, 1) if tight else d
    shares = np.ones(n_paid)
    if split == "adaptive":
        tau = 4 / epsilon * math.log(2 * d / _MISS)
        shares = np.sqrt(noisy[:n_paid] + tau)
    shares = shares / shares.sum() * (epsilon / 2)
    kappas = np.append(shares, 0.0)[:d] * _exponent(neighbours, tight)
    coefficients = _expected_scores(noisy, kappas) if tight else noisy
    u = _sample_basis(exact, kappas, rng)
    matrix, unshrunk = ((u.T * weights) @ u for weights in (coefficients, noisy))
    return _noisy_moments(matrix, unshrunk, moments, "eigenvectors", epsilon, neighbours)


def release_kapralov_talwar(
    moments: SecondMoments,
    *,
    epsilon: float,
    neighbours: str = "replace-one",
    sensitivity: str = "tight",
    rng: Keystream | None = None,
) -> NoisyMoments:
    """Return second moments by the comparator with rank-one subtraction, epsilon-DP; arguments as above."""
    tight = _is_tight(sensitivity)
    rng = SecureKeystream() if rng is None else rng
    rest, noisy = _start(moments, epsilon, neighbours, tight, rng)
    kappa = _exponent(neighbours, tight) * epsilon / (2 * len(noisy))
    total = np.zeros_like(rest)
    for eigenvalue in noisy:
        eigenvalues, vectors = np.linalg.eigh(rest)
        u = vectors @ sample_bingham(kappa * eigenvalues, rng)
        part = eigenvalue * np.outer(u, u)
        rest, total = rest - part, total + part
    return _noisy_moments(total, total, moments, "kapralov-talwar", epsilon, neighbours)


def _is_tight(sensitivity: str) -> bool:
    if sensitivity not in ("tight", "printed"):
        raise ParameterError("sensitivity", '"tight" or "printed"', sensitivity)
    return sensitivity == "tight"


def _exponent(neighbours: str, tight: bool) -> float:
    """Return kappa_i / eps_i."""
    if not tight:
        return 0.25
    return 0.5 if neighbours == "replace-one" else 1.0


def _start(
    moments: SecondMoments, epsilon: float, neighbours: str, tight: bool, rng: Keystream
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the exact matrix in units of N^2, and its eigenvalues with noise, the largest first."""
    check_epsilon(epsilon)
    check_neighbours(moments.scaling, neighbours)
    square = moments.scaling.square
    exact = moments.matrix / square
    eigenvalues = np.linalg.eigvalsh(exact)[::-1]
    public_rows = float(moments.n_rows) if neighbours == "replace-one" else None
    moved = nuclear_sensitivity(moments.scaling, neighbours) / square if tight else 2.0
    d = len(eigenvalues)
    moved += 2 * d * d * 2.0**-52 * (_MOST_ROWS if public_rows is None else public_rows)
    step = math.ldexp(1.0, math.frexp(2 * moved / epsilon)[1] - 1 - _FINENESS)
    noise = sample_discrete_laplace(2 * (moved + d * step) / epsilon / step, d, rng)
    noisy = (np.rint(eigenvalues / step) + noise) * step
    if tight:
        return exact, _allowed(np.sort(noisy)[::-1], public_rows)
    return exact, np.clip(noisy, 0.0, math.inf if public_rows is None else public_rows)


def _allowed(eigenvalues: NDArray[np.float64], most: float | None) -> NDArray[np.float64]:
    """Return the nearest eigenvalues that are not negative and have a sum of at most `most`; descending, as given."""
    excess = 0.0
    if most is not None and np.maximum(eigenvalues, 0.0).sum() > most:
        excesses = (np.cumsum(eigenvalues) - most) / np.arange(1, len(eigenvalues) + 1)
        excess = excesses[np.flatnonzero(eigenvalues > excesses)[-1]]
    allowed: NDArray[np.float64] = np.maximum(eigenvalues - excess, 0.0)
    return allowed


def _expected_scores(eigenvalues: NDArray[np.float64], kappas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return about what u_i^T C u_i will be, if C has these eigenvalues."""
    spectrum: NDArray[np.float64] = eigenvalues
    scores = []
    for kappa in kappas:
        a = kappa * (spectrum.max() - spectrum)
        shares = 1 / (envelope_parameter(a) + 2 * a)
        shares /= shares.sum()
        scores.append(float(shares @ spectrum))
        if len(spectrum) > 1:
            complement = _complement(np.sqrt(shares))
            spectrum = np.asarray(np.linalg.eigvalsh(complement.T @ (spectrum[:, None] * complement)), np.float64)
    return np.array(scores)


def _sample_basis(matrix: NDArray[np.float64], kappas: NDArray[np.float64], rng: Keystream) -> NDArray[np.float64]:
    """Return the u_i as rows, each drawn from the complement of those before it."""
    drawn = []
    basis = np.eye(len(matrix))
    for kappa in kappas:
        spectrum, vectors = np.linalg.eigh(matrix)
        basis = basis @ vectors
        g = sample_bingham(kappa * spectrum, rng)
        drawn.append(basis @ g)
        complement = _complement(g)
        matrix = complement.T @ (spectrum[:, None] * complement)
        basis = basis @ complement
    return np.array(drawn)


def _complement(g: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an orthonormal basis of the complement of a unit vector: all but the first column of its reflector."""
    v = g.copy()
    v[0] += math.copysign(1.0, g[0])
    reflector: NDArray[np.float64] = np.eye(len(g)) - np.outer(v, v) * (2 / (v @ v))
    return reflector[:, 1:]


def _noisy_moments(
    matrix: NDArray[np.float64],
    unshrunk: NDArray[np.float64],
    moments: SecondMoments,
    mechanism: str,
    epsilon: float,
    neighbours: str,
) -> NoisyMoments:
    public_rows = neighbours == "replace-one"
    scaled = 0.5 * (matrix + matrix.T) * moments.scaling.square
    return NoisyMoments(
        matrix=with_exact_corner(scaled, moments) if public_rows else scaled,
        mechanism=mechanism,
        neighbours=neighbours,
        scaling=moments.scaling,
        n_rows=moments.n_rows if public_rows else None,
        granularity=None,
        distribution=None,
        parameters={},
        diagonal_variance=None,
        off_diagonal_variance=None,
        bias=0.0,
        cost=Cost(mu_implied_by_epsilon(epsilon), epsilon, 0.0),
        unshrunk=unshrunk * moments.scaling.square,
    )
