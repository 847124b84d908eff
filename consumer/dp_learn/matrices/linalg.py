"""Symmetric matrices through LAPACK, tails of distributions, and the few steps that all splitting methods share.

Of small matrices, and of a few tails, through numpy: importing scipy takes longer than everything that is done with
them. Anderson acceleration takes fewer steps of a fixed-point iteration, for the price of some memory.
"""

import contextlib
import math
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

FloatArray = NDArray[np.float64]
Places = NDArray[np.intp]  # positions, numbers and labels
Mask = NDArray[np.bool_]
Array = np.ndarray  # of numbers or booleans, as kernels take

FEW = 50  # columns: with no more, plain numpy is done before compiled kernels are loaded
WORTH_THREADS = 10_000  # columns: with fewer, threads spend much of their time waiting for each other
WORTH_CHOOSING = 150  # columns: from here on, some of the eigenvectors take less time than all
WORTH_SCIPY = WORTH_CHOOSING  # which has those, and overwrites matrices where numpy copies them
SPARSE = 0.02  # the share of entries below which sparse products beat the far faster dense ones
WORTH_SPARSE = 200  # columns: dense products of fewer take no time
SMALLEST_P = sys.float_info.min  # so that no p-value is zero, which would say more than any test can
MOST_BALANCING = 4.0  # the factor by which ADMM's rho changes at a time
MANY_TAILS = 50_000  # numbers, for which scipy is worth importing


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


def diagonal_matrix(values: FloatArray) -> Any:
    """Return a diagonal matrix, a sparse one if products are faster so."""
    if len(values) < WORTH_SPARSE:
        return np.diag(values)
    from scipy.sparse import csr_array

    places = np.arange(len(values))
    return csr_array((values, (places, places)))


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


def _cholesky(matrix: FloatArray) -> FloatArray | None:
    """Return a triangle of the Cholesky factorisation, the other one unspecified; None if there is none."""
    if len(matrix) < WORTH_SCIPY:
        try:
            return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None
    from scipy.linalg.lapack import dpotrf

    # a transposed view is in LAPACK's order: no conversion
    factor, info = dpotrf(matrix.T, lower=0, clean=0)
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
    return smallest_eigenpair(matrix)[0] if len(matrix) >= WORTH_SCIPY else float(np.linalg.eigvalsh(matrix)[0])


def smallest_eigenpair(matrix: FloatArray) -> tuple[float, FloatArray]:
    """Return the smallest eigenvalue and its eigenvector.

    Of a large matrix LAPACK finds it alone. Lanczos iterations are faster at a thousand columns and more, but where
    eigenvalues crowd at the smallest one, as those of a long series do, they took up to 300 times as long.
    """
    if len(matrix) < WORTH_SCIPY:
        d, q = np.linalg.eigh(matrix)
    else:
        from scipy.linalg import eigh

        d, q = eigh(matrix, subset_by_index=[0, 0], driver="evr", check_finite=False)
    return float(d[0]), q[:, 0]


def draw_symmetric(rng: np.random.Generator, n_features: int) -> FloatArray:
    """Return a symmetric matrix of independent normal entries, of variance 1 off the diagonal and 2 on it."""
    drawn = rng.standard_normal((n_features, n_features))
    symmetric: FloatArray = (drawn + drawn.T) / np.sqrt(2.0)
    return symmetric


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


def normal_tails(x: FloatArray) -> FloatArray:
    """Return for every number the probability that a standard normal one exceeds it."""
    if x.size < MANY_TAILS:
        tails = np.fromiter(map(math.erfc, (x * math.sqrt(0.5)).ravel().tolist()), np.float64, x.size)
        return 0.5 * tails.reshape(x.shape)
    from scipy import special

    return np.asarray(special.ndtr(-x))


def two_sided(z: FloatArray) -> FloatArray:
    """Return for every number the p-value of a standard normal one, at least `SMALLEST_P`."""
    return np.maximum(2.0 * normal_tails(np.abs(z)), SMALLEST_P)


def chi_squared_quantiles(degrees: float, chance: float) -> tuple[float, float]:
    """Return the limits that a chi-squared number is below, and above, with this chance each."""
    from scipy import special

    low, high = special.gammaincinv(degrees / 2.0, chance), special.gammainccinv(degrees / 2.0, chance)
    return 2.0 * float(low), 2.0 * float(high)


class Anderson:
    """Anderson acceleration of a fixed-point iteration on symmetric matrices, type II, with a safeguard.

    The next point is the combination of the latest images whose residuals cancel best in least squares. Where the
    residual has grown instead, the latest plain image is returned and the history dropped. The iteration then goes on
    from a point that the map itself has made.

    Parameters
    ----------
    n_features : int
        p; the history takes about ``memory * p**2`` numbers.
    memory : int
        Most differences kept.
    packed : tuple of int, optional
        The shape of points that are no matrices, of which every number counts.

    References
    ----------
    Walker and Ni (2011); Zhang, O'Donoghue and Boyd (2020) for safeguards.
    """

    RIDGE = 1e-10  # relative to the trace of the normal equations, against rounding
    CAUTION = 1e-8  # ridge relative to the residual: coefficients stay below 1e4, even where residuals hardly differ
    GROWTH = 2.0  # a residual that grew by more than this is refused

    def __init__(self, n_features: int, memory: int = 10, packed: tuple[int, ...] | None = None) -> None:
        first, second = np.triu_indices(n_features)
        self._shape: tuple[int, ...] = packed or (n_features, n_features)
        self._upper, self._lower = first * n_features + second, second * n_features + first  # places row by row
        if packed is not None:
            self._upper = self._lower = np.arange(math.prod(packed))
        size = self._upper.size
        self._residuals = np.empty((memory, size))
        self._images = np.empty((memory, size))
        self._gram = np.zeros((memory, memory))
        self._last: tuple[FloatArray, FloatArray, float] | None = None
        self._count = 0

    def forget(self) -> None:
        """Drop the history, because the map has changed."""
        self._last, self._count = None, 0

    def next_point(self, point: FloatArray, image: FloatArray) -> FloatArray:
        """Return the point to go on from, given a point and its image under the map."""
        new: FloatArray = image.ravel().take(self._upper)
        residual: FloatArray = new - point.ravel().take(self._upper)
        norm = float(np.linalg.norm(residual))

        last = self._last
        if last is not None and norm > self.GROWTH * last[2]:
            self.forget()
            return self._unpack(last[1])

        self._last = residual, new, norm
        if last is None:
            return image

        # the newest differences take the place of the oldest
        memory = len(self._gram)
        at = self._count % memory
        self._count += 1
        k = min(self._count, memory)
        np.subtract(residual, last[0], out=self._residuals[at])
        np.subtract(new, last[1], out=self._images[at])
        self._gram[at, :k] = self._gram[:k, at] = self._residuals[:k] @ self._residuals[at]

        # least squares, with a ridge against rounding
        ridge = self.RIDGE * float(np.trace(self._gram[:k, :k])) + self.CAUTION * norm * norm
        normal = self._gram[:k, :k] + ridge * np.eye(k)
        try:
            share = np.linalg.solve(normal, self._residuals[:k] @ residual)
        except np.linalg.LinAlgError:  # no progress at all since the last point
            self.forget()
            return image
        return self._unpack(new - share @ self._images[:k])

    def _unpack(self, packed: FloatArray) -> FloatArray:
        full = np.empty(self._shape)
        full.ravel()[self._upper] = packed
        full.ravel()[self._lower] = packed
        return full


def inverse_step(m: FloatArray, rho: float) -> FloatArray:
    """Return the positive definite X with ``rho X - X^-1 = M``, on the eigenvectors of M."""
    d, q = eigendecomposition(m)
    root: FloatArray = q * np.sqrt((d + np.sqrt(d * d + 4.0 * rho)) / (2.0 * rho))
    return root @ root.T


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
    factor = min(MOST_BALANCING, max(1.0 / MOST_BALANCING, math.sqrt(r / d)))
    return factor if not 0.7 < factor < 1.4 else 1.0
