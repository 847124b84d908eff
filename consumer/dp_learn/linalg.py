"""Symmetric matrices through LAPACK, and the few steps that all splitting methods share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf

__all__ = [
    "FloatArray",
    "balancing_factor",
    "eigendecomposition",
    "is_positive_definite",
    "logdet",
    "negative_part",
    "raise_to_semidefinite",
    "smallest_eigenvalue",
]

FloatArray = NDArray[np.float64]


def logdet(matrix: FloatArray) -> float:
    """Return the logarithm of the determinant by Cholesky, -inf for a matrix that is not positive definite."""
    factor, info = dpotrf(matrix.T, lower=0, clean=0)  # a transposed view is in LAPACK's order: no conversion
    if info != 0:
        return -math.inf
    return 2.0 * float(np.log(factor.diagonal()).sum())


def is_positive_definite(matrix: FloatArray) -> bool:
    """Return whether the Cholesky factorisation exists in double precision."""
    return bool(dpotrf(matrix.T, lower=0, clean=0)[1] == 0)


def eigendecomposition(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ascending eigenvalues and their eigenvectors as columns.

    Divide and conquer (dsyevd) was as fast as dsyevr and two to four times faster than dsyev from p = 200 on.
    """
    return eigh(matrix, driver="evd", check_finite=False)


def smallest_eigenvalue(matrix: FloatArray) -> float:
    """Return the smallest eigenvalue."""
    return float(eigh(matrix, eigvals_only=True, driver="evd", check_finite=False)[0])


def negative_part(matrix: FloatArray) -> FloatArray:
    """Return the positive semidefinite N for which ``matrix + N`` is the projection onto the semidefinite cone."""
    d, q = eigendecomposition(matrix)
    k = int(np.searchsorted(d, 0.0))
    root: FloatArray = q[:, :k] * np.sqrt(-d[:k])
    return root @ root.T


def raise_to_semidefinite(matrix: FloatArray) -> FloatArray:
    """Raise the diagonal until the matrix is positive semidefinite; zeros elsewhere stay."""
    lift = max(0.0, -smallest_eigenvalue(matrix)) * (1.0 + 1e-12)
    return matrix + lift * np.eye(matrix.shape[0])


def balancing_factor(primal: FloatArray, iterate: FloatArray, step: FloatArray, dual: FloatArray) -> float:
    """Return the factor for ADMM's rho that evens out the relative residuals, 1 when they are even enough.

    Parameters
    ----------
    primal, iterate : ndarray
        The primal residual, and what it is relative to.
    step, dual : ndarray
        The change of the second iterate, and the scaled dual that it is relative to.

    References
    ----------
    Boyd et al. (2011), section 3.4.1; Wohlberg (2017) for the relative residuals.
    """
    r = float(np.linalg.norm(primal)) * float(np.linalg.norm(dual))
    d = float(np.linalg.norm(step)) * float(np.linalg.norm(iterate))
    if r <= 0.0 or d <= 0.0:
        return 1.0
    factor = min(4.0, max(0.25, math.sqrt(r / d)))
    return factor if not 0.7 < factor < 1.4 else 1.0
