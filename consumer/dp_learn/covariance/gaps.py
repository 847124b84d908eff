"""Numbers whose gaps are published, changed to what releases that publish no gaps have of them.

Such a number x is a fill f where it has no value, and g is 1 there. With w the mean of g, the values that there are
have the mean m = (E x - w f) / (1 - w), and x + (m - f) g is m where there is none. It is uncorrelated with g, so that
an error of m changes its variance in second order alone. Divided by 1 - w, its covariances with other columns are those
of the rows in which x has a value,

    Cov(x + (m - f) g, y) / (1 - w) = Cov(x, y | g = 0),

and its variance is that of these rows over 1 - w. What is too much is subtracted as the variance of noise on each row
is, and counts in the errors as that does; so does what gaps that come together add between two such numbers, whose
covariance is that of rows with both values. Where gaps depend on nothing, these are the covariances of the values with
no gap at all.

References
----------
Little & Rubin (2019), Statistical Analysis with Missing Data, section 3.4, on available cases.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dp_learn.matrices.linalg import FloatArray, sandwich

_MOST_GAPS = 0.99  # noise may take their share beyond 1
_FEWEST = 0.05  # rows with both values, over those expected of gaps that have nothing to do with each other


def leave_out_gaps(
    mean: FloatArray, covariance: FloatArray, fills: Mapping[int, float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return B and s of what rows become, B (row - s), and what to subtract from the covariance of that.

    Parameters
    ----------
    mean, covariance : ndarray of shape (n_features,), ndarray of shape (n_features, n_features)
        Of all columns, without their noise; the last are the indicators to leave out.
    fills : mapping of int to float
        The places of their numbers, in the same order, and where these have no value.
    """
    numbers, fill = np.array([*fills]), np.array([*fills.values()])
    n_kept = len(mean) - len(fills)
    absent = np.clip(mean[n_kept:], 0.0, _MOST_GAPS)
    present = 1.0 - absent
    of_values = (mean[numbers] - absent * fill) / present

    forms, shift = np.eye(len(mean))[:n_kept], np.zeros(len(mean))
    forms[numbers, range(n_kept, len(mean))] = of_values - fill
    forms[numbers] /= present[:, None]
    shift[numbers] = of_values * absent

    # rows with both values, over those expected where gaps have nothing to do with each other
    by_chance = np.outer(absent, absent)
    together = np.clip(covariance[n_kept:, n_kept:], -by_chance, np.minimum.outer(absent, absent) - by_chance)
    np.fill_diagonal(together, absent * present)
    ratio = np.maximum(1.0 + together / np.outer(present, present), _FEWEST)
    rest, at = np.zeros((n_kept, n_kept)), np.ix_(numbers, numbers)
    rest[at] = sandwich(forms, covariance)[at] * (1.0 - 1.0 / ratio)
    return forms, shift, rest
