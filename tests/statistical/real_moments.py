"""What rows really move a noisy sum of (z, c)(z, c)^T, from its noise and the definitions."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special
from tests.statistical.real_law import Law, choice, gaussian, law_of, product

from dp_bundle.manifest.release import Release

_ROWS_TRIED = 60


def law_of_moments(
    release: Release, choices: Sequence[float], rows: int, *, replaced: bool, sharper: float, counts: Sequence[float]
) -> Law:
    """Return what rows move a noisy sum of (z, c)(z, c)^T, in the worst case that is found here."""
    moments, guarantee = release.second_moments, release.guarantee
    if moments is None:
        raise TypeError("second moments have a guarantee")
    swaps = replaced or guarantee.neighbours.n_rows_public
    p, rounds = len(release.columns), [moments, *([moments.first_round] if moments.first_round else [])]
    if moments.distribution == "rounded-gaussian":
        shifts = [_gaussian_shift(each, swaps) for each in rounds]
        shifts += [1 / moments.fourth_moment.sigma] if moments.fourth_moment else []
        if moments.margins:  # a row leaves one cell of every raw column, and comes to another one
            n_raw = len({column.block or f"\0{column.name}" for column in release.columns})
            shifts.append(math.sqrt(2 * n_raw) / counts[-2])
        return product([gaussian(sharper * rows * math.hypot(*shifts)), *(choice(rows * e) for e in choices)])
    if moments.distribution == "discrete-laplace":
        moved = _largest_l1(moments.radius, moments.constant, p, swaps=swaps)
        return product(_laplace(sharper * rows * float(each) / moments.parameters["scale"]) for each in moved if each)
    if moments.distribution is None:  # pure epsilon that nothing of the noise shows: what epsilon says of two outcomes
        return choice(2 * (guarantee.epsilon or 0.0) * rows / (guarantee.max_rows or 1))
    square, scale, degrees = moments.radius**2, moments.parameters["scale"], moments.parameters["degrees_of_freedom"]
    if moments.distribution == "wishart":
        moved = square + (0.0 if guarantee.neighbours.n_rows_public else moments.constant**2)
        return _chi_squared(degrees, sharper * rows * moved / scale)
    one = _chi_squared_difference(degrees, sharper * rows * (square + moments.constant**2) / scale)
    return one.times(one) if swaps and p > 1 else one


def _gaussian_shift(matrix: Any, swaps: bool) -> float:
    """Return how far one row moves the sum under Gaussian noise, by the Frobenius norm."""
    on, off = matrix.parameters["diagonal_sigma"], matrix.parameters["off_diagonal_sigma"]
    moved = (math.sqrt(2) if swaps else 1.0) * (matrix.radius**2 + matrix.constant**2)
    return float(moved / max(on, math.sqrt(2) * off))


def _largest_l1(radius: float, constant: float, p: int, *, swaps: bool) -> Any:
    """Return the upper triangle that moves most, in the L1 norm, among rows of the ball that are tried."""
    rng = np.random.default_rng(1)
    ways = [np.ones(p), *np.eye(p), *rng.choice([-1.0, 1.0], (_ROWS_TRIED, p)), *rng.normal(size=(_ROWS_TRIED, p))]
    lengths = (radius, min(constant / 2, radius))  # of one column, what is farthest from the end is that far inside
    rows = [np.append(length * way / np.linalg.norm(way), constant) for way in ways for length in lengths]
    rows.append(np.append(np.zeros(p), constant))
    upper = np.triu_indices(p + 1)
    sums = np.array([np.outer(row, row)[upper] for row in rows])
    if not swaps:
        return np.abs(max(sums, key=lambda each: np.abs(each).sum()))
    distances = np.abs(sums[:, None] - sums[None]).sum(axis=2)
    one, other = np.unravel_index(int(distances.argmax()), distances.shape)
    return np.abs(sums[one] - sums[other])


def _laplace(shift: float) -> Law:
    """Return the law of a Laplace number that moves by so many scales, in 40 bins."""
    edges, beyond = np.linspace(0.0, shift, 39), 0.5 * math.exp(-shift)
    p = np.concatenate([[beyond], 0.5 * np.diff(np.exp(edges - shift)), [0.5]])
    q = np.concatenate([[0.5], -0.5 * np.diff(np.exp(-edges)), [beyond]])
    return law_of(p, q)


def _chi_squared(degrees: float, shift: float) -> Law:
    """Return the law of a chi-squared number, which has values of its own, against itself moved upwards."""
    half, levels = degrees / 2, np.geomspace(1e-14, 0.5, 300)
    still = 2 * np.concatenate([[0.0], special.gammaincinv(half, levels), special.gammainccinv(half, levels)])
    edges = np.append(np.unique(np.concatenate([still, still + shift])), math.inf)

    def within(ends: Any) -> Any:
        ends = np.maximum(ends, 0.0) / 2
        below, above = np.diff(special.gammainc(half, ends)), -np.diff(special.gammaincc(half, ends))
        return np.maximum(np.where(ends[1:] < half, below, above), 0.0)

    still, moved = within(edges), within(edges - shift)
    return law_of(still / still.sum(), moved / moved.sum())


def _chi_squared_difference(degrees: float, shift: float) -> Law:
    """Return the law of the difference of two chi-squared numbers that moves by so much."""
    far = 60.0 + 6 * math.sqrt(degrees) + shift
    points = np.linspace(-far, far, 6001)
    step = points[1] - points[0]
    order = (degrees - 1) / 2

    def density(x: Any) -> Any:
        size = np.maximum(np.abs(x), 1e-9)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.log(special.kve(order, size / 2))
        near = special.gammaln(order) - math.log(2) + order * np.log(4 / size) + size / 2  # what it is near 0
        log = order * np.log(size) + np.where(np.isfinite(scaled), scaled, near) - size / 2
        return np.exp(log - log.max())

    still, moved = density(points) * step, density(points - shift) * step
    return law_of(moved / moved.sum(), still / still.sum())
