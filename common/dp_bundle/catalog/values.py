"""The noisy values of a bundle as pages show them: a histogram for each column, and the first lines.

All of it is computed from noisy values alone, which reveals nothing that the bundle does not.
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.bundle.opened import Bundle
from dp_bundle.data.row_reader import to_numpy
from dp_bundle.manifest.columns import Column

SHOWN_COLUMNS = 100  # of a release, with their histograms
_BARS = 30
_BEYOND = 3.0  # standard deviations of the noise that a histogram reaches beyond the bounds
_ROWS, _ACROSS = 8, 12  # of the preview


def show_values(bundle: Bundle) -> dict[str, Any]:
    """Return the histograms and the preview of a release of rows, or the first entries of a covariance release.

    Returns
    -------
    dict
        `histograms`, one for each of the first columns; `heads` and `lines`, the preview, a list for each column.

    Raises
    ------
    BundleFormatError
        The data are not what the manifest says.
    """
    if bundle.release.kind == "covariance":
        return {"histograms": [], **_first_entries(bundle)}
    columns = bundle.release.columns
    counted: list[_Histogram] = []
    heads = [column.name for column in columns[:_ACROSS]]
    lines: list[list[float]] = [[] for _ in heads]
    for batch in bundle.batches():
        values = [to_numpy(batch.column(place)) for place in range(min(SHOWN_COLUMNS, len(columns)))]
        counted = counted or [_Histogram(*pair) for pair in zip(columns, values, strict=False)]
        for histogram, found in zip(counted, values, strict=True):
            histogram.add(found)
        for line, found in zip(lines, values, strict=False):
            line.extend(float(value) for value in found[: _ROWS - len(line)])
    return {"histograms": [histogram.document() for histogram in counted], "heads": heads, "lines": lines}


def _first_entries(bundle: Bundle) -> dict[str, Any]:
    matrix, labels = bundle.second_moments(), bundle.release.labels
    places = list(islice(combinations_with_replacement(range(len(labels)), 2), _ROWS))
    lines = [[labels[row] for row, _ in places], [labels[column] for _, column in places]]
    return {"heads": ["row", "column", "value"], "lines": [*lines, [float(matrix[place]) for place in places]]}


class _Histogram:
    """Counts of a column's values in bars of one width; what lies beyond is counted in the outermost bars."""

    def __init__(self, column: Column, first: NDArray[Any]) -> None:
        self.low, self.high = _range(column, first)
        self.counts = np.zeros(_BARS, np.int64)
        self.least, self.most, self.total, self.n = math.inf, -math.inf, 0.0, 0

    def add(self, values: NDArray[Any]) -> None:
        """Count more values."""
        places = (values - self.low) * (_BARS / (self.high - self.low))
        bars = np.clip(places, 0, _BARS - 1).astype(np.int64)
        self.counts += np.bincount(bars, minlength=_BARS)
        self.least, self.most = min(self.least, float(values.min())), max(self.most, float(values.max()))
        self.total += float(values.sum(dtype=np.float64))
        self.n += len(values)

    def document(self) -> dict[str, Any]:
        """Return what a page shows."""
        about = {"low": self.low, "high": self.high, "least": self.least, "most": self.most}
        return {**about, "mean": self.total / self.n, "counts": [int(count) for count in self.counts]}


def _range(column: Column, first: NDArray[Any]) -> tuple[float, float]:
    """Return where the bars begin and end: beyond the bounds, or at the extremes of the first values."""
    beyond = 0.0 if column.response is not None else _BEYOND * column.cell_noise.sigma
    if column.ball is not None:
        reach = column.ball.radius * column.ball.scale + beyond
        low, high = column.ball.center - reach, column.ball.center + reach
    elif column.bounds is not None:
        low, high = column.bounds[0] - beyond, column.bounds[1] + beyond
    else:
        low, high = float(first.min()), float(first.max())
    if not (math.isfinite(high - low) and high - low > 0):
        return (low, low + 1.0) if math.isfinite(low) and low + 1.0 > low else (-1.0, 1.0)
    return low, high
