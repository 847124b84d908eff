"""Whether the published rows agree with what the manifest says of their noise.

A signature proves who said it, not that it is true. Three statements can be checked from the rows alone. Every value
lies on the stated grid. The noise is there: whatever the data, adding Gaussian noise of variance v to a column cannot
leave it a sample variance far below v, nor leave any combination of columns one far below the noise's own lower edge.
Nor can a column vary more than its bounds and the noise together allow. In between, rows with more noise than stated
cannot be told from rows with more variance.

References
----------
Marchenko & Pastur (1967) for the edge (1 - sqrt(p/n))^2; Davidson & Szarek (2001), theorem 2.13, for how far below it
the smallest eigenvalue of Gaussian noise falls; Perlman & Olkin (1980) for why data beneath the noise only raise it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.special import gammainccinv, gammaincinv

from dp_bundle.columns import Column
from dp_learn.moments import Moments

__all__ = ["find_contradictions", "smallest_possible_eigenvalue"]

Floats = npt.NDArray[np.float64]

FALSE_ALARM = 1e-6  # the chance that true statements are doubted
_FINE_SIGMA = 1.0  # noise of fewer grid steps than this is not Gaussian enough for these tails
_NAMED = 5  # so many columns are named in a sentence


def find_contradictions(columns: Sequence[Column], moments: Moments) -> list[str]:
    """Return a sentence for everything in which the rows contradict the manifest; none if they agree.

    Parameters
    ----------
    columns : sequence of Column
        What the manifest says of each column.
    moments : Moments
        The moments of the published rows.
    """
    found = []
    off_grid = [(column, int(count)) for column, count in zip(columns, moments.n_off_grid, strict=True) if count]
    if off_grid:
        worst, count = max(off_grid, key=lambda pair: pair[1])
        found.append(
            f"values are not on the stated grid in {_named([column.name for column, _ in off_grid])}: "
            f"{count} of {moments.n_rows} in {worst.name} are no multiple of {worst.cell_noise.granularity:g}"
        )
    if moments.n_rows < 2:
        return found
    found += _beyond_bounds(columns, moments)
    noises = [column.cell_noise for column in columns]
    gaussian = [index for index, noise in enumerate(noises) if noise.sigma >= _FINE_SIGMA * noise.granularity]
    variance = np.array([noises[index].variance for index in gaussian])
    covariance = moments.covariance[np.ix_(gaussian, gaussian)]
    return found + _contradicting_noise(
        [columns[index].name for index in gaussian], covariance, variance, moments.n_rows
    )


def smallest_possible_eigenvalue(n_features: int, n_rows: int) -> float:
    """Return what the smallest eigenvalue of a covariance of unit noise exceeds, up to one case in a million.

    It is ``(1 - sqrt(p/m) - sqrt(2 log(10^6) / m))^2`` with m = n_rows - 1, and 0 where that is not positive: the edge
    of Marchenko and Pastur, less the most that a sample falls below it.

    Parameters
    ----------
    n_features, n_rows : int
        Columns p, and rows, at least 2.
    """
    m = n_rows - 1
    return max(0.0, 1.0 - math.sqrt(n_features / m) - math.sqrt(-2.0 * math.log(FALSE_ALARM) / m)) ** 2


def _contradicting_noise(names: Sequence[str], covariance: Floats, variance: Floats, n_rows: int) -> list[str]:
    """Compare the published variances with the stated noise's: column by column, then in every direction."""
    if not names:
        return []
    ratio = np.diagonal(covariance) / variance
    least = 2.0 * float(gammaincinv((n_rows - 1) / 2.0, FALSE_ALARM / len(names))) / (n_rows - 1)
    below = np.flatnonzero(ratio < least)
    if below.size:
        worst = int(below[np.argmin(ratio[below])])
        return [
            f"{_named([names[index] for index in below.tolist()])} vary less than the stated noise alone would: the "
            f"variance of {names[worst]} is {ratio[worst]:.3g} of the noise's, and at least {least:.3g} was expected"
        ]
    edge = smallest_possible_eigenvalue(len(names), n_rows)
    if edge == 0.0:
        return []
    root = np.sqrt(variance)
    smallest = float(eigh(covariance / np.outer(root, root), eigvals_only=True, subset_by_index=[0, 0])[0])
    if smallest < edge:
        return [
            f"some combination of columns varies less than the stated noise alone would: the smallest eigenvalue in "
            f"units of the noise is {smallest:.3g}, and at least {edge:.3g} was expected"
        ]
    return []


def _beyond_bounds(columns: Sequence[Column], moments: Moments) -> list[str]:
    """Compare each variance with the largest that values within the bounds, at both ends, and the noise can have."""
    m = moments.n_rows - 1
    room = math.sqrt(2.0 * float(gammainccinv(m / 2.0, FALSE_ALARM / len(columns))) / m)
    beyond = []
    for column, variance in zip(columns, np.diagonal(moments.covariance).tolist(), strict=True):
        noise = column.cell_noise
        if column.bounds is None or noise.sigma < _FINE_SIGMA * noise.granularity:
            continue
        largest = math.sqrt(moments.n_rows / m) * column.width / 2.0 + math.sqrt(noise.variance) * room
        if variance > largest * largest:
            beyond.append(column.name)
    if not beyond:
        return []
    return [f"{_named(beyond)} vary more than the stated bounds and noise together allow"]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more columns" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
