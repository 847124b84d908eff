"""Symmetric matrices through LAPACK, and the few steps that all splitting methods share.

Of small matrices through numpy: importing scipy takes longer than everything that is done with them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

FloatArray = NDArray[np.float64]
Array = np.ndarray  # of numbers or booleans, as kernels take

FEW = 50  # columns: with no more, plain numpy is done before compiled kernels are loaded
WORTH_THREADS = 10_000  # columns: with fewer, threads spend much of their time waiting for each other
WORTH_ITERATIONS = 600  # columns: with fewer, all eigenvalues take no time
WORTH_CHOOSING = 150  # columns: from here on, some of the eigenvectors take less time than all
WORTH_SCIPY = WORTH_CHOOSING  # which has those, and overwrites matrices where numpy copies them
LANCZOS_STEPS = 40
RESIDUE = 1e-12  # relative, of rounding
SPARSE = 0.02  # the share of entries below which sparse products beat the far faster dense ones
WORTH_SPARSE = 200  # columns: dense products of fewer take no time


@contextlib.contextmanager
def few_threads(n_features: int) -> Iterator[None]:
    """Keep BLAS to one thread in the body, unless matrices of so many columns are large enough for several."""
    if n_features >= WORTH_THREADS:
        yield
        return
    with _threads(with_scipy=n_features >= WORTH_SCIPY).limit(limits=1, user_api="blas"):
        yield


@cache
def _threads(*, with_scipy: bool) -> ThreadpoolController:
    """Return the controller of BLAS's threads; scipy has a BLAS of its own, found only once it is loaded."""
    if with_scipy:
        import scipy.linalg  # noqa: F401
    return ThreadpoolController()


def sparse_if_worth_it(matrix: FloatArray) -> Any:
    """Return a matrix as a sparse one, if products are faster so, or the matrix itself."""
    if min(matrix.shape) < WORTH_SPARSE or np.count_nonzero(matrix) >= SPARSE * matrix.size:
        return matrix
    from scipy.sparse import csr_array

    return csr_array(matrix)


def dense(matrix: Any) -> FloatArray:
    """Return a matrix, sparse or not, as an array."""
    array: FloatArray = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    return array


def scale_columns(matrix: Any, columns: FloatArray) -> Any:
    """Return a matrix, sparse or not, with every column multiplied by a number."""
    if isinstance(matrix, np.ndarray):
        return matrix * columns
    scaled = matrix.copy()
    scaled.data *= columns[scaled.indices]
    return scaled


def sandwich(b: FloatArray, s: FloatArray) -> FloatArray:
    """Return ``B S B'`` of a symmetric S, by sparse products where B is sparse."""
    rows = sparse_if_worth_it(b)
    product: FloatArray = rows @ (rows @ s).T
    return product


def logdet(matrix: FloatArray) -> float:
    """Return the logarithm of the determinant by Cholesky, -inf for a matrix that is not positive definite."""
    factor = _cholesky(matrix)
    return -math.inf if factor is None else 2.0 * float(np.log(factor.diagonal()).sum())


def is_positive_definite(matrix: FloatArray) -> bool:
    """Return whether the Cholesky factorisation exists in double precision."""
    return _cholesky(matrix) is not None


def _cholesky(matrix: FloatArray, *, overwrite: bool = False) -> FloatArray | None:
    """Return a triangle of the Cholesky factorisation, the other one unspecified; None if there is none."""
    if len(matrix) < WORTH_SCIPY:
        try:
            return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None
    from scipy.linalg.lapack import dpotrf

    # a transposed view is in LAPACK's order: no conversion
    factor, info = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=overwrite)
    return factor if info == 0 else None


def add_product(total: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return a square matrix, which is overwritten, plus ``X'Y``; of ``X'X``, only the upper triangle is sure to be.

    All in the order of columns.
    """
    if len(total) < WORTH_SCIPY:
        total += x.T @ y
        return total
    from scipy.linalg.blas import dgemm, dsyrk

    if x is y:
        return dsyrk(1.0, x, 1.0, total, trans=1, overwrite_c=1)
    return dgemm(1.0, x, y, 1.0, total, trans_a=1, overwrite_c=1)


def median_above_diagonal(matrix: FloatArray) -> float:
    """Return the median of the entries above the diagonal, which are numbers; numpy's own imports masked arrays."""
    entries = matrix[np.triu(np.ones(matrix.shape, dtype=bool), 1)]
    middle = (entries.size - 1) // 2, entries.size // 2
    return float(np.partition(entries, middle)[list(middle)].mean())


def eigendecomposition(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ascending eigenvalues and their eigenvectors as columns.

    Divide and conquer (dsyevd) was as fast as dsyevr and two to four times faster than dsyev from p = 200 on.
    """
    if len(matrix) < WORTH_SCIPY:
        return np.linalg.eigh(matrix)
    from scipy.linalg import eigh

    return eigh(matrix, driver="evd", check_finite=False)


def smallest_eigenvalue(matrix: FloatArray) -> float:
    """Return the smallest eigenvalue."""
    if len(matrix) >= WORTH_ITERATIONS:
        return smallest_eigenpair(matrix)[0]
    return float(np.linalg.eigvalsh(matrix)[0])


def smallest_eigenpair(matrix: FloatArray) -> tuple[float, FloatArray]:
    """Return the smallest eigenvalue and its eigenvector.

    Of a large matrix by Lanczos iterations on the inverse of ``matrix - shift``, whose Cholesky factor proves that the
    shift is below all eigenvalues: the nearest one is the smallest.
    """
    p = len(matrix)
    if p < WORTH_SCIPY:
        d, q = np.linalg.eigh(matrix)
        return float(d[0]), q[:, 0]
    from scipy.linalg import eigh
    from scipy.linalg.lapack import dpotrs
    from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

    if p < WORTH_ITERATIONS:
        d, q = eigh(matrix, subset_by_index=[0, 0], driver="evr", check_finite=False)
        return float(d[0]), q[:, 0]
    start = np.random.default_rng(0).normal(size=p)
    near, error = _lanczos_estimate(matrix, start)
    while True:
        shifted = matrix.copy()
        shifted[np.diag_indices(p)] -= near - error
        factor = _cholesky(shifted, overwrite=True)
        if factor is not None:
            break
        error *= 4.0
    inverse = LinearOperator((p, p), matvec=lambda x: dpotrs(factor, x)[0], dtype=np.float64)
    d, q = eigsh(aslinearoperator(matrix), k=1, sigma=near - error, OPinv=inverse, v0=start, tol=1e-12)
    return float(d[0]), q[:, 0]


def _lanczos_estimate(matrix: FloatArray, start: FloatArray) -> tuple[float, float]:
    """Return an estimate of the smallest eigenvalue from above, and how far below it that may be."""
    v, before, beta = start / np.linalg.norm(start), np.zeros_like(start), 0.0
    diagonal, off_diagonal = [], []
    for _ in range(LANCZOS_STEPS):
        w = matrix @ v - beta * before
        alpha = float(w @ v)
        w -= alpha * v
        before, beta = v, float(np.linalg.norm(w))
        diagonal.append(alpha)
        off_diagonal.append(beta)
        if beta <= RESIDUE * abs(alpha):
            break
        v = w / beta
    from scipy.linalg import eigh_tridiagonal

    d, q = eigh_tridiagonal(diagonal, off_diagonal[:-1])
    return float(d[0]), 2.0 * abs(off_diagonal[-1] * q[-1, 0]) + RESIDUE * float(np.abs(d).max())


def negative_part(matrix: FloatArray, *, roughly: bool = False) -> FloatArray:
    """Return the positive semidefinite N for which ``matrix + N`` is the projection onto the semidefinite cone.

    Where that need only hold roughly, a large matrix is decomposed in single precision, which takes half the time; N is
    semidefinite all the same.
    """
    if len(matrix) < WORTH_CHOOSING:
        d, q = eigendecomposition(matrix)
        k = int(np.searchsorted(d, 0.0))
        d, q = d[:k], q[:, :k]
    else:
        from scipy.linalg import eigh

        kind = np.float32 if roughly else np.float64
        d, q = eigh(matrix.astype(kind), subset_by_value=[-np.inf, 0.0], driver="evr", check_finite=False)
        d, q = d.astype(np.float64), q.astype(np.float64)
    root: FloatArray = q * np.sqrt(-np.minimum(d, 0.0))
    return root @ root.T


def raise_to_semidefinite(matrix: FloatArray) -> FloatArray:
    """Raise the diagonal until the matrix is positive semidefinite; zeros elsewhere stay."""
    lift = max(0.0, -smallest_eigenvalue(matrix)) * (1.0 + 1e-12)
    return matrix + lift * np.eye(matrix.shape[0])
