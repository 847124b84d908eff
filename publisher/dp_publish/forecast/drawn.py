"""Errors of mechanisms whose noise does not act entry by entry, drawn in advance on made-up sums.

Its errors depend on the values, so that it is applied to made-up sums: with the assumed spreads and means of a
forecast, and columns related strongly, in pairs or all by one common factor. That is done in floating point with a
fixed seed, and no value enters. What counts is the error of the correlations of the columns that spread most, in the
better of the two cases: whatever hides relations as strong as these hides all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import OneSum
from dp_publish.covariance.scaling import GRID_BITS, scaled_variance
from dp_publish.sampling.keystream import insecure_keystream

_RELATED = 0.9  # the made-up correlation
_COLUMNS = 100  # drawn at least, over all repetitions: of 100 columns and more, one draw
_MOST = 0.25  # of the largest variance: from there on a column is among those that spread most
_Floats = NDArray[np.float64]


def drawn_error(mechanism: OneSum, n_rows: int, spreads: Sequence[float]) -> float:
    """Return the root mean square error that the mechanism would leave in the correlations of related columns.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism and its strength.
    n_rows : int
        The number of rows, which is public.
    spreads : sequence of float
        Every column's standard deviation as a share of its width.

    Returns
    -------
    float
        At most 2; for a single column, the relative error of its variance over sqrt(2), which compares with it.
    """
    scaling = mechanism.scaling
    p, largest = scaling.n_features, scaling.radius**2 / scaling.n_features
    variances = np.array([scaled_variance(spread, scaling) for spread in spreads])
    means = np.sqrt(np.maximum(0.0, min(1.0, largest) - variances) / 2.0)
    pairs = np.kron(np.eye(-(-p // 2)), np.ones((2, 2)))[:p, :p]
    clear = variances >= _MOST * variances.max()
    errors = []
    for related in (pairs, np.ones((p, p))):
        correlation = np.where(related > 0.0, _RELATED, 0.0)
        np.fill_diagonal(correlation, 1.0)
        errors.append(_error(mechanism, n_rows, correlation, variances, means, clear))
    return min(errors)


def _error(
    mechanism: OneSum,
    n_rows: int,
    correlation: _Floats,
    variances: _Floats,
    means: _Floats,
    clear: NDArray[np.bool_],
) -> float:
    """Return the larger of the errors of strong correlations and of zeros, between clear columns if possible."""
    p, constant = len(means), mechanism.scaling.constant
    covariance = correlation * np.sqrt(np.outer(variances, variances))
    sums = _sums(mechanism, n_rows, covariance, means)
    rng = insecure_keystream(1)

    squares = np.zeros((p, p))
    n_draws = -(-_COLUMNS // p)
    for _ in range(n_draws):
        noisy = mechanism.insecure_draw(sums, rng).matrix / n_rows
        found = noisy[:p, :p] - np.outer(noisy[:p, -1], noisy[:p, -1]) / constant**2
        if p == 1:
            squares += (found / covariance - 1.0) ** 2 / 2.0
        else:
            squares += (_correlations(found) - correlation) ** 2
    squares /= n_draws

    if p == 1:
        return math.sqrt(float(squares[0, 0]))
    beside = np.triu(np.ones((p, p), dtype=bool), 1)
    both = beside & np.outer(clear, clear)
    counted = both if (both & (correlation > 0.0)).any() else beside
    parts = [squares[counted & chosen] for chosen in (correlation > 0.0, correlation == 0.0)]
    return math.sqrt(max(float(part.mean()) for part in parts if part.size))


def _correlations(covariance: _Floats) -> _Floats:
    """Return a noisy covariance's correlations in [-1, 1], zero where a variance is not positive."""
    variances = np.diagonal(covariance)
    seen = variances > 0.0
    root = np.sqrt(np.where(seen, variances, np.inf))
    correlations: _Floats = np.clip(covariance / np.outer(root, root), -1.0, 1.0)
    return correlations


def _sums(mechanism: OneSum, n_rows: int, covariance: _Floats, means: _Floats) -> ExactMoments:
    products = n_rows * (covariance + np.outer(means, means))
    return ExactMoments(
        mechanism.scaling, n_rows, _integers(products * 4.0**GRID_BITS), _integers(n_rows * means * 2.0**GRID_BITS)
    )


def _integers(values: _Floats) -> NDArray[Any]:
    return np.array([round(value) for value in values.flat], dtype=object).reshape(values.shape)
