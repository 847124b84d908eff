"""Mean and covariance in data units from a noisy sum of (z, c)(z, c)^T.

With S the noisy second moments of z and m its noisy mean, the covariance is S - m m^T. The noise on m, independent of
that on S and uncorrelated between columns, adds its variance v to the expected diagonal of m m^T, so that

    S - m m^T + v I

has the covariance (divisor n) as its expected value. All columns are scaled back by their half-widths.
"""

import numpy as np
from numpy.typing import NDArray


def mean_and_covariance(
    matrix: NDArray[np.float64],
    centers: NDArray[np.float64],
    half_widths: NDArray[np.float64],
    constant: float,
    *,
    n_rows: int | None = None,
    bias: float = 0.0,
    off_diagonal_variance: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return mean, covariance and number of rows from a noisy sum of second moments.

    Parameters
    ----------
    matrix : ndarray, shape (p + 1, p + 1), or (p, p) without a constant
        The noisy sum of (z, c)(z, c)^T.
    centers, half_widths : ndarray, shape (p,)
        In data units.
    constant : float
        c; with 0 the mean is taken to be at the centres.
    n_rows : int, optional
        The number of rows where it is public; otherwise it is read from the constant's own entry.
    bias : float
        The multiple of the identity to subtract first.
    off_diagonal_variance : float
        The noise's variance on the sums, in the matrix's units.

    Returns
    -------
    mean : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        With divisor n; not necessarily positive semidefinite.
    n_rows : float
        As given, or as estimated.
    """
    p = len(centers)
    rows = float(n_rows) if n_rows is not None else estimate_rows(matrix, constant, bias)
    second = (matrix[:p, :p] - bias * np.eye(p)) / rows
    if not constant:
        return centers.copy(), second * np.outer(half_widths, half_widths), rows
    scaled_mean = matrix[:p, p] / (rows * constant)
    noise = off_diagonal_variance / (rows * constant) ** 2
    scaled = second - np.outer(scaled_mean, scaled_mean) + noise * np.eye(p)
    return centers + half_widths * scaled_mean, scaled * np.outer(half_widths, half_widths), rows


def estimate_rows(matrix: NDArray[np.float64], constant: float, bias: float) -> float:
    """Return the number of rows that the constant's own, noisy entry shows; not necessarily whole, or positive.

    Parameters
    ----------
    matrix : ndarray, shape (p + 1, p + 1)
        The noisy sum of (z, c)(z, c)^T.
    constant : float
        c, positive.
    bias : float
        The multiple of the identity to subtract first.
    """
    return (float(matrix[-1, -1]) - bias) / constant**2
