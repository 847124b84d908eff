"""Errors of the bilinear forms b_i' S^ b_j from the noisy rows themselves, whatever their distribution.

References
----------
White (1980), A heteroskedasticity-consistent covariance matrix estimator, Econometrica 48(4).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from dp_bundle.base.errors import EstimationError
from dp_learn.covariance.bilinear_forms import FormErrors, by_rows
from dp_learn.covariance.moments import WAITING_CELLS
from dp_learn.covariance.row_passes import Rows, map_rows
from dp_learn.matrices.linalg import FloatArray, add_product, sandwich, sparse_if_worth_it

CHUNK_BYTES = 2**24  # of one matrix of rows


def row_errors(
    batches: Iterable[FloatArray | Rows], mean: FloatArray, b: FloatArray, covariance: FloatArray | None = None
) -> FormErrors:
    """Return the errors of the forms in one source, estimated from its noisy rows: the sandwich.

    With y = B (x~ - mean), Var f_ij is the rows' variance of y_i y_j over n, noise included. It needs independent rows
    with finite fourth moments and nothing else, so it is the one for binary, coded or heavy-tailed columns. The model's
    variance, `form_errors`, varies less, but is right only for Gaussian rows: tails make it too small.

    Parameters
    ----------
    batches : iterable of Rows, or of ndarray of shape (n_batch, n_features)
        The noisy rows, once; memory is that of a batch and of a few q-by-q matrices, for every thread, and of what a
        few Rows or arrays hold that wait for one.
    mean : ndarray of shape (n_features,)
        Their mean.
    b : ndarray of shape (q, n_features)
    covariance : ndarray of shape (n_features, n_features), optional
        Their covariance with divisor n - 1, if it is known: a quarter less to do.

    Raises
    ------
    EstimationError
        There are fewer than two rows.
    """
    n_rows, second, squares, cubes = _sum_powers(batches, mean, b, with_second=covariance is None)
    q = len(b)
    if covariance is not None:
        second = sandwich(b, covariance).T
        second *= n_rows - 1
    p, squares, cubes = _fill_lower(second).T, _fill_lower(squares).T, _add_transpose(cubes).T  # C-contiguous views
    p /= n_rows
    d, fourth = np.diagonal(p).copy(), np.diagonal(squares) / n_rows

    def centred(rows: slice) -> FormErrors:
        mean_square = (d[rows, None] + d) / 2.0
        products = squares[rows] / n_rows
        found = FormErrors(
            np.maximum(products - p[rows] ** 2, 0.0),  # rounding, where y_i y_j is the same in all rows
            cubes[rows] / n_rows - 2.0 * p[rows] * mean_square,
            np.maximum((fourth[rows, None] + fourth + 2.0 * products) / 4.0 - mean_square * mean_square, 0.0),
        )
        return found.times(1.0 / n_rows)

    return by_rows(q, centred, into=FormErrors(squares, cubes, p))


def _sum_powers(
    batches: Iterable[FloatArray | Rows], mean: FloatArray, b: FloatArray, *, with_second: bool
) -> tuple[int, FloatArray, FloatArray, FloatArray]:
    """Return the number of rows and the sums of y_i y_j, y_i^2 y_j^2 (the upper triangle of both) and y_i^3 y_j."""
    n_rows, q = 0, len(b)
    sums = [np.zeros((q, q), order="F") for _ in range(3)]  # the system gives what is written to
    room = WAITING_CELLS // (3 * q * q)  # for sums of how many batches
    powers = partial(_batch_powers, mean=mean, b=b, forms=sparse_if_worth_it(b), with_second=with_second)

    if room < 2:
        for rows in batches:
            n_rows += powers(rows, sums)[0]
    else:
        for n_batch, found in map_rows(powers, batches, room):
            n_rows += n_batch
            for total, part in zip(sums, found, strict=True):
                total += part
    if n_rows < 2:
        raise EstimationError("a standard error needs at least two rows")
    return n_rows, sums[0], sums[1], sums[2]


def _batch_powers(
    rows: FloatArray | Rows,
    sums: list[FloatArray] | None = None,
    *,
    mean: FloatArray,
    b: FloatArray,
    forms: Any,
    with_second: bool,
) -> tuple[int, list[FloatArray]]:
    """Return the number of rows of a batch, and its sums, added to others if they are given."""
    values, q = rows.read() if isinstance(rows, Rows) else rows, len(b)
    second, squares, cubes = sums or [np.zeros((q, q), order="F") for _ in range(3)]
    chunk = max(1, CHUNK_BYTES // (8 * b.shape[1]))  # the powers of a whole batch would take several times its memory
    for start in range(0, len(values), chunk):
        y = np.asfortranarray((forms @ (values[start : start + chunk] - mean).T).T)
        y2 = y * y
        if with_second:
            second = add_product(second, y, y)
        squares = add_product(squares, y2, y2)
        cubes = add_product(cubes, y2 * y, y)
    return len(values), [second, squares, cubes]


def _fill_lower(matrix: FloatArray) -> FloatArray:
    """Overwrite the lower triangle of a matrix with the upper one, and return it."""
    for column in range(len(matrix) - 1):
        matrix[column + 1 :, column] = matrix[column, column + 1 :]
    return matrix


def _add_transpose(matrix: FloatArray) -> FloatArray:
    """Add its transpose to a matrix in place, and return it."""
    for column in range(len(matrix)):
        total = matrix[column, column:] + matrix[column:, column]
        matrix[column, column:] = matrix[column:, column] = total
    return matrix
