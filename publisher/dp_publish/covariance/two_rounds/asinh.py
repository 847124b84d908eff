"""Columns on the scale of asinh: values x become asinh((x - c) / s), with a center c and a scale s that are public.

Near its center a column keeps its shape, and far out it grows like a logarithm, so that the rare large values of a
skewed one need neither a far clip, whose noise all others would bear, nor a near one, which would bias what they show.

The center and the scale are those that a release in two rounds finds for every column anyway, or that are declared. The
map is a function of each value alone, given these, so that a row that is replaced is still one row: what later
steps may move, and what they cost, are as before. It is monotone, so that the center becomes 0, and the scale, which
holds 60 to 68 % of the values, asinh(1).
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_bundle.data.margins import Scores

Transforms: TypeAlias = Mapping[int, tuple[float, float]]
_Floats: TypeAlias = NDArray[np.float64]
SCALE = math.asinh(1.0)
_PARTS, _MOST_GUIDES = 2048, 2048  # of a guide to cells, and such guides that are kept


def to_asinh(values: _Floats, center: float, scale: float) -> _Floats:
    """Return asinh((x - center) / scale) of a column's values; a gap, which is NaN, remains one.

    The values are made contiguous first: numpy computes strided ones by another code, whose last bit may differ, and
    what becomes of a row shall not depend on how the batch around it lies in memory.
    """
    with np.errstate(over="ignore"):  # of bounds that are too far apart for a float; what is infinite is clipped
        standard = (np.ascontiguousarray(values) - center) / scale
    return np.arcsinh(standard)


def place_on_scale(
    transforms: Transforms, low: _Floats, high: _Floats, centers: _Floats, scales: _Floats
) -> tuple[_Floats, _Floats, _Floats, _Floats]:
    """Return bounds, centers and scales, shape (p,), with those of transformed columns on their own scale."""
    low, high, centers, scales = low.copy(), high.copy(), centers.copy(), scales.copy()
    for index, (center, scale) in transforms.items():
        low[index], high[index] = to_asinh(np.array([low[index], high[index]]), center, scale)
        centers[index], scales[index] = 0.0, SCALE
    return low, high, centers, scales


def on_scale(values: _Floats, transforms: Transforms | Mapping[int, Scores]) -> _Floats:
    """Return rows, shape (n, p) in data units, with transformed columns on their own scale."""
    mapped = values.copy(order="K")
    for index, given in transforms.items():
        own = values[:, index]
        mapped[:, index] = to_scores(own, given) if isinstance(given, Scores) else to_asinh(own, *given)
    return mapped


def to_scores(values: _Floats, given: Scores) -> _Floats:
    """Return the normal scores of a column's values; a gap, which is NaN, remains one."""
    scores = np.append(given.scores, math.nan)
    found: _Floats = scores[cells_of(values, given.edges, len(given.scores))]
    return found


def cells_of(values: _Floats, edges: _Floats, gap: int) -> NDArray[np.int64]:
    """Return the cell of each value, by the edges between cells, and that of gaps for NaN."""
    from dp_publish.covariance.two_rounds._kernels import find_cells

    cells = np.empty(len(values), dtype=np.int64)
    find_cells(np.ascontiguousarray(values), edges, *_guide(edges.tobytes()), gap, cells)
    return cells


@lru_cache(maxsize=_MOST_GUIDES)
def _guide(content: bytes) -> tuple[float, float, NDArray[np.int64]]:
    """Return the center, the factor and the guide by which `find_cells` looks for values among these edges."""
    edges = np.frombuffer(content)
    if not len(edges):
        return 0.0, 1.0, np.zeros(1, dtype=np.int64)
    low, center, high = edges[[len(edges) // 4, len(edges) // 2, 3 * len(edges) // 4]].tolist()
    factor = 2 / (high - low) if 0 < high - low < math.inf else 1.0
    u = 2 * np.arange(_PARTS) / _PARTS - 1
    with np.errstate(over="ignore"):  # of edges near the largest floats, where a guide is of no use
        starts = center + u / ((1 - np.abs(u)).clip(1e-9) * factor)
    return center, factor, np.searchsorted(edges, starts, side="right").astype(np.int64)
