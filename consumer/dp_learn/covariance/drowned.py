"""Columns whose variance the noise drowns, and those that stand clear of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import DrownedColumnError
from dp_bundle.base.quoting import quote_name
from dp_learn.covariance.entry_variances import unexplained_variances
from dp_learn.covariance.estimate import PooledCovariance


def clear_columns(pooled: PooledCovariance) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return the positions of the columns whose debiased variance is clearly positive, and the names of the others.

    The debiased variance of a column of noise alone has a standard error, for one source v sqrt(2 / (n - 1)) unless the
    noise is discrete: what does not exceed twice that is not positive beyond doubt, and dividing by its root would
    swamp every other column. Such a column is *drowned*.

    Raises
    ------
    DrownedColumnError
        Fewer than two columns are left.
    """
    clear = clear_variances(pooled)
    kept = np.flatnonzero(clear)
    drowned = tuple(name for name, seen in zip(pooled.columns, clear, strict=True) if not seen)
    if len(pooled.columns) < 2:
        raise DrownedColumnError([], "a graph needs at least two columns, and there is one")
    if len(kept) < 2:
        named = ", ".join(map(quote_name, drowned[:8])) + (" and others" if len(drowned) > 8 else "")
        which = "all but one of the columns" if len(kept) else "all columns"
        raise DrownedColumnError(
            list(drowned),
            f"the noise drowns {which} ({named}): their variance cannot be told from the noise; learn from a "
            "bundle with more rows or less noise",
        )
    return kept, drowned


def clear_variances(pooled: PooledCovariance) -> npt.NDArray[np.bool_]:
    """Return which variances are clearly positive.

    Simply positive is enough where the noise does not act entry by entry: nothing is subtracted there.
    """
    variances = np.diagonal(pooled.covariance)
    if not pooled.has_error_law:
        return np.asarray(variances > 0.0)
    return np.asarray(variances > 2.0 * np.sqrt(unexplained_variances(pooled)))
