"""Covariance releases of two rounds, made in floating point by a few lines of numpy, and bundles of them.

They share no code with the publisher's, and what they hold of the format they take from the manifest's models.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.bundle.writing import write_bundle
from dp_bundle.data.matrix import write_triangle
from dp_bundle.manifest.guarantee import NUMBER_PUBLIC
from dp_bundle.manifest.noise import rounded_gaussian_variance
from dp_bundle.manifest.release import CONSTANT_LABEL, Release

Array = np.ndarray
_RADIUS, _POWER = 2.5, 0.375  # in lengths of a typical row, and of the transform
FOUND_MU = 0.05  # what centers, scales, the clip and the radii are said to have cost


@dataclass(frozen=True)
class Rounds:
    """One release: everything that a bundle states, as numbers."""

    n_rows: int
    centers: tuple[Array, Array]
    scales: tuple[Array, Array]
    clip: float
    radii: tuple[float, float]
    constants: tuple[float, float]
    sigmas: tuple[float, float]
    matrices: tuple[Array, Array]
    transform: Array
    fourth: float
    fourth_sigma: float
    granularities: tuple[float, float, float]


def release_in_two_rounds(
    values: Array,
    mu: float,
    rng: np.random.Generator,
    *,
    center: Array | None = None,
    scale: Array | None = None,
    clip: float = 6.0,
) -> Rounds:
    """Return a release of rows, shape (n, p), that costs mu."""
    n, p = values.shape
    mus = [mu * math.sqrt(share) for share in (0.35, 0.6, 0.05)]
    first = (np.median(values, axis=0) if center is None else center, values.std(axis=0) if scale is None else scale)
    clipped = np.clip(values, first[0] - clip * first[1], first[0] + clip * first[1])

    u = (clipped - first[0]) / first[1]
    radius_1 = min(_RADIUS, clip) * math.sqrt(p)
    matrix_1, constant_1, sigma_1, step_1, _ = _noisy_sum(u, radius_1, 0.05, mus[0], rng)

    mean = matrix_1[:p, p] / (n * constant_1)
    covariance = matrix_1[:p, :p] / n - np.outer(mean, mean)
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.3))
    second = (first[0] + first[1] * mean, first[1] * deviations)
    transform, correlation = _transform(covariance / np.outer(deviations, deviations), sigma_1 / n)
    radius_2 = _RADIUS * math.sqrt(np.trace(transform @ correlation @ transform))
    y = ((clipped - second[0]) / second[1]) @ transform
    matrix_2, constant_2, sigma_2, step_2, shortened = _noisy_sum(y, radius_2, 0.02, mus[1], rng)

    fourth_sigma = 1 / mus[2]
    fourth_step = _step(fourth_sigma)
    total = ((np.linalg.norm(shortened, axis=1) / (radius_2)) ** 4).sum() + rng.normal(0, fourth_sigma)
    return Rounds(
        n,
        (first[0], second[0]),
        (first[1], second[1]),
        clip,
        (radius_1, radius_2),
        (constant_1, constant_2),
        (sigma_1, sigma_2),
        (matrix_1, matrix_2),
        transform,
        float(np.rint(total / fourth_step) * fourth_step),
        fourth_sigma,
        (step_1, step_2, fourth_step),
    )


def manifest_of(rounds: Rounds, names: Sequence[str]) -> Release:
    """Return the manifest of a release."""
    standards = zip(*rounds.centers, *rounds.scales, strict=True)
    columns = tuple(
        {
            "name": name,
            "kind": "continuous",
            "bounds": (float(c1 - 100 * s1), float(c1 + 100 * s1)),
            "bounds_obtained": "declared",
            "noise": None,
            "standards": ({"center": float(c1), "scale": float(s1)}, {"center": float(c2), "scale": float(s2)}),
            "standard_obtained": "private-quantiles",
        }
        for name, (c1, c2, s1, s2) in zip(names, standards, strict=True)
    )
    first, final = (_stated(rounds, index) for index in (0, 1))
    mus = [
        math.sqrt(2) * (radius**2 + constant**2) / sigma
        for radius, constant, sigma in zip(rounds.radii, rounds.constants, rounds.sigmas, strict=True)
    ]
    mu = math.hypot(FOUND_MU, 1 / rounds.fourth_sigma, *mus) * (1 + 1e-12)
    rho = mu * mu / 2 * (1 + 1e-12)
    fourth = {"total": rounds.fourth, "sigma": rounds.fourth_sigma, "granularity": rounds.granularities[2]}
    document = {
        "dataset": {"name": "people"},
        "lineage": {"number": 1, "created": "2026-01-02T03:04:05Z", "previous": None},
        "kind": "covariance",
        "n_rows": rounds.n_rows,
        "columns": columns,
        "second_moments": {
            **final,
            "mechanism": "two-round",
            "first_round": first,
            "column_clip": rounds.clip,
            "fourth_moment": fourth,
        },
        "guarantee": {
            "unit": "row",
            "bounds_mu": FOUND_MU,
            "mu": mu,
            "rho": rho,
            "epsilon_delta": (),
            "accountant": "gaussian-dp",
            "public": (NUMBER_PUBLIC,),
        },
        "cumulative": {"unit": "row", "releases": 1, "mu": mu, "rho": rho, "other_units_rho": {"cell": rho}},
        "software": "dpgraph 0",
    }
    return Release.model_validate(document)


def members_of(rounds: Rounds, names: Sequence[str]) -> list[io.BytesIO]:
    """Return the data members' files, in their order."""
    final, first, transform = (io.BytesIO() for _ in range(3))
    write_triangle(rounds.matrices[1], [*names, CONSTANT_LABEL], final)
    write_triangle(rounds.matrices[0], [*names, CONSTANT_LABEL], first)
    write_triangle(rounds.transform, list(names), transform)
    return [final, first, transform]


def write_rounds(path: Path, rounds: Rounds, names: Sequence[str], key: Ed25519PrivateKey) -> Path:
    """Write a bundle of a release, and return its path."""
    with path.open("xb") as file:
        write_bundle(file, manifest_of(rounds, names), list(members_of(rounds, names)), key)
    return path


def _noisy_sum(
    rows: Array, radius: float, spare: float, mu: float, rng: np.random.Generator
) -> tuple[Array, float, float, float, Array]:
    """Return the noisy sum over rows beside a constant, the constant, sigma, the grid, and the rows as summed."""
    n, p = rows.shape
    shares = np.geomspace(1e-4, 1, 400)
    best = shares[np.argmin((1 + shares) ** 2 * (p + 2 * spare / shares))]
    constant = max(1.0, round(256 * radius * math.sqrt(best))) / 256
    sigma = math.sqrt(2) * (radius**2 + constant**2) / mu
    step = _step(sigma)
    shortened = rows * np.minimum(1, radius / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None]
    whole = np.column_stack([shortened, np.full(n, constant)])
    noise = rng.normal(0, sigma / math.sqrt(2), (p + 1, p + 1))
    noise[np.diag_indices(p + 1)] = rng.normal(0, sigma, p + 1)
    noisy = np.rint((np.triu(whole.T @ whole) + np.triu(noise)) / step) * step
    noisy[p, p] = n * constant**2
    return np.triu(noisy) + np.triu(noisy, 1).T, constant, sigma, step, shortened


def _transform(noisy: Array, error: float) -> tuple[Array, Array]:
    """Return a power of the nearest correlation matrix whose eigenvalues stand clear of the noise, and that matrix."""
    floor = max(error * math.sqrt(len(noisy)), 1e-6)
    values, vectors = np.linalg.eigh(noisy)
    correlation = (vectors * np.maximum(values, floor)) @ vectors.T
    deviations = np.sqrt(np.diagonal(correlation))
    correlation /= np.outer(deviations, deviations)
    values, vectors = np.linalg.eigh(correlation)
    transform = (vectors * values**-_POWER) @ vectors.T
    return (transform + transform.T) / 2, correlation


def _stated(rounds: Rounds, index: int) -> dict[str, Any]:
    sigma, step = rounds.sigmas[index], rounds.granularities[index]
    off = sigma / math.sqrt(2)
    return {
        "radius": rounds.radii[index],
        "constant": rounds.constants[index],
        "granularity": step,
        "distribution": "rounded-gaussian",
        "parameters": {"diagonal_sigma": sigma, "off_diagonal_sigma": off},
        "diagonal_variance": step**2 * rounded_gaussian_variance(sigma / step),
        "off_diagonal_variance": step**2 * rounded_gaussian_variance(off / step),
    }


def _step(sigma: float) -> float:
    """Return a power of two that is a thousandth of sigma or so."""
    return math.ldexp(1.0, math.frexp(sigma)[1] - 10)
