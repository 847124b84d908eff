"""An estimate for readers of the error in a typical entry, if noise does not act entry by entry.

The mechanism is applied once more, to what it has released, and the error of that is measured: the parametric
bootstrap. It starts from the noisy eigenvalues before they were shrunk. Shrunk ones are nearly equal under much noise,
and the vectors of equal eigenvalues can be drawn without any error. Nothing but the release enters, so that
the estimate costs no privacy, and the mechanism may be applied in floating point, which is sooner done.

References
----------
Efron & Tibshirani (1993), An introduction to the bootstrap, section 6.5.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import PrivacyError
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.scaling import GRID_BITS, Scaling

_N_ENTRIES = 100  # on the diagonal, at least, over all repetitions


def estimate_errors(noisy: NoisyMoments, draw: Callable[[ExactMoments], NoisyMoments]) -> tuple[float, float] | None:
    """Return the root mean square error of the columns' entries on and off the diagonal.

    Parameters
    ----------
    noisy : NoisyMoments
        What was released.
    draw : callable
        Applies the same mechanism to other sums.

    Returns
    -------
    tuple of float, or None
        In the matrix's units; None for one column, where the noise acts entry by entry, or where the sampler has
        reached its bound on work.
    """
    p = noisy.scaling.n_features
    if noisy.unshrunk is None or p < 2:
        return None
    truth = _as_sums(noisy.unshrunk, noisy.scaling, noisy.n_rows)
    exact, upper = truth.matrix[:p, :p], np.triu_indices(p, 1)
    on, beside = [], []
    try:
        for _ in range(-(-_N_ENTRIES // p)):
            error = draw(truth).matrix[:p, :p] - exact
            on.append(np.mean(np.diagonal(error) ** 2))
            beside.append(np.mean(error[upper] ** 2))
    except PrivacyError:
        return None
    return float(np.sqrt(np.mean(on))), float(np.sqrt(np.mean(beside)))


def _as_sums(matrix: NDArray[np.float64], scaling: Scaling, n_rows: int | None) -> ExactMoments:
    """Return noisy sums as if they were exact."""
    p, c = scaling.n_features, scaling.constant
    if n_rows is None:
        n_rows = max(1, round(matrix[-1, -1] / c**2))
    sums = matrix[:p, -1] / c if c else np.zeros(p)
    return ExactMoments(scaling, n_rows, _integers(matrix[:p, :p] * 4**GRID_BITS), _integers(sums * 2**GRID_BITS))


def _integers(values: NDArray[np.float64]) -> NDArray[Any]:
    return np.array([round(value) for value in values.flat], dtype=object).reshape(values.shape)
