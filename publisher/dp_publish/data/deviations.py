"""Standard deviations of private columns, which only a strength by SNR may ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dp_bundle.base.errors import DataError
from dp_bundle.base.quoting import listed
from dp_bundle.data.row_reader import to_numpy
from dp_bundle.data.rows import batch_rows
from dp_publish.data.table import Table

_NO_BOUNDS = (-math.inf, math.inf)


def standard_deviations(
    table: Table, kinds: dict[str, str], bounds: Mapping[str, tuple[float, float] | None]
) -> dict[str, float]:
    """Return every column's standard deviation after clipping, in one pass.

    Parameters
    ----------
    table : Table
        Its values are read.
    kinds : dict of str to str
        The columns.
    bounds : mapping of str to (float, float) or None
        What each column's values are clipped to, if to anything.

    Raises
    ------
    DataError
        A column does not vary, or is not finite.
    """
    n_rows, mean, scatter = np.zeros(len(kinds)), np.zeros(len(kinds)), np.zeros(len(kinds))
    limits = [bounds.get(name) or _NO_BOUNDS for name in kinds]

    for batch in table.read(kinds, batch_rows(len(kinds))):
        for index, (low, high) in enumerate(limits):
            values = to_numpy(batch.column(index).drop_null()).astype(float)
            values = np.clip(values[~np.isnan(values)], low, high)
            if len(values):
                total = n_rows[index] + len(values)
                with np.errstate(over="ignore", invalid="ignore"):  # infinite values are refused below
                    shift = values.mean() - mean[index]
                    scatter[index] += values.var() * len(values) + shift**2 * n_rows[index] * len(values) / total
                    mean[index] += shift * len(values) / total
                n_rows[index] = total

    deviations = dict(zip(kinds, np.sqrt(scatter / np.maximum(n_rows, 1)).tolist(), strict=True))
    constant = [name for name, deviation in deviations.items() if not 0 < deviation < math.inf]
    if constant:
        raise DataError(
            f"snr_db needs columns that vary and are finite, unlike {listed(constant)}: set drop = true for them"
        )
    return deviations
