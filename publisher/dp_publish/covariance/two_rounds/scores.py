"""Rows in the normal scores of their columns' cells: a function of each value alone, given what was released."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_bundle.data.margins import Scores

_Floats: TypeAlias = NDArray[np.float64]
_PARTS, _MOST_GUIDES = 2048, 2048  # of a guide to cells, and such guides that are kept


def to_scores(values: _Floats, maps: Mapping[int, Scores]) -> _Floats:
    """Return rows, shape (n, p) in data units, with columns in scores, by place; a gap, which is NaN, remains one."""
    mapped = values.copy(order="K")
    for index, given in maps.items():
        scores = np.append(given.scores, math.nan)
        mapped[:, index] = scores[cells_of(values[:, index], given.edges, len(given.scores))]
    return mapped


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
