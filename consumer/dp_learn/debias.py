"""Subtract the noise's known contribution, and judge what is left.

Independent noise of known variance v_j on column j adds exactly v_j to that column's expected sample variance and
nothing to any covariance, so S^ = S~ - diag(v) is unbiased for the covariance of the rows before the noise. It is often
indefinite, and a column that carries little but noise may be left with no variance at all: it is *drowned*.

References
----------
Guo et al. (2025), Graph Structure Learning with Privacy Guarantees for Open Graph Data, theorems 4.3 and 4.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dp_bundle.errors import DrownedColumnError, ParameterError

__all__ = ["DebiasedCovariance", "debias_covariance", "keep_columns_with_signal"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DebiasedCovariance:
    """The debiased covariance of the columns that have variance left, and its correlation scale.

    Attributes
    ----------
    columns : tuple of str
        The columns kept, in order.
    drowned : tuple of str
        The columns left out, because their debiased variance is not clearly positive.
    kept : ndarray of int
        The kept columns' positions in the bundle.
    covariance : ndarray of shape (n_kept, n_kept)
        In data units; may be indefinite.
    deviations : ndarray of shape (n_kept,)
        Square roots of its diagonal.
    """

    columns: tuple[str, ...]
    drowned: tuple[str, ...]
    kept: npt.NDArray[np.int64]
    covariance: Floats
    deviations: Floats

    @property
    def correlation(self) -> Floats:
        """The covariance with unit diagonal; entries may exceed 1 in size."""
        return self.to_correlation(self.covariance)

    def to_correlation(self, covariance: Floats) -> Floats:
        """Return another covariance of the kept columns, divided by these deviations."""
        return covariance / np.outer(self.deviations, self.deviations)


def debias_covariance(covariance: Floats, noise_variance: npt.ArrayLike) -> Floats:
    """Return covariance - diag(noise_variance).

    Parameters
    ----------
    covariance : ndarray of shape (n_features, n_features)
        Sample covariance of the noisy rows, divisor n_rows - 1.
    noise_variance : array-like of shape (n_features,)
        The exact variance of each column's noise, in its unit squared.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        A new array.

    References
    ----------
    Guo et al. (2025), theorems 4.3 and 4.5.
    """
    variance = np.asarray(noise_variance, dtype=float)
    if covariance.ndim != 2 or variance.shape != (len(covariance),) or covariance.shape[0] != covariance.shape[1]:
        raise ParameterError("noise_variance", f"one number per column of a {covariance.shape} matrix", variance.shape)
    if not (np.isfinite(variance).all() and (variance >= 0).all()):
        raise ParameterError("noise_variance", "finite and not negative", variance.tolist())
    debiased = np.array(covariance, dtype=float)
    debiased[np.diag_indices_from(debiased)] -= variance
    return debiased


def keep_columns_with_signal(
    columns: tuple[str, ...], covariance: Floats, noise_variance: npt.ArrayLike, n_rows: int
) -> DebiasedCovariance:
    """Leave out, and name, the columns whose debiased variance is not clearly positive.

    A column of noise alone has a debiased variance with standard error v sqrt(2 / (n - 1)): what does not exceed twice
    that is not positive beyond doubt, and dividing by its root would swamp every other column.

    Parameters
    ----------
    columns : tuple of str
        The names.
    covariance : ndarray of shape (n_features, n_features)
        The debiased covariance.
    noise_variance : array-like of shape (n_features,)
        What was subtracted from its diagonal.
    n_rows : int
        How many rows it was estimated from.

    Raises
    ------
    DrownedColumnError
        Fewer than two columns are left.
    """
    doubt = 2 * math.sqrt(2 / (n_rows - 1)) * np.asarray(noise_variance, dtype=float)
    clear = np.diagonal(covariance) > doubt
    kept = np.flatnonzero(clear)
    drowned = tuple(name for name, seen in zip(columns, clear, strict=True) if not seen)
    if len(kept) < 2:
        named = ", ".join(drowned[:8]) + (" and others" if len(drowned) > 8 else "")
        which = "all but one of the columns" if len(kept) else "all columns"
        raise DrownedColumnError(
            list(drowned),
            f"the noise drowns {which} ({named}): their variance is no larger than the noise's; learn from a bundle "
            "with more rows or less noise",
        )
    chosen = covariance[np.ix_(kept, kept)]
    names = tuple(columns[index] for index in kept)
    return DebiasedCovariance(names, drowned, kept, chosen, np.sqrt(np.diagonal(chosen)))
