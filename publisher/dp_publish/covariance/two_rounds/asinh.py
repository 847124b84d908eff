"""Columns on the scale of asinh: values x become asinh((x - c) / s), with a center c and a scale s that are public.

Near its center a column keeps its shape, and far out it grows like a logarithm, so that the rare large values of a
skewed one need neither a far clip, whose noise all others would bear, nor a near one, which would bias what they show.

The center and the scale are those that a release in two rounds finds for every column anyway, or that are declared. The
map is a function of each value alone, given these, so that a row that is replaced is still one row: what later
steps may move, and what they cost, are as before. It is monotone, so that the center becomes 0, and the scale, which
holds 60 to 68 % of the values, asinh(1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_bundle.data.margins import Scores

Transforms: TypeAlias = Mapping[int, tuple[float, float]]
_Floats: TypeAlias = NDArray[np.float64]
SCALE = math.asinh(1.0)


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
        mapped[:, index] = given.of(own) if isinstance(given, Scores) else to_asinh(own, *given)
    return mapped
