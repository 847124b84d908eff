"""Subtract the noise's known contribution.

Independent noise of known variance v_j on column j adds exactly v_j to that column's expected sample variance and
nothing to any covariance, so S^ = S~ - diag(v) is unbiased for the covariance of the rows before the noise. It is often
indefinite.

References
----------
Guo et al. (2025), Graph Structure Learning with Privacy Guarantees for Open Graph Data, theorems 4.3 and 4.5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dp_bundle.errors import ParameterError

__all__ = ["debias_covariance"]

Floats = npt.NDArray[np.float64]


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
