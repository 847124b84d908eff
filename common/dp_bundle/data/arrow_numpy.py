"""Conversions between Arrow and numpy, without copying, and without pandas, which pyarrow's own ones import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_TYPES = {pa.float64(): np.float64, pa.int64(): np.int64}


def to_numpy(values: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a float64 or int64 array as a read-only view; nulls are whatever lies under them."""
    data = values.buffers()[1]
    return np.frombuffer(data, _TYPES[values.type], len(values), 8 * values.offset) if len(values) else np.empty(0)


def to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Return a contiguous numpy array as an Arrow array without nulls that shares its memory."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def text_to_arrow(texts: Sequence[str]) -> pa.StringArray:
    """Return texts as an Arrow array without nulls."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *(len(each) for each in encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))
