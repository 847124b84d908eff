"""The models, the rows and the noise of the paper's section 5.1, and its two estimators as they are printed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reproduction.simulation import Floats, gaussian_rows, into_the_ball

MODELS = ("model1", "model2", "model3", "model4")
EPSILONS = (0.1, 0.3, 0.5, 0.8, 1.2, 2.0)
NORMS = {"l1": 1, "frobenius": "fro", "spectral": 2}
ADMM_PENALTY, ADMM_ITERATIONS = 100.0, 1000


def precision_of(model: str, n_columns: int, rng: np.random.Generator) -> Floats:
    """Return Theta; the diagonal of model 3, which is printed as 0, has to be 1 for a positive definite matrix."""
    eye = np.eye(n_columns)
    if model == "model1":
        draws = rng.normal(size=(10_000, n_columns))
        return draws.T @ draws / 10_000
    if model == "model2":
        return 0.5 + 0.5 * eye
    if model == "model3":
        bands = ((1, 0.5), (2, 0.25))
        return sum((c * (np.eye(n_columns, k=k) + np.eye(n_columns, k=-k)) for k, c in bands), start=eye)

    upper = np.triu(0.5 * (rng.random((n_columns, n_columns)) < 0.1), 1)
    eigenvalues = np.linalg.eigvalsh(upper + upper.T)
    lift = (eigenvalues[-1] - n_columns * eigenvalues[0]) / (n_columns - 1)  # so that the condition number is p
    theta: Floats = (upper + upper.T) / lift + eye
    return theta


def rows_in_the_ball(n_rows: int, theta: Floats, rng: np.random.Generator) -> Floats:
    """Return Gaussian rows, divided by the largest of their norms."""
    return into_the_ball(gaussian_rows(n_rows, theta, rng))


def printed_sigma(n_rows: int, epsilon: float, delta: float) -> float:
    """Return the noise of algorithm 1, whose calibration has a proof for epsilon below 1 only."""
    return math.sqrt(2) / n_rows * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def admm_state(covariance: Floats, alpha: float, iterations: int = ADMM_ITERATIONS) -> Floats:
    """Return the sparse matrix of algorithm 2 after so many iterations from zeros, whether they have converged or not.

    A thousand iterations are the most that the published script of Boyd et al. (2011) takes for this problem.
    """
    return next(itertools.islice(admm_states(covariance, alpha, ADMM_PENALTY), iterations - 1, None))


def admm_states(covariance: Floats, alpha: float, step: float) -> Iterator[Floats]:
    """Yield the sparse matrix of ADMM after every iteration from zeros on, without end.

    The iterations are defined for every symmetric matrix, also where the problem has no solution.
    """
    p = len(covariance)
    sparse, dual = np.zeros((p, p)), np.zeros((p, p))
    while True:
        eigenvalues, vectors = np.linalg.eigh(step * (sparse - dual) - covariance)
        theta = (vectors * ((eigenvalues + np.sqrt(eigenvalues**2 + 4.0 * step)) / (2.0 * step))) @ vectors.T
        dual += theta
        sparse = np.sign(dual) * np.maximum(np.abs(dual) - alpha / step, 0.0)
        dual -= sparse
        yield sparse


def folds_of(rows: Floats, n_folds: int = 5) -> Iterator[tuple[Floats, Floats]]:
    """Return the second moments of the rows beside each fold, and of the fold."""
    fold = np.arange(len(rows)) % n_folds
    for held in range(n_folds):
        beside, inside = rows[fold != held], rows[fold == held]
        yield beside.T @ beside / len(beside), inside.T @ inside / len(inside)


def distances(private: Floats, clean: Floats) -> dict[str, float]:
    """Return the relative distance in the paper's norms, and the spectral one over the Frobenius norm of the estimate.

    The paper defines ``|Theta_priv - Theta| / |Theta|`` with the same norm above and below.
    """
    apart = private - clean
    found = {name: float(np.linalg.norm(apart, order) / np.linalg.norm(clean, order)) for name, order in NORMS.items()}
    return found | {"spectral_over_frobenius": float(np.linalg.norm(apart, 2) / np.linalg.norm(clean))}


def edges_of(theta: Floats) -> NDArray[np.bool_]:
    """Return the pairs above the diagonal that a matrix links."""
    linked: NDArray[np.bool_] = theta[np.triu_indices(len(theta), 1)] != 0.0
    return linked
