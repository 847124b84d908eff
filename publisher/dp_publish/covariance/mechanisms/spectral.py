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

**What is covered.** Only integers are drawn, each by a step that is private on its own, and everything else is made of
them and of the policy, so that there is nothing of the data in the low bits of the result. In detail:

- Eigenvalues are computed to 3/4 of a step of a grid of 2^-28 of the noise (`spectrum`), and get discrete Laplace
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
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_bundle.errors import ParameterError
from dp_bundle.privacy import mu_implied_by_epsilon
from dp_publish.covariance.mechanisms.base import Cost, Grid, NoisyMoments, grid_for, with_exact_corner
from dp_publish.covariance.mechanisms.directions import draw_direction
from dp_publish.covariance.mechanisms.laplace import check_epsilon
from dp_publish.covariance.mechanisms.spectrum import eigenvalues_in_units
from dp_publish.covariance.scaling import GRID_BITS
from dp_publish.covariance.second_moments import SecondMoments
from dp_publish.covariance.sensitivity import check_neighbours, nuclear_sensitivity
from dp_publish.sampling import (
    Keystream,
    SecureKeystream,
    envelope_parameter,
    integers,
    sample_bingham,
    sample_discrete_laplace,
)

__all__ = [
    "BY_EIGENVECTORS",
    "EXCEPTED_DELTA",
    "complement",
    "eigenvalue_grid",
    "expected_coefficients",
    "insecure_eigenvectors",
    "insecure_kapralov_talwar",
    "release_eigenvectors",
    "release_kapralov_talwar",
]

BY_EIGENVECTORS = ("eigenvectors", "kapralov-talwar")  # their errors, and the time they take, depend on the values
EXCEPTED_DELTA = 2.0**-40

_MISS = 0.05  # beta: how often the adaptive split may underestimate some eigenvalue
_FINENESS = 28
_COARSENESS = 12
_PLACES = 52  # of a basis
_DOWN, _UP = 1 - 2.0**-40, 1 + 2.0**-48  # far above the rounding of the few operations on a share or a scale
_Floats: TypeAlias = NDArray[np.float64]


def release_eigenvectors(
    moments: SecondMoments,
    *,
    epsilon: float,
    neighbours: str = "replace-one",
    split: str = "adaptive",
    sensitivity: str = "tight",
    max_rows: int = 1,
    rng: Keystream | None = None,
) -> NoisyMoments:
    """Return second moments put together from noisy eigenvalues and sampled eigenvectors, epsilon-DP.

    The guarantee excepts an event of probability EXCEPTED_DELTA.

    Parameters
    ----------
    moments : SecondMoments
        The exact sums.
    epsilon : float
        The guarantee for one row, from 1e-6 to 700. Half of it goes to the eigenvalues.
    neighbours : {"replace-one", "add-remove"}
        What it speaks of.
    split : {"adaptive", "uniform"}
        How the other half is divided among vectors: in proportion to ``sqrt(lambda_i + tau)`` with the noisy
        eigenvalue and ``tau = (2 / eps_0) ln(2 d / beta)``, or equally.
    sensitivity : {"tight", "printed"}
        "printed" is the paper's form, for comparison.
    max_rows : int
        How many rows the unit of privacy has: so many epsilon with the same exception.
    rng : Keystream, optional
        Where random bits come from; a new `SecureKeystream` unless given.

    Raises
    ------
    ParameterError, PrivacyError
        An argument is not allowed.
    """
    tools = _exact_tools(moments, epsilon, max_rows, SecureKeystream() if rng is None else rng)
    setting = _Setting("eigenvectors", epsilon, neighbours, _is_tight(sensitivity))
    return _put_together(moments, setting, split, tools)


def release_kapralov_talwar(
    moments: SecondMoments,
    *,
    epsilon: float,
    neighbours: str = "replace-one",
    sensitivity: str = "tight",
    max_rows: int = 1,
    rng: Keystream | None = None,
) -> NoisyMoments:
    """Return second moments by the comparator with rank-one subtraction, epsilon-DP; arguments as above."""
    tools = _exact_tools(moments, epsilon, max_rows, SecureKeystream() if rng is None else rng)
    return _subtract(moments, _Setting("kapralov-talwar", epsilon, neighbours, _is_tight(sensitivity)), tools)


def insecure_eigenvectors(
    moments: SecondMoments,
    *,
    epsilon: float,
    neighbours: str = "replace-one",
    split: str = "adaptive",
    sensitivity: str = "tight",
    rng: Keystream,
) -> NoisyMoments:
    """Return what `release_eigenvectors` would, drawn in floating point, sooner: to measure errors, never to release.

    Low bits of the result tell of the data, so that no guarantee is stated.
    """
    setting = _Setting("eigenvectors", epsilon, neighbours, _is_tight(sensitivity))
    return _put_together(moments, setting, split, _float_tools(moments, rng))


def insecure_kapralov_talwar(
    moments: SecondMoments,
    *,
    epsilon: float,
    neighbours: str = "replace-one",
    sensitivity: str = "tight",
    rng: Keystream,
) -> NoisyMoments:
    """Return what `release_kapralov_talwar` would, drawn in floating point: see `insecure_eigenvectors`."""
    setting = _Setting("kapralov-talwar", epsilon, neighbours, _is_tight(sensitivity))
    return _subtract(moments, setting, _float_tools(moments, rng))


@dataclass(frozen=True)
class _Setting:
    mechanism: str
    epsilon: float
    neighbours: str
    tight: bool


@dataclass(frozen=True)
class _Tools:
    """The two steps that see the data.

    `eigenvalues` takes a grid and a scale in its steps, and returns noisy ones, in steps. `vector` takes an orthonormal
    basis, as columns, a matrix to subtract from the data's, in units of N^2, and kappa; it returns coordinates.
    """

    eigenvalues: Callable[[Grid, float], _Floats]
    vector: Callable[[_Floats, _Floats, float], _Floats]
    secure: bool


def _exact_tools(moments: SecondMoments, epsilon: float, max_rows: int, rng: Keystream) -> _Tools:
    check_epsilon(epsilon)
    d, square = moments.scaling.n_coordinates, Fraction(moments.scaling.square)
    excepted = 42 + math.ceil(2 * max_rows * epsilon / math.log(2))  # 2^-42 (1 + e^(2 m epsilon)) < 2^-40
    security = excepted + d.bit_length() + 1
    bits = 64 * math.ceil(max(192, security + 8) / 64)

    def eigenvalues(grid: Grid, scale: float) -> _Floats:
        noise = sample_discrete_laplace(scale, d, rng, bits=bits).tolist()
        exact = eigenvalues_in_units(moments.steps, grid.exponent)
        return np.array([one + other for one, other in zip(exact, noise, strict=True)], dtype=np.float64)

    def vector(basis: _Floats, subtracted: _Floats, kappa: float) -> _Floats:
        if basis.shape[1] == 1:
            return np.ones(1)
        b = integers(basis, _PLACES)
        beta = int(np.abs(b.T @ b).sum(axis=1).max())
        rest = moments.steps - integers(subtracted * float(square), 2 * GRID_BITS)
        factor = Fraction(kappa) / (beta * square * 4**GRID_BITS)
        exponent = max(0, 64 + (factor.denominator // max(factor.numerator, 1)).bit_length())
        drawn = draw_direction(b.T @ rest @ b * int(factor * 2**exponent), exponent, security, rng)
        y = np.array(drawn, dtype=np.float64)
        unit: _Floats = y / np.linalg.norm(y)
        return unit

    return _Tools(eigenvalues, vector, secure=True)


def _float_tools(moments: SecondMoments, rng: Keystream) -> _Tools:
    matrix = moments.matrix

    def eigenvalues(grid: Grid, scale: float) -> _Floats:
        noise = sample_discrete_laplace(scale, len(matrix), rng)
        return np.asarray(np.rint(np.linalg.eigvalsh(matrix)[::-1] / grid.step) + noise)

    def vector(basis: _Floats, subtracted: _Floats, kappa: float) -> _Floats:
        spectrum, vectors = np.linalg.eigh(basis.T @ (matrix / moments.scaling.square - subtracted) @ basis)
        return np.asarray(vectors @ sample_bingham(kappa * spectrum, rng))

    return _Tools(eigenvalues, vector, secure=False)


def _put_together(moments: SecondMoments, setting: _Setting, split: str, tools: _Tools) -> NoisyMoments:
    if split not in ("adaptive", "uniform"):
        raise ParameterError("split", '"adaptive" or "uniform"', split)
    noisy, step = _noisy_eigenvalues(moments, setting, tools)
    kappas = _kappas(noisy, setting, split)
    coefficients = _expected_scores(noisy, kappas) if setting.tight else noisy
    u = _sample_basis(tools, kappas)
    matrix, unshrunk = ((u.T * weights) @ u for weights in (coefficients, noisy))
    return _noisy_moments(matrix, unshrunk, moments, setting, step if tools.secure else None)


def _kappas(noisy: _Floats, setting: _Setting, split: str) -> _Floats:
    """Return every vector's exponent: its share of epsilon / 2, times what an epsilon of one vector allows."""
    d = len(noisy)
    n_paid = max(d - 1, 1) if setting.tight else d
    shares = np.ones(n_paid)
    if split == "adaptive":
        tau = 4 / setting.epsilon * math.log(2 * d / _MISS)
        shares = np.sqrt(noisy[:n_paid] + tau)
    shares = shares / shares.sum() * (setting.epsilon / 2) * _DOWN
    return np.append(shares, 0.0)[:d] * _exponent(setting.neighbours, setting.tight)


def expected_coefficients(eigenvalues: _Floats, epsilon: float, neighbours: str) -> _Floats:
    """Return the coefficients that `release_eigenvectors` gives its vectors, by default, for noisy eigenvalues."""
    kappas = _kappas(eigenvalues, _Setting("eigenvectors", epsilon, neighbours, tight=True), "adaptive")
    return _expected_scores(eigenvalues, kappas)


def _subtract(moments: SecondMoments, setting: _Setting, tools: _Tools) -> NoisyMoments:
    noisy, step = _noisy_eigenvalues(moments, setting, tools)
    d = len(noisy)
    kappa = _exponent(setting.neighbours, setting.tight) * setting.epsilon / (2 * d) * _DOWN
    total = np.zeros((d, d))
    for eigenvalue in noisy:
        u = tools.vector(np.eye(d), total, kappa)
        total = total + eigenvalue * np.outer(u, u)
    return _noisy_moments(total, total, moments, setting, step if tools.secure else None)


def _is_tight(sensitivity: str) -> bool:
    if sensitivity not in ("tight", "printed"):
        raise ParameterError("sensitivity", '"tight" or "printed"', sensitivity)
    return sensitivity == "tight"


def _exponent(neighbours: str, tight: bool) -> float:
    """Return kappa_i / eps_i."""
    if not tight:
        return 0.25
    return 0.5 if neighbours == "replace-one" else 1.0


def _noisy_eigenvalues(moments: SecondMoments, setting: _Setting, tools: _Tools) -> tuple[_Floats, float]:
    """Return eigenvalues with noise in units of N^2, the largest first, and the step of the grid for the matrix."""
    check_epsilon(setting.epsilon)
    check_neighbours(moments.scaling, setting.neighbours)
    d, square = moments.scaling.n_coordinates, moments.scaling.square
    moved = nuclear_sensitivity(moments.scaling, setting.neighbours) if setting.tight else 2 * square
    grid = eigenvalue_grid(moved, setting.epsilon)
    scale = 2 * (moved + 1.5 * d * grid.step) / setting.epsilon * _UP
    noisy = tools.eigenvalues(grid, scale / grid.step) * (grid.step / square)

    step = grid_for(scale, _COARSENESS).step
    public_rows = float(moments.n_rows) if setting.neighbours == "replace-one" else None
    if setting.tight:
        return _allowed(np.sort(noisy)[::-1], public_rows), step
    return np.clip(noisy, 0.0, math.inf if public_rows is None else public_rows), step


def eigenvalue_grid(moved: float, epsilon: float) -> Grid:
    """Return the grid of the eigenvalues' noise, for the sum of their movements; in the matrix's units."""
    return grid_for(2 * moved / epsilon, _FINENESS)


def _allowed(eigenvalues: _Floats, most: float | None) -> _Floats:
    """Return the nearest eigenvalues that are not negative and have a sum of at most `most`; descending, as given."""
    excess = 0.0
    if most is not None and np.maximum(eigenvalues, 0.0).sum() > most:
        excesses = (np.cumsum(eigenvalues) - most) / np.arange(1, len(eigenvalues) + 1)
        excess = excesses[np.flatnonzero(eigenvalues >= excesses)[-1]]
    allowed: _Floats = np.maximum(eigenvalues - excess, 0.0)
    return allowed


def _expected_scores(eigenvalues: _Floats, kappas: _Floats) -> _Floats:
    """Return about what u_i^T C u_i will be, if C has these eigenvalues."""
    spectrum: _Floats = eigenvalues
    scores = []
    for kappa in kappas:
        a = kappa * (spectrum.max() - spectrum)
        shares = 1 / (envelope_parameter(a) + 2 * a)
        shares /= shares.sum()
        scores.append(float(shares @ spectrum))
        if len(spectrum) > 1:
            others = complement(np.sqrt(shares))
            spectrum = np.asarray(np.linalg.eigvalsh(others.T @ (spectrum[:, None] * others)), np.float64)
    return np.array(scores)


def _sample_basis(tools: _Tools, kappas: _Floats) -> _Floats:
    """Return the u_i as rows, each drawn from the complement of those before it."""
    drawn = []
    d = len(kappas)
    basis, nothing = np.eye(d), np.zeros((d, d))
    for kappa in kappas:
        y = tools.vector(basis, nothing, float(kappa))
        drawn.append(basis @ y)
        basis = basis @ complement(y)
    return np.array(drawn)


def complement(g: _Floats) -> _Floats:
    """Return an orthonormal basis of the complement of a unit vector: all but the first column of its reflector."""
    v = g.copy()
    v[0] += math.copysign(1.0, g[0])
    reflector: _Floats = np.eye(len(g)) - np.outer(v, v) * (2 / (v @ v))
    return reflector[:, 1:]


def _noisy_moments(
    matrix: _Floats, unshrunk: _Floats, moments: SecondMoments, setting: _Setting, step: float | None
) -> NoisyMoments:
    """Return the result, on a grid of these steps; without one, it has no guarantee."""
    public_rows = setting.neighbours == "replace-one"
    scaled = 0.5 * (matrix + matrix.T) * moments.scaling.square
    cost = Cost(None)
    if step is not None:
        scaled = np.rint(scaled / step) * step
        cost = Cost(mu_implied_by_epsilon(setting.epsilon), setting.epsilon, EXCEPTED_DELTA)
    return NoisyMoments(
        matrix=with_exact_corner(scaled, moments) if public_rows else scaled,
        mechanism=setting.mechanism,
        neighbours=setting.neighbours,
        scaling=moments.scaling,
        n_rows=moments.n_rows if public_rows else None,
        granularity=step,
        distribution=None,
        parameters={},
        diagonal_variance=None,
        off_diagonal_variance=None,
        bias=0.0,
        cost=cost,
        unshrunk=unshrunk * moments.scaling.square,
    )
