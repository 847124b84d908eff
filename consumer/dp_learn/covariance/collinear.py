"""Columns that others determine, as far as the rows can tell: how each is linked to the rest is then undetermined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_bundle.quoting import quote_name
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.standard_errors import form_variances
from dp_learn.matrices import eigendecomposition

_MOST = 500  # columns, as all eigenvectors are needed
_ROWS = 4  # for each column, or the sample alone makes combinations that hardly vary
_KNOWN = 0.05  # of a column's variance: the error with which a combination's must be known
_ROUNDING = 1e-9
_PART = 0.1  # of a column that lies in such combinations
_NAMED = 10


def find_collinear(pooled: PooledCovariance) -> tuple[str, ...]:
    """Return the columns in whose combinations no variance is left but for errors that are known to be small.

    A combination is an eigenvector v of S^ on the correlation scale. Its eigenvalue errs by at most about
    ``sqrt(2 p Var(v' S^ v))``, as the largest of all directions. Where that is small and covers the eigenvalue, columns
    are collinear; where it is large, the noise hides whether they are.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance.
    """
    p = len(pooled.columns)
    if p > _MOST or pooled.n_rows < _ROWS * p or not pooled.has_errors:
        return ()
    values, vectors = eigendecomposition(pooled.correlation)
    small = values <= _KNOWN
    if not small.any():
        return ()
    variances = np.diagonal(form_variances(pooled, vectors[:, small].T / pooled.deviations))
    errors = np.sqrt(2.0 * p * variances)
    empty = (errors <= _KNOWN) & (values[small] <= errors + _ROUNDING)
    parts = (vectors[:, small][:, empty] ** 2).sum(axis=1)
    return tuple(name for name, part in zip(pooled.columns, parts, strict=True) if part >= _PART)


def describe_collinear(names: Sequence[str]) -> str:
    """Return a sentence on what collinearity means for the edges of these columns."""
    shown = ", ".join(map(quote_name, names[:_NAMED])) + (f" and {len(names) - _NAMED} more" * (len(names) > _NAMED))
    return (
        f"columns are nearly collinear, so that some of them determine the others: {shown}. Their edges cannot be told "
        "apart, and tests find few of them; ask the publisher for a release without the redundant columns"
    )
