"""Means and covariances of the published rows, in one pass and in memory that does not grow with their number.

`batch_moments` is a pure function of a record batch, and partial moments merge in any order, so the pass may run
anywhere. Everything after this module works on p-by-p matrices only.

References
----------
Chan, Golub & LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37(3), eq. 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dp_bundle import Bundle
from dp_bundle.arrays import to_numpy
from dp_bundle.errors import EstimationError, ParameterError

__all__ = ["Moments", "batch_moments", "estimate_fold_moments", "estimate_moments", "merge_moments"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Row count, means, and centred cross products of some rows.

    Attributes
    ----------
    n_rows : int
    mean : ndarray of shape (n_features,)
    scatter : ndarray of shape (n_features, n_features)
        sum over rows of (x - mean)(x - mean)^T.
    """

    n_rows: int
    mean: Floats
    scatter: Floats

    @property
    def covariance(self) -> Floats:
        """The sample covariance, divisor n_rows - 1, so that independent noise adds exactly its variance on average."""
        if self.n_rows < 2:
            raise EstimationError("a covariance needs at least two rows")
        return self.scatter / (self.n_rows - 1)


def batch_moments(values: Floats) -> Moments:
    """Return the moments of one batch.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features)
    """
    mean = values.mean(axis=0) if len(values) else np.zeros(values.shape[1])
    centred = values - mean
    return Moments(len(values), mean, centred.T @ centred)


def merge_moments(first: Moments, second: Moments) -> Moments:
    """Return the moments of both sets of rows together."""
    n_rows = first.n_rows + second.n_rows
    if not first.n_rows or not second.n_rows:
        return first if first.n_rows else second
    shift = second.mean - first.mean
    mean = first.mean + shift * (second.n_rows / n_rows)
    between = np.outer(shift, shift) * (first.n_rows * second.n_rows / n_rows)
    return Moments(n_rows, mean, first.scatter + second.scatter + between)


def estimate_moments(bundle: Bundle) -> Moments:
    """Return the moments of a verified bundle's noisy rows.

    Raises
    ------
    BundleFormatError
        The data are not what the manifest says.
    """
    return estimate_fold_moments(bundle, 1)[0]


def estimate_fold_moments(bundle: Bundle, n_folds: int) -> list[Moments]:
    """Split the rows into folds by a fixed pseudo-random rule and return each fold's moments, in one pass.

    Parameters
    ----------
    bundle : Bundle
        Verified and open.
    n_folds : int
        How many, at least 1.
    """
    if n_folds < 1:
        raise ParameterError("n_folds", "at least 1", n_folds)
    empty = Moments(0, np.zeros(0), np.zeros((0, 0)))
    folds = [empty] * n_folds
    for start, values in _matrices(bundle):
        assigned = _folds_of(start, len(values), n_folds)
        for fold in range(n_folds):
            chosen = values if n_folds == 1 else values[assigned == fold]
            folds[fold] = merge_moments(folds[fold], batch_moments(chosen))
    return folds


def _matrices(bundle: Bundle) -> Iterator[tuple[int, Floats]]:
    start = 0
    for batch in bundle.batches():
        yield start, _matrix(batch)
        start += batch.num_rows


def _matrix(batch: pa.RecordBatch) -> Floats:
    values = np.empty((batch.num_rows, batch.num_columns))
    for index, column in enumerate(batch.columns):
        values[:, index] = to_numpy(column)
    return values


def _folds_of(start: int, n_rows: int, n_folds: int) -> npt.NDArray[np.int64]:
    """Mix the row numbers (splitmix64, Steele et al. 2014), so that folds do not follow any order of the rows."""
    state = np.arange(start, start + n_rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return (state % np.uint64(n_folds)).astype(np.int64)
